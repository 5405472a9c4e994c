"""scikit-learn's own tests of an estimator, for both classes and without exception."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import joker

ESTIMATORS = [joker.JokerClassifier(effort=1, random_state=0), joker.JokerRegressor(effort=1, random_state=0)]


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
