"""The encodings of a table that a search tries: kinds of columns, scalings of numbers and weights of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.columns import DROP, GROUP, ColumnKind, decide_kinds
from joker.tables.encoders import ROBUST, SCALINGS, NumberEncoder
from joker.tables.encoding import Encoding, fit_encoding
from joker.tables.frames import NUMBER, RawTable
from joker.tables.group_columns import promising_groups, rows_of_groups, same_categories, useful_groups
from joker.tables.group_encoder import GroupEncoder
from joker.tables.leave_one_out import (
    LAPLACIAN,
    MATERN12,
    SAMPLE_ROWS,
    Sample,
    best_errors,
    coded_targets,
    fit_input_weights,
    make_sample,
)
from joker.tables.memory import is_limited
from joker.tables.problem import SEARCH_ROWS, Problem

Array = NDArray[Any]
MIN_WEIGHTING_ROWS = 200  # fewer rows do not determine the weights of a dozen columns
MAX_WEIGHTED_INPUTS = 512
MIN_GROUP_SAMPLE = 0.5  # of the rows of a sample: with fewer rows in groups, the sample is one of rows
GROUPS_SHARE = 0.05  # of the time: no further column of groups is tried after it
SCALING_SHARE = 0.1  # of the time: no further scaling of numbers is tried after it
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


def variants(problem: Problem) -> Iterator[Variant]:
    """Yield the encodings to try: with equal weights of inputs, and with weights for each of two kernels."""
    if not isinstance(problem.inputs, RawTable):
        yield Variant(None, problem.inputs, "none", "equal", 1.0, {})
        return
    if is_limited(problem.estimator.memory):  # one encoding at a time, and no leave-one-out errors
        encoding, x = fit_encoding(problem.inputs, problem.y, problem.classes, given=problem.columns, seed=problem.seed)
        yield Variant(encoding, x, ROBUST, "equal", 1.0, {})
        return
    kinds, sample = choose_kinds(problem)
    encoding, x, scaling = choose_scaling(problem, kinds, sample)
    n, d = x.shape
    names = [MATERN12, *([LAPLACIAN] if n <= SEARCH_ROWS else [])]
    weighted = n >= MIN_WEIGHTING_ROWS and len(encoding.encoders) > 1 and d <= MAX_WEIGHTED_INPUTS
    yield Variant(encoding, x, scaling, "equal", 0.4 if weighted else 1.0, {})
    if not weighted:
        return
    for number, kernel in enumerate(names):
        weights = fit_input_weights(x[sample.rows], encoding.groups, sample, kernel, problem.clock.after(WEIGHTS_SHARE))
        if weights is not None:
            own = replace(encoding, weights=weights)
            search = {"kernels": kernel, "relevance": False}
            share = 1.0 / (len(names) - number)
            yield Variant(own, x * weights.astype(np.float32), scaling, f"for {kernel}", share, search)


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
        out_of_time = problem.clock.after(GROUPS_SHARE)
        for j, kind in useful_groups(problem.inputs, kinds, places, x, *targets, problem.seed, out_of_time).items():
            kinds[j] = kind
        for c, j in same.items():
            if kinds[j].kind == GROUP:
                kinds[c] = replace(kinds[c], kind=DROP, reason=f"the same groups as {kinds[j].name!r}")
    groups = [column for column, kind in zip(problem.inputs.columns, kinds, strict=True) if kind.kind == GROUP]
    rows = rows_of_groups(groups[0].values, SAMPLE_ROWS, problem.seed) if groups else np.zeros(0, dtype=np.intp)
    if len(rows) < MIN_GROUP_SAMPLE * min(SAMPLE_ROWS, len(problem.y)):
        return kinds, make_sample(problem.y, problem.classes, problem.seed)
    return kinds, Sample(rows, coded_targets(problem.y[rows], problem.classes))


def choose_scaling(problem: Problem, kinds: list[ColumnKind], sample: Sample) -> tuple[Encoding, Array, str]:
    """Return the encoding whose leave-one-out error on a sample is the smallest, its inputs and its name."""
    best: tuple[float, Encoding, Array, str] | None = None
    out_of_time = problem.clock.after(SCALING_SHARE)
    for scaling in SCALINGS if len(kinds) <= MAX_WEIGHTED_INPUTS else (ROBUST,):
        if best is not None and (not has_scalings(best[1]) or out_of_time()):
            break
        encoding, x = fit_encoding(
            problem.inputs,
            problem.y,
            problem.classes,
            kinds=kinds,
            scaling=scaling,
            seed=problem.seed,
            like=best[1:3] if best else None,
        )
        loss = float(best_errors(x[sample.rows], sample).square().mean())
        if best is None or loss < best[0]:
            best = (loss, encoding, x, scaling)
    assert best is not None
    return best[1:]


def has_scalings(encoding: Encoding) -> bool:
    """Whether some column of numbers has more than two values, so that its scaling matters."""
    numbers = [encoder.number if isinstance(encoder, GroupEncoder) else encoder for encoder in encoding.encoders]
    return any(isinstance(e, NumberEncoder) and not e.two_values for e in numbers)
