"""A fit that is killed at any step of writing a file can be repeated, with the same model; nothing is left over."""

import errno
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.campaign import REFUSED, VERIFIED, count
from program import write_table

import joker
from joker.data import convert, open_store
from joker.errors import InvalidFile

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
convert_module = importlib.import_module("joker.data.store.convert")  # the function has the same name
INPUTS = ("--columns", "a,b")

# Counts the calls of the functions that make a file durable and visible, and kills the process at one of them.
SHIM = """
import os, pathlib, signal, sys

limit, calls = int(sys.argv[1]), [0]

def counted(whole):
    def call(*arguments, **keywords):
        calls[0] += 1
        if calls[0] == limit:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **keywords)
    return call

for owner, name in ((os, "fsync"), (os, "replace"), (pathlib.Path, "touch"), (pathlib.Path, "mkdir")):
    setattr(owner, name, counted(getattr(owner, name)))
from joker.cli import main
status = main(sys.argv[2:])
print(calls[0])
sys.exit(status)
"""

# A shell starts a program in the background with SIGINT ignored, and its children inherit that.
HEARS = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
from joker.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(limit: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SHIM, str(limit), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def fit(table: Path, out: Path, *more: str) -> list[object]:
    options = ["-t", "size", *INPUTS, "-m", 20, "--block-size", 50, "--max-epochs", 3, "--tol", 0, "--quiet"]
    return ["fit", table, *options, "--out", out, *more]


@pytest.mark.slow
def test_a_fit_that_is_killed_at_every_step_of_writing_is_repeated(tmp_path: Path) -> None:
    table, out = write_table(tmp_path / "train.csv"), tmp_path / "m.joker"
    whole = run(0, *fit(table, tmp_path / "whole.joker"))
    assert whole.returncode == 0, whole.stderr
    expected = (tmp_path / "whole.joker").read_bytes()
    steps = int(whole.stdout.split()[-1])
    assert steps > 8
    for limit in range(1, steps + 1):
        killed = run(limit, *fit(table, out))
        assert killed.returncode == -signal.SIGKILL
        if out.exists():
            joker.load(out)  # it is whole
        again = run(0, *fit(table, out, "--resume"))
        assert again.returncode == 0, (limit, again.stderr)
        assert np.array_equal(joker.load(out).coef_, joker.load(tmp_path / "whole.joker").coef_)
        assert {path.name for path in tmp_path.iterdir()} == {"train.csv", "whole.joker", "m.joker"}, limit
        count(VERIFIED)
        out.unlink()
    assert len(expected) > 1000


@pytest.mark.parametrize("memory", ["1MB", "256MB"])
def test_a_disk_that_is_full_at_every_write_of_a_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(500, 3)), y=rng.normal(size=500))
    whole, limit = convert_module._write_all, 0
    calls = [0]

    def write(file: Any, view: memoryview) -> None:
        calls[0] += 1
        if calls[0] == limit:
            file.write(view[: len(view) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(file, view)

    monkeypatch.setattr(convert_module, "_write_all", write)
    convert(tmp_path / "t.npz", tmp_path / "whole.rows", memory=memory)
    total = calls[0]
    assert total >= 2
    for limit in range(1, total + 1):  # noqa: B007  # write reads it
        calls[0] = 0
        with pytest.raises(InvalidFile, match="Nothing is left of the new file"):
            convert(tmp_path / "t.npz", tmp_path / "t.rows", memory=memory)
        assert {path.name for path in tmp_path.iterdir()} == {"t.npz", "whole.rows"}
        count(REFUSED)
    limit = 0
    convert(tmp_path / "t.npz", tmp_path / "t.rows", memory=memory)
    assert np.array_equal(open_store(tmp_path / "t.rows").y, open_store(tmp_path / "whole.rows").y)
    count(VERIFIED)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_or_nothing(tmp_path: Path, number: signal.Signals) -> None:
    table, out = write_table(tmp_path / "train.csv"), tmp_path / "m.joker"
    arguments = [str(part) for part in fit(table, out)]
    arguments[arguments.index("--max-epochs") + 1] = "1000000"
    arguments[arguments.index("--tol") + 1] = "1e-300"
    command = [sys.executable, "-c", HEARS, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        kept = tmp_path / "m.joker.checkpoint"
        while not kept.exists() and process.poll() is None:
            pass
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert "--resume" in said
    assert {path.name for path in tmp_path.iterdir()} == {"train.csv", kept.name}
