"""The fit on many rows: the settings that a search on some of the rows found, on as many rows as the time allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from joker.data.arrays import pick
from joker.estimators import resolve
from joker.estimators.precision import smallest_penalty
from joker.estimators.probabilities import Calibration, fit_calibration
from joker.estimators.resolve import EXACT_ROWS, FEATURES
from joker.tables.encoding import fit_encoding
from joker.tables.ensemble import MIN_GAIN, Ensemble, EnsembleMember, select_ensemble
from joker.tables.plan import (
    CROSS_VALIDATION_SHARE,
    FINAL_SHARE,
    MIN_TIMES_LEFT,
    MIN_TIMES_OF_ALL,
    REFINING_SHARE,
    SearchPlan,
    TableProblem,
    make_search_plan,
)
from joker.tables.search import (
    FAR,
    EncodingCandidate,
    encoding_candidates,
    fit_in_time,
    fit_while_fast,
    held_out_values,
    random_blocks,
    tuned,
)
from joker.tables.table import RawTable, is_limited, memory_of_models
from joker.tables.targets import IDENTITY, fit_number_target, residual_quantiles, transforms_to_try
from joker.tuning.ard import GAUSSIAN, ArdSample, best_loo_errors, make_sample, sample_rows
from joker.tuning.splits import Split

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class EnsembleCandidate:
    """A member before it has a weight, with its predictions of held-out rows."""

    member: EnsembleMember
    held: Array  # (rows, t)
    first_model: Any  # of the first fold
    x: Any  # (n, d), the encoded inputs of all rows
    seconds: float = 0.0  # of the last fit
    first_encoding: Any = None  # of the first fold
    final_rows: int = 0  # of the last fit, if it had more rows than the search


@dataclass(frozen=True, eq=False)
class FittedEnsemble:
    """An ensemble, with its calibration and its errors on held-out rows."""

    ensemble: Ensemble
    calibration: Calibration | None  # of classes
    residuals: Array  # of numbers on held-out rows, in the unit of the target
    held_predictions: Array  # (rows, t)
    held_rows: Array
    held_ensemble: Ensemble | None  # members of the first fold, which were not trained on its held-out rows
    first_held: Array
    leaderboard: list[dict[str, Any]]

    def weight(self, candidate: EnsembleCandidate) -> float:
        """Return the weight of a candidate in the ensemble; 0 if it is not a member."""
        weights = [member.weight for member in self.ensemble.members if member.model is candidate.member.model]
        return weights[0] if weights else 0.0


def fit_ensemble(
    problem: TableProblem,
    encodings: list[Any],
    candidates: list[EnsembleCandidate],
    folds: list[Split],
    leaderboard: list[dict[str, Any]],
    min_gain: float = MIN_GAIN,
) -> FittedEnsemble:
    """Weight the candidates, and calibrate their mean."""
    if not folds:
        ensemble = Ensemble((encodings[0],), (candidates[0].member,), problem.classes)
        calibration = Calibration(2.0, np.zeros(problem.classes)) if problem.classes else None
        nothing = np.zeros(0, dtype=np.intp)
        return FittedEnsemble(ensemble, calibration, np.zeros(0), np.zeros((0, 1)), nothing, None, nothing, leaderboard)
    rows = np.concatenate([fold.held for fold in folds])
    shortest = min(len(candidate.held) for candidate in candidates)
    rows, held = rows[:shortest], [candidate.held[:shortest] for candidate in candidates]
    weights = select_ensemble(held, problem.loss(rows), min_gain)
    mean = sum(weight * one for weight, one in zip(weights, held, strict=True))
    kept = [(c, float(weight)) for c, weight in zip(candidates, weights, strict=True) if weight > 0]
    members = tuple(replace(candidate.member, weight=weight) for candidate, weight in kept)
    first = tuple(
        replace(member, model=candidate.first_model) for member, (candidate, _) in zip(members, kept, strict=True)
    )
    calibration = None
    residuals = np.zeros(0)
    if problem.classes:
        calibration = fit_calibration(mean, problem.y[rows], problem.weights(rows))
    else:
        residuals = problem.y[rows] - mean[:, 0]
    of_first = dict(enumerate(encodings)) | {c.member.encoding: c.first_encoding for c, _ in kept}
    ensemble = Ensemble(tuple(encodings), members, problem.classes)
    before = Ensemble(tuple(of_first.values()), first, problem.classes)
    return FittedEnsemble(ensemble, calibration, residuals, mean, rows, before, folds[0].held, leaderboard)


MIN_MEMBER_WEIGHT = 0.2  # a member of less weight is not fitted on more rows
SMALLER_LAMBDAS = (10**-0.5, 0.1)  # multiples of λ that are tried on the rows of a search, in one fit
NARROWER = 2**-0.5  # the step of the bandwidth of a Gaussian that is tried there
MIN_NARROWER_GAIN = 0.02  # share of the loss by which it must be better
NARROWER_OTHER = 0.5  # the step of other kernels, which depend less on the bandwidth; any gain will do
MAX_EXCESS = 0.1  # share of the loss of the best one: remaining time is not for a candidate with a larger excess
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


def fit_on_many_rows(
    problem: TableProblem, searched: FittedEnsemble, candidates: list[EnsembleCandidate], plan: SearchPlan
) -> FittedEnsemble:
    """Fit the members that have a weight on more rows than the search had, and weight them again.

    If much time remains, candidates without a weight are fitted too: they may gain one. If time remains then, members
    are fitted on all rows.
    """
    kept = [candidate for candidate in candidates if searched.weight(candidate) >= MIN_MEMBER_WEIGHT]
    kept = kept or [max(candidates, key=searched.weight)]
    final: list[EnsembleCandidate] = []
    longest, lowest, loss = 0.0, inf, problem.loss(plan.folds[0].held)

    def fit(candidate: EnsembleCandidate, seconds: float, share: float) -> None:
        nonlocal longest, lowest
        candidate = refined(problem, candidate, plan, seconds)
        started, lowest = problem.clock.spent, min(lowest, loss(candidate.held))
        final.append(on_more_rows(problem, candidate, plan, FINAL_SHARE * share * problem.clock.left))
        longest = max(longest, problem.clock.spent - started)

    for number, chosen in enumerate(kept):
        share = searched.weight(chosen) / sum(searched.weight(one) for one in kept[number:])
        fit(chosen, REFINING_SHARE * share * problem.clock.left, share)
    for other in candidates:
        promising = other not in kept and loss(other.held) <= (1 + MAX_EXCESS) * lowest
        if promising and problem.clock.left > MIN_TIMES_LEFT * longest:
            fit(other, problem.clock.left - longest, 1.0)
    found = fit_ensemble(problem, list(searched.ensemble.encodings), final, plan.folds, searched.leaderboard)
    members = [_on_all_rows(problem, found, candidate, plan) for candidate in final if found.weight(candidate)]
    return replace(found, ensemble=replace(found.ensemble, members=tuple(members)))


def on_more_rows(
    problem: TableProblem, candidate: EnsembleCandidate, plan: SearchPlan, seconds: float
) -> EnsembleCandidate:
    """Return the candidate after the fit on more rows that has the smallest loss on held-out rows, if it is smaller.

    A fit that its time limit ended far from the optimum is thus worth nothing, and does no harm.
    """
    (fold,) = plan.folds
    loss, best = problem.loss(fold.held), candidate
    for fit in fits(problem, plan, seconds):
        started = problem.clock.spent
        model, rows = fitted(problem, candidate, plan, fit)
        found = _with_model(problem, candidate, fold, model)
        found = replace(found, seconds=problem.clock.spent - started, final_rows=len(rows))
        best = found if loss(found.held) < loss(best.held) else best
    return best


def fits(problem: TableProblem, plan: SearchPlan, seconds: float) -> Iterator[Fit]:
    """Yield the fits to try in ``seconds``: the exact kernel on at most `EXACT_ROWS` rows, features on all rows.

    On a GPU all rows are fitted at once: a pass over them takes seconds, also with many features.
    """
    (fold,), given = plan.folds, problem.estimator.n_features
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


def fitted(problem: TableProblem, candidate: EnsembleCandidate, plan: SearchPlan, fit: Fit) -> tuple[Any, Array]:
    """Return a model by random blocks, which is usable after one epoch, and its rows.

    If the time allows less than `LEAST_EPOCHS`, which its first steps show, fewer rows are fitted. The time of an epoch
    grows with the square of the rows, or with features with the rows.
    """
    assert plan.rows is not None
    y, end = problem.targets(candidate.member.target), problem.clock.spent + fit.seconds
    rows, seconds = fit.rows, fit.seconds
    while True:
        model = clone(candidate.member.model).set_params(lam=penalty(candidate, len(rows)), **fit.settings)
        model.set_params(**(random_blocks(model, len(rows), candidate.x.shape[1]) | fit.settings))
        enough = MIN_MORE_ROWS * len(plan.rows) >= len(rows)
        slow = fit_while_fast(model, pick(candidate.x, rows), y[rows], seconds, 0.0 if enough else LEAST_EPOCHS)
        if slow is None:
            return model, rows
        seconds = max(0.0, end - problem.clock.spent)
        share = FEWER * (seconds / (LEAST_EPOCHS * slow)) ** (1.0 if isinstance(model.n_features, Integral) else 0.5)
        count = min(len(rows) - 1, int(max(share * len(rows), MIN_MORE_ROWS * len(plan.rows))))
        rows = rows[np.sort(np.random.RandomState(problem.seed).permutation(len(rows))[:count])]


def _on_all_rows(
    problem: TableProblem, found: FittedEnsemble, candidate: EnsembleCandidate, plan: SearchPlan
) -> EnsembleMember:
    """Return the member of a candidate after a fit on all rows, held-out rows too, if there is time for it.

    Its weight and its errors are those of the model before, which was not fitted on the held-out rows. No rows judge
    the new model: the one before must be near the optimum.
    """
    (fold,), before, n = plan.folds, candidate.final_rows, len(problem.y)
    member = replace(candidate.member, weight=found.weight(candidate))
    could_have_more = before == len(fold.train) and not before <= EXACT_ROWS < n
    solved = member.model.gap_ <= FAR
    if not (could_have_more and solved and problem.clock.left > MIN_TIMES_OF_ALL * candidate.seconds):
        return member
    model = clone(member.model)
    fit_while_fast(model, pick(candidate.x, np.arange(n)), problem.targets(member.target), problem.clock.left, 0.0)
    return replace(member, model=model)


def penalty(candidate: EnsembleCandidate, n: int) -> float:
    """Return the λ of a fit on n rows. One that float32 cannot resolve would need float64, and twice the time."""
    model = candidate.member.model
    smallest = smallest_penalty(n) if resolve.is_linear_system(model) else 0.0
    return max(float(model.lam_), smallest)


def refined(problem: TableProblem, candidate: EnsembleCandidate, plan: SearchPlan, seconds: float) -> EnsembleCandidate:
    """Return a candidate with a smaller λ and a narrower bandwidth, as far as they lower the loss of held-out rows.

    The search has compared both on fewer rows, and with more rows smaller ones are better, if others are at all.
    """
    end = problem.clock.spent + seconds
    if not resolve.is_linear_system(candidate.member.model):
        candidate = _better(problem, candidate, plan, 1.0, SMALLER_LAMBDAS, 0.0, end) or candidate
    gaussian = candidate.member.model.kernel == GAUSSIAN
    step, gain = (NARROWER, MIN_NARROWER_GAIN) if gaussian else (NARROWER_OTHER, 0.0)
    while narrower := _better(problem, candidate, plan, step, (1.0,), gain, end):
        candidate = narrower
    return candidate


def _better(
    problem: TableProblem,
    candidate: EnsembleCandidate,
    plan: SearchPlan,
    bandwidth: float,  # times the present one
    lambdas: tuple[float, ...],  # times the present one
    min_gain: float,  # share of the loss
    end: float,  # of the time, by the clock of the problem
) -> EnsembleCandidate | None:
    """Return the best candidate with other settings on the rows of the search; None: it is no better, or no time."""
    (fold,), rows, member = plan.folds, plan.rows, candidate.member
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


def _with_model(problem: TableProblem, candidate: EnsembleCandidate, fold: Split, model: Any) -> EnsembleCandidate:
    """Return the candidate with another model, and its predictions of held-out rows."""
    model.set_params(lam=float(model.lam_))
    values, residuals = problem.decoded(
        problem.values(model, pick(candidate.x, fold.held)), fold.held, candidate.member.target
    )
    member = replace(candidate.member, model=model, residuals=residuals)
    return replace(candidate, member=member, held=values, first_model=model)


TOL_OF_MANY_ROWS = 0.01  # of the gap; the axis "settings" of benchmarks/search_ablations.py compares a tenth of it
MIN_GAIN_OF_MANY_ROWS = 0.02  # share of the loss: two members on all rows have half of the time each


def fit_table(problem: TableProblem) -> FittedEnsemble:
    """Search, validate and weight the members of an ensemble."""
    plan = make_search_plan(problem)
    limited = is_limited(problem.estimator.memory)
    transform = None if problem.classes else IDENTITY if limited else choose_target_transform(problem)
    encodings: list[Any] = []
    candidates: list[EnsembleCandidate] = []
    leaderboard: list[dict[str, Any]] = []
    for one in encoding_candidates(_with_transformed_target(problem, transform)):
        encodings.append(one.encoding)
        started = problem.clock.spent
        candidates.append(_tuned_candidate(problem, len(encodings) - 1, one, transform, plan, leaderboard))
        left = problem.clock.left
        if left < plan.least_share * problem.clock.limit or left < problem.clock.spent - started:
            break
    gain = MIN_GAIN if plan.all_rows else MIN_GAIN_OF_MANY_ROWS
    searched = fit_ensemble(problem, encodings, candidates, plan.folds, leaderboard, gain)
    return searched if plan.all_rows else fit_on_many_rows(problem, searched, candidates, plan)


def _with_transformed_target(problem: TableProblem, transform: str | None) -> TableProblem:
    """Return the problem with transformed targets: a few huge targets would decide on the encoding of all rows."""
    if transform is None or transform == IDENTITY:
        return problem
    return replace(problem, y=fit_number_target(problem.y, transform).encode(problem.y))


def choose_target_transform(problem: TableProblem) -> str:
    """Return the target transform with the smallest leave-one-out squared error in the unit of y, on a sample."""
    transforms = transforms_to_try(problem.y)
    if len(transforms) == 1 or not isinstance(problem.inputs, RawTable):
        return transforms[0]
    sample = make_sample(problem.y, 0, problem.seed, sample_rows(problem.clock.limit))
    y = problem.y[sample.rows]
    losses = {}
    for transform in transforms:
        target = fit_number_target(y, transform)
        coded = target.encode(y)
        _, x = fit_encoding(problem.inputs.some(sample.rows), coded, 0, given=problem.columns, seed=problem.seed)
        wrong = best_loo_errors(x, ArdSample(sample.rows, torch.from_numpy(coded)[:, None]))[:, 0].numpy()
        found = target.decode(coded - wrong, residual_quantiles(wrong))
        losses[transform] = float(np.mean((found - y) ** 2))
    return min(losses, key=lambda transform: losses[transform])


def _tuned_candidate(
    problem: TableProblem,
    number: int,
    encoding: EncodingCandidate,
    transform: str | None,
    plan: SearchPlan,
    leaderboard: list[dict[str, Any]],
) -> EnsembleCandidate:
    """Tune one member on the rows of the search, and predict held-out rows with its settings."""
    target = None if transform is None else fit_number_target(problem.y, transform)
    y = problem.targets(target)
    x, share, options = encoding.x, encoding.share * plan.share, {**plan.options, **encoding.search}
    rows, estimator = plan.rows, clone(problem.estimator)
    estimator.set_params(memory=memory_of_models(estimator.memory, problem.inputs, x.shape[1]))
    if not plan.all_rows:
        estimator.set_params(tol=TOL_OF_MANY_ROWS)
    some_x, some_y = (x, y) if rows is None else (pick(x, rows), y[rows])
    found = tuned(problem, some_x, some_y, estimator, share, **options)
    facts = {"scaling": encoding.scaling, "weights": encoding.weights, "target": transform or "classes"}
    leaderboard += [{**facts, **trial} for trial in found.trials]
    if not plan.folds:
        return EnsembleCandidate(EnsembleMember(number, found.model, 1.0, target), np.zeros((0, 1)), None, x)
    first = encoding.encoding
    if plan.all_rows:
        limit = max(2.0, CROSS_VALIDATION_SHARE * share * problem.clock.left)
        folds = plan.folds[: max(1, int(limit / max(found.fit_seconds, 1e-3)))]
        encoded = [encoding.of_fold(fold.train) for fold in folds]
        held, models = held_out_values(found.model, [x for _, x in encoded], y, folds, problem.values, limit)
        first = encoded[0][0]
    else:
        folds, models = plan.folds, [found.model]
        held = problem.values(found.model, pick(x, folds[0].held))
    held, residuals = problem.decoded(held, np.concatenate([fold.held for fold in folds]), target)
    member = EnsembleMember(number, found.model, 1.0, target, residuals)
    return EnsembleCandidate(member, held, models[0], x, found.fit_seconds, first)
