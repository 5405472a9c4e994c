"""The fit on many rows: the settings that a search on some of the rows found, on as many rows as the time allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from joker.data.array_rows import pick
from joker.estimators import resolve
from joker.estimators.resolve import EXACT_ROWS, FEATURES
from joker.tables.blend import Member
from joker.tables.candidates import Candidate, Learnt, blended
from joker.tables.leave_one_out import GAUSSIAN
from joker.tables.problem import Layout, Problem
from joker.tables.search import FAR, fit_in_time, fit_while_fast, random_blocks
from joker.tables.validation import Fold

Array = NDArray[Any]
MIN_MEMBER_WEIGHT = 0.2  # a member of less weight is not fitted on more rows
SMALLER_LAMBDAS = (10**-0.5, 0.1)  # multiples of λ that are tried on the rows of a search, in one fit
NARROWER = 2**-0.5  # the step of the bandwidth of a Gaussian that is tried there
MIN_NARROWER_GAIN = 0.02  # share of the loss by which it must be better
NARROWER_OTHER = 0.5  # the step of other kernels, which depend less on the bandwidth; any gain will do
REFINING_SHARE = 0.3  # of the time that is left: for fits with another λ or bandwidth
FINAL_SHARE = 0.9  # of the time that is left: for the fits on more rows
MIN_TIMES_LEFT = 0.7  # times the longest fit so far: another candidate is fitted while so much time is left
MIN_TIMES_OF_ALL = 1.3  # the same for a fit on all rows: no held-out rows show whether it had enough time
MAX_EXCESS = 0.1  # share of the loss of the best one: time that is left is not for a candidate with a larger excess
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

    If much time is left, candidates without a weight are fitted too: they may gain one. If time is left then, members
    are fitted on all rows.
    """
    kept = [candidate for candidate in candidates if learnt.weight(candidate) >= MIN_MEMBER_WEIGHT]
    kept = kept or [max(candidates, key=learnt.weight)]
    final: list[Candidate] = []
    longest, lowest, loss = 0.0, inf, problem.loss(search.folds[0].held)

    def fit(candidate: Candidate, seconds: float, share: float) -> None:
        nonlocal longest, lowest
        candidate = refined(problem, candidate, search, seconds)
        started, lowest = problem.clock.spent, min(lowest, loss(candidate.held))
        final.append(on_more_rows(problem, candidate, search, FINAL_SHARE * share * problem.clock.left))
        longest = max(longest, problem.clock.spent - started)

    for number, chosen in enumerate(kept):
        share = learnt.weight(chosen) / sum(learnt.weight(one) for one in kept[number:])
        fit(chosen, REFINING_SHARE * share * problem.clock.left, share)
    for other in candidates:
        promising = other not in kept and loss(other.held) <= (1 + MAX_EXCESS) * lowest
        if promising and problem.clock.left > MIN_TIMES_LEFT * longest:
            fit(other, problem.clock.left - longest, 1.0)
    found = blended(problem, list(learnt.blend.encodings), final, search.folds, learnt.leaderboard)
    members = [_on_all_rows(problem, found, candidate, search) for candidate in final if found.weight(candidate)]
    return replace(found, blend=replace(found.blend, members=tuple(members)))


def on_more_rows(problem: Problem, candidate: Candidate, search: Layout, seconds: float) -> Candidate:
    """Return the candidate after the fit on more rows that has the smallest loss on held-out rows, if it is smaller.

    A fit that its time limit ended far from the optimum is thus worth nothing, and does no harm.
    """
    (fold,) = search.folds
    loss, best = problem.loss(fold.held), candidate
    for fit in fits(problem, search, seconds):
        started = problem.clock.spent
        model, rows = fitted(problem, candidate, search, fit)
        found = _with_model(problem, candidate, fold, model)
        found = replace(found, seconds=problem.clock.spent - started, final_rows=len(rows))
        best = found if loss(found.held) < loss(best.held) else best
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


def fitted(problem: Problem, candidate: Candidate, search: Layout, fit: Fit) -> tuple[Any, Array]:
    """Return a model by random blocks, which is usable after one epoch, and its rows.

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
            return model, rows
        seconds = max(0.0, end - problem.clock.spent)
        share = FEWER * (seconds / (LEAST_EPOCHS * slow)) ** (1.0 if isinstance(model.n_features, Integral) else 0.5)
        count = min(len(rows) - 1, int(max(share * len(rows), MIN_MORE_ROWS * len(search.rows))))
        rows = rows[np.sort(np.random.RandomState(problem.seed).permutation(len(rows))[:count])]


def _on_all_rows(problem: Problem, found: Learnt, candidate: Candidate, search: Layout) -> Member:
    """Return the member of a candidate after a fit on all rows, held-out rows too, if there is time for it.

    Its weight and its errors are those of the model before, which was not fitted on the held-out rows. No rows judge
    the new model: the one before must be near the optimum.
    """
    (fold,), before, n = search.folds, candidate.final_rows, len(problem.y)
    member = replace(candidate.member, weight=found.weight(candidate))
    could_have_more = before == len(fold.train) and not before <= EXACT_ROWS < n
    solved = member.model.gap_ <= FAR
    if not (could_have_more and solved and problem.clock.left > MIN_TIMES_OF_ALL * candidate.seconds):
        return member
    model = clone(member.model)
    fit_while_fast(model, pick(candidate.x, np.arange(n)), problem.targets(member.target), problem.clock.left, 0.0)
    return replace(member, model=model)


def penalty(candidate: Candidate, n: int) -> float:
    """Return the λ of a fit on n rows. One that float32 cannot resolve would need float64, and twice the time."""
    model = candidate.member.model
    smallest = resolve.smallest_penalty(n) if resolve.is_linear_system(model) else 0.0
    return max(float(model.lam_), smallest)


def refined(problem: Problem, candidate: Candidate, search: Layout, seconds: float) -> Candidate:
    """Return a candidate with a smaller λ and a narrower bandwidth, as far as they lower the loss of held-out rows.

    The search has compared both on fewer rows, and with more rows smaller ones are better, if others are at all.
    """
    end = problem.clock.spent + seconds
    if not resolve.is_linear_system(candidate.member.model):
        candidate = _better(problem, candidate, search, 1.0, SMALLER_LAMBDAS, 0.0, end) or candidate
    gaussian = candidate.member.model.kernel == GAUSSIAN
    step, gain = (NARROWER, MIN_NARROWER_GAIN) if gaussian else (NARROWER_OTHER, 0.0)
    while narrower := _better(problem, candidate, search, step, (1.0,), gain, end):
        candidate = narrower
    return candidate


def _better(
    problem: Problem,
    candidate: Candidate,
    search: Layout,
    bandwidth: float,  # times the present one
    lambdas: tuple[float, ...],  # times the present one
    min_gain: float,  # share of the loss
    end: float,  # of the time, by the clock of the problem
) -> Candidate | None:
    """Return the best candidate with other settings on the rows of the search; None: it is no better, or no time."""
    (fold,), rows, member = search.folds, search.rows, candidate.member
    assert rows is not None
    started = problem.clock.spent
    if len(lambdas) * candidate.seconds > end - started:
        return None
    loss, y = problem.loss(fold.held), problem.targets(member.target)
    model = clone(member.model).set_params(
        bandwidth=bandwidth * np.asarray(member.model.bandwidth_),
        lam=[factor * float(member.model.lam_) for factor in lambdas],
    )
    model = fit_in_time(model, pick(candidate.x, rows), y[rows], end - started)
    found = [_with_model(problem, candidate, fold, one) for one in model.path_.models]
    best = min(found, key=lambda one: loss(one.held))
    if loss(best.held) >= (1 - min_gain) * loss(candidate.held):
        return None
    return replace(best, seconds=(problem.clock.spent - started) / len(lambdas))


def _with_model(problem: Problem, candidate: Candidate, fold: Fold, model: Any) -> Candidate:
    """Return the candidate with another model, and its predictions of held-out rows."""
    model.set_params(lam=float(model.lam_))
    values, residuals = problem.decoded(
        problem.values(model, pick(candidate.x, fold.held)), fold.held, candidate.member.target
    )
    member = replace(candidate.member, model=model, residuals=residuals)
    return replace(candidate, member=member, held=values, first_model=model)
