"""What models are fitted to: the transform of a target, with a linear trend or without one."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.tables.columns import JUDGED_ROWS
from joker.tables.goals import choose_target_transforms
from joker.tables.problem import TableProblem
from joker.tables.table import read_table
from joker.tables.targets import IDENTITY, LOG
from joker.tables.trend import trend_inputs
from joker.tuning.ard import make_sample

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
