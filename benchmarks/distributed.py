"""The step of one process against that of several, with one thread each: seconds, efficiency and bytes sent.

    python benchmarks/distributed.py                  # a few minutes; as many processes as there are cores
    python benchmarks/distributed.py --processes 1 2 4
    python benchmarks/distributed.py --nccl           # a step on a CUDA GPU, alone and as a group of one process

The efficiency of p processes is the time of one process, divided by p times the time of p. With features (m = 20,000)
a process has m/p of them, and a step sends b² + b·t numbers: the kernel matrix and the predictions of a block. With
the exact kernel (30,000 rows) a process computes n/p rows of the change, and a step sends them: n·t/p numbers. With
the squared loss a step is a product with the kernel matrix, of which a process adds its share: n·t numbers. What a
process gives to each operation of the group is counted. How often a number then travels depends on the algorithm of the
backend: about twice with a ring. Rows are those of covtype, class 2 one-vs-rest.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import common
import torch

import joker
from joker.solvers import Settings

SEED = 0
CASES: dict[str, dict[str, Any]] = {
    "features, m = 20,000": {"n": 20_480, "m": 20_000, "block": 512, "loss": "squared_hinge", "warm_up": 2},
    "exact kernel, n = 30,000": {"n": 30_000, "m": None, "block": 1_024, "loss": "hinge", "warm_up": 60},
    "exact kernel, squared loss": {"n": 30_000, "m": None, "block": 1_024, "loss": "squared", "warm_up": 2},
}
STEPS, REPEATS = 12, 5  # steps that are counted, and runs in turn, of which the middle one is reported
MEMORY = 10**9  # bytes of all processes; the first steps with the exact kernel fill it with rows, and are not counted
NCCL_STEPS = ("squared_hinge, mixed", "1 column, m 50,000", "exact gaussian")  # cases of step.py


def work(name: str) -> dict[str, Any]:
    """Take some steps as one process of a group, and return their seconds and the bytes that were sent."""
    case = CASES[name]
    torch.set_num_threads(1)
    x, y = common.arrays("covtype")
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(SEED))[: case["n"]].numpy()
    x = torch.from_numpy(x[rows]).float()
    x = (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    signs = torch.where(torch.from_numpy(y[rows]) == common.COVTYPE_POSITIVE, 1.0, -1.0)
    settings = Settings(block_size=case["block"], seed=SEED, averaging=case["m"] is not None)
    with joker.distributed.group(600.0) as processes:
        training = joker.prepare(
            x,
            signs,
            loss=case["loss"],
            lam=1 / 32,
            n_features=case["m"],
            memory=MEMORY // processes.size,
            settings=settings,
        )
        descent = training.descent
        for _ in range(case["warm_up"]):
            descent.step()
        processes.decide(True)
        before, started = processes.sent, time.perf_counter()
        for _ in range(STEPS):
            descent.step()
        processes.decide(True)
        seconds = (time.perf_counter() - started) / STEPS
        sent = (processes.sent - before) / STEPS
        b, size, itemsize = case["block"], processes.size, x.element_size()
        longest = -(-case["n"] // size)
        numbers = b * b + b if case["m"] else case["n"] if case["loss"] == "squared" else longest
        formula = itemsize * numbers
        return {
            "processes": size,
            "seconds_per_step": round(seconds, 4),
            "bytes_per_step": sent,
            "bytes_by_formula": formula if size > 1 else 0,
        }


def run(name: str, count: int) -> dict[str, Any]:
    """Run a case with so many processes, and return what the first of them has found."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    common_variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--work", name],
            env={**os.environ, **common_variables, "WORLD_SIZE": str(count), "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = [process.communicate()[0] for process in running]
    result: dict[str, Any] = json.loads(said[0].splitlines()[-1])
    return result


def nccl() -> dict[str, Any]:
    """Return the milliseconds of a step on a GPU of one process alone, and of one process that is a group on NCCL."""
    import step

    from joker.distributed import ALONE, TorchGroup, activate

    torch.distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:29517", rank=0, world_size=1)
    found: dict[str, Any] = {}
    for case in (case for case in step.cases() if case.name in NCCL_STEPS):
        times: dict[str, list[float]] = {"alone": [], "group": []}
        for _ in range(3):
            for label, processes in (("alone", ALONE), ("group", TorchGroup())):
                with activate(processes):
                    descent = case.descent()
                    for _ in range(step.WARM):
                        descent.step()
                    times[label].append(step.milliseconds(descent.step))
        alone, group = (sorted(times[label])[1] for label in ("alone", "group"))
        found[case.name] = {"alone_ms": round(alone, 4), "group_ms": round(group, 4), "ratio": round(group / alone, 3)}
        print(case.name, found[case.name], flush=True)
    torch.distributed.destroy_process_group()
    return {"machine": common.machine(SEED) | common.gpu("cuda"), "steps": found}


def main() -> None:
    """Run every case with each number of processes, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    parser.add_argument("--nccl", action="store_true", help="measure a step on a GPU only")
    parser.add_argument("--work", choices=tuple(CASES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        print(json.dumps(work(given.work)))
        return
    path = given.out / "distributed.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if given.nccl:
        common.write_json(path, results | {"nccl": nccl()})
        return
    cases: dict[str, Any] = {}
    for name, settings in CASES.items():
        repeated = [[run(name, count) for count in given.processes] for _ in range(REPEATS)]
        found = [
            sorted(one, key=lambda entry: entry["seconds_per_step"])[REPEATS // 2]
            for one in zip(*repeated, strict=True)
        ]
        alone = found[0]["seconds_per_step"]
        for entry in found:
            entry["efficiency"] = round(alone / (entry["processes"] * entry["seconds_per_step"]), 3)
            print(name, entry, flush=True)
        cases[name] = {"settings": settings, "runs": found}
    common.write_json(path, results | {"machine": common.machine(SEED), "cases": cases})


if __name__ == "__main__":
    main()
