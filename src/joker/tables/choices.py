"""Decisions on columns that rules propose and errors on held-out rows confirm: identifiers, and codes of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.tables.columns import DROP, IDENTIFIER, JUDGED_ROWS, ColumnKind, rows_of_groups
from joker.tables.encoders import ROBUST
from joker.tables.encoding import Encoding, fit_column
from joker.tables.optimism import time_column
from joker.tables.problem import TableProblem
from joker.tables.table import NUMBER
from joker.tuning.ard import BANDWIDTHS, CONSTANT, PENALTIES, ArdSample, coded_targets, loo_mean_square, make_sample

Array = NDArray[Any]
MIN_IDENTIFIER_GAIN = 0.02  # share of the leave-one-out error that an identifier must save as a number
LATER_SHARE = 0.25  # of the rows of a sample: the latest ones, which are predicted from the others
KEPT = "by its name an identifier, which lowers the held-out error"


def with_useful_identifiers(problem: TableProblem, kinds: Sequence[ColumnKind], x: Array) -> list[ColumnKind]:
    """Return the kinds with the identifiers as numbers that reduce the leave-one-out error, such as numbers in order.

    ``x`` (n, d) are the inputs of the other columns.
    """
    kinds = list(kinds)
    sample = make_sample(problem.y, problem.classes, problem.seed, JUDGED_ROWS)
    places = [j for j, kind in enumerate(kinds) if kind.kind == DROP and kind.reason.startswith(IDENTIFIER)]
    places = [j for j in places if problem.inputs.columns[j].form == NUMBER]
    before = x[sample.rows]
    error = loo_mean_square(before, sample) if places else 0.0
    for j in places:
        if problem.clock.is_over():
            break
        kind = replace(kinds[j], kind=NUMBER, reason=KEPT)
        _, part = fit_column(problem.inputs.columns[j], kind, problem.y, problem.classes, ROBUST, problem.seed)
        joined = np.hstack([before, part(sample.rows)])
        found = loo_mean_square(joined, sample)
        if found < (1 - MIN_IDENTIFIER_GAIN) * error:
            kinds[j], before, error = kind, joined, found
    return kinds


def lasting(
    problem: TableProblem, kinds: Mapping[int, ColumnKind], encoding: Encoding, x: Array
) -> dict[int, ColumnKind]:
    """Return the kinds of columns that replace numbers by groups or categories without making later rows worse.

    That is asked where a column orders the rows in time. ``x`` (n, d) are the inputs with
    numbers in their place.
    """
    times = time_column(problem) if kinds else None
    if times is None:
        return dict(kinds)
    kept = {}
    for j, kind in kinds.items():
        if problem.clock.is_over():
            break
        column = problem.inputs.columns[j]
        rows = rows_of_groups(column.values, JUDGED_ROWS, problem.seed)
        rows = rows[np.argsort(times.values[rows], kind="stable")]
        sample = ArdSample(rows, coded_targets(problem.y[rows], problem.classes))
        # Nothing of the later targets is in the encoding.
        before = np.flatnonzero(times.values < times.values[rows[_earlier(len(rows))]])
        known = column.some(before)
        if known.missing.all():
            continue
        encoder, part = fit_column(known, kind, problem.y[before], problem.classes, ROBUST, problem.seed)
        inputs = encoder.transform(column.some(rows))
        place = np.searchsorted(before, rows)
        early = np.isin(rows, before)
        inputs[early] = part(place[early])
        joined = np.hstack([x[rows][:, encoding.without(kind.name)], inputs])
        if later_mean_square(joined, sample) <= later_mean_square(x[rows], sample):
            kept[j] = kind
    return kept


def later_mean_square(x: Array, sample: ArdSample) -> float:  # (m, d)
    """Return the mean squared error of the last rows of a sample by kernel ridge regression on the rows before.

    It is that of the best of a few bandwidths and λ.
    """
    inputs, y = torch.from_numpy(x).float(), sample.y.float()
    cut = _earlier(len(inputs))
    distance = torch.cdist(inputs, inputs[:cut])
    median = float(distance.median()) or 1.0
    errors = []
    for factor in BANDWIDTHS:
        k = torch.exp(-distance / (factor * median)) + CONSTANT
        for lam in PENALTIES:
            solved = torch.linalg.solve(k[:cut] + lam * torch.eye(cut), y[:cut])
            errors.append(float((k[cut:] @ solved - y[cut:]).square().mean()))
    return min(errors)


def _earlier(rows: int) -> int:
    return round((1 - LATER_SHARE) * rows)
