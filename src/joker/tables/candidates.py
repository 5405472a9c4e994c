"""The candidates of an ensemble, what they are fitted to, and the ensemble that is made of them.

A goal has the transformed targets, beside a linear trend or without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.estimators.probabilities import Calibration, fit_calibration
from joker.tables.columns import JUDGED_ROWS
from joker.tables.encoding import fit_encoding, in_memory
from joker.tables.ensemble import MIN_GAIN, Ensemble, EnsembleMember, select_ensemble
from joker.tables.plan import SearchPlan, Step
from joker.tables.problem import TableProblem
from joker.tables.table import RawTable
from joker.tables.targets import (
    NumberTarget,
    Trend,
    fit_number_target,
    residual_quantiles,
    transforms_to_try,
    unscaled_target,
)
from joker.tables.trend import PenalisedTrend, TrendInputs
from joker.tuning.ard import ArdSample, best_loo_errors, make_sample
from joker.tuning.splits import Split

Array = NDArray[Any]
FARTHEST = 40  # rows, of those that are farthest from a trend


@dataclass(frozen=True, eq=False)
class Goal:
    """What the models of a step are fitted to: transformed targets, without their trend if there is one."""

    target: NumberTarget | None  # None for classes
    y: Array  # (n,), with the trend
    trends: PenalisedTrend | None = None
    trend: Trend | None = None
    of_rows: Array | float = 0.0  # (n,), the values of the trend

    @property
    def left(self) -> Array:  # (n,)
        """What a kernel model is fitted to."""
        return self.y if self.trend is None else self.y - self.of_rows

    @property
    def searched(self) -> Array:  # (n,)
        """What the trials of a search are fitted to: no row has a residual of a trend that was fitted to it."""
        return self.y if self.trends is None else self.trends.residuals

    def with_trend(self, rows: Array, number: int, fold: bool = False) -> Goal:
        """Return the goal with a trend of some rows; ``number`` is the index of the encoding of the trend."""
        if self.trends is None:
            return self
        inputs = self.trends.inputs.of_fold(rows) if fold else self.trends.inputs
        trend = self.trends.fit(rows, number, inputs)
        return replace(self, trend=trend, of_rows=trend.values(inputs.x))

    def total(self, values: Array, rows: Array) -> Array:  # (m, t)
        """Add the trend of some rows to the values of a kernel model."""
        return values if self.trend is None else values + np.asarray(self.of_rows)[rows, None]


def unscaled_goal(problem: TableProblem) -> Goal:
    """Return the goal of a loss of the log of the mean: the targets as they are."""
    target = unscaled_target(problem.y)
    return Goal(target, problem.targets(target))


def name_of(goal: Goal) -> str:
    """Return what a leaderboard calls a goal."""
    if goal.target is None:
        return "classes"
    return f"{goal.target.form}, beside a linear trend" if goal.trends else goal.target.form


def choose_target_transforms(problem: TableProblem, trends: TrendInputs | None) -> dict[bool, str | None]:
    """Return the best target transform without and with a trend, in the order of their losses.

    The loss is the leave-one-out squared error in the unit of y, on a sample and on the rows that are farthest from a
    trend, which a sample would miss: those of wrong inputs may have errors that are a hundred times as large.
    """
    transforms = transforms_to_try(problem.y)
    if (len(transforms) == 1 and trends is None) or not isinstance(problem.inputs, RawTable):
        return {False: transforms[0]}
    sample = make_sample(problem.y, 0, problem.seed, JUDGED_ROWS)
    rows, count = sample.rows, len(sample.rows)
    if trends is not None:
        others = np.setdiff1d(np.arange(len(problem.y)), rows)
        left = np.abs(trends.penalised(problem.y).residuals[others])
        rows = np.concatenate([rows, others[np.argsort(-left, kind="stable")[:FARTHEST]]])
    w = np.where(np.arange(len(rows)) < count, 1.0, count / max(1, len(problem.y) - len(rows) + count))
    y = problem.y[rows]
    losses: dict[tuple[bool, str], float] = {}
    for transform in transforms:
        target = fit_number_target(y[:count], transform)
        coded = target.encode(y)
        _, x = fit_encoding(problem.inputs.some(rows), coded, 0, given=problem.columns, seed=problem.seed)
        x = in_memory(x)
        choices = {False: coded}
        if trends is not None:
            choices[True] = trends.penalised(target.encode(problem.y)).residuals[rows]
        for with_trend, left in choices.items():
            deviation = float(left.std()) or 1.0
            judged = ArdSample(rows, torch.from_numpy(left / deviation)[:, None], w=w)
            wrong = best_loo_errors(x, judged)[:, 0].numpy() * deviation
            found = target.decode(coded - wrong, residual_quantiles(wrong[:count]))
            losses[with_trend, transform] = float(np.average((found - y) ** 2, weights=w))
    ranked = sorted(losses, key=lambda one: losses[one])
    return {with_trend: next(form for flag, form in ranked if flag == with_trend) for with_trend, _ in ranked}


@dataclass(frozen=True, eq=False)
class EnsembleCandidate:
    """A member before it has a weight, with its predictions of held-out rows."""

    member: EnsembleMember
    held: Array  # (rows, t)
    first_model: Any  # of the first fold
    x: Any  # (n, d), the encoded inputs of all rows
    first_encoding: Any = None  # of the first fold
    rows: int = 0  # that the model was fitted on
    larger_fits: tuple[Step, ...] = ()  # the fits on more rows that were made of it
    goal: Goal | None = None  # with the trend of all rows
    first_trend: Trend | None = None  # of the first fold


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
    kept: tuple[EnsembleCandidate, ...] = ()  # of the members, in their order
    held_loss: float = float("inf")
    losses: dict[int, float] = field(default_factory=dict)  # of held-out rows, after the steps of each effort
    plan: SearchPlan | None = None


def fit_ensemble(
    problem: TableProblem,
    encodings: list[Any],
    candidates: Sequence[EnsembleCandidate],
    folds: list[Split],
    leaderboard: list[dict[str, Any]],
    min_gain: float = MIN_GAIN,
) -> FittedEnsemble:
    """Weight the candidates, and calibrate their mean."""
    if not folds:
        ensemble = Ensemble((encodings[0],), (candidates[0].member,), problem.classes)
        calibration = Calibration(2.0, np.zeros(problem.classes)) if problem.classes else None
        nothing = np.zeros(0, dtype=np.intp)
        return FittedEnsemble(
            ensemble,
            calibration,
            np.zeros(0),
            np.zeros((0, 1)),
            nothing,
            None,
            nothing,
            leaderboard,
            (candidates[0],),
        )
    rows = np.concatenate([fold.held for fold in folds])
    held, loss = [candidate.held for candidate in candidates], problem.loss(rows)
    weights = select_ensemble(held, loss, min_gain)
    mean = sum(weight * one for weight, one in zip(weights, held, strict=True))
    kept = [(c, float(weight)) for c, weight in zip(candidates, weights, strict=True) if weight > 0]
    members = tuple(replace(candidate.member, weight=weight) for candidate, weight in kept)
    first = tuple(
        replace(member, model=candidate.first_model, trend=candidate.first_trend)
        for member, (candidate, _) in zip(members, kept, strict=True)
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
    return FittedEnsemble(
        ensemble,
        calibration,
        residuals,
        mean,
        rows,
        before,
        folds[0].held,
        leaderboard,
        tuple(candidate for candidate, _ in kept),
        loss(mean),
    )
