"""Where default fits end, and what they take beside a busy process.

    python benchmarks/default_fits.py                # about twenty minutes on two cores
    python benchmarks/default_fits.py --only kin40k  # sets whose name contains this; others keep their results
    python benchmarks/default_fits.py --only busy    # two fits with features, alone and beside a busy process

Every estimator is fitted with its default settings to at most 10,000 rows of five sets. A fit should end with a
relative gap of at most its tolerance, 1e-3. Two fits with random features to generated rows are repeated in turn,
alone and beside a process that never rests; the ratio is that of their median seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
import sets

import joker

ROWS = 10_000
NAMES = ("covtype-50k", "a9a", "mnist-10k", "kin40k", "protein")
NUMBERS = ("KernelRidge", "KernelHuber", "KernelSVR", "KernelLp", "KernelQuantile", "KernelRegressor")
CLASSES = ("KernelSVC", "KernelLogistic", "KernelClassifier")
BUSY, BUSY_ROWS, REPEATS = "busy", 100_000, 3


def fits(name: str) -> dict[str, Any]:
    """Return the gap, the seconds and the settings of the default fit of each estimator."""
    data = sets.SETS[name]
    part = sets.split(data).first(ROWS)
    found: dict[str, Any] = {}
    for kind in NUMBERS if data.regression else CLASSES:
        model = getattr(joker, kind)(random_state=sets.SEED)
        started = time.perf_counter()
        model.fit(part.x, part.y)
        found[kind] = {
            "gap": float(np.max(model.gap_)),
            "seconds": round(time.perf_counter() - started, 2),
            "rows": len(part.y),
            "kernel_itself": hasattr(model, "dual_coef_"),
            "conclusion": model.conclusion_,
        }
        print(name, kind, found[kind], flush=True)
    return found


def spin() -> None:
    """Keep a core busy."""
    while True:
        pass


def generated(problem: str) -> tuple[Any, Any, Any]:
    """Return generated rows and an unfitted model: two spiral arms with three inputs, or a wave."""
    rng = np.random.default_rng(sets.SEED)
    x = rng.uniform(-1, 1, (BUSY_ROWS, 3)) * [3, 3, 1]
    settings = {"standardize": False, "max_epochs": 3, "random_state": sets.SEED}
    if problem == "spirals":
        angle, radius = np.arctan2(x[:, 1], x[:, 0]), np.hypot(x[:, 0], x[:, 1])
        y = (np.sin(angle + 4 * radius + x[:, 2]) > 0) ^ (rng.random(BUSY_ROWS) < 0.05)
        return x, y, joker.KernelSVC(lam=1.0, bandwidth=0.4, n_features=1_000, **settings)
    y = np.sin(2 * x[:, 0]) * np.cos(2 * x[:, 1] + x[:, 2]) + 0.2 * rng.normal(size=BUSY_ROWS)
    return x, y, joker.KernelRidge(lam=0.1, bandwidth=0.7, n_features=500, **settings)


def busy() -> dict[str, Any]:
    """Return the seconds of two fits, alone and beside a busy process."""
    spawn = multiprocessing.get_context("spawn")
    found: dict[str, Any] = {}
    for problem in ("spirals", "waves"):
        x, y, model = generated(problem)
        times: dict[str, list[float]] = {"alone": [], BUSY: []}
        for _ in range(REPEATS):
            for way, seconds in times.items():
                other = spawn.Process(target=spin, daemon=True)
                if way == BUSY:
                    other.start()
                    time.sleep(1.0)
                started = time.perf_counter()
                model.fit(x, y)
                seconds.append(time.perf_counter() - started)
                if way == BUSY:
                    other.terminate()
                    other.join()
        medians = {way: round(statistics.median(seconds), 2) for way, seconds in times.items()}
        found[problem] = medians | {"ratio": round(medians[BUSY] / medians["alone"], 2)}
        print(problem, found[problem], flush=True)
    return found


def main() -> None:
    """Run what is asked for, and write the results after each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="sets whose name contains this, or 'busy'")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # few epochs do not reach the gap
    path = given.out / "default_fits.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sets": {}}
    results["machine"] = common.machine(sets.SEED)
    for name in (name for name in NAMES if given.only in name):
        results["sets"][name] = fits(name)
        common.write_json(path, results)
    if given.only in BUSY:
        results[BUSY] = busy()
        common.write_json(path, results)


if __name__ == "__main__":
    main()
