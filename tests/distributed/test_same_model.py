"""Several processes give the model of one process, with the same certified gap."""

from pathlib import Path

import group_worker as worker
import numpy as np
import pytest
import torch
from group_processes import run

import joker
from joker.distributed import ALONE, current


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_model_does_not_depend_on_the_number_of_processes(tmp_path: Path, count: int) -> None:
    ended = run(count, "same", tmp_path / "found.pt")
    assert [status for status, _ in ended] == [0] * count, ended
    found = torch.load(tmp_path / "found.pt", weights_only=False)
    for name in worker.CASES:
        values, gap = worker.fitted(name)
        np.testing.assert_allclose(found[name][0], values, atol=1e-5, err_msg=name)
        assert abs(found[name][1] - gap) <= 1e-6 * gap + 1e-10, name
    model = joker.KernelHuber(**worker.BASE, n_features=50).fit(worker.X, worker.y)
    assert np.abs(found["from a store"] - model.predict(worker.X)).mean() < 0.1  # its rows are in another order
    # One process continues from the checkpoint of several, and reads their model.
    again = worker.resumed_fit(str(tmp_path / "found.pt"), 4)
    whole = worker.resumed_fit(str(tmp_path / "whole"), 4)
    assert again.n_iter_ == whole.n_iter_ == 4
    np.testing.assert_allclose(again.decision_function(worker.X), whole.decision_function(worker.X), atol=1e-9)
    saved = joker.load(tmp_path / "found.pt.joker")
    assert saved.n_iter_ == 2
    assert saved.score(worker.X, worker.CLASSES) > 0.7


@pytest.mark.gpu
def test_processes_that_share_a_gpu_give_the_model_of_one(tmp_path: Path) -> None:
    ended = run(2, "one_gpu", tmp_path / "found.pt")
    assert [status for status, _ in ended] == [0, 0], ended
    for name, values in torch.load(tmp_path / "found.pt", weights_only=False).items():
        np.testing.assert_allclose(values, worker.gpu_fit(name), atol=1e-5, err_msg=name)


def test_one_process_is_a_group_without_messages() -> None:
    with joker.distributed.group() as processes:
        assert processes is ALONE is current()
        x = torch.ones(3, 2)
        assert processes.sum_(x) is x
        assert processes.whole(x, 3) is x
        assert processes.decide("a") == "a"
        assert processes.part(10) == slice(0, 10)


def test_the_parts_of_all_processes_are_the_whole() -> None:
    class Third(joker.distributed.Group):
        size = 3

    for n in (3, 7, 9, 100):
        parts = [Third().part(n, rank) for rank in range(3)]
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n))
        assert max(p.stop - p.start for p in parts) - min(p.stop - p.start for p in parts) <= 1
