"""Weights of rows in the losses of candidates, and in what an ensemble learns from held-out rows."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.tables.candidates import EnsembleCandidate, fit_ensemble
from joker.tables.ensemble import EnsembleMember
from joker.tables.problem import TableProblem
from joker.tuning.splits import Split


def classes_of(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Codes, whole weights and decision values of rows of three classes."""
    y, w = np.arange(90) % 3, rng.integers(1, 5, 90)
    return y, w, np.eye(3)[y] + rng.normal(size=(90, 3))


def problem_of(y: Any, w: Any = None, classes: int = 3) -> TableProblem:
    return TableProblem(None, y, classes, joker.KernelClassifier(), row_weights=w)


def test_a_row_of_weight_two_has_the_loss_of_two_rows(rng: np.random.Generator) -> None:
    y, w, f = classes_of(rng)
    twice = np.repeat(np.arange(90), w)
    weighted = problem_of(y, w.astype(float)).loss(np.arange(90))(f)
    repeated = problem_of(y[twice]).loss(np.arange(len(twice)))(f[twice])
    assert weighted == pytest.approx(repeated, rel=1e-3)
    assert weighted != pytest.approx(problem_of(y).loss(np.arange(90))(f), rel=1e-2)
    numbers = problem_of(f[:, 0], w.astype(float), 0).loss(np.arange(90))(f[:, 1:])
    assert numbers == pytest.approx(problem_of(f[twice, 0], None, 0).loss(np.arange(len(twice)))(f[twice, 1:]))


def test_a_row_of_weight_two_counts_twice_in_the_calibration(rng: np.random.Generator) -> None:
    y, _, f = classes_of(rng)
    w = np.where(y == 0, 6, 1)
    twice = np.repeat(np.arange(90), w)

    def probabilities(problem: TableProblem, held: Any) -> Any:
        candidate = EnsembleCandidate(EnsembleMember(0, None), held, None, None)
        rows = np.arange(len(held))
        fitted = fit_ensemble(problem, [None], [candidate], [Split(rows, rows)], [])
        assert fitted.calibration is not None
        return fitted.calibration.probabilities(f)

    weighted, repeated = probabilities(problem_of(y, w.astype(float)), f), probabilities(problem_of(y[twice]), f[twice])
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)
    assert weighted[:, 0].mean() > probabilities(problem_of(y), f)[:, 0].mean() + 0.1
