"""Raw tables in, tuned models out: `JokerClassifier` and `JokerRegressor`."""

from joker.tables.estimators import JokerClassifier, JokerRegressor

__all__ = ["JokerClassifier", "JokerRegressor"]
