"""scikit-learn's own tests of an estimator, for every class and without exception."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

import joker

# Weights against repeated rows are compared to the seventh digit, which takes an exact solve. It is
# second nature to ridge; the others are asked for it, in that check alone, with a bandwidth at which no decision on
# the few rows is so near to 0 that its seventh digit is rounding.
EXACT = 1e-15
ESTIMATORS = [
    joker.KernelRegressor(),  # the squared loss with the exact kernel
    joker.KernelRidge(n_features=100, random_state=0),
    joker.KernelHuber(),
    joker.KernelSVR(),
    joker.KernelLp(),
    joker.KernelExpectile(expectile=0.8),
    joker.KernelPoisson(),
    joker.KernelGamma(),
    joker.KernelTweedie(),
    joker.KernelRegressor(loss="poisson"),
    joker.KernelQuantile(),
    joker.KernelClassifier(),
    joker.KernelSVC(loss="hinge"),
    joker.KernelLogistic(),
    joker.KernelOneClass(),
    joker.KernelSVR(nu=0.5),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    if "sample_weight_equivalence" in check.func.__name__:
        estimator.set_params(tol=EXACT, bandwidth="median")
    check(estimator)
