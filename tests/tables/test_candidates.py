"""What candidates are fitted to, and the weights of rows in the ensemble that is made of them."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.tables.candidates import EnsembleCandidate, choose_target_transforms, fit_ensemble
from joker.tables.columns import JUDGED_ROWS
from joker.tables.ensemble import EnsembleMember
from joker.tables.problem import TableProblem
from joker.tables.table import read_table
from joker.tables.targets import IDENTITY, LOG
from joker.tables.trend import trend_inputs
from joker.tuning.ard import make_sample
from joker.tuning.splits import Split

ROWS = 400


def chosen(x: Any, y: Any, trend: bool = False) -> dict[bool, str | None]:
    problem = TableProblem(read_table({"a": x[:, 0], "b": x[:, 1]}), y, 0, joker.KernelRidge())
    return choose_target_transforms(problem, trend_inputs(problem) if trend else None)


@pytest.mark.parametrize(("inverse", "expected"), [(np.exp, LOG), (lambda f: f, IDENTITY)])
def test_the_transform_is_the_one_with_which_the_target_is_smooth(
    rng: np.random.Generator, inverse: Any, expected: str
) -> None:
    """Noise of one size before the inverse of the transform."""
    x = rng.normal(size=(ROWS, 2))
    f = 2 * x[:, 0] + np.sin(x[:, 1]) + 0.05 * rng.normal(size=ROWS)
    assert chosen(x, inverse(f)) == {False: expected}


def test_a_linear_target_has_a_trend_first_and_a_wave_has_none(rng: np.random.Generator) -> None:
    """Both are candidates, in the order of their errors."""
    x = rng.normal(size=(ROWS, 2))
    noise = 0.1 * rng.normal(size=ROWS)
    assert next(iter(chosen(x, 3 * x[:, 0] - x[:, 1] + noise, trend=True)))
    assert not next(iter(chosen(x, np.sin(3 * x[:, 0]) + noise, trend=True)))


def test_a_few_wrong_inputs_outside_the_sample_decide_against_a_trend(rng: np.random.Generator) -> None:
    """It would be wrong by many deviations there, where a kernel, whose inputs are clipped, is not."""
    x = rng.normal(size=(4_000, 2))
    y = 3 * x[:, 0] + np.sin(2 * x[:, 1]) + 0.5 * rng.normal(size=len(x))
    assert next(iter(chosen(x, y, trend=True)))
    sample = make_sample(y, 0, 0, JUDGED_ROWS).rows
    x[np.setdiff1d(np.arange(len(x)), sample)[:4], 0] = 60.0
    assert not next(iter(chosen(x, y, trend=True)))


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
