"""scikit-learn's own tests of an estimator, for both classes and without exception."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import joker

ESTIMATORS = [joker.JokerClassifier(max_time=1.0, random_state=0), joker.JokerRegressor(max_time=1.0, random_state=0)]


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    if any(name in check.func.__name__ for name in ("not_an_array", "fit_idempotent")):
        estimator.set_params(max_time=60.0)  # two fits must be the same, so that no time limit may end them
    check(estimator)
