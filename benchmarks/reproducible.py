"""Whether the same data, seed and effort give the same model, whatever the load and the number of threads.

    python benchmarks/reproducible.py                      # ten tables; about ten minutes on two quiet cores
    python benchmarks/reproducible.py --sets wine,cells --rows 300
    python benchmarks/reproducible.py --again              # also what has a result
    python benchmarks/reproducible.py --summary            # shows the results file, and runs nothing

Each table is fitted three times, in processes of their own: with one thread; beside two processes that compute all the
time; and with several threads. The predictions of rows that no fit has seen, probabilities of classes or numbers, must
be equal bit for bit. Tables are those of `table_sets.py`, with some hundred random rows. A table that has a result is
skipped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
import process
import table_models
import table_sets

EFFORT, ROWS, SPLIT = 3, 600, 0
LONGEST = 3_600.0  # seconds of one fit
BUSY = 2  # processes beside the second run
THREADS = 4  # of the third run
RUNS = {"one thread": (1, 0), "beside busy processes": (1, BUSY), "several threads": (THREADS, 0)}


def work(send: process.Send, name: str, rows: int, effort: int, threads: int) -> None:
    """Fit some rows of a table, and send a digest of the predictions of others."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    part = table_sets.part(name, SPLIT)
    model = table_models.joker_table(part.task, table_models.Budget(effort=effort))
    before = process.cpu_seconds()
    model.fit(part.frame.iloc[:rows], part.y.iloc[:rows])
    seconds = process.cpu_seconds() - before
    found = model.predict_proba if part.task == "classification" else model.predict
    values = np.ascontiguousarray(found(part.test_frame.iloc[:rows]))
    send(
        {
            "digest": hashlib.sha256(values.tobytes()).hexdigest(),
            "mean": float(values.mean()),
            "deviation": float(values.std()),
            "held_out_score": model.held_out_score_,
            "cpu_seconds": round(seconds, 1),
        }
    )


def compute() -> None:
    """Compute until the process is ended, with less priority than others."""
    os.nice(5)
    x = np.random.default_rng(0).normal(size=(400, 400))
    while True:
        x @ x


def three_runs(name: str, rows: int, effort: int) -> dict[str, Any]:
    """Return the results of the three runs of a table, and whether their predictions are equal."""
    found: dict[str, Any] = {}
    for run, (threads, busy) in RUNS.items():
        os.environ.update(dict.fromkeys(process.THREAD_VARIABLES, str(threads)))
        beside = [multiprocessing.get_context("spawn").Process(target=compute, daemon=True) for _ in range(busy)]
        for one in beside:
            one.start()
        found[run] = process.apart(work, (name, rows, effort, threads), LONGEST)
        for one in beside:
            one.kill()
            one.join()
    digests = {result.get("digest", run) for run, result in found.items()}
    return {"equal": len(digests) == 1, "rows": rows, "effort": effort, "commit": _commit(), "runs": found}


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=common.ROOT, capture_output=True, text=True, check=False).stdout.strip()


def line(name: str, found: dict[str, Any]) -> str:
    """Return the result of a table as a line of text."""
    seconds = ", ".join(f"{result.get('cpu_seconds', 0):.1f}" for result in found["runs"].values())
    return f"{name:12s} {'equal' if found['equal'] else 'DIFFERENT'}  CPU {seconds} s"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen tables, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(table_sets.SETS[:10]), help="the tables, with commas")
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows of each table")
    parser.add_argument("--effort", type=int, default=EFFORT)
    parser.add_argument("--again", action="store_true", help="also run what has a result")
    parser.add_argument("--summary", action="store_true", help="show the results file")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "reproducible.json", help="the results file")
    options = parser.parse_args(arguments)
    results = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {"sets": {}}
    if options.summary:
        print("\n".join(line(name, found) for name, found in results["sets"].items()))
        return
    for name in options.sets.split(","):
        known = results["sets"].get(name, {}).get("runs", {})
        if known and all("digest" in run for run in known.values()) and not options.again:
            continue
        results["sets"][name] = three_runs(name, options.rows, options.effort)
        results["machine"] = common.machine(SPLIT)
        print(line(name, results["sets"][name]), flush=True)
        common.write_json(options.out, results)


if __name__ == "__main__":
    main(sys.argv[1:])
