"""Decisions on columns that rules propose and errors on held-out rows confirm: identifiers, text, codes of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.tables.columns import CATEGORY, DROP, IDENTIFIER, JUDGED_ROWS, ColumnKind, mean_words, rows_of_groups
from joker.tables.encoders import ROBUST
from joker.tables.encoding import Encoding, fit_column
from joker.tables.optimism import time_column
from joker.tables.problem import TableProblem
from joker.tables.table import NUMBER, TEXT
from joker.tuning.ard import BANDWIDTHS, CONSTANT, PENALTIES, ArdSample, coded_targets, loo_mean_square, make_sample

Array = NDArray[Any]
# Shares of the leave-one-out error that a column must save as another kind; text is left out if that does no harm.
GAINS = {NUMBER: 0.02, TEXT: 0.01, DROP: 0.0}
MIN_TEXTS, MIN_WORDS = 200, 2.0  # distinct values of a category that may be text, and their mean number of words
LATER_SHARE = 0.25  # of the rows of a sample: the latest ones, which are predicted from the others
KEPT = "by its name an identifier, which lowers the held-out error"


def with_useful_proposals(
    problem: TableProblem, kinds: Sequence[ColumnKind], encoding: Encoding, x: Array
) -> list[ColumnKind]:
    """Return the kinds after the proposals of other ones that reduce the leave-one-out error.

    A column that seems to be an identifier is proposed as a number, and one of many words as text, which is left out
    where it does not help. ``x`` (n, d) are the inputs of all columns that are not left out.
    """
    kinds = list(kinds)
    sample = make_sample(problem.y, problem.classes, problem.seed, JUDGED_ROWS)
    some, kept, added = x[sample.rows], np.ones(x.shape[1], dtype=bool), list[Array]()
    proposals = proposed(problem, kinds)
    error = loo_mean_square(some, sample) if proposals else 0.0
    for j, kind in proposals.items():
        if problem.clock.is_over():
            break
        others = kept & np.isin(np.arange(len(kept)), encoding.without(kind.name))
        replaced = added
        if kind.kind != DROP:
            _, part = fit_column(problem.inputs.columns[j], kind, problem.y, problem.classes, ROBUST, problem.seed)
            replaced = [*added, part(sample.rows)]
        found = loo_mean_square(np.hstack([some[:, others], *replaced]), sample)
        if found < (1 - GAINS[kind.kind]) * error:
            kinds[j], kept, added, error = kind, others, replaced, found
    return kinds


def proposed(problem: TableProblem, kinds: Sequence[ColumnKind]) -> dict[int, ColumnKind]:
    """Return other kinds of columns that held-out rows may confirm."""
    found = {}
    for j, (column, kind) in enumerate(zip(problem.inputs.columns, kinds, strict=True)):
        identifier = kind.kind == DROP and kind.reason.startswith(IDENTIFIER)
        if kind.name in (problem.columns or {}):
            continue
        if identifier and column.form == NUMBER:
            found[j] = replace(kind, kind=NUMBER, reason=KEPT)
        elif kind.kind == TEXT:
            found[j] = replace(kind, kind=DROP, reason="text that does not lower the held-out error")
        elif column.form == TEXT and (identifier or kind.kind == CATEGORY) and not column.declared_category:
            levels = set(column.values[~column.missing])
            if len(levels) >= MIN_TEXTS and mean_words(levels) >= MIN_WORDS:
                found[j] = replace(kind, kind=TEXT, reason="")
    return found


def lasting(
    problem: TableProblem, kinds: Mapping[int, ColumnKind], encoding: Encoding, x: Any
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
