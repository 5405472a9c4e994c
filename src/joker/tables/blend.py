"""A weighted mean of kernel models on encoded tables: the model behind `JokerClassifier` and `JokerRegressor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from joker.tables.encoding import Encoding
from joker.tables.targets import NumberTarget

Array = NDArray[Any]
LOWEST = -1.0  # the decision value of a class that a model was not trained on


@dataclass(frozen=True, eq=False)
class Member:
    """A fitted kernel model, its encoding of tables, its form of the target, and its weight in the mean."""

    encoding: int  # index
    model: Any  # a fitted estimator of joker
    weight: float = 1.0
    target: NumberTarget | None = None  # None for classes
    residuals: Array | None = None  # of held-out rows, where the form of the target is undone

    def values(self, x: Array, classes: int) -> Array:  # (n, d) -> (n, t)
        """Return decision values of all classes, or predictions in the unit of the target."""
        if self.target is not None:
            return self.target.decode(self.model.predict(x), self.residuals)[:, None]
        return decision_values(self.model, x, classes)


@dataclass(frozen=True, eq=False)
class Blend:
    """Members that share a few encodings."""

    encodings: tuple[Encoding, ...] | tuple[None]  # None: inputs are used as they are, sparse or from a store
    members: tuple[Member, ...]
    classes: int  # 0 for numbers

    def values(self, table: Any) -> Array:  # (n, t)
        """Return the weighted mean of the values of the members."""
        encoded: dict[int, Any] = {}
        total: Any = 0.0
        for member in self.members:
            if member.encoding not in encoded:
                encoding = self.encodings[member.encoding]
                encoded[member.encoding] = table if encoding is None else encoding.transform(table)
            total = total + member.weight * member.values(encoded[member.encoding], self.classes)
        return np.asarray(total)


def decision_values(model: Any, x: Any, classes: int) -> Array:  # (n, classes)
    """Return one decision value for each class; a class that the model does not know has the lowest."""
    assert is_classifier(model)
    f = np.asarray(model.decision_function(x), dtype=np.float64)
    f = np.stack([-f, f], axis=1) if f.ndim == 1 else f
    if f.shape[1] == classes:
        return f
    result = np.full((len(f), classes), LOWEST)
    result[:, np.asarray(model.classes_, dtype=np.intp)] = f
    return result
