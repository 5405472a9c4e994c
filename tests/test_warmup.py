"""Warming up: nothing on a CPU, and on a GPU small fits of all kinds that were asked for."""

import pytest
import torch

import joker
from joker.errors import UnknownName
from joker.kernels import KERNELS
from joker.losses import NAMES

warming = __import__("sys").modules["joker.warmup"]  # the function has the name of its module


def test_on_a_cpu_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "_small_fit", lambda *_, **__: pytest.fail("a fit was made"))
    assert joker.warmup("cpu") == warming.CPU
    monkeypatch.setattr(warming, "_has_gpu", lambda: False)
    assert joker.warmup() == warming.CPU


@pytest.mark.parametrize("settings", [{"kernel": "rbf"}, {"loss": "log"}, {"device": "tpu"}])
def test_an_unknown_name_is_refused_on_every_device(settings: dict[str, str]) -> None:
    with pytest.raises(UnknownName):
        joker.warmup(**{"device": "cpu", **settings})


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_small_fits_of_every_kernel_and_loss_are_possible(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with fewer rows: what a GPU would run."""
    monkeypatch.setattr(warming, "ROWS", 60)
    monkeypatch.setattr(warming, "FEATURES", 16)
    monkeypatch.setattr(warming, "BLOCKS", (20, 30))
    fits = list(warming._fits([kernel], list(NAMES) if kernel == "gaussian" else ["squared"]))
    assert len({tuple(sorted(map(str, one.items()))) for one in fits}) == len(fits)
    for one in fits:
        warming._small_fit(torch.device("cpu"), 3, **one)


@pytest.mark.gpu
def test_on_a_gpu_the_second_call_finds_what_the_first_has_compiled() -> None:
    first = joker.warmup("cuda", loss="squared")
    assert first.startswith("Compiled the kernels of 4 small fits for cuda")
    assert "later processes find them" in joker.warmup("cuda", loss="squared")
