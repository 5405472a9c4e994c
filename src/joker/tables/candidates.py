"""Candidates for the members of a blend: their weights, and the calibration and residuals of their mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.estimators.calibration import Calibration, fit_calibration
from joker.tables.blend import Blend, Member
from joker.tables.ensemble import MIN_GAIN, choose_weights
from joker.tables.problem import Problem
from joker.tables.validation import Fold

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A member before it has a weight, with its predictions of held-out rows."""

    member: Member
    held: Array  # (rows, t)
    first_model: Any  # of the first fold
    x: Any  # (n, d), the encoded inputs of all rows
    seconds: float = 0.0  # of the last fit
    first_encoding: Any = None  # of the first fold
    final_rows: int = 0  # of the last fit, if it had more rows than the search


@dataclass(frozen=True, eq=False)
class Learnt:
    """A blend, with its calibration and its errors on held-out rows."""

    blend: Blend
    calibration: Calibration | None  # of classes
    residuals: Array  # of numbers on held-out rows, in the unit of the target
    held_predictions: Array  # (rows, t)
    held_rows: Array
    held_blend: Blend | None  # members of the first fold, which were not trained on its held-out rows
    first_held: Array
    leaderboard: list[dict[str, Any]]

    def weight(self, candidate: Candidate) -> float:
        """Return the weight of a candidate in the blend; 0 if it is not a member."""
        weights = [member.weight for member in self.blend.members if member.model is candidate.member.model]
        return weights[0] if weights else 0.0


def blended(
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
    weights = choose_weights(held, problem.loss(rows), min_gain)
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
    blend = Blend(tuple(encodings), members, problem.classes)
    before = Blend(tuple(of_first.values()), first, problem.classes)
    return Learnt(blend, calibration, residuals, mean, rows, before, folds[0].held, leaderboard)
