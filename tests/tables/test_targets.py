"""Target transforms: the smearing estimate by its definition."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.errors import InvalidData
from joker.tables.targets import CUBE_ROOT, IDENTITY, LOG, fit_number_target


@pytest.mark.parametrize(("transform", "inverse"), [(LOG, np.exp), (CUBE_ROOT, lambda f: f**3)])
def test_the_smearing_estimate_is_the_mean_over_the_residuals(transform: str, inverse: Any) -> None:
    y = np.exp(np.linspace(-1, 2, 40))
    target = fit_number_target(y, transform)
    f, residuals = np.linspace(-1, 0.5, 7), np.array([-0.3, 0.0, 0.1, 0.6])
    raw = inverse((f[:, None] + residuals) * target.deviation + target.mean)
    np.testing.assert_allclose(target.decode(f, residuals), raw.mean(axis=1))
    np.testing.assert_allclose(target.decode(target.encode(y)), y)
    assert fit_number_target(y, IDENTITY).decode(np.zeros(1), residuals) == pytest.approx(y.mean())


@pytest.mark.parametrize("size", [-1e151, 1e160, 1e307])
def test_targets_whose_squares_are_infinite_are_refused(size: float) -> None:
    rows = [{"a": float(k)} for k in range(20)]
    with pytest.raises(InvalidData, match=r"targets must be at most 1e\+150 in size"):
        joker.JokerRegressor(effort=1).fit(rows, [*range(19), size])


def test_r_squared_of_small_targets() -> None:
    rows = [{"a": float(k)} for k in range(40)]
    y = np.array([np.sin(k) for k in range(40)])
    scores = [
        joker.JokerRegressor(effort=1, random_state=0).fit(rows, y * unit).score(rows, y * unit) for unit in (1, 1e-300)
    ]
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)
