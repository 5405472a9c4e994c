"""The fit on all of many rows: the settings that a search on some of the rows found, changed for more rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from joker.data.array_rows import pick
from joker.estimators import resolve
from joker.tables.candidates import Candidate, Learnt, blended
from joker.tables.leave_one_out import GAUSSIAN
from joker.tables.problem import Layout, Problem
from joker.tables.search import fit_in_time, random_blocks

MIN_MEMBER_WEIGHT = 0.2  # a member of less weight is not fitted on all rows
FINAL_LAMBDAS = (1.0, 10**-0.5)  # multiples of the λ of the search: with more rows the best one falls
NARROWER = 2**-0.5  # the step of a bandwidth that is tried on the rows of a search
MIN_NARROWER_GAIN = 0.02  # share of the loss by which a narrower bandwidth must be better
NARROWER_SHARE = 0.2  # of the time that is left: for one fit with a narrower bandwidth
FINAL_SHARE = 0.9  # of the time that is left: for the fits on all rows


def fit_on_all_rows(problem: Problem, learnt: Learnt, candidates: list[Candidate], search: Layout) -> Learnt:
    """Fit the members that have a weight on all rows that are not held out, and weight them again."""
    kept = [candidate for candidate in candidates if learnt.weight(candidate) >= MIN_MEMBER_WEIGHT]
    kept = kept or [max(candidates, key=learnt.weight)]
    (fold,) = search.folds
    final = []
    for number, chosen in enumerate(kept):
        share = learnt.weight(chosen) / sum(learnt.weight(one) for one in kept[number:])
        candidate = narrowed(problem, chosen, search)
        y = problem.targets(candidate.member.target)
        model = clone(candidate.member.model).set_params(**final_settings(candidate, len(fold.train)))
        held, seconds = pick(candidate.x, fold.held), FINAL_SHARE * share * problem.clock.left
        fit_in_time(model, pick(candidate.x, fold.train), y[fold.train], seconds, eval_set=(held, y[fold.held]))
        model = model.path_.models[model.path_.best]
        values, residuals = problem.decoded(problem.values(model, held), fold.held, candidate.member.target)
        member = replace(candidate.member, model=model, residuals=residuals)
        final.append(replace(candidate, member=member, held=values, first_model=model))
    return blended(problem, list(learnt.blend.encodings), final, search.folds, learnt.leaderboard)


def final_settings(candidate: Candidate, n: int) -> dict[str, Any]:
    """Return the settings of a fit on n rows, for a candidate of a search on some of them.

    A solve of many rows may not end in time. A λ that float32 cannot resolve would need float64 and twice the time.
    """
    found = candidate.member.model
    smallest = resolve.smallest_penalty(n) if resolve.is_linear_system(found) else 0.0
    lams = sorted({max(found.lam_ * factor, smallest) for factor in FINAL_LAMBDAS}, reverse=True)
    return {"lam": lams, **random_blocks(found, n, candidate.x.shape[1])}


def narrowed(problem: Problem, candidate: Candidate, search: Layout) -> Candidate:
    """Return a candidate with a narrower bandwidth, as long as that lowers the loss of held-out rows.

    The search has compared bandwidths on fewer rows, and a Gaussian kernel needs a narrower one with more rows. A
    Matérn kernel of order ½ with a wide bandwidth hardly depends on it.
    """
    (fold,), rows = search.folds, search.rows
    assert rows is not None
    loss = problem.loss(fold.held)
    while candidate.member.model.kernel == GAUSSIAN:
        member = candidate.member
        y = problem.targets(member.target)
        model = clone(member.model).set_params(bandwidth=NARROWER * np.asarray(member.model.bandwidth_))
        seconds = NARROWER_SHARE * problem.clock.left
        if candidate.seconds > seconds:
            break
        started = problem.clock.spent
        fit_in_time(model, pick(candidate.x, rows), y[rows], seconds)
        held = problem.values(model, pick(candidate.x, fold.held))
        values, residuals = problem.decoded(held, fold.held, member.target)
        if loss(values) > (1 - MIN_NARROWER_GAIN) * loss(candidate.held):
            break
        member = replace(member, model=model, residuals=residuals)
        candidate = replace(candidate, member=member, held=values, seconds=problem.clock.spent - started)
    return candidate
