"""A process that is killed, stopped or fails ends all others with a sentence; a fit continues from its checkpoint."""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from group_processes import end, run, start, wait

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
SIGNALS = [signal.SIGKILL, signal.SIGSTOP]


def first_epoch(out: Path, count: int) -> None:
    """Wait until all processes have ended their first epoch."""
    until = time.monotonic() + 60
    while not all(Path(f"{out}.{rank}").exists() for rank in range(count)):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_process_that_is_killed_ends_the_others(tmp_path: Path) -> None:
    out, timeout = tmp_path / "fit", 20.0
    running = start(2, "long", out, timeout)
    first_epoch(out, 2)
    running[1].kill()
    began = time.monotonic()
    status, said = wait(running[:1], timeout)[0]
    end(running)
    assert time.monotonic() - began < timeout
    assert status == 1
    assert "ProcessLost: all 2 processes of a group must take part in each step; process 0 got no answer" in said
    assert "another process has ended, or did not answer within 20 s." in said
    assert [path.name for path in tmp_path.iterdir() if ".part" in path.name or ".tmp" in path.name] == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
@pytest.mark.parametrize("number", SIGNALS)
def test_a_process_that_is_lost_at_any_moment(tmp_path: Path, number: signal.Signals, moment: int) -> None:
    out, lost = tmp_path / "fit", moment % 2
    running = start(2, "long", out, 3.0)
    first_epoch(out, 2)
    time.sleep(0.03 * moment)
    running[lost].send_signal(number)
    began = time.monotonic()
    status, said = wait([running[1 - lost]], 30)[0]
    end(running)
    assert (status, "ProcessLost" in said) == (1, True)
    assert time.monotonic() - began < 10


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_a_fit_continues_bit_for_bit_after_a_process_was_lost(tmp_path: Path, number: signal.Signals) -> None:
    lost, whole = tmp_path / "lost", tmp_path / "whole"
    running = start(2, "long", lost, 3.0)
    first_epoch(lost, 2)
    time.sleep(0.2)
    running[0].send_signal(number)
    assert wait([running[1]], 30)[0][0] == 1
    end(running)
    for out in (lost, whole):
        assert [status for status, _ in run(2, "resumed", out, 60)] == [0, 0]
    np.testing.assert_array_equal(np.load(f"{lost}.npy"), np.load(f"{whole}.npy"))


@pytest.mark.slow
def test_an_error_in_one_process_ends_all(tmp_path: Path) -> None:
    ended = run(2, "fails", tmp_path / "out", seconds=60)
    assert "ProcessLost" in ended[0][1]
    assert "ArithmeticError: this process fails" in ended[1][1]
    assert all(status == 1 for status, _ in ended)


@pytest.mark.slow
def test_a_checkpoint_continues_bit_for_bit(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for out, epochs in ((whole, 4), (parts, 2), (parts, 4)):
        assert [status for status, _ in run(2, "resumed", out, epochs)] == [0, 0]
    np.testing.assert_array_equal(np.load(f"{parts}.npy"), np.load(f"{whole}.npy"))


@pytest.mark.slow
@pytest.mark.parametrize("file", ["checkpoint", "model"])
def test_a_full_disk_of_the_first_process_ends_all(tmp_path: Path, file: str) -> None:
    """The checkpoint from before stays, nothing half written does, and the fit continues bit for bit."""
    out, whole = tmp_path / "fit", tmp_path / "whole"
    ended = run(2, "full_disk", out, file, seconds=60)
    assert [status for status, _ in ended] == [1, 1], ended
    assert re.match(r"InvalidFile: a (checkpoint|model) must be in a (place|folder) with room for it", ended[0][1])
    assert "ProcessLost: all 2 processes" in ended[1][1]
    assert {path.name for path in tmp_path.iterdir()} == {"fit.check"}
    for place in (out, whole):
        assert [status for status, _ in run(2, "resumed", place, 4)] == [0, 0]
    np.testing.assert_array_equal(np.load(f"{out}.npy"), np.load(f"{whole}.npy"))
