"""scikit-learn's own tests of an estimator, for every class and without exception."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

import joker

# Weights against repeated rows are compared to the seventh digit, which takes an exact solve. It is
# second nature to ridge; the others are asked for it.
EXACT = 1e-15
ESTIMATORS = [
    joker.KernelRegressor(),
    joker.KernelRidge(),
    joker.KernelRidge(n_features=100, random_state=0),
    joker.KernelHuber(tol=EXACT),
    joker.KernelSVR(tol=EXACT),
    joker.KernelLp(tol=EXACT),
    joker.KernelQuantile(tol=EXACT),
    joker.KernelClassifier(tol=EXACT),
    joker.KernelSVC(loss="hinge", tol=EXACT),
    joker.KernelLogistic(tol=EXACT),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
