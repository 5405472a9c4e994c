"""From a table and its targets to a blend: encodings, members, weights, calibration and residuals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from joker import kernels
from joker.data.array_rows import pick
from joker.estimators import resolve
from joker.estimators.calibration import Calibration, fit_calibration, log_loss
from joker.solvers.settings import RANDOM
from joker.tables.blend import Blend, Member, decision_values
from joker.tables.columns import DROP, GROUP, ColumnKind, decide_kinds
from joker.tables.encoders import ROBUST, SCALINGS, NumberEncoder
from joker.tables.encoding import Encoding, fit_encoding
from joker.tables.ensemble import MIN_GAIN, choose_weights
from joker.tables.frames import NUMBER, RawTable
from joker.tables.group_columns import promising_groups, rows_of_groups, same_categories, useful_groups
from joker.tables.group_encoder import GroupEncoder
from joker.tables.leave_one_out import (
    GAUSSIAN,
    LAPLACIAN,
    MATERN12,
    SAMPLE_ROWS,
    Sample,
    best_errors,
    coded_targets,
    fit_input_weights,
    make_sample,
)
from joker.tables.memory import is_limited, memory_of_models
from joker.tables.search import Clock, fit_in_time, held_out_values, tuned
from joker.tables.targets import IDENTITY, fit_number_target, forms_to_try, residual_quantiles
from joker.tables.validation import Fold, hold_out, make_folds, strata

Array = NDArray[Any]
MIN_FOLD_ROWS = 30  # with fewer rows nothing is held out
SEARCH_ROWS = 10_000  # with more rows, the search has a sample of them
HELD_OUT_ONE_IN = 10  # of many rows
MAX_HELD_OUT = 4_000
MIN_MEMBER_WEIGHT = 0.2  # with many rows, a member of less weight is not fitted on all of them
MIN_GAIN_OF_MANY_ROWS = 0.02  # share of the loss: two members on all rows have half of the time each
FINAL_EPOCHS = 15  # at most, on all of many rows
FINAL_LAMBDAS = (1.0, 10**-0.5)  # multiples of the λ of the search: with more rows the best one falls
NARROWER = 2**-0.5  # the step of a bandwidth that is tried on the rows of a search
MIN_NARROWER_GAIN = 0.02  # share of the loss by which a narrower bandwidth must be better
NARROWER_SHARE = 0.2  # of the time that is left: for one fit with a narrower bandwidth
FINAL_SHARE = 0.9  # of the time that is left: for the fits on all of many rows
MIN_SHARE_FOR_ANOTHER = 0.25  # of the time: a further member is tried while so much is left
MIN_WEIGHTING_ROWS = 200  # fewer rows do not determine the weights of a dozen columns
MAX_WEIGHTED_INPUTS = 512
MIN_GROUP_SAMPLE = 0.5  # of the rows of a sample: with fewer rows in groups, the sample is one of rows
GROUPS_SHARE = 0.05  # of the time: no further column of groups is tried after it
SCALING_SHARE = 0.1  # of the time: no further scaling of numbers is tried after it
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

    @cached_property
    def few_rows(self) -> Layout:
        """The rows of the search and the rows that are held out."""
        return make_layout(self)


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows that members are searched on, and the folds that they are weighted on.

    With few rows, the search has all of them and folds are fitted again. With many rows, some are held out, the
    search has a sample of the others, and only the members that matter are fitted on all others.
    """

    folds: list[Fold]
    rows: Array | None = None  # of the search; None: all
    share: float = 1.0  # of the time, for the search
    least_share: float = MIN_SHARE_FOR_ANOTHER  # of the time, that must be left for another candidate
    options: dict[str, Any] = field(default_factory=dict)  # of `joker.tune`
    n_features: int | None = None  # of all fits, where the number of rows decides

    @property
    def all_rows(self) -> bool:
        """Whether the search has all rows."""
        return self.rows is None

    def estimator(self, problem: Problem) -> Any:
        """The estimator of the search."""
        if self.n_features is None:
            return problem.estimator
        return clone(problem.estimator).set_params(n_features=self.n_features)


def make_layout(problem: Problem) -> Layout:
    """Divide the rows."""
    n = len(problem.y)
    codes = strata(problem.y, problem.classes)
    if n <= SEARCH_ROWS:
        folds = make_folds(codes, problem.seed) if n >= MIN_FOLD_ROWS else []
        return Layout([f for f in folds if not problem.classes or len(np.unique(problem.y[f.train])) > 1])
    fold = hold_out(codes, min(n // HELD_OUT_ONE_IN, MAX_HELD_OUT), problem.seed)
    sample = np.sort(np.random.RandomState(problem.seed).permutation(fold.train)[:SEARCH_ROWS])
    options = {} if sp.issparse(problem.inputs) else {"kernels": (GAUSSIAN, MATERN12)}
    features = resolve.n_features(problem.estimator.n_features, problem.estimator.features, kernels.get(MATERN12), n, 1)
    return Layout([fold], sample, 0.5, 0.55, options, features)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A member before it has a weight, with its predictions of held-out rows."""

    member: Member
    held: Array  # (rows, t)
    first_model: Any  # of the first fold
    x: Any  # (n, d), the encoded inputs of all rows
    seconds: float = 0.0  # of the fit on the rows of the search


def learn(problem: Problem) -> Learnt:
    """Search, validate and weight the members of a blend."""
    search = problem.few_rows
    folds = search.folds
    limited = is_limited(problem.estimator.memory)
    form = None if problem.classes else IDENTITY if limited else choose_form(problem)
    encodings: list[Any] = []
    candidates: list[Candidate] = []
    leaderboard: list[dict[str, Any]] = []
    for variant in variants(problem):
        encodings.append(variant.encoding)
        candidates.append(_candidate(problem, len(encodings) - 1, variant, form, search, leaderboard))
        if problem.clock.left < search.least_share * problem.clock.limit:
            break
    gain = MIN_GAIN if search.all_rows else MIN_GAIN_OF_MANY_ROWS
    learnt = _blended(problem, encodings, candidates, folds, leaderboard, gain)
    return learnt if search.all_rows else _on_all_rows(problem, learnt, candidates, search)


def _on_all_rows(problem: Problem, learnt: Learnt, candidates: list[Candidate], search: Layout) -> Learnt:
    """Fit the members that have a weight on all rows that are not held out, and weight them again."""
    kept = [candidate for candidate in candidates if _weight(candidate, learnt) >= MIN_MEMBER_WEIGHT]
    kept = kept or [max(candidates, key=lambda candidate: _weight(candidate, learnt))]
    (fold,) = search.folds
    final = []
    for number, chosen in enumerate(kept):
        share = _weight(chosen, learnt) / sum(_weight(one, learnt) for one in kept[number:])
        candidate = _narrowed(problem, chosen, search)
        target = candidate.member.target
        y = problem.y if target is None else target.encode(problem.y)
        model = clone(candidate.member.model).set_params(**_final_settings(candidate, len(fold.train)))
        held, seconds = pick(candidate.x, fold.held), FINAL_SHARE * share * problem.clock.left
        fit_in_time(model, pick(candidate.x, fold.train), y[fold.train], seconds, eval_set=(held, y[fold.held]))
        model = model.path_.models[model.path_.best]
        values, residuals = _decoded(_values(problem, model, held), y[fold.held], target)
        member = replace(candidate.member, model=model, residuals=residuals)
        final.append(Candidate(member, values, model, candidate.x))
    return _blended(problem, list(learnt.blend.encodings), final, search.folds, learnt.leaderboard)


def _final_settings(candidate: Candidate, n: int) -> dict[str, Any]:
    """Return the settings of a fit on n rows, for a candidate of a search on some of them.

    A solve of many rows may not end in time, and random blocks have a model of use after one epoch. With the kernel
    itself, momentum lowers their gap faster. A λ that float32 cannot resolve would need float64 and twice the time.
    """
    found = candidate.member.model
    smallest = resolve.smallest_penalty(n) if resolve.is_linear_system(found) else 0.0
    lams = sorted({max(found.lam_ * factor, smallest) for factor in FINAL_LAMBDAS}, reverse=True)
    settings = {"lam": lams, "max_epochs": FINAL_EPOCHS, "method": RANDOM}
    kernel, d = kernels.get(found.kernel), candidate.x.shape[1]
    exact = resolve.n_features(found.n_features, found.features, kernel, n, d) is None
    return settings | ({"momentum": True} if exact else {})


def _narrowed(problem: Problem, candidate: Candidate, search: Layout) -> Candidate:
    """Return a candidate with a narrower bandwidth, as long as that lowers the loss of held-out rows.

    The search has compared bandwidths on fewer rows, and a Gaussian kernel needs a narrower one with more rows. A
    Matérn kernel of order ½ with a wide bandwidth hardly depends on it.
    """
    (fold,), rows = search.folds, search.rows
    assert rows is not None
    loss = _loss(problem, fold.held)
    while candidate.member.model.kernel == GAUSSIAN:
        member, target = candidate.member, candidate.member.target
        y = problem.y if target is None else target.encode(problem.y)
        model = clone(member.model).set_params(bandwidth=NARROWER * np.asarray(member.model.bandwidth_))
        seconds = NARROWER_SHARE * problem.clock.left
        if candidate.seconds > seconds:
            break
        started = problem.clock.spent
        fit_in_time(model, pick(candidate.x, rows), y[rows], seconds)
        values, residuals = _decoded(_values(problem, model, pick(candidate.x, fold.held)), y[fold.held], target)
        if loss(values) > (1 - MIN_NARROWER_GAIN) * loss(candidate.held):
            break
        member = replace(member, model=model, residuals=residuals)
        candidate = replace(candidate, member=member, held=values, seconds=problem.clock.spent - started)
    return candidate


def _decoded(values: Array, y: Array, target: Any) -> tuple[Array, Array | None]:  # (n, t), (n,)
    """Return predictions of held-out rows in the unit of the target, and the quantiles of their residuals."""
    if target is None:
        return values, None
    residuals = residual_quantiles(y - values[:, 0])
    return target.decode(values[:, 0], residuals)[:, None], residuals


def _weight(candidate: Candidate, learnt: Learnt) -> float:
    """The weight of a candidate in a blend; 0 if it is not a member."""
    weights = [member.weight for member in learnt.blend.members if member.model is candidate.member.model]
    return weights[0] if weights else 0.0


def _values(problem: Problem, model: Any, x: Any) -> Array:  # (n, t)
    """Decision values of all classes, or predictions on the scale of the fit."""
    if problem.classes:
        return decision_values(model, x, problem.classes)
    return np.asarray(model.predict(x))[:, None]


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
    search: Layout,
    leaderboard: list[dict[str, Any]],
) -> Candidate:
    """Tune one member on the rows of the search, and predict held-out rows with its settings."""
    target = None if form is None else fit_number_target(problem.y, form)
    y = problem.y if target is None else target.encode(problem.y)
    x, share, options = variant.x, variant.share * search.share, {**search.options, **variant.search}
    rows, estimator = search.rows, clone(search.estimator(problem))
    estimator.set_params(memory=memory_of_models(estimator.memory, problem.inputs, x.shape[1]))
    some_x, some_y = (x, y) if rows is None else (pick(x, rows), y[rows])
    found = tuned(some_x, some_y, estimator, problem.clock, problem.seed, problem.scoring, share, **options)
    facts = {"scaling": variant.scaling, "weights": variant.weights, "target": form or "classes"}
    leaderboard += [{**facts, **trial} for trial in found.trials]
    if not search.folds:
        return Candidate(Member(number, found.model, 1.0, target), np.zeros((0, 1)), None, x)
    if search.all_rows:
        limit = max(2.0, 0.6 * share * problem.clock.left)
        folds = search.folds[: max(1, int(limit / max(found.fit_seconds, 1e-3)))]
        held, models = held_out_values(found.model, x, y, folds, lambda model, x: _values(problem, model, x), limit)
    else:
        folds, models = search.folds, [found.model]
        held = _values(problem, found.model, pick(x, folds[0].held))
    held, residuals = _decoded(held, y[np.concatenate([fold.held for fold in folds])], target)
    return Candidate(Member(number, found.model, 1.0, target, residuals), held, models[0], x, found.fit_seconds)


def _blended(
    problem: Problem,
    encodings: list[Any],
    candidates: list[Candidate],
    folds: list[Fold],
    leaderboard: list[dict[str, Any]],
    min_gain: float = MIN_GAIN,
) -> Learnt:
    """Weight the candidates, and calibrate their mean."""
    if not folds:
        blend = Blend((encodings[0],), (candidates[0].member,), problem.classes)
        calibration = Calibration(2.0, np.zeros(problem.classes)) if problem.classes else None
        nothing = np.zeros(0, dtype=np.intp)
        return Learnt(blend, calibration, np.zeros(0), np.zeros((0, 1)), nothing, None, nothing, leaderboard)
    rows = np.concatenate([fold.held for fold in folds])
    shortest = min(len(candidate.held) for candidate in candidates)
    rows, held = rows[:shortest], [candidate.held[:shortest] for candidate in candidates]
    weights = choose_weights(held, _loss(problem, rows), min_gain)
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
