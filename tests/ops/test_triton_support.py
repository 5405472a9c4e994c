"""How a sum is divided among programs, and which tensors are fused."""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from joker.errors import SlowerWithoutTriton
from joker.ops import triton_support
from joker.ops.triton_support import PARTIAL_SUMS, fuses, has_triton, round_up, rows_apart, shares, sum_numbers

small = st.integers(1, 2000)


@given(
    length=st.integers(1, 10**7), step=st.sampled_from([16, 64, 128]), n=small, tile=st.sampled_from([32, 128]), t=small
)
def test_shares_cover_the_sum_once(length, step, n, tile, t):
    parts, share = shares(length, step, n, -(-n // tile), t)
    assert share % step == 0
    assert (parts - 1) * share < length <= parts * share
    assert parts == 1 or parts * n * t <= PARTIAL_SUMS
    assert (parts > 1) * parts * n * t + n * t <= sum_numbers(n, t)


def test_few_rows_fill_the_gpu_and_many_are_not_split():
    assert shares(100_000, 64, 512, 8, 1)[0] > 100
    assert shares(100_000, 64, 10**6, 15_625, 1)[0] == 1


def test_the_cpu_and_float64_are_left_to_torch():
    assert not fuses(torch.zeros(2))
    assert not fuses(torch.zeros(2, dtype=torch.float64))


@pytest.mark.gpu
def test_only_float32_is_fused():
    x = torch.zeros(2, device="cuda")
    assert fuses(x, x)
    assert not fuses(x, x.double())
    assert not fuses(x, x.cpu())


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, which is not installed")
def test_the_probe_runs(device):
    triton_support._launch_one(torch.device(device))


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'triton'"), RuntimeError("no C compiler\nat all"), OSError()]
)
def test_a_missing_compiler_is_warned_of_once(error, monkeypatch):
    def fail(device):
        raise error

    monkeypatch.setattr(triton_support, "capability", lambda device: (9, 0))
    monkeypatch.setattr(triton_support, "_launch_one", fail)
    probe = has_triton.__wrapped__
    with pytest.warns(SlowerWithoutTriton, match=rf"must be .*fails with {type(error).__name__}.* Install"):
        assert not probe(torch.device("cuda"))
    monkeypatch.setattr(triton_support, "_launch_one", lambda device: None)
    assert probe(torch.device("cuda"))


def test_an_old_gpu_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(triton_support, "capability", lambda device: (7, 5))
    assert not has_triton.__wrapped__(torch.device("cuda"))


def test_rows_are_laid_out_for_the_kernels():
    x = torch.zeros(4, 6)
    assert rows_apart(x[:, 1:3]).data_ptr() == x[:, 1:3].data_ptr()
    assert rows_apart(x.T).is_contiguous()
    assert rows_apart(x[:, ::2]).is_contiguous()


def test_round_up():
    assert [round_up(n, 4) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]


def test_triton_is_loaded_during_other_work_and_fails_silently(monkeypatch):
    called = []

    def fail(device):
        called.append(device)
        raise OSError("no C compiler")

    monkeypatch.setattr(triton_support, "capability", lambda device: (9, 0))
    monkeypatch.setattr(triton_support, "_launch_one", fail)
    for name in ("cpu", "cuda"):
        with triton_support.starting(torch.device(name)):
            pass
    assert called == [torch.device("cuda")]
