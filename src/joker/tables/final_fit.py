"""The fit on many rows: the settings that a search on some of the rows found, on as many rows as the time allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from joker.data.array_rows import pick
from joker.estimators import resolve
from joker.estimators.resolve import EXACT_ROWS, FEATURES
from joker.tables.candidates import Candidate, Learnt, blended
from joker.tables.leave_one_out import GAUSSIAN
from joker.tables.problem import Layout, Problem
from joker.tables.search import fit_in_time, fit_while_fast, random_blocks

Array = NDArray[Any]
MIN_MEMBER_WEIGHT = 0.2  # a member of less weight is not fitted on more rows
NARROWER = 2**-0.5  # the step of a bandwidth that is tried on the rows of a search
MIN_NARROWER_GAIN = 0.02  # share of the loss by which a narrower bandwidth must be better
NARROWER_SHARE = 0.2  # of the time that is left: for one fit with a narrower bandwidth
FINAL_SHARE = 0.9  # of the time that is left: for the fits on more rows
MIN_TIMES_LEFT = 1.2  # times the longest fit of a member: another candidate is fitted while so much time is left
LEAST_EPOCHS = 1.0  # of random blocks, that the time of a fit must allow
FEWER = 0.9  # of the rows that such a fit could have by its first steps
MIN_MORE_ROWS = 1.2  # times the rows of the search: a fit on fewer rows is not worth its time
GPU_FEATURES = 60_000  # random features on a GPU, where a step with so many takes less than a millisecond


@dataclass(frozen=True, eq=False)
class Fit:
    """The rows of a fit, the settings that differ from those of the search, and its time."""

    rows: Array
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)


def fit_on_many_rows(problem: Problem, learnt: Learnt, candidates: list[Candidate], search: Layout) -> Learnt:
    """Fit the members that have a weight on more rows than the search had, and weight them again.

    If much time is left, candidates without a weight are fitted too: they may gain one.
    """
    kept = [candidate for candidate in candidates if learnt.weight(candidate) >= MIN_MEMBER_WEIGHT]
    kept = kept or [max(candidates, key=learnt.weight)]
    final: list[Candidate] = []
    longest = 0.0

    def fit(candidate: Candidate, share: float) -> None:
        nonlocal longest
        started = problem.clock.spent
        candidate = narrowed(problem, candidate, search)
        final.append(on_more_rows(problem, candidate, search, FINAL_SHARE * share * problem.clock.left))
        longest = max(longest, problem.clock.spent - started)

    for number, chosen in enumerate(kept):
        fit(chosen, learnt.weight(chosen) / sum(learnt.weight(one) for one in kept[number:]))
    for other in candidates:
        if other not in kept and problem.clock.left > MIN_TIMES_LEFT * longest:
            fit(other, 1.0)
    return blended(problem, list(learnt.blend.encodings), final, search.folds, learnt.leaderboard)


def on_more_rows(problem: Problem, candidate: Candidate, search: Layout, seconds: float) -> Candidate:
    """Return the candidate after the fit on more rows that has the smallest loss on held-out rows, if it is smaller.

    A fit that its time limit ended far from the optimum is thus worth nothing, and does no harm.
    """
    (fold,) = search.folds
    loss, best = problem.loss(fold.held), candidate
    for fit in fits(problem, search, seconds):
        model = fitted(problem, candidate, search, fit)
        held = problem.values(model, pick(candidate.x, fold.held))
        values, residuals = problem.decoded(held, fold.held, candidate.member.target)
        if loss(values) < loss(best.held):
            member = replace(candidate.member, model=model, residuals=residuals)
            best = replace(candidate, member=member, held=values, first_model=model)
    return best


def fits(problem: Problem, search: Layout, seconds: float) -> Iterator[Fit]:
    """Yield the fits to try in ``seconds``: the kernel itself on at most `EXACT_ROWS` rows, features on all rows.

    On a GPU all rows are fitted at once: a pass over them takes seconds, also with many features.
    """
    (fold,), given = search.folds, problem.estimator.n_features
    n, auto, chosen = len(fold.train), isinstance(given, str), isinstance(given, Integral)
    some = fold.train[np.sort(np.random.RandomState(problem.seed).permutation(n)[:EXACT_ROWS])]
    if problem.gpu is not None:
        features = {"n_features": GPU_FEATURES} if n > EXACT_ROWS and auto else {}
        yield Fit(fold.train, seconds, {"device": problem.gpu, "momentum": True, **features})
    elif auto and n > EXACT_ROWS:
        yield Fit(some, seconds / 2)
        yield Fit(fold.train, seconds / 2, {"n_features": FEATURES})
    else:
        yield Fit(fold.train if chosen else some, seconds)


def fitted(problem: Problem, candidate: Candidate, search: Layout, fit: Fit) -> Any:
    """Return a model by random blocks, which is usable after one epoch.

    If the time allows less than `LEAST_EPOCHS`, which its first steps show, fewer rows are fitted. The time of an epoch
    grows with the square of the rows, or with features with the rows.
    """
    assert search.rows is not None
    y, end = problem.targets(candidate.member.target), problem.clock.spent + fit.seconds
    rows, seconds = fit.rows, fit.seconds
    while True:
        model = clone(candidate.member.model).set_params(lam=penalty(candidate, len(rows)), **fit.settings)
        model.set_params(**(random_blocks(model, len(rows), candidate.x.shape[1]) | fit.settings))
        enough = MIN_MORE_ROWS * len(search.rows) >= len(rows)
        slow = fit_while_fast(model, pick(candidate.x, rows), y[rows], seconds, 0.0 if enough else LEAST_EPOCHS)
        if slow is None:
            return model
        seconds = max(0.0, end - problem.clock.spent)
        share = FEWER * (seconds / (LEAST_EPOCHS * slow)) ** (1.0 if isinstance(model.n_features, Integral) else 0.5)
        count = min(len(rows) - 1, int(max(share * len(rows), MIN_MORE_ROWS * len(search.rows))))
        rows = rows[np.sort(np.random.RandomState(problem.seed).permutation(len(rows))[:count])]


def penalty(candidate: Candidate, n: int) -> float:
    """Return the λ of a fit on n rows. One that float32 cannot resolve would need float64, and twice the time."""
    model = candidate.member.model
    smallest = resolve.smallest_penalty(n) if resolve.is_linear_system(model) else 0.0
    return max(float(model.lam_), smallest)


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
        model = fit_in_time(model, pick(candidate.x, rows), y[rows], seconds)
        held = problem.values(model, pick(candidate.x, fold.held))
        values, residuals = problem.decoded(held, fold.held, member.target)
        if loss(values) > (1 - MIN_NARROWER_GAIN) * loss(candidate.held):
            break
        member = replace(member, model=model, residuals=residuals)
        candidate = replace(candidate, member=member, held=values, seconds=problem.clock.spent - started)
    return candidate
