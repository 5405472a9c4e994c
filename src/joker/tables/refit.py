"""Do the work of a plan: search candidates, judge them on held-out rows, and fit them on more rows and on all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from joker.data.arrays import pick
from joker.errors import OutOfTime
from joker.estimators import KernelRegressor, KernelRidge, resolve
from joker.estimators.scoring import log_link_of
from joker.tables.candidates import (
    EnsembleCandidate,
    FittedEnsemble,
    Goal,
    choose_target_transforms,
    fit_ensemble,
    name_of,
    unscaled_goal,
)
from joker.tables.ensemble import MIN_GAIN, EnsembleMember
from joker.tables.plan import MAX_EPOCHS, REFIT, SearchPlan, Step, make_search_plan
from joker.tables.problem import TableProblem
from joker.tables.search import (
    FAR,
    EncodingCandidate,
    Encodings,
    RowsFit,
    best_of_other_kernels,
    fit_rows,
    has_scalings,
    random_blocks,
    rows_fit,
    searched,
)
from joker.tables.table import is_limited, memory_of_models
from joker.tables.targets import (
    IDENTITY,
    fit_number_target,
    mean_loss_to_try,
)
from joker.tables.trend import TrendInputs, trend_inputs
from joker.tuning.ard import GAUSSIAN, MATERN12
from joker.tuning.trials import current_workers

Array = NDArray[Any]
# The Laplacian is better on some sets and too slow on others: the axis "kernels" of benchmarks/search_ablations.py.
KERNELS_OF_MANY_ROWS = (GAUSSIAN, MATERN12)
TOL_OF_MANY_ROWS = 0.01  # of the gap; the axis "settings" of benchmarks/search_ablations.py compares a tenth of it
MIN_GAIN_OF_MANY_ROWS = 0.02  # share of the loss: two members on all rows take twice the time
LAMBDAS_OF_MEANS = (0.1, 0.3, 1.0, 3.0, 10.0)  # multiples of λ of the squared loss that a loss of log means tries
SMALLER_LAMBDAS = (10**-0.5, 0.1)  # multiples of λ that are tried on the rows of a search, in one fit
MIN_SMALLER_GAIN = 0.01  # share of the loss by which it must be better on a GPU, where all rows then take more epochs
NARROWER = 2**-0.5  # the step of the bandwidth of a Gaussian that is tried there
MIN_NARROWER_GAIN = 0.02  # share of the loss by which it must be better
NARROWER_OTHER = 0.5  # the step of other kernels, which depend less on the bandwidth; any gain will do
MAX_NARROWER = 3  # steps
MIN_FOLDS = 3  # for errors that are as of members on all rows
LEAST_LEARNT = 0.7  # share of the errors with three quarters of the rows
MAX_EXCESS = 0.1  # share of the loss of the best one: a candidate with a larger excess is not fitted on more rows
MAX_COMPARED = 3  # candidates of searches, with more rows
FIRST_ROWS = 1_000  # of the model that stands in where the time limit leaves no candidate
# Inputs and classes of its rows, for each second of the limit: tables are wide, or have many classes.
LEAST_FIRST_ROWS, FIRST_ENTRIES = 50, 1.5e5
LEAST_LIMIT, MOST_LIMIT = 2.0, 10.0  # seconds, that count for it
FIRST_EPOCHS = 2
FIRST_SHARE = 0.25  # of the time limit that its fit may take, before the first search
LEAST_LEFT = 0.05  # share of the time limit, below which the first fit on all rows of a search is not begun
MOST_GAP = 0.5  # of a model that is preferred for its settings: that of a fit which has hardly begun is 1
MIN_SECONDS = 0.1  # that a fit has after the time limit


def plan_of(effort: int, encodings: Encodings, trends: bool = False) -> SearchPlan:
    """Return the plan of a fit; ``trends`` says whether there are candidates with a trend."""
    problem = encodings.problem
    validation, n = problem.validation, len(problem.y)
    given = list(validation.given) or None
    scalings = not encodings.one_encoding and len(encodings.scaled) > 1
    return make_search_plan(
        effort,
        n,
        encodings.inputs,
        problem.classes,
        weightable=encodings.weightable,
        laplacian=encodings.weightable and encodings.scaled[0].has_laplacian,
        scalings=scalings and has_scalings(encodings.scaled[0].encoding),
        trends=trends,
        one_encoding=encodings.one_encoding,
        gpu=problem.gpu is not None,
        n_features=problem.estimator.n_features,
        folds=validation.count_of_folds(n),
        held_out=None if given is None else sum(len(s.held) for s in given),
    )


def fit_table(
    problem: TableProblem, effort: int, progress: Callable[[int, int, str], None] = lambda done, steps, what: None
) -> FittedEnsemble:
    """Search, validate, weight and fit the members of an ensemble."""
    limited = is_limited(problem.estimator.memory)
    trends = None if log_link_of(problem.estimator) is not None else trend_inputs(problem)
    transforms: dict[bool, str | None] = {False: None if problem.classes else IDENTITY}
    if not problem.classes and not limited:
        transforms = choose_target_transforms(problem, trends)
    encodings = Encodings(_with_transformed_target(problem, next(iter(transforms.values()))))
    search = TableSearch(problem, encodings, transforms, plan_of(effort, encodings, trends is not None), trends)
    found = search.run(progress)
    return replace(found, plan=search.plan)


class TableSearch:
    """The search of a plan, with the candidates so far."""

    def __init__(
        self,
        problem: TableProblem,
        encodings: Encodings,
        transforms: dict[bool, str | None],  # without and with a trend, the best one first
        plan: SearchPlan,
        trends: TrendInputs | None = None,
    ) -> None:
        self.problem, self.encodings, self.plan, self.trends = problem, encodings, plan, trends
        if (deviance := log_link_of(problem.estimator)) is None:
            self.goals = [self._goal(transform, with_trend) for with_trend, transform in transforms.items()]
        else:
            deviance.check_targets(torch.from_numpy(problem.y))
            self.goals = [unscaled_goal(problem)]
        # A loss of the log of the mean, which is tried with the settings of each search.
        tried = isinstance(problem.estimator, KernelRidge) and not plan.many_rows and plan.folds > 0
        self.mean_loss = mean_loss_to_try(problem.y) if tried else None
        self.folds = problem.validation.folds(problem.codes, plan.folds, plan.parts, problem.seed)
        if problem.classes:
            self.folds = [f for f in self.folds if len(np.unique(problem.y[f.train])) > 1]
        self.sample = self._sample()
        self.used: list[Any] = []  # encodings of candidates and of trends
        self.trends_encoding: int | None = None  # index
        self.candidates: list[EnsembleCandidate] = []
        self.leaderboard: list[dict[str, Any]] = []
        self.begun: tuple[EncodingCandidate, Any] | None = None  # the first encoding with the settings found for it
        self.standby: FittedEnsemble | None = None  # what a time limit that leaves no candidate returns

    def _goal(self, transform: str | None, with_trend: bool) -> Goal:
        target = None if transform is None else fit_number_target(self.problem.y, transform)
        y = self.problem.targets(target)
        return Goal(target, y, self.trends.penalised(y) if with_trend and self.trends is not None else None)

    def run(self, progress: Callable[[int, int, str], None]) -> FittedEnsemble:
        """Do all steps, and return the best ensemble of all efforts; held-out rows are the same for all of them."""
        best: FittedEnsemble | None = None
        losses: dict[int, float] = {}
        for number, step in enumerate(self.plan.steps):
            progress(number, len(self.plan.steps) + 1, str(step))
            complete = [*(s.effort for s in self.plan.steps), 0][number + 1] != step.effort
            try:
                if self.problem.clock.is_over():
                    raise OutOfTime("the time limit ended a step, which has no result")
                self._do(step)
            except OutOfTime:
                complete = False
            if (complete or self.problem.clock.stopped) and self.candidates:
                found = self._ensemble()
                best = found if best is None or found.held_loss < best.held_loss or not self.folds else best
                losses |= {step.effort: best.held_loss} if complete else {}
            if self.problem.clock.stopped:
                break
        progress(len(self.plan.steps), len(self.plan.steps) + 1, "members on all rows")
        best = best or self._without_candidate()
        best = replace(best, losses=losses, leaderboard=self.leaderboard)
        return best if self.problem.clock.stopped or self.problem.clock.is_over() else self._on_all_rows(best)

    def _do(self, step: Step) -> None:
        if step.kind == REFIT:
            if candidates := self._candidates_to_refit(step):
                self._add(self._refitted(candidates, step))
            return
        assert step.encoding is not None
        goal = self.goals[min(step.encoding.goal, len(self.goals) - 1)]
        encoding = self.encodings.candidate(step.encoding, None if goal.trends is None else goal.searched)
        self._check_time()
        if encoding is None:
            return
        if self.problem.clock.limit < float("inf") and self.standby is None:
            self.standby = self._first_model(encoding, self.problem.estimator, self._first_seconds())
        self._add(self._searched(encoding, step, goal, quick=step.effort == 1))

    def _add(self, candidate: EnsembleCandidate) -> None:
        self.candidates.append(candidate)

    def _check_time(self) -> None:
        """A step that the time limit has ended has no result."""
        if self.problem.clock.is_over():
            raise OutOfTime("the time limit ended a step, which has no result")

    def _check_time_left(self) -> None:
        """The same before the first fit on all rows of a search, where too little time remains for it."""
        clock = self.problem.clock
        clock.stopped |= not self.candidates and clock.left < LEAST_LEFT * clock.limit < float("inf")
        if clock.stopped:
            raise OutOfTime("too little time remains for the fit of a step, which has no result")
        self._check_time()

    def _check_fit(self, model: Any) -> None:
        """The same, except for a first model that is good enough to stand in."""
        if self.candidates or model.gap_ > FAR:
            self._check_time()

    def _sample(self) -> Array:
        """The rows of a search: all with cross-validation, else those that are not held out, or some of them."""
        n = len(self.problem.y)
        rows = self.folds[0].train if len(self.folds) == 1 else np.arange(n)
        if len(rows) <= self.plan.sample:
            return np.asarray(rows)
        some = np.random.RandomState(self.problem.seed).permutation(rows)[: self.plan.sample]
        return np.sort(some)

    def _searched(self, encoding: EncodingCandidate, step: Step, goal: Goal, *, quick: bool) -> EnsembleCandidate:
        """Search the settings of one member, and predict held-out rows with them."""
        problem = self.problem
        estimator = clone(problem.estimator)
        estimator.set_params(memory=memory_of_models(estimator.memory, problem.inputs, encoding.x.shape[1]))
        rows = self.sample
        if quick and len(rows) > step.rows:
            rows = np.sort(np.random.RandomState(problem.seed).permutation(rows)[: step.rows])
        if self.plan.many_rows:
            estimator.set_params(tol=TOL_OF_MANY_ROWS, device=problem.gpu or estimator.device)
            if encoding.kernels is None and not sp.issparse(encoding.x):
                encoding = replace(encoding, kernels=KERNELS_OF_MANY_ROWS)
        x = encoding.x
        model, trials = searched(problem, encoding, goal.searched, rows, estimator, step.fits, quick=quick)
        facts = {"scaling": encoding.scaling, "weights": encoding.weights, "target": name_of(goal)}
        self.leaderboard += [{"effort": step.effort, **facts, **trial} for trial in trials]
        self.begun = self.begun or (encoding, model)
        self._check_time_left()
        self.used.append(encoding.encoding)
        number = len(self.used) - 1
        if not self.folds:
            all_rows = np.arange(len(goal.y))
            goal = goal.with_trend(all_rows, self._trend_number(goal))
            model = fit_rows(problem, clone(model), x, goal.left, all_rows)
            member = EnsembleMember(number, model, 1.0, goal.target, trend=goal.trend)
            return EnsembleCandidate(member, np.zeros((0, 1)), None, x, None, len(all_rows), goal=goal)
        if self.plan.many_rows:
            goal = goal.with_trend(self.folds[0].train, self._trend_number(goal))
            if problem.gpu is not None and not quick:  # more rows compare the kernels again
                for other in best_of_other_kernels(model, trials):
                    self._add(self._fitted(number, encoding, other, goal, rows))
            return self._fitted(number, encoding, model, goal, rows)
        if self.mean_loss is not None:
            self._add(self._with_mean_loss(number, encoding, model))
        return self._cross_validated(number, encoding, model, goal)

    def _fitted(
        self, number: int, encoding: EncodingCandidate, model: Any, goal: Goal, rows: Array
    ) -> EnsembleCandidate:
        """Return a candidate that is fitted to some of the rows that are not held out."""
        fitted = fit_rows(self.problem, clone(model), encoding.x, goal.left, rows)
        self._check_fit(fitted)
        member = EnsembleMember(number, fitted, 1.0, goal.target, trend=goal.trend)
        bare = EnsembleCandidate(member, np.zeros(0), None, encoding.x, goal=goal, first_trend=goal.trend)
        return replace(self._with_model(bare, fitted, len(rows)), first_encoding=encoding.encoding)

    def _trend_number(self, goal: Goal) -> int:
        """Return the index of the encoding of trends."""
        if goal.trends is None:
            return 0
        if self.trends_encoding is None:
            self.used.append(goal.trends.inputs.encoding)
            self.trends_encoding = len(self.used) - 1
        return self.trends_encoding

    def _cross_validated(self, number: int, encoding: EncodingCandidate, model: Any, goal: Goal) -> EnsembleCandidate:
        """Fit a model to the training rows of each fold, and predict its held-out rows."""
        problem = self.problem
        parts: list[Array] = []
        models: list[Any] = []
        of_trend = self._trend_number(goal)
        encoded: list[tuple[Any, Any, Goal]] = []  # the encoding, the inputs and the goal of each fold

        def fits() -> Iterator[RowsFit]:
            for fold in self.folds:
                of_fold, x = encoding.of_fold(problem.inputs, fold.train)
                encoded.append((of_fold, x, goal.with_trend(fold.train, of_trend, fold=True)))
                yield rows_fit(problem, clone(model), x, encoded[-1][2].left, fold.train)

        for fold, fitted in zip(self.folds, current_workers().map(RowsFit.run, fits()), strict=True):
            self._check_fit(fitted)
            _, x, goal_of_fold = encoded[len(models)]
            parts.append(goal_of_fold.total(problem.values(fitted, pick(x, fold.held)), fold.held))
            models.append(fitted)
            if problem.clock.is_over() and not self.candidates:
                self.folds = self.folds[: len(parts)]
                break
        rows = np.concatenate([fold.held for fold in self.folds])
        held, residuals = problem.decoded(np.concatenate(parts), rows, goal.target)
        first, _, first_goal = encoded[0]
        first_trend = first_goal.trend
        member = EnsembleMember(number, models[0], 1.0, goal.target, residuals, first_trend)
        goal = goal.with_trend(np.arange(len(goal.y)), of_trend)
        return EnsembleCandidate(
            member, held, models[0], encoding.x, first, len(self.folds[0].train), goal=goal, first_trend=first_trend
        )

    def _with_mean_loss(self, number: int, encoding: EncodingCandidate, settings: Any) -> EnsembleCandidate:
        """Return a candidate with the settings of another, and a loss of the log of the mean."""
        problem, first = self.problem, None
        given = settings.get_params(deep=False)
        lams = [factor * given["lam"] for factor in LAMBDAS_OF_MEANS]
        unfitted = KernelRegressor(**given | {"loss": self.mean_loss, "lam": lams})
        parts, models = [], []
        for fold in self.folds:
            of_fold, x = encoding.of_fold(problem.inputs, fold.train)
            first = of_fold if first is None else first
            data = pick(x, fold.train), problem.y[fold.train], problem.given_weights(fold.train)
            path = clone(unfitted).fit_sample(data).path_
            self._check_time()
            parts.append(np.stack(path.predict(pick(x, fold.held)), axis=1))
            models.append(path.models)
        held = np.concatenate(parts)
        loss = problem.loss(np.concatenate([fold.held for fold in self.folds]))
        best = min(range(len(lams)), key=lambda one: loss(held[:, [one]]))
        model = models[0][best].set_params(lam=lams[best])
        goal = unscaled_goal(problem)
        member = EnsembleMember(number, model, 1.0, goal.target)
        rows = len(self.folds[0].train)
        return EnsembleCandidate(member, held[:, [best]], model, encoding.x, first, rows, goal=goal)

    def _ensemble(self) -> FittedEnsemble:
        gain = MIN_GAIN_OF_MANY_ROWS if self.plan.many_rows else MIN_GAIN
        return fit_ensemble(self.problem, list(self.used), self.candidates, self.folds, self.leaderboard, gain)

    def _without_candidate(self) -> FittedEnsemble:
        """Return what there is where the time limit has left no candidate: a model on few rows.

        It has the settings that a search has found, unless the time for that was too short; else it is the one that was
        fitted before the search.
        """
        if self.begun is not None:
            found = self._first_model(*self.begun, MIN_SECONDS)
            if self.standby is None or _gap(found) <= max(MOST_GAP, _gap(self.standby)):
                return found
        if self.standby is not None:
            return self.standby
        encodings = self.encodings
        encoding = encodings.only if encodings.one_encoding else encodings.scaled[0].candidate()
        return self._first_model(encoding, self.problem.estimator, self._first_seconds())

    def _first_seconds(self) -> float:
        return FIRST_SHARE * min(self.problem.clock.limit, MOST_LIMIT)

    def _first_model(self, encoding: EncodingCandidate, estimator: Any, seconds: float) -> FittedEnsemble:
        """Return a model on few rows."""
        problem = self.problem
        width = encoding.x.nnz / len(problem.y) if sp.issparse(encoding.x) else encoding.x.shape[1]
        limit = min(max(problem.clock.limit, LEAST_LIMIT), MOST_LIMIT)
        entries = FIRST_ENTRIES * limit // (width + problem.classes)
        count = int(np.clip(entries, LEAST_FIRST_ROWS, FIRST_ROWS))
        rows = np.sort(np.random.RandomState(problem.seed).permutation(len(problem.y))[:count])
        if problem.classes:  # rows of every class
            rows = np.union1d(np.unique(problem.y, return_index=True)[1], rows)
        model = clone(estimator).set_params(
            tol=FAR, max_epochs=FIRST_EPOCHS, random_state=problem.seed, max_time=max(seconds, MIN_SECONDS)
        )
        goal = replace(self.goals[0], trends=None)
        model.fit_sample((pick(encoding.x, rows), goal.y[rows], problem.given_weights(rows)))
        model.set_params(max_time=float("inf"))
        member = EnsembleMember(0, model, 1.0, goal.target)
        candidate = EnsembleCandidate(member, np.zeros((0, 1)), None, encoding.x, None, len(rows))
        return fit_ensemble(problem, [encoding.encoding], [candidate], [], self.leaderboard)

    def _candidates_to_refit(self, step: Step) -> list[EnsembleCandidate]:
        """Return the candidates of searches that had no such fit, the best first, and none far worse than the best."""
        loss = self.problem.loss(self.folds[0].held)
        again = [
            c
            for c in self.candidates
            if not c.larger_fits and not any(_same_fit(r, step) for r in self._larger_fits_of(c))
        ]
        best = min((loss(c.held) for c in self.candidates if not c.larger_fits), default=np.inf)
        again = [c for c in again if loss(c.held) <= (1 + MAX_EXCESS) * best]
        return sorted(again, key=lambda c: loss(c.held))

    def _larger_fits_of(self, candidate: EnsembleCandidate) -> list[Step]:
        same = [c for c in self.candidates if c.larger_fits and c.member.encoding == candidate.member.encoding]
        return [step for c in same for step in c.larger_fits]

    def _refitted(self, candidates: list[EnsembleCandidate], step: Step) -> EnsembleCandidate:
        """Return the best candidate with settings and a fit for more rows."""
        loss, trials = self.problem.loss(self.folds[0].held), self._step_of_trials(step)
        if trials is not None:
            candidates = [self._with_model(c, *self._fit_of(c, trials)) for c in candidates[:MAX_COMPARED]]
        candidate = min(candidates, key=lambda c: loss(c.held))
        if step.effort > 1:
            candidate = self.refined(candidate, trials, step.epochs)
        model, rows = self._fit_of(candidate, step)
        return replace(self._with_model(candidate, model, rows), larger_fits=(step,))

    def _step_of_trials(self, step: Step) -> Step | None:
        """Return the smaller fit with which settings for more rows are compared; None: it takes too long for that.

        On a GPU some hundred thousand rows take a second.
        """
        first = next((s for s in self.plan.steps if s.kind == REFIT), step)
        return first if self.problem.gpu is not None and first.n_features is None and first.rows < step.rows else None

    def _fit_of(self, candidate: EnsembleCandidate, step: Step, **settings: Any) -> tuple[Any, int]:
        """Return a model for more rows with other settings, and the number of the rows."""
        problem, (fold,) = self.problem, self.folds
        rows = fold.train
        if len(rows) > step.rows:
            rows = rows[np.sort(np.random.RandomState(problem.seed).permutation(len(rows))[: step.rows])]
        model = self.for_more_rows(candidate, step, len(rows)).set_params(**settings)
        assert candidate.goal is not None
        model.fit_sample((pick(candidate.x, rows), candidate.goal.left[rows], problem.given_weights(rows)))
        self._check_time()
        return model, len(rows)

    def for_more_rows(self, candidate: EnsembleCandidate, step: Step, n: int) -> Any:
        """Return an unfitted model by random blocks, which is usable after one epoch, for n rows."""
        problem = self.problem
        model = clone(candidate.member.model).set_params(lam=float(candidate.member.model.lam_))
        if step.n_features is not None:
            model.set_params(n_features=step.n_features)
        settings = random_blocks(model, n, candidate.x.shape[1], step.epochs, problem.gpu)
        if problem.gpu is not None:
            settings |= {"device": problem.gpu, "momentum": True}
            if resolve.stated_dtype(model.precision, model.dtype) is None:
                # The gap counts rounding errors, and held-out rows decide whether the model is used.
                settings["precision"] = "float32"
        if problem.clock.limit < float("inf"):
            settings["max_time"] = max(MIN_SECONDS, problem.clock.left)
        return model.set_params(**settings)

    def refined(
        self, candidate: EnsembleCandidate, step: Step | None = None, epochs: int = MAX_EPOCHS
    ) -> EnsembleCandidate:
        """Return a candidate with a smaller λ and a narrower bandwidth, as far as they lower the loss of held-out rows.

        The search has compared both on fewer rows, and with more rows smaller ones are better, if others are at all.
        They are compared on the rows of the search, or of a ``step`` with more of them, which has fitted the candidate.
        """
        if step is not None:
            candidate = self._with_smaller_lambda(candidate, step, epochs)
        elif not resolve.is_linear_system(candidate.member.model):
            candidate = self._better(candidate, 1.0, SMALLER_LAMBDAS, 0.0, step) or candidate
        gaussian = candidate.member.model.kernel == GAUSSIAN
        factor, gain = (NARROWER, MIN_NARROWER_GAIN) if gaussian else (NARROWER_OTHER, 0.0)
        for _ in range(MAX_NARROWER):
            narrower = self._better(candidate, factor, (1.0,), gain, step)
            if narrower is None:
                break
            candidate = narrower
        return candidate

    def _with_smaller_lambda(self, candidate: EnsembleCandidate, step: Step, epochs: int) -> EnsembleCandidate:
        """Return the candidate with the smallest λ that pays on the rows of a step.

        All rows take more epochs to the same gap: a λ with which fewer rows need more than all may have is too small.
        """
        while candidate.member.model.gap_ <= TOL_OF_MANY_ROWS:
            smaller = self._better(candidate, 1.0, SMALLER_LAMBDAS[:1], MIN_SMALLER_GAIN, step)
            if smaller is None or smaller.member.model.n_iter_ > epochs:
                break
            candidate = smaller
        return candidate

    def _better(
        self,
        candidate: EnsembleCandidate,
        bandwidth: float,  # times the present one
        lambdas: tuple[float, ...],  # times the present one
        min_gain: float,  # share of the loss
        step: Step | None,
    ) -> EnsembleCandidate | None:
        """Return the best candidate with other settings on the rows of the search, or a step; None: it is no better."""
        problem, member = self.problem, candidate.member
        loss = problem.loss(self.folds[0].held)
        settings = {
            "bandwidth": bandwidth * np.asarray(member.model.bandwidth_),
            "lam": [factor * float(member.model.lam_) for factor in lambdas],
        }
        assert candidate.goal is not None
        if step is None:
            model = clone(member.model).set_params(**settings)
            model, rows = fit_rows(problem, model, candidate.x, candidate.goal.left, self.sample), len(self.sample)
            self._check_time()
        else:
            model, rows = self._fit_of(candidate, step, **settings)
        found = [self._with_model(candidate, one, rows) for one in model.path_.models]
        best = min(found, key=lambda one: loss(one.held))
        return None if loss(best.held) >= (1 - min_gain) * loss(candidate.held) else best

    def _with_model(self, candidate: EnsembleCandidate, model: Any, rows: int) -> EnsembleCandidate:
        """Return the candidate with another model, and its predictions of held-out rows."""
        model.set_params(lam=float(model.lam_), callbacks=None, max_time=float("inf"))
        problem, held = self.problem, self.folds[0].held
        assert candidate.goal is not None
        values = candidate.goal.total(problem.values(model, pick(candidate.x, held)), held)
        values, residuals = problem.decoded(values, held, candidate.goal.target)
        member = replace(candidate.member, model=model, residuals=residuals)
        return replace(candidate, member=member, held=values, first_model=model, rows=rows)

    def _on_all_rows(self, best: FittedEnsemble) -> FittedEnsemble:
        """Fit the members on all rows, held-out rows too. Their weights and errors are those of the models before.

        A member that had a part of the rows that are not held out is kept as it is.
        """
        if not self.plan.all_rows:
            return best
        kept = list(zip(best.kept, best.ensemble.members, strict=True))
        had_all = [len(self.folds) > 1 or c.rows == len(self.folds[0].train) for c, _ in kept]
        # Without other processes, the next member is not begun when time is up.
        fits = (self._fit_on_all_rows(c, m) for (c, m), all_rows in zip(kept, had_all, strict=True) if all_rows)
        begun = takewhile(lambda _: not self.problem.clock.is_over(), fits)
        fitted = current_workers().map(RowsFit.run, begun)
        members = []
        for (candidate, member), all_rows in zip(kept, had_all, strict=True):
            model = next(fitted, None) if all_rows else None
            cut_short = model is None or (self.problem.clock.stopped and model.gap_ > member.model.gap_)
            assert candidate.goal is not None
            members.append(member if cut_short else replace(member, model=model, trend=candidate.goal.trend))
        found = replace(best, ensemble=replace(best.ensemble, members=tuple(members)))
        return found if self.problem.clock.is_over() else replace(found, residuals=self._learnt(best) * best.residuals)

    def _learnt(self, best: FittedEnsemble) -> float:
        """Return how large the errors of members on all rows are, as a share of those of the models of the folds.

        Held-out errors of models on fewer rows, without another fold, show how fast errors fall: by a power of the
        number of rows. Without this, intervals would be those of the models of the folds, and too wide.
        """
        problem = self.problem
        if problem.classes or len(self.folds) < MIN_FOLDS or problem.validation.given:
            return 1.0
        first, second = self.folds[:2]
        rows, held = np.intersect1d(first.train, second.train), first.held
        total: Any = 0.0
        for candidate, member in zip(best.kept, best.ensemble.members, strict=True):
            assert member.target is not None
            assert candidate.goal is not None
            goal = candidate.goal.with_trend(rows, self._trend_number(candidate.goal))
            model = fit_rows(problem, clone(member.model), candidate.x, goal.left, rows)
            f = goal.total(problem.values(model, pick(candidate.x, held)), held)[:, 0]
            total = total + member.weight * member.target.decode(f, member.residuals)
        truth = problem.y[held]
        fewer, more = (float(np.abs(truth - f).mean()) for f in (total, best.held_predictions[: len(held), 0]))
        if not fewer > 0:
            return 1.0
        power = np.log(len(first.train) / len(problem.y)) / np.log(len(rows) / len(first.train))
        return float(np.clip(more / fewer, LEAST_LEARNT, 1.0) ** power)

    def _fit_on_all_rows(self, candidate: EnsembleCandidate, member: EnsembleMember) -> RowsFit:
        assert candidate.goal is not None
        rows, left = np.arange(len(self.problem.y)), candidate.goal.left
        if candidate.larger_fits:
            model = self.for_more_rows(candidate, candidate.larger_fits[-1], len(rows))
            return replace(rows_fit(self.problem, model, candidate.x, left, rows), once=True)
        return rows_fit(self.problem, clone(member.model), candidate.x, left, rows)


def _gap(fitted: FittedEnsemble) -> float:
    return float(fitted.ensemble.members[0].model.gap_)


def _same_fit(done: Step, step: Step) -> bool:
    return (done.rows, done.epochs, done.n_features) == (step.rows, step.epochs, step.n_features)


def _with_transformed_target(problem: TableProblem, transform: str | None) -> TableProblem:
    """Return the problem with transformed targets: a few huge targets would decide on the encoding of all rows."""
    if transform is None or transform == IDENTITY:
        return problem
    return replace(problem, y=fit_number_target(problem.y, transform).encode(problem.y))
