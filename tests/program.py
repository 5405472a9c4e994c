"""Runs the program ``joker`` in the test process or in its own process, and writes small tables for it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import joker
from joker.cli import main


@dataclass(frozen=True)
class Done:
    """The result of a run of the program."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


def run(*arguments: object) -> Done:
    """Run the program in this process, which is quick because torch is already imported."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    return Done(status, out.getvalue(), err.getvalue())


def well(*arguments: object) -> Done:
    """Run the program, and check that it succeeds."""
    done = run(*arguments)
    assert done.status == 0, done.err
    return done


def refused(*arguments: object, status: int = 1) -> str:
    """Run the program, check that it fails with one sentence, and return the sentence."""
    done = run(*arguments)
    assert done.status == status, (done.status, done.err)
    assert done.out == ""
    assert done.err.startswith("joker: ")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    return done.err


def installed() -> list[str]:
    """The command of the installed program, or else of the module."""
    script = Path(sys.executable).with_name("joker")
    return [str(script)] if script.exists() else [sys.executable, "-m", "joker"]


def environment() -> dict[str, str]:
    """The environment of a process that imports this joker and uses one thread, so that sums are repeatable."""
    return {**os.environ, "PYTHONPATH": str(Path(joker.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """Start the program in its own process."""
    command = [*installed(), *(str(argument) for argument in arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str]) -> Done:
    """Wait for a process to end."""
    out, err = process.communicate(timeout=120)
    return Done(process.returncode, out, err)


def write_table(path: Path, rows: int = 300, seed: int = 0, colour: bool = False) -> Path:
    """Write a CSV file with inputs of very different scales, optionally a category, a class and a number to predict."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)) * [1, 100, 0.01]
    inside = np.hypot(x[:, 0], x[:, 1] / 100) < 1.2
    size = 10 + x[:, 0] - x[:, 1] / 100 + 0.1 * rng.normal(size=rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", *(["colour"] if colour else []), "place", "size"])
        for row, within, amount in zip(x, inside, size, strict=True):
            tone = [("red", "blue")[int(row[2] > 0)]] if colour else []
            writer.writerow([*row, *tone, "in" if within else "out", amount])
    return path
