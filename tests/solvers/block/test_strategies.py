"""Every loss is solved by the cheapest strategy that it allows."""

from __future__ import annotations

import pytest
import torch

from joker import losses
from joker.losses import InfimalConvolution, Logistic, Loss, Lp, Scaled, Squared, Tube
from joker.solvers.block.box_cg import BoxCg
from joker.solvers.block.model import BlockProblem, Strategy
from joker.solvers.block.trust_region import Cholesky, ClampedCg, UnboundedCg, choose_strategy

ONE, MANY = torch.ones(4, 1), torch.arange(1.0, 4.0).expand(4, 3)  # c: one for all columns, one for each
CASES = [
    (Squared(), ONE, Cholesky),
    (Squared(), MANY[:, :2], Cholesky),
    (Squared(), MANY, UnboundedCg),
    (Logistic(), ONE, ClampedCg),
    (Lp(1.5), MANY, ClampedCg),
    (InfimalConvolution((Lp(1.5), Tube(0.1))), ONE, BoxCg),
    *((losses.get(name), ONE, BoxCg) for name in ("huber", "absolute", "epsilon_insensitive", "hinge")),
    *((losses.get(name), MANY, BoxCg) for name in ("quantile", "squared_epsilon_insensitive", "squared_hinge")),
]


@pytest.mark.parametrize(("loss", "c", "expected"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_the_first_strategy_that_suits_is_used(loss: Loss, c: torch.Tensor, expected: type[Strategy]) -> None:
    K, zero = torch.eye(4), torch.zeros(4, 3)
    strategy = choose_strategy(BlockProblem(K, zero, zero, torch.ones(4, 3), Scaled(loss, c), 300, 16))
    assert type(strategy) is expected
