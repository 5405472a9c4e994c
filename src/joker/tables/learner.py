"""From a table and its targets to a blend: encodings, members, weights, calibration and residuals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.tables.blend import Blend, Member, decision_values
from joker.tables.calibration import Calibration, fit_calibration, log_loss
from joker.tables.encoders import SCALINGS
from joker.tables.encoding import Encoding, fit_encoding
from joker.tables.ensemble import choose_weights
from joker.tables.frames import RawTable
from joker.tables.leave_one_out import LAPLACIAN, MATERN12, Sample, best_errors, fit_input_weights, make_sample
from joker.tables.search import Clock, held_out_values, tuned
from joker.tables.targets import fit_number_target, forms_to_try, residual_quantiles
from joker.tables.validation import Fold, make_folds, strata

Array = NDArray[Any]
MIN_FOLD_ROWS = 30  # with fewer rows nothing is held out
MIN_SHARE_FOR_ANOTHER = 0.25  # of the time: a further member is tried while so much is left
MAX_LAPLACIAN_ROWS = 10_000  # the L1 distance costs time for each input, and has no matrix product
MIN_WEIGHTING_ROWS = 200  # fewer rows do not determine the weights of a dozen columns
MAX_WEIGHTED_INPUTS = 512
WEIGHTS_SHARE = 0.12  # of the time: for the weights of the inputs of one kernel


@dataclass(frozen=True, eq=False)
class Learnt:
    """A blend, and what held-out rows say of it."""

    blend: Blend
    calibration: Calibration | None  # of classes
    residuals: Array  # of numbers on held-out rows, in the unit of the target
    held_predictions: Array  # (rows, t)
    held_rows: Array
    held_blend: Blend | None  # members of the first fold, which were not trained on its held-out rows
    first_held: Array
    leaderboard: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Problem:
    """What is learnt: columns or a matrix, targets, and the settings of the fit."""

    inputs: Any  # a RawTable, a sparse matrix or rows of a store
    y: Array  # (n,) codes of classes, or numbers
    classes: int
    estimator: Any  # unfitted
    clock: Clock
    seed: int
    scoring: Any = None
    columns: Mapping[str, str] | None = None
    class_weights: Array | None = None  # (n,), of the rows


@dataclass(frozen=True, eq=False)
class Candidate:
    """A member before it has a weight, with its predictions of held-out rows."""

    member: Member
    held: Array  # (rows, t)
    first_model: Any  # of the first fold


def learn(problem: Problem) -> Learnt:
    """Search, validate and weight the members of a blend."""
    n = len(problem.y)
    folds = make_folds(strata(problem.y, problem.classes), problem.seed) if n >= MIN_FOLD_ROWS else []
    folds = [fold for fold in folds if not problem.classes or len(np.unique(problem.y[fold.train])) > 1]
    form = None if problem.classes else choose_form(problem)
    encodings: list[Any] = []
    candidates: list[Candidate] = []
    leaderboard: list[dict[str, Any]] = []
    for variant in variants(problem):
        number = len(encodings)
        encodings.append(variant.encoding)
        found = _candidate(problem, number, variant, form, folds, leaderboard)
        candidates.append(found)
        if problem.clock.left < MIN_SHARE_FOR_ANOTHER * problem.clock.limit:
            break
    return _blended(problem, encodings, candidates, folds, leaderboard)


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
    sample = make_sample(problem.y, problem.classes, problem.seed)
    encoding, x, scaling = choose_scaling(problem, sample)
    n, d = x.shape
    kernels = [MATERN12, *([LAPLACIAN] if n <= MAX_LAPLACIAN_ROWS else [])]
    weighted = n >= MIN_WEIGHTING_ROWS and len(encoding.encoders) > 1 and d <= MAX_WEIGHTED_INPUTS
    yield Variant(encoding, x, scaling, "equal", 0.4 if weighted else 1.0, {})
    if not weighted:
        return
    for number, kernel in enumerate(kernels):
        weights = fit_input_weights(x[sample.rows], encoding.groups, sample, kernel, problem.clock.after(WEIGHTS_SHARE))
        if weights is not None:
            own = replace(encoding, weights=weights)
            search = {"kernels": kernel, "relevance": False}
            share = 1.0 / (len(kernels) - number)
            yield Variant(own, x * weights.astype(np.float32), scaling, f"for {kernel}", share, search)


def choose_scaling(problem: Problem, sample: Sample) -> tuple[Encoding, Array, str]:
    """Return the encoding whose leave-one-out error on a sample is the smallest, its inputs and its name."""
    best: tuple[float, Encoding, Array, str] | None = None
    for scaling in SCALINGS:
        encoding, x = fit_encoding(
            problem.inputs, problem.y, problem.classes, given=problem.columns, scaling=scaling, seed=problem.seed
        )
        loss = float(best_errors(x[sample.rows], sample).square().mean())
        if best is None or loss < best[0]:
            best = (loss, encoding, x, scaling)
    assert best is not None
    return best[1:]


def choose_form(problem: Problem) -> str:
    """Return the form of the target with the smallest squared error in its own unit, left one out, on a sample."""
    forms = forms_to_try(problem.y)
    if len(forms) == 1 or not isinstance(problem.inputs, RawTable):
        return forms[0]
    sample = make_sample(problem.y, 0, problem.seed)
    y = problem.y[sample.rows]
    losses = {}
    for form in forms:
        target = fit_number_target(y, form)
        coded = target.encode(y)
        _, x = fit_encoding(problem.inputs.some(sample.rows), coded, 0, given=problem.columns, seed=problem.seed)
        wrong = best_errors(x, Sample(sample.rows, torch.from_numpy(coded)[:, None]))[:, 0].numpy()
        found = target.decode(coded - wrong, residual_quantiles(wrong))
        losses[form] = float(np.mean((found - y) ** 2))
    return min(losses, key=lambda form: losses[form])


def _candidate(
    problem: Problem,
    number: int,
    variant: Variant,
    form: str | None,
    folds: list[Fold],
    leaderboard: list[dict[str, Any]],
) -> Candidate:
    """Tune one member, and predict held-out rows with its settings."""
    target = None if form is None else fit_number_target(problem.y, form)
    y = problem.y if target is None else target.encode(problem.y)
    x, share = variant.x, variant.share
    found = tuned(x, y, problem.estimator, problem.clock, problem.seed, problem.scoring, share, **variant.search)
    facts = {"scaling": variant.scaling, "weights": variant.weights, "target": form or "classes"}
    leaderboard += [{**facts, **trial} for trial in found.trials]
    if not folds:
        return Candidate(Member(number, found.model, 1.0, target), np.zeros((0, 1)), None)

    def values(model: Any, rows: Any) -> Array:
        if problem.classes:
            return decision_values(model, rows, problem.classes)
        return np.asarray(model.predict(rows))[:, None]

    limit = max(2.0, 0.6 * share * problem.clock.left)
    affordable = [*folds][: max(1, int(limit / max(found.fit_seconds, 1e-3)))]
    held, models = held_out_values(found.model, x, y, affordable, values, limit)
    residuals = None
    if target is not None:
        rows = np.concatenate([fold.held for fold in affordable])
        residuals = residual_quantiles(y[rows] - held[:, 0])
        held = target.decode(held[:, 0], residuals)[:, None]
    member = Member(number, found.model, 1.0, target, residuals)
    return Candidate(member, held, models[0])


def _blended(
    problem: Problem,
    encodings: list[Any],
    candidates: list[Candidate],
    folds: list[Fold],
    leaderboard: list[dict[str, Any]],
) -> Learnt:
    if not folds:
        blend = Blend((encodings[0],), (candidates[0].member,), problem.classes)
        calibration = Calibration(2.0, np.zeros(problem.classes)) if problem.classes else None
        nothing = np.zeros(0, dtype=np.intp)
        return Learnt(blend, calibration, np.zeros(0), np.zeros((0, 1)), nothing, None, nothing, leaderboard)
    rows = np.concatenate([fold.held for fold in folds])
    shortest = min(len(candidate.held) for candidate in candidates)
    rows, held = rows[:shortest], [candidate.held[:shortest] for candidate in candidates]
    weights = choose_weights(held, _loss(problem, rows))
    mean = sum(weight * one for weight, one in zip(weights, held, strict=True))
    kept = [(c, float(weight)) for c, weight in zip(candidates, weights, strict=True) if weight > 0]
    members = tuple(replace(candidate.member, weight=weight) for candidate, weight in kept)
    first = tuple(
        replace(member, model=candidate.first_model) for member, (candidate, _) in zip(members, kept, strict=True)
    )
    calibration = None
    residuals = np.zeros(0)
    if problem.classes:
        w = None if problem.class_weights is None else problem.class_weights[rows]
        calibration = fit_calibration(mean, problem.y[rows], w)
    else:
        residuals = problem.y[rows] - mean[:, 0]
    blend, before = (Blend(tuple(encodings), part, problem.classes) for part in (members, first))
    return Learnt(blend, calibration, residuals, mean, rows, before, folds[0].held, leaderboard)


def _loss(problem: Problem, rows: Array) -> Any:
    y = problem.y[rows]
    if not problem.classes:
        return lambda f: float(np.mean((f[:, 0] - y) ** 2))
    w = None if problem.class_weights is None else problem.class_weights[rows]

    def calibrated(f: Array) -> float:
        return log_loss(fit_calibration(f, y, w).probabilities(f), y, w)

    return calibrated
