"""The method of the page on adding a method solves what it says it does."""

import re
from pathlib import Path

import pytest
import torch

import joker
from joker.errors import InvalidParameter
from joker.solvers import Reason, Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-method.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def method():
    """The class that the page defines."""
    names = {"__name__": "page"}
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8"))[:2]:  # the imports and the class
        exec(compile(block, str(PAGE), "exec"), names)
    return names["GapSampling"]


def problem(n=200):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(n, 2, generator=draw, dtype=torch.float64)
    return x, torch.where(x.square().sum(1) < 1.4, 1.0, -1.0).double()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "huber", "absolute", "squared"])
def test_a_custom_method_is_certified_and_has_the_solution_of_another(method, loss):
    """Also with weights of 0 and several λ."""
    x, y = problem()
    weights = torch.ones(len(x), dtype=torch.float64)
    weights[:10] = 0
    given = {"loss": loss, "lam": [0.3, 3.0], "weights": weights, "bandwidth": 1.0}
    mine, known = (
        joker.prepare(x, y, **given, settings=Settings(method=one, block_size=64, max_epochs=500, tol=1e-6)).run()[1]
        for one in (method, "random_blocks")
    )
    assert mine.reason is known.reason is Reason.TOLERANCE
    assert (mine.alpha[:10] == 0).all()
    torch.testing.assert_close(mine.gap.primal, known.gap.primal, rtol=1e-5, atol=0)


def test_the_dual_objective_never_increases(method):
    x, y = problem()
    settings = Settings(method=method, block_size=64, max_epochs=20, tol=0)
    report = joker.prepare(x, y, loss="hinge", lam=0.3, bandwidth=1.0, settings=settings).run()[1]
    duals = torch.stack([record.gap.own_dual for record in report.records])
    assert (duals.diff(dim=0) <= 1e-9 * duals.abs().max()).all()


def test_a_continued_solve_is_the_same_bit_for_bit(method):
    x, y = problem()
    settings = Settings(method=method, block_size=64, max_epochs=3, tol=0)

    def training():
        return joker.prepare(x, y, loss="hinge", lam=0.3, bandwidth=1.0, settings=settings)

    whole, half, rest = training(), training(), training()
    expected = whole.run()[1]
    for _ in range(5):
        half.descent.step()
    rest.descent.load_state_dict(half.descent.state_dict())
    assert torch.equal(rest.run()[1].alpha, expected.alpha)


def test_it_says_what_it_cannot_solve(method):
    x, y = problem()
    with pytest.raises(InvalidParameter, match="exact kernel"):
        joker.prepare(x, y, loss="hinge", n_features=20, settings=Settings(method=method))
    classes = -torch.ones(len(x), 3, dtype=torch.float64)
    with pytest.raises(InvalidParameter, match="couple"):
        joker.prepare(x, classes, loss=joker.losses.Softmax(3), settings=Settings(method=method))
