"""A path of fifteen λ against one λ: seconds of a block step, for every kind of loss.

    python benchmarks/path.py                     # about two minutes on two cores
    python benchmarks/path.py --device cuda       # adds the results of a GPU to those of the CPU
    python benchmarks/path.py --device cuda --features 50000    # adds those of another number of features
    python benchmarks/path.py --quick             # shows that it runs

10,000 random features, blocks of 512, float32; covtype (class 2 one-vs-rest) with the L1 Laplacian kernel and σ =
median / 3 for classification losses, kin40k with the Gaussian kernel and σ = median / 2 for regression losses. Fifteen
columns have λ = 2⁻⁷ … 2⁷; the single columns have λ = 1 and λ = 2⁻⁷, the slowest of the path. The three descents step
in turn, so that other load on the machine affects all of them alike, and the medians are compared. Without the variable
JOKER_DATA the rows are generated, and the results say so.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import common
import torch

from joker import kernels
from joker.kernels.kernel import choose_bandwidth
from joker.prepare import prepare
from joker.solvers import Descent, Settings

SEED = 0
FEATURES, QUICK = 10_000, 200
PATH = [2.0**k for k in range(-7, 8)]
TOGETHER = {"cpu": 1, "cuda": 10}  # steps between two readings of the clock, as each reading waits for a GPU
MARGIN, RESIDUAL = ("squared_hinge", "hinge", "logistic"), ("squared", "huber", "epsilon_insensitive")


def rows(name: str, n: int, quick: bool) -> tuple[torch.Tensor, torch.Tensor, str]:
    """Return standardised rows, and their origin."""
    real = common.data_folder() is not None and not quick
    x, y = common.load(name) if real else common.generated(name, n, SEED)
    x, y = common.shuffled(x, y, n, SEED)
    y = y if name == common.CLASSIFICATION else common.standardise(y, y)
    return common.standardise(x, x).float(), y.float(), name if real else "generated"


def descent(loss: str, lam: list[float], features: int, device: str, n: int, quick: bool) -> tuple[Descent, str]:
    """Build the descent whose steps are timed."""
    name = common.CLASSIFICATION if loss in MARGIN else common.REGRESSION
    x, y, source = rows(name, n, quick)
    kernel = "laplacian" if loss in MARGIN else "gaussian"
    sigma = choose_bandwidth("median", kernels.get(kernel), x, SEED) / (3 if loss in MARGIN else 2)
    training = prepare(
        x.to(device),
        y.to(device),
        loss=loss,
        lam=lam,
        kernel=kernel,
        bandwidth=sigma,
        n_features=features,
        memory="1GB",
        mixed=device == "cuda",
        settings=Settings(block_size=512, seed=SEED),
    )
    return training.descent, source


def step_seconds(solve: Descent, together: int) -> float:
    """Return the mean time of consecutive steps."""
    started = time.perf_counter()
    for _ in range(together):
        solve.step()
    solve.statistics.counts.sum().item()  # waits for the device
    return (time.perf_counter() - started) / together


def measure(loss: str, features: int, device: str, n: int, steps: int, quick: bool) -> dict[str, Any]:
    """Time the steps of the three descents in turn."""
    kinds = {"path": PATH, "one": [1.0], "dearest": [PATH[0]]}
    solves = {}
    for kind, lam in kinds.items():
        solves[kind], source = descent(loss, lam, features, device, n, quick)
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for step in range(steps + 3):
        for kind, solve in solves.items():
            seconds = step_seconds(solve, TOGETHER[device])
            if step >= 3:  # the first steps are not counted, as they set up caches
                times[kind].append(seconds)
    medians = {kind: median(found) for kind, found in times.items()}
    return {
        "seconds_path": round(medians["path"], 5),
        "seconds_one": round(medians["one"], 5),
        "seconds_dearest": round(medians["dearest"], 5),
        "ratio": round(medians["path"] / medians["one"], 3),
        "ratio_to_dearest": round(medians["path"] / medians["dearest"], 3),
        "rows": source,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Time every loss, and add the results of this device to the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--features", type=int, default=FEATURES)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="a few rows and features")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    features, n, steps = (QUICK, 2_000, 3) if options.quick else (options.features, 20_000, options.steps)
    results = {}
    for loss in (*MARGIN, *RESIDUAL):
        found = results[loss] = measure(loss, features, options.device, n, steps, options.quick)
        print(
            f"{loss:20s} path {1e3 * found['seconds_path']:8.2f} ms  one {1e3 * found['seconds_one']:8.2f} ms  "
            f"ratio {found['ratio']:.2f}  to the slowest λ {found['ratio_to_dearest']:.2f}  ({found['rows']})",
            flush=True,
        )
    file = options.out / "path.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    entry = {"machine": common.machine(SEED), "features": features, "block_size": 512, "losses": results}
    kind = options.device if features in (FEATURES, QUICK) else f"{options.device}, m = {features:,}"
    common.write_json(file, before | {kind: entry})


if __name__ == "__main__":
    main()
