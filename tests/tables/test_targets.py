"""Target transforms: the smearing estimate by its definition."""

from typing import Any

import numpy as np
import pytest

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
