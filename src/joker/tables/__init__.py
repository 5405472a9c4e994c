"""Raw tables in, tuned models out: `JokerClassifier` and `JokerRegressor`."""

from joker.tables.estimators import JokerClassifier, JokerRegressor
from joker.tables.persistence import load

__all__ = ["JokerClassifier", "JokerRegressor", "load"]
