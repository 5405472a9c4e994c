"""The candidates of an ensemble, and the ensemble that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.estimators.probabilities import Calibration, fit_calibration
from joker.tables.ensemble import MIN_GAIN, Ensemble, EnsembleMember, select_ensemble
from joker.tables.goals import Goal
from joker.tables.plan import SearchPlan, Step
from joker.tables.problem import TableProblem
from joker.tables.targets import Trend
from joker.tuning.splits import Split

Array = NDArray[Any]


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
