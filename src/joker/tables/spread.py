"""How large the errors of a table model are at a row: the width of its intervals.

Held-out errors r have a scale exp(s(x)), where s minimises the gamma deviance of their sizes: that is the likelihood of
a Laplace distribution, log scale + |r| / scale. Intervals are conformal for the errors divided by their scale (Lei et
al., 2018, section 5.2), so that the coverage does not depend on the quality of the scale. It is learnt in parts of the
held-out rows: the scale of a row does not come from its own error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.estimators.deviance import KernelGamma
from joker.tables.candidates import FittedEnsemble
from joker.tables.ensemble import Residuals, make_residuals
from joker.tables.problem import TableProblem
from joker.tables.table import is_limited

Array = NDArray[Any]
PARTS, PARTS_OF_MANY, MANY_ROWS = 5, 3, 1_000  # parts of the held-out rows, and of so many rows or more
MIN_ROWS = 150  # held-out rows: fewer do not determine a scale
MIN_THIRD = 100  # rows of small, middle or large scales, for quantiles of their own
MAX_ROWS = 2_000  # that the scale is learnt from
FEATURES = 300  # random features: a scale is a smooth function
BLOCK = 512  # rows: the cost of a block of all rows is cubic in them
TOL = 0.01  # of the gap
LAMBDAS = (1.0, 5.0, 20.0, 100.0)
SMALLEST = 1e-3  # error, as a share of the mean size: the deviance of an error of 0 is infinite
MIN_GAIN = 0.01  # share of the mean width: less is noise
COVERAGE = 0.9  # of the intervals by which a scale is compared with one width for all rows


@dataclass(frozen=True, eq=False)
class Spread:
    """The scale of the errors as a function of the inputs of an encoding, and of the prediction."""

    model: Any  # a fitted KernelGamma
    encoding: int  # index
    inputs: bool  # whether the model reads the inputs, or the prediction only
    centre: float  # of the predictions
    width: float  # of the predictions
    weight: float  # of the prediction among the inputs
    low: float  # of the scales; those of new rows are between the two
    high: float
    knots: Array  # (k,) logarithms of scales, ascending
    thirds: tuple[Residuals, ...]  # (k,) errors divided by their scale, of the rows whose scale is near a knot

    def quantiles(self, x: Any, predictions: Array, levels: Array) -> Array:  # (n, d), (n,), (k,) -> (n, k)
        """Return what is added to predictions so that these shares of new rows are below it."""
        scale = self.scale(x, predictions)
        return scale[:, None] * self.of_scale(scale, levels)

    def of_scale(self, scale: Array, levels: Array) -> Array:  # (n,), (k,) -> (n, k)
        """Return quantiles of errors divided by their scale, which depend on the scale: tails may be heavier."""
        each = np.stack([third.quantiles(levels) for third in self.thirds])
        return np.column_stack([np.interp(np.log(scale), self.knots, column) for column in each.T])

    def scale(self, x: Any, predictions: Array) -> Array:  # (n, d), (n,) -> (n,)
        """Return the scale of the errors of rows, from their encoded inputs and their predictions."""
        found: Array = self.model.predict(self.columns(x, predictions)).astype(np.float64)
        return np.clip(found, self.low, self.high)

    def columns(self, x: Any, predictions: Array) -> Array:
        """Return the inputs of the model; large predictions are compressed."""
        f = self.weight * np.arcsinh((predictions - self.centre) / self.width)
        return np.column_stack([x, f]) if self.inputs else f[:, None]


def fit_spread(
    x: Any,  # (n, d) encoded inputs of held-out rows
    predictions: Array,  # (n,)
    errors: Array,  # (n,)
    weights: Array | None,
    blocks: Array | None,  # rows of a group or a time, which stay together
    encoding: int,
    seed: int,
) -> tuple[Residuals, Spread | None]:
    """Return the distribution of errors divided by their scale, and the scale; None where one width is as good.

    A scale is kept where the intervals of its cross-fitted values have the better interval score (Gneiting and Raftery,
    2007), and are narrower on average.
    """
    same = make_residuals(errors), None
    sizes = np.abs(errors)
    if len(errors) < MIN_ROWS or not sizes.any() or not isinstance(x, np.ndarray):
        return same
    sizes = np.maximum(sizes, SMALLEST * sizes.mean())
    parts = _parts(len(errors), blocks, seed)
    if len(np.unique(parts)) < 2:
        return same
    best: tuple[float, Spread, Array] | None = None
    for spread in _candidates(x, predictions, encoding):
        columns = spread.columns(x, predictions)
        crossed = _crossed(columns, sizes, weights, parts, seed)  # (n, λ)
        deviances = np.average(np.log(crossed) + sizes[:, None] / crossed, axis=0, weights=weights)
        one = int(np.argmin(deviances))
        if best is None or deviances[one] < best[0]:
            ready = replace(spread, model=_model(seed, LAMBDAS[one]))
            best = float(deviances[one]), ready, crossed[:, one]
    assert best is not None
    _, spread, scales = best
    spread = replace(spread, low=float(scales.min()), high=float(scales.max()), **_thirds(errors, scales))
    if not _pays(errors, scales, spread):
        return same
    rows = _some(np.arange(len(errors)), seed)
    model = spread.model.fit_sample(
        (spread.columns(x, predictions)[rows], sizes[rows], None if weights is None else weights[rows])
    )
    return make_residuals(errors / scales), replace(spread, model=model)


def spread_of(fitted: FittedEnsemble, problem: TableProblem) -> tuple[Residuals, Spread | None]:
    """Return the distribution of the errors on held-out rows divided by their scale, and the scale."""
    if not len(fitted.held_rows) or problem.clock.stopped or is_limited(problem.estimator.memory):
        return make_residuals(fitted.residuals), None
    rows, blocks, first = fitted.held_rows, problem.validation.blocks(), fitted.kept[0]
    x = first.x[rows] if isinstance(first.x, np.ndarray) else None
    return fit_spread(
        x,
        fitted.held_predictions[:, 0],
        fitted.residuals,
        problem.given_weights(rows),
        None if blocks is None else blocks[rows],
        first.member.encoding,
        problem.seed,
    )


def _candidates(x: Array, predictions: Array, encoding: int) -> Sequence[Spread]:
    centre, spread = float(np.median(predictions)), float(np.subtract(*np.quantile(predictions, [0.75, 0.25])))
    width = spread if spread > 0 else float(predictions.std()) or 1.0
    size = float(np.sqrt(x.var(axis=0).sum())) or 1.0
    compressed = float(np.arcsinh((predictions - centre) / width).std()) or 1.0
    alone = Spread(None, encoding, False, centre, width, 1.0, 0.0, 0.0, np.zeros(0), ())
    return alone, replace(alone, inputs=True, weight=0.5 * size / compressed)


def _model(seed: int, lam: float | list[float]) -> KernelGamma:
    return KernelGamma(lam=lam, n_features=FEATURES, standardize=False, tol=TOL, block_size=BLOCK, random_state=seed)


def _parts(n: int, blocks: Array | None, seed: int) -> Array:  # (n,)
    """Return the number of the part of each row."""
    names, of_row = (np.arange(n), np.arange(n)) if blocks is None else np.unique(blocks, return_inverse=True)
    order = np.random.RandomState(seed).permutation(len(names))
    parts = PARTS if n < MANY_ROWS else PARTS_OF_MANY
    found: Array = (order * parts // len(names))[of_row.ravel()]
    return found


def _some(rows: Array, seed: int) -> Array:
    return rows if len(rows) <= MAX_ROWS else np.sort(np.random.RandomState(seed).permutation(rows)[:MAX_ROWS])


def _crossed(columns: Array, sizes: Array, weights: Array | None, parts: Array, seed: int) -> Array:  # (n, λ)
    """Return the scales of each part of the rows, from the errors of the other parts."""
    found = np.zeros((len(sizes), len(LAMBDAS)))
    for part in np.unique(parts):
        held, rows = parts == part, _some(np.flatnonzero(parts != part), seed)
        model = _model(seed, list(LAMBDAS))
        model.fit_sample((columns[rows], sizes[rows], None if weights is None else weights[rows]))
        found[held] = np.stack(model.path_.predict(columns[held]), axis=1)
    return found


def _thirds(errors: Array, scales: Array) -> dict[str, Any]:
    """Return the errors divided by their scales, of the rows of small, middle and large scales."""
    order = np.argsort(scales, kind="stable")
    parts = np.array_split(order, 3) if len(order) >= 3 * MIN_THIRD else [order]
    knots = np.log([np.median(scales[part]) for part in parts])
    return {"knots": knots, "thirds": tuple(make_residuals((errors / scales)[part]) for part in parts)}


def _pays(errors: Array, scales: Array, spread: Spread) -> bool:
    """Whether intervals with these scales have the better score than those of one width, and are narrower."""
    levels = np.array([(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    wide, of_wide = _interval_score(errors, np.broadcast_to(make_residuals(errors).quantiles(levels), (len(errors), 2)))
    narrow, of_narrow = _interval_score(errors, scales[:, None] * spread.of_scale(scales, levels))
    return bool(narrow <= (1 - MIN_GAIN) * wide and of_narrow < of_wide)


def _interval_score(errors: Array, limits: Array) -> tuple[float, float]:  # (n,), (n, 2)
    """Return the mean width of intervals, and their mean score: the width, and what is missed times 2 / (1 - c)."""
    low, high = limits.T
    missed, widths = np.maximum(low - errors, 0) + np.maximum(errors - high, 0), high - low
    return float(widths.mean()), float((widths + 2 / (1 - COVERAGE) * missed).mean())
