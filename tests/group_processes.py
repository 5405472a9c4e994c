"""Starts several processes that form a group, on this computer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import joker

WORKER = Path(__file__).with_name("group_worker.py")


def start(count: int, *arguments: object) -> list[subprocess.Popen[str]]:
    """Start so many processes that do what the arguments say."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    source = str(Path(joker.__file__).parents[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "PYTHONPATH": source}
    return [
        subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, arguments)],
            env={**os.environ, **common, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def wait(running: list[subprocess.Popen[str]], seconds: float) -> list[tuple[int, str]]:
    """Return the exit status and the errors of each process, which must end in time."""
    found = []
    try:
        for process in running:
            _, errors = process.communicate(timeout=seconds)
            found.append((process.returncode, errors))
    finally:
        end(running)
    return found


def end(running: list[subprocess.Popen[str]]) -> None:
    """End processes that are still running."""
    for process in running:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def run(count: int, *arguments: object, seconds: float = 120) -> list[tuple[int, str]]:
    """Start processes and wait for their end."""
    return wait(start(count, *arguments), seconds)
