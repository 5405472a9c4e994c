"""What the models of a step are fitted to: transformed targets, beside a linear trend or without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.tables.columns import JUDGED_ROWS
from joker.tables.encoding import fit_encoding, in_memory
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
