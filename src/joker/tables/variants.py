"""The encodings of a table that a search tries: kinds of columns, scalings of numbers and weights of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.columns import DROP, GROUP, ColumnKind, decide_kinds
from joker.tables.encoders import ROBUST, SCALINGS, NumberEncoder
from joker.tables.encoding import Encoding, fit_encoding
from joker.tables.frames import NUMBER, RawTable
from joker.tables.group_columns import (
    promising_groups,
    rows_of_groups,
    same_categories,
    useful_categories,
    useful_groups,
)
from joker.tables.group_encoder import GroupEncoder
from joker.tables.leave_one_out import (
    GAUSSIAN,
    LAPLACIAN,
    MATERN12,
    STEPS,
    Sample,
    best_error,
    coded_targets,
    fit_input_weights,
    make_sample,
    pieces,
    sample_rows,
)
from joker.tables.memory import is_limited
from joker.tables.problem import SEARCH_ROWS, Problem

Array = NDArray[Any]
MIN_WEIGHTING_ROWS = 200  # fewer rows do not determine the weights of a dozen columns
MIN_ROWS_OF_WEIGHT = 5  # rows for each column
MAX_FOLD_ROWS = 600  # rows of a table whose folds have weights of their own; with more rows that takes too long
MAX_WEIGHTED_INPUTS = 4_096
MAX_LAPLACIAN_INPUTS = 512  # the distances of the Laplacian take far more time with many inputs than the others
MIN_GROUP_SAMPLE = 0.5  # of the rows of a sample: with fewer rows in groups, the sample is one of rows
GROUPS_SHARE = 0.05  # of the time: no further column of groups, or of codes, is tried after it
MAX_SCALED_COLUMNS = 512  # with more columns only one scaling is tried
SCALING_SHARE = 0.1  # of the time: no further scaling of numbers is tried after it
MIN_WEIGHTING_GAIN = 0.05  # share of the leave-one-out error; the weights are fitted on these rows, too
MIN_TELLING_ROWS = 8  # for each column: with fewer, the error that weights save is not reliable
FIRST_SHARE = 0.4  # of the time, for the first of several variants
FOLD_WEIGHTS_SHARE = 0.04  # of the time: for the weights of one fold
WEIGHTS_SHARE = 0.12  # of the time: for the weights of the inputs of one kernel


@dataclass(frozen=True, eq=False)
class Variant:
    """An encoding of the inputs, and the part of the search that it gets."""

    encoding: Encoding | None
    x: Any
    scaling: str
    weights: str
    share: float  # of the time that is left
    search: dict[str, Any]  # options of `joker.tune`
    # The encoding for the training rows of a fold; None: the encoding of all rows.
    fold_encoding: Callable[[Array], Encoding] | None = None

    def of_fold(self, train: Array) -> tuple[Encoding | None, Any]:
        """Return the encoding of a fold with these training rows, and the inputs of all rows."""
        if self.fold_encoding is None or self.encoding is None or self.encoding.weights is None:
            return self.encoding, self.x
        encoding = self.fold_encoding(train)
        assert encoding.weights is not None
        return encoding, self.x / self.encoding.weights.astype(np.float32) * encoding.weights.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Plain:
    """The encoding with equal weights of inputs, and its leave-one-out error on a sample."""

    error: float
    encoding: Encoding
    x: Array  # (n, d)
    scaling: str

    def variant(self, share: float = 1.0) -> Variant:
        """Return the variant with equal weights."""
        search = {} if self.has_laplacian else {"kernels": (GAUSSIAN, MATERN12)}
        return Variant(self.encoding, self.x, self.scaling, "equal", share, search)

    @property
    def has_laplacian(self) -> bool:
        """Whether the Laplacian kernel is tried."""
        return bool(self.x.shape[1] <= MAX_LAPLACIAN_INPUTS)

    def weighted(self, weights: Array, kernel: str, share: float) -> Variant:
        """Return a variant with weights for a kernel."""
        own, x = replace(self.encoding, weights=weights), self.x * weights.astype(np.float32)
        # The weights for distances of one kernel suit the other kernel of these distances, too.
        tried = (MATERN12, GAUSSIAN) if kernel == MATERN12 else kernel
        return Variant(own, x, self.scaling, f"for {kernel}", share, {"kernels": tried, "relevance": False})


def variants(problem: Problem) -> Iterator[Variant]:
    """Yield the encodings to try: with equal weights of inputs, and with weights for each of two kernels.

    The one that promises the smallest error comes first, since the time limit may leave no other.
    """
    if not isinstance(problem.inputs, RawTable):
        yield Variant(None, problem.inputs, "none", "equal", 1.0, {})
        return
    if is_limited(problem.estimator.memory):  # one encoding at a time, and no leave-one-out errors
        encoding, x = fit_encoding(problem.inputs, problem.y, problem.classes, given=problem.columns, seed=problem.seed)
        yield Variant(encoding, x, ROBUST, "equal", 1.0, {})
        return
    kinds, sample = choose_kinds(problem)
    plain = choose_scaling(problem, kinds, sample)
    if not _may_be_weighted(problem, plain, sample):
        yield plain.variant()
        return
    names = [MATERN12, *([LAPLACIAN] if plain.has_laplacian and len(problem.y) <= SEARCH_ROWS else [])]
    first = _fitted_weights(problem, plain, sample, names[0])
    promising = first is not None and _saves_enough(plain, sample, first)
    equal_later = promising and _telling_rows(problem, sample) >= MIN_TELLING_ROWS * len(plain.encoding.encoders)
    order = [*names, None] if equal_later else [None, *names]
    for place, kernel in enumerate(order):
        share = FIRST_SHARE if place == 0 else 1.0 / (len(order) - place)
        if kernel is None:
            yield plain.variant(share)
            continue
        weights = first if kernel == names[0] else _fitted_weights(problem, plain, sample, kernel)
        if weights is not None:
            yield _with_fold_weights(problem, plain, sample, kernel, plain.weighted(weights, kernel, share))


def decided_kinds(problem: Problem) -> list[ColumnKind]:
    """Return the kinds of the columns that a fit has; with a memory budget no column of groups is searched for."""
    if is_limited(problem.estimator.memory):
        return decide_kinds(problem.inputs, problem.columns)
    return choose_kinds(problem)[0]


def choose_kinds(problem: Problem) -> tuple[list[ColumnKind], Sample]:
    """Return the kinds of the columns, and the rows on which encodings are judged: whole groups, if there are any."""
    kinds = decide_kinds(problem.inputs, problem.columns)
    given, targets = problem.columns or {}, (problem.y, problem.classes)
    asked = [j for j, kind in enumerate(kinds) if kind.kind == GROUP]
    if places := asked + promising_groups(problem.inputs, kinds, given, *targets, problem.seed):
        same = same_categories(problem.inputs, kinds, given, places)
        plain = [replace(kind, kind=NUMBER) if j in asked else kind for j, kind in enumerate(kinds)]
        plain = [replace(kind, kind=DROP) if c in same else kind for c, kind in enumerate(plain)]
        _, x = fit_encoding(problem.inputs, *targets, kinds=plain, seed=problem.seed)
        common, clock = (x, *targets, problem.seed), problem.clock
        for j, kind in useful_groups(problem.inputs, kinds, places, *common, clock.after(GROUPS_SHARE)).items():
            kinds[j] = kind
        # A category with the same groups says already what this one would.
        left = [j for j in places if kinds[j].kind == NUMBER and j not in same.values()]
        for j, kind in useful_categories(problem.inputs, kinds, left, *common, clock.after(GROUPS_SHARE)).items():
            kinds[j] = kind
        for c, j in same.items():
            if kinds[j].kind == GROUP:
                kinds[c] = replace(kinds[c], kind=DROP, reason=f"the same groups as {kinds[j].name!r}")
    groups = [column for column, kind in zip(problem.inputs.columns, kinds, strict=True) if kind.kind == GROUP]
    m = sample_rows(problem.clock.limit)
    rows = rows_of_groups(groups[0].values, m, problem.seed) if groups else np.zeros(0, dtype=np.intp)
    if len(rows) < MIN_GROUP_SAMPLE * min(m, len(problem.y)):
        return kinds, make_sample(problem.y, problem.classes, problem.seed, m)
    return kinds, Sample(rows, coded_targets(problem.y[rows], problem.classes), groups[0].values)


def _may_be_weighted(problem: Problem, plain: Plain, sample: Sample) -> bool:
    rows, columns, d = _weighting_rows(problem, sample), len(plain.encoding.encoders), plain.x.shape[1]
    return rows >= max(MIN_WEIGHTING_ROWS, MIN_ROWS_OF_WEIGHT * columns) and columns > 1 and d <= MAX_WEIGHTED_INPUTS


def _saves_enough(plain: Plain, sample: Sample, weights: Array) -> bool:
    """Whether weights of inputs reduce the leave-one-out error enough to be tried first."""
    return best_error(plain.x[sample.rows] * weights, sample) < (1 - MIN_WEIGHTING_GAIN) * plain.error


def _weighting_rows(problem: Problem, sample: Sample) -> int:
    """The number of rows that weights are fitted on."""
    return min(len(problem.y), STEPS * len(sample.rows))


def _telling_rows(problem: Problem, sample: Sample) -> int:
    """The rows that determine weights: of classes, the rarer ones and as many of the most frequent one."""
    rows = _weighting_rows(problem, sample)
    if not problem.classes:
        return rows
    rarer = 1 - np.bincount(problem.y).max() / len(problem.y)
    return int(rows * min(1.0, 2 * rarer))


def _with_fold_weights(problem: Problem, plain: Plain, sample: Sample, kernel: str, variant: Variant) -> Variant:
    """Return a variant whose folds have weights of their own, if there are few rows.

    Weights that the targets of the held-out rows have chosen too would make these rows look easier than new ones.
    """
    if len(problem.y) > MAX_FOLD_ROWS:
        return variant

    def fold_encoding(train: Array) -> Encoding:
        weights = _fitted_weights(problem, plain, sample, kernel, train, FOLD_WEIGHTS_SHARE)
        return replace(plain.encoding, weights=np.ones(plain.x.shape[1]) if weights is None else weights)

    return replace(variant, fold_encoding=fold_encoding)


def _fitted_weights(
    problem: Problem,
    plain: Plain,
    sample: Sample,
    kernel: str,
    rows: Array | None = None,
    share: float = WEIGHTS_SHARE,
) -> Array | None:  # (d,)
    """Return the weights that some rows of the table have chosen, by default all; None: there was no time."""
    rows = np.arange(len(problem.y)) if rows is None else rows
    m = max(2, min(len(sample.rows), len(rows) // 2))  # not all rows at once: their noise would be fitted
    if sample.groups is None:
        drawn = pieces(rows, m, problem.seed)
    else:
        groups = sample.groups[rows]
        drawn = (rows[rows_of_groups(groups, m, seed)] for seed in count(problem.seed))
    samples = (Sample(some, coded_targets(problem.y[some], problem.classes)) for some in drawn)
    return fit_input_weights(plain.x, plain.encoding.groups, samples, kernel, problem.clock.after(share))


def choose_scaling(problem: Problem, kinds: list[ColumnKind], sample: Sample) -> Plain:
    """Return the encoding whose leave-one-out error on a sample is the smallest."""
    best: Plain | None = None
    out_of_time = problem.clock.after(SCALING_SHARE)
    for scaling in SCALINGS if len(kinds) <= MAX_SCALED_COLUMNS else (ROBUST,):
        if best is not None and (not has_scalings(best.encoding) or out_of_time()):
            break
        encoding, x = fit_encoding(
            problem.inputs,
            problem.y,
            problem.classes,
            kinds=kinds,
            scaling=scaling,
            seed=problem.seed,
            like=(best.encoding, best.x) if best else None,
        )
        loss = best_error(x[sample.rows], sample)
        if best is None or loss < best.error:
            best = Plain(loss, encoding, x, scaling)
    assert best is not None
    return best


def has_scalings(encoding: Encoding) -> bool:
    """Whether some column of numbers has more than two values, so that its scaling matters."""
    numbers = [encoder.number if isinstance(encoder, GroupEncoder) else encoder for encoder in encoding.encoders]
    return any(isinstance(e, NumberEncoder) and not e.two_values for e in numbers)
