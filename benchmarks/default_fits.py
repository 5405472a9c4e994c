"""Where default fits end, and what they take beside a busy process.

    python benchmarks/default_fits.py                # about twenty minutes on two cores
    python benchmarks/default_fits.py --only kin40k  # sets whose name contains this; others keep their results
    python benchmarks/default_fits.py --only busy    # the two fits of the demo, alone and beside a busy process

Every estimator is fitted with its default settings to at most 10,000 rows of five sets. A fit should end with a
relative gap of at most its tolerance, 1e-3. The fits of examples/demo.py are repeated in turn, alone and beside a
process that never rests; the ratio is that of their median seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
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
BUSY, REPEATS = "busy", 3


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


def busy() -> dict[str, Any]:
    """Return the seconds of the fits of the demo, alone and beside a busy process."""
    sys.path.insert(0, str(common.ROOT / "examples"))
    import demo

    spawn = multiprocessing.get_context("spawn")
    found: dict[str, Any] = {}
    for problem, draw in demo.PROBLEMS.items():
        x, y = draw(100_000, demo.SEED)
        times: dict[str, list[float]] = {"alone": [], BUSY: []}
        for _ in range(REPEATS):
            for way, seconds in times.items():
                other = spawn.Process(target=spin, daemon=True)
                if way == BUSY:
                    other.start()
                    time.sleep(1.0)
                started = time.perf_counter()
                demo.ours(problem, quick=False).set_params(verbose=0).fit(x, y)
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
    warnings.simplefilter("ignore")  # few epochs of the demo do not reach the gap
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
