"""Sizes, devices, generators, tiles and interrupts."""

import os
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from joker.errors import BudgetTooSmall, InvalidParameter, UnknownName
from joker.runtime import (
    format_bytes,
    generator,
    hold_interrupts,
    parse_bytes,
    parse_device,
    parse_dtype,
    peak_bytes,
    tiles,
)
from joker.runtime.devices import use_own_gpu

# Sizes.

SIZES = [
    (1, 1),
    (64, 64),
    (np.int64(10**9), 10**9),
    ("7", 7),
    ("7B", 7),
    ("1kB", 1000),
    ("1KB", 1000),
    ("1k", 1000),
    ("500MB", 500 * 10**6),
    ("500 mb", 500 * 10**6),
    (" 1.5 GiB ", 3 * 2**29),
    ("1KiB", 1024),
    ("2MiB", 2**21),
    (".5 TB", 5 * 10**11),
    ("3T", 3 * 10**12),
    ("1TiB", 2**40),
]


@pytest.mark.parametrize(("size", "expected"), SIZES)
def test_a_size_is_read(size, expected):
    found = parse_bytes(size)
    assert found == expected
    assert type(found) is int


@pytest.mark.parametrize(
    "size",
    [0, -1, 1e9, True, None, "", "MB", "lots", "-5MB", "0", "0.5", "5XB", "1e9", "5 MB 3", "1,5GB", "5MBB", b"5MB"],
)
def test_a_wrong_size_is_refused(size):
    message = rf"memory must be a positive number of bytes .*'500MB'; got {re.escape(repr(size))}\. Use a number .*GiB"
    with pytest.raises(InvalidParameter, match=message):
        parse_bytes(size)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (2_500_000, "2.5 MB"),
        (3.2e9, "3.2 GB"),
        (7e14, "700 TB"),
    ],
)
def test_a_size_is_written(size, text):
    assert format_bytes(size) == text


@given(st.integers(1, 10**15))
def test_a_size_that_was_written_can_be_read(size):
    """A user may use a size from a message as an argument."""
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=1e-3)


# Devices and types.


def test_no_device_is_the_cpu():
    assert parse_device(None) == parse_device("cpu") == parse_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("device", ["gpu", "cpux", "", 1.5, ["cpu"]])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(
        UnknownName, match=rf"device must name a torch device; got {re.escape(repr(device))}\. Use 'cpu'"
    ):
        parse_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_does_not_exist_is_refused(device):
    with pytest.raises(
        InvalidParameter, match=f"device '{device}' needs a CUDA GPU; torch finds none. Use device='cpu'"
    ):
        parse_device(device)


@pytest.mark.parametrize("dtype", ["float32", torch.float32])
def test_a_type_can_be_given_by_name(dtype):
    assert parse_dtype(dtype) is torch.float32


@pytest.mark.parametrize("dtype", ["float16", "double", torch.float16, torch.int64, None, 32, np.float32, ["float32"]])
def test_other_types_are_refused(dtype):
    with pytest.raises(UnknownName, match="dtype must be one of float32, float64; got"):
        parse_dtype(dtype)


# Generators.


def test_a_generator_has_a_seed_and_a_name():
    def draw(seed, name):
        return torch.rand(4, generator=generator(seed, name)).tolist()

    assert draw(0, "blocks") == draw(0, "blocks")
    others = [draw(0, "blocks"), draw(1, "blocks"), draw(0, "features"), draw(0, "order/1"), draw(0, "order/2")]
    others += [draw(-1, "blocks"), draw(2**70, "blocks"), draw(2**70 + 1, "blocks")]
    assert len({tuple(values) for values in others}) == len(others)


def test_a_generator_is_the_same_on_every_machine():
    """A change of this number changes the model of every seed."""
    assert generator(0, "blocks").initial_seed() == 5_795_718_008_425_366_132


# Tiles.


@given(n=st.integers(0, 300), row=st.integers(0, 50), budget=st.integers(1, 2000))
def test_tiles_cover_every_row_once_within_the_budget(n, row, budget):
    if row > budget and n > 0:
        with pytest.raises(BudgetTooSmall):
            tiles(n, row, budget, "features")
        return
    cut = list(tiles(n, row, budget, "features"))
    assert [i for tile in cut for i in range(n)[tile]] == list(range(n))
    lengths = [tile.stop - tile.start for tile in cut]
    assert all(0 < length * row <= budget for length in lengths) or row == 0
    # As few as will do: each but the last is full.
    assert all((length + 1) * max(row, 1) > budget for length in lengths[:-1])


@given(n=st.integers(0, 300), fixed=st.integers(0, 100), row=st.integers(1, 50), budget=st.integers(150, 2000))
def test_tiles_of_work_that_is_not_proportional(n, fixed, row, budget):
    cut = list(tiles(n, lambda rows: fixed + rows * row, budget, "features"))
    assert [i for tile in cut for i in range(n)[tile]] == list(range(n))
    assert all(fixed + (tile.stop - tile.start) * row <= budget for tile in cut)
    assert all(fixed + (tile.stop - tile.start + 1) * row > budget for tile in cut[:-1])
    if n:
        with pytest.raises(BudgetTooSmall, match=f"Use memory={budget + row} "):
            tiles(n, lambda rows: budget + rows * row, budget, "features")


def test_a_budget_below_one_row_is_refused_at_once():
    """At the call, not at the first tile; and the size in the message is sufficient."""
    with pytest.raises(
        BudgetTooSmall, match=r"one row of features; 50 B is given and one row takes 80 B\. Use memory=80"
    ):
        tiles(10, 80, 50, "features")
    assert len(list(tiles(10, 80, 80, "features"))) == 10


# Interrupts.


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with hold_interrupts():
            done.append("before")
            interrupt()
            done.append("after")
        done.append("outside")
    assert done == ["before", "after"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_nothing_happens():
    with hold_interrupts():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_several_interrupts_are_handled_once():
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with hold_interrupts():
        interrupt()
        interrupt()
        assert seen == []
    assert seen == [signal.SIGINT]


def test_a_block_within_a_block_waits_for_the_outer_one():
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with hold_interrupts():
            with hold_interrupts():
                interrupt()
                done.append("inner")
            done.append("outer")
        done.append("outside")
    assert done == ["inner", "outer"]


def test_an_error_is_raised_and_the_handler_is_restored():
    with pytest.raises(ZeroDivisionError), hold_interrupts():
        1 / 0  # noqa: B018
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with hold_interrupts():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_can_use_it():
    """Only the main thread may set handlers, but a solve must run in any thread."""
    done = []

    def work():
        with hold_interrupts():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


# The peak of memory.


def test_the_peak_of_the_process_is_what_the_system_says() -> None:
    peak = peak_bytes(torch.device("cpu"))
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs Linux")
    said = int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024
    assert peak == pytest.approx(said, rel=0.01)


def test_the_peak_is_unknown_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joker.runtime.devices.resource", None)
    assert peak_bytes(torch.device("cpu")) is None


@pytest.mark.parametrize(("platform", "expected"), [("linux", 2048 * 1024), ("darwin", 2048)])
def test_the_system_reports_the_peak_in_its_own_unit(
    platform: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(ru_maxrss=2048)
    system = SimpleNamespace(getrusage=lambda who: usage, RUSAGE_SELF=0)
    monkeypatch.setattr("joker.runtime.devices.resource", system)
    monkeypatch.setattr("sys.platform", platform)
    assert peak_bytes(torch.device("cpu")) == expected


@pytest.mark.gpu
def test_the_peak_of_a_gpu_is_that_of_torch() -> None:
    before = peak_bytes(torch.device("cuda"))
    torch.ones(before + 2**20, dtype=torch.uint8, device="cuda")
    assert peak_bytes(torch.device("cuda")) > before + 2**20


def test_each_process_of_a_computer_uses_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for process in range(4):  # more processes than GPUs share them
        use_own_gpu(process)
    assert chosen == [0, 1, 0, 1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    use_own_gpu(1)
    assert len(chosen) == 4
