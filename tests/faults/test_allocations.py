"""Memory that runs out at any operation ends a fit with a sentence, and leaves no file and no damage behind."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.campaign import REFUSED, count
from program import write_table
from torch.utils._python_dispatch import TorchDispatchMode

import joker
from joker.cli import main
from joker.errors import BudgetTooSmall
from joker.estimators import KernelRidge
from joker.runtime import OutOfMemory
from joker.solvers import Descent

INPUTS = ("--columns", "a,b")
POINTS = np.array([[0.1, 0.2], [-1.0, 2.0]])


class Full(TorchDispatchMode):
    """The operation with this number fails as an allocation does; 0 counts the operations."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit, self.calls = limit, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        if self.calls == self.limit:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")
        return func(*args, **(kwargs or {}))


def chosen(calls: int, points: int) -> list[int]:
    """Return the first, the last, and some operations between."""
    return sorted({1, calls, *random.Random(0).sample(range(2, calls), min(points, calls - 2))})


@pytest.mark.parametrize("points", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], points: int) -> None:
    table = write_table(tmp_path / "train.csv")
    options = ["-t", "size", *INPUTS, "-m", "20", "--block-size", "50", "--max-epochs", "3", "--tol", "0", "--quiet"]

    def fit(limit: int, out: Path) -> tuple[int, int]:
        resume = ["--resume"] if Path(f"{out}.checkpoint").exists() else []
        with Full(limit) as memory:
            status = main(["fit", str(table), *options, "--out", str(out), *resume])
        return status, memory.calls

    status, calls = fit(0, tmp_path / "whole.joker")
    assert status == 0
    capsys.readouterr()
    for limit in chosen(calls, points):
        status, _ = fit(limit, tmp_path / "m.joker")
        said = capsys.readouterr().err
        assert status == 1, (limit, said)
        assert "memory of this machine is used up" in said, (limit, said)
        left = {path.name for path in tmp_path.iterdir()} - {"train.csv", "whole.joker"}
        assert left in (set(), {"m.joker.checkpoint"}, {"m.joker"}), limit  # the model, if only the report failed
        if "m.joker" not in left:
            assert fit(0, tmp_path / "m.joker")[0] == 0
        model, whole = joker.load(tmp_path / "m.joker"), joker.load(tmp_path / "whole.joker")
        np.testing.assert_array_equal(model.predict(POINTS), whole.predict(POINTS))
        (tmp_path / "m.joker").unlink()
        count(REFUSED)


@pytest.mark.parametrize("n_features", [None, 20])
@pytest.mark.parametrize("points", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_an_estimator_fits_again(n_features: int | None, points: int) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.sin(X[:, 0])

    def fitted(model: KernelRidge, limit: int) -> int:
        with Full(limit) as memory:
            model.fit(X, y)
        return memory.calls

    whole = KernelRidge(n_features=n_features, block_size=50, random_state=0)
    calls = fitted(whole, 0)
    model = KernelRidge(n_features=n_features, block_size=50, random_state=0)
    for limit in chosen(calls, points):
        with pytest.raises((MemoryError, RuntimeError), match="memory"):
            fitted(model, limit)
        count(REFUSED)
    fitted(model, 0)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_an_evaluation_without_memory_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be computed again is freed first; a second failure is said in a sentence."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = joker.KernelHuber(n_features=20, max_epochs=3, tol=0.0, block_size=64, random_state=0)
    expected = model.fit(X, X[:, 0]).predict(X)
    best, failures = Descent.best, [1]

    def fails(self: Descent) -> object:
        if failures[0]:
            failures[0] -= 1
            raise OutOfMemory("CUDA out of memory")
        return best(self)

    monkeypatch.setattr(Descent, "best", fails)
    np.testing.assert_array_equal(model.fit(X, X[:, 0]).predict(X), expected)
    assert failures == [0]
    failures[0] = 2
    with pytest.raises(BudgetTooSmall, match=r"the GPU must have room .* device='cpu'"):
        model.fit(X, X[:, 0])
