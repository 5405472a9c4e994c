"""A weighted mean of kernel models on encoded tables: the model behind `JokerClassifier` and `JokerRegressor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from joker.errors import InvalidData, InvalidParameter
from joker.estimators.regression import conformal_level
from joker.tables.encoding import Encoding
from joker.tables.targets import NumberTarget, Trend

Array = NDArray[Any]
ENCODING_ENTRIES = 6e3  # the time of encoding one value of a few rows, in products
LOWEST = -1.0  # the decision value of a class that a model was not trained on


@dataclass(frozen=True, eq=False)
class EnsembleMember:
    """A fitted kernel model, its encoding of tables, its target transform, and its weight in the mean."""

    encoding: int  # index
    model: Any  # a fitted estimator of joker
    weight: float = 1.0
    target: NumberTarget | None = None  # None for classes
    residuals: Array | None = None  # of held-out rows, for the smearing estimate
    trend: Trend | None = None  # that the model is added to

    def values(self, x: Array, classes: int, trend: Any = 0.0) -> Array:  # (n, d) -> (n, t)
        """Return decision values of all classes, or predictions in the unit of the target."""
        if self.target is not None:
            return self.target.decode(self.model.predict(x) + trend, self.residuals)[:, None]
        return decision_values(self.model, x, classes)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members that share a few encodings."""

    encodings: tuple[Encoding, ...] | tuple[None]  # None: inputs are used as they are, sparse or from a store
    members: tuple[EnsembleMember, ...]
    classes: int  # 0 for numbers

    @property
    def entries_of_row(self) -> float:
        """The products that the prediction of a row takes, about; the encoding of a column counts as some thousand."""
        columns = sum(len(encoding.encoders) for encoding in self.encodings if encoding is not None)
        return ENCODING_ENTRIES * columns + sum(float(member.model.entries_of_row) for member in self.members)

    def values(self, table: Any) -> Array:  # (n, t)
        """Return the weighted mean of the values of the members."""
        encoded: dict[int, Any] = {}
        total: Any = 0.0
        for member in self.members:
            used = [member.encoding, *([member.trend.encoding] if member.trend else [])]
            for number in set(used) - encoded.keys():
                encoding = self.encodings[number]
                encoded[number] = table if encoding is None else encoding.transform(table)
            trend = member.trend.values(encoded[member.trend.encoding]) if member.trend else 0.0
            total = total + member.weight * member.values(encoded[member.encoding], self.classes, trend)
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


ROUNDS = 20  # of the greedy choice: weights are multiples of 1/20
MIN_GAIN = 1e-3  # share of the loss by which a mean must be better than the best member


def select_ensemble(predictions: list[Array], loss: Callable[[Array], float], min_gain: float = MIN_GAIN) -> Array:
    """Return weights of sum 1 by greedy selection with replacement (Caruana et al., 2004).

    Parameters
    ----------
    predictions : list of ndarray
        The predictions of each member on the same held-out rows.
    loss : callable
        The loss of a mean of predictions; lower is better.
    min_gain : float
        The share of the loss by which a mean must be better than the best member.
    """
    if len(predictions) == 1:
        return np.ones(1)
    known: dict[tuple[int, ...], float] = {}

    def loss_of(counts: NDArray[np.intp]) -> float:
        """Return the loss of a mean, which is computed once for all multiples of its counts."""
        key = tuple((counts // np.gcd.reduce(counts)).tolist())
        if key not in known:
            known[key] = loss(sum(c * one for c, one in zip(counts, predictions, strict=True) if c) / counts.sum())
        return known[key]

    one_of_each = np.eye(len(predictions), dtype=np.intp)
    single = [loss_of(counts) for counts in one_of_each]
    best = int(np.argmin(single))
    counts = one_of_each[best]
    lowest, kept = single[best], counts
    for _ in range(1, ROUNDS):
        losses = [loss_of(counts + one) for one in one_of_each]
        chosen = int(np.argmin(losses))
        counts = counts + one_of_each[chosen]
        if losses[chosen] < lowest:
            lowest, kept = losses[chosen], counts
    if lowest > single[best] - min_gain * abs(single[best]):
        kept = one_of_each[best]
    weights: Array = kept / kept.sum()
    return weights


MAX_POINTS = 2_000  # residuals that a model stores
MIN_ROWS = 20  # held-out rows


@dataclass(frozen=True, eq=False)
class Residuals:
    """Points of the distribution of truth − prediction on held-out rows."""

    rows: int
    points: Array  # sorted; their levels are equally spaced from 0 to 1

    def limits(self, coverage: float) -> tuple[float, float]:
        """Return what is added to a prediction so that the share ``coverage`` of new rows is between the two limits.

        This is split conformal prediction (Lei et al., 2018).
        """
        low, high = self.quantiles(self.levels(coverage))
        return float(low), float(high)

    def levels(self, coverage: float) -> Array:
        """Return the levels of the two limits."""
        if not isinstance(coverage, Real) or isinstance(coverage, bool) or not 0 < coverage < 1:
            raise InvalidParameter(f"coverage must be between 0 and 1, both excluded; got {coverage!r}. Use 0.9.")
        low = (1 - float(coverage)) / 2
        return np.array([low, 1 - low])

    def quantiles(self, levels: Array) -> Array:
        """Return what is added to a prediction so that these shares of new rows are below it."""
        if self.rows < MIN_ROWS:
            raise InvalidData(
                f"an interval needs at least {MIN_ROWS} held-out rows; the fit had {self.rows}. Fit on more rows."
            )
        tails = np.minimum(levels, 1 - levels)
        lower = np.maximum(0.0, [conformal_level(float(tail), self.rows) if tail < 0.5 else 0.5 for tail in tails])
        places = np.linspace(0, 1, len(self.points))
        found: Array = np.interp(np.where(levels < 0.5, lower, 1 - lower), places, self.points)
        return found


def make_residuals(values: Array) -> Residuals:
    """Store the distribution of residuals."""
    if len(values) <= MAX_POINTS:
        return Residuals(len(values), np.sort(values))
    return Residuals(len(values), np.quantile(values, np.linspace(0, 1, MAX_POINTS)))
