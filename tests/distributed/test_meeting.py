"""Processes that cannot meet end in time with a sentence, whatever has the port; messages are JSON and run no code."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import joker
from joker.distributed import facts, meeting
from joker.errors import InvalidParameter, ProcessLost

MEETS = """
import contextlib, joker

with contextlib.suppress(joker.errors.ProcessLost):
    print("ready", flush=True)
    joker.distributed.group(3.0).__enter__()
"""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a port that nobody uses, at which two processes are to meet."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(number), "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    return number


@pytest.fixture
def other_program(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let another program listen at the port, which accepts connections and never answers."""
    monkeypatch.setattr(meeting, "MARGIN", 0.3)
    with socket.create_server(("127.0.0.1", port)):
        yield


def refusal(timeout: float) -> str:
    began = time.monotonic()
    with pytest.raises(ProcessLost) as error, joker.distributed.group(timeout):
        pass
    assert time.monotonic() - began < 20
    assert not torch.distributed.is_initialized()
    return str(error.value)


@pytest.mark.usefixtures("other_program")
@pytest.mark.parametrize(
    ("rank", "found"), [("0", "another program uses that port"), ("1", "not all of them have answered there")]
)
def test_a_port_that_another_program_uses(monkeypatch: pytest.MonkeyPatch, port: int, rank: str, found: str) -> None:
    monkeypatch.setenv("RANK", rank)
    assert refusal(0.2) == (
        f"all 2 processes of a group must start, and meet at 127.0.0.1:{port} within 0.2 s; for process {rank}, "
        f"{found}. Start all of them, with the same MASTER_ADDR and a MASTER_PORT that is free."
    )


@pytest.mark.usefixtures("port")
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_process_that_never_starts(monkeypatch: pytest.MonkeyPatch, rank: str) -> None:
    monkeypatch.setenv("RANK", rank)
    assert "not all of them have answered there" in refusal(0.2)


def test_a_process_that_counts_on_more_of_them(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """It ends when it has not met all, and the next step of torch would try to reach it for several times the limit."""
    others = {**os.environ, "RANK": "1", "WORLD_SIZE": "3", "PYTHONPATH": str(Path(joker.__file__).parents[1])}
    monkeypatch.setenv("RANK", "0")
    with subprocess.Popen([sys.executable, "-c", MEETS], env=others, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        began = time.monotonic()
        assert "not all of them have answered there" in refusal(3.0)
        assert time.monotonic() - began < 10
        assert other.wait(30) == 0


@pytest.mark.usefixtures("port")
@pytest.mark.parametrize(("name", "value"), [("MASTER_PORT", None), ("RANK", None), ("WORLD_SIZE", "two")])
def test_variables_of_a_launcher_that_are_wrong(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with (
        pytest.raises(InvalidParameter, match="must be started with the variables RANK, WORLD_SIZE"),
        joker.distributed.group(1),
    ):
        pass


def test_messages_are_json() -> None:
    message = facts.encoded({"a": [1.5, None, "é"]})
    assert json.loads(bytes(message.tolist())) == facts.decoded(message) == {"a": [1.5, None, "é"]}
    with pytest.raises(TypeError):
        facts.encoded(np.zeros(3))
