"""Ensemble selection, decision values and intervals, by their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from joker.tables.ensemble import decision_values, make_residuals, select_ensemble


@pytest.mark.parametrize("shares", [(1, 1), (1, 2), (3, 1), (1, 1, 1), (2, 3)], ids=str)
def test_errors_that_cancel_choose_the_weights(shares: tuple[int, ...], rng: np.random.Generator) -> None:
    """A mean with these weights has no error, and no other mean of up to 20 members has a smaller one."""
    y, noise = rng.normal(size=50), rng.normal(size=(len(shares), 50))
    weights = np.array(shares) / sum(shares)
    noise[-1] = -(weights[:-1, None] * noise[:-1]).sum(axis=0) / weights[-1]
    found = select_ensemble([(y + one)[:, None] for one in noise], lambda f: float(np.mean((f[:, 0] - y) ** 2)))
    np.testing.assert_allclose(found, weights)


def test_one_member_is_kept_where_no_mean_is_better() -> None:
    y = np.linspace(0, 1, 30)
    predictions = [(y + shift)[:, None] for shift in (0.3, 0.1, 0.2)]
    found = select_ensemble(predictions, lambda f: float(np.mean((f[:, 0] - y) ** 2)))
    assert found.tolist() == [0, 1, 0]


class Fitted(ClassifierMixin, BaseEstimator):
    """A classifier with given classes and decision values."""

    def __init__(self, classes: Any, f: Any) -> None:
        self.classes_, self.f = np.asarray(classes), np.asarray(f)

    def decision_function(self, x: Any) -> Any:
        return self.f


def test_a_class_that_a_model_does_not_know_has_the_lowest_value() -> None:
    two = decision_values(Fitted([0, 2], [0.5, -0.2]), None, 4)
    assert two.tolist() == [[-0.5, -1.0, 0.5, -1.0], [0.2, -1.0, -0.2, -1.0]]
    all_of_them = decision_values(Fitted([0, 1], [0.5]), None, 2)
    assert all_of_them.tolist() == [[-0.5, 0.5]]


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_limits_leave_out_the_same_share_on_each_side(coverage: float) -> None:
    errors = np.linspace(-1, 1, 4_001) ** 3  # as many below 0 as above
    low, high = make_residuals(errors).limits(coverage)
    inside = np.mean((errors >= low) & (errors <= high))
    assert inside == pytest.approx(coverage, abs=0.01)
    assert np.mean(errors < low) == pytest.approx((1 - coverage) / 2, abs=0.01)
