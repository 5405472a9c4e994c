"""Whole fits on a CUDA GPU to a given relative duality gap: seconds, memory, and the price of a softmax.

    JOKER_DATA=/path/to/data python benchmarks/gpu_gap.py    # a few minutes on an H200
    python benchmarks/gpu_gap.py --only mnist

Exact machines of many classes, one-vs-rest, are solved to 1e-2. Ridge regression on hepc with 20,000
features is solved to 1e-3 by the method that joker chooses, and by random blocks with momentum in the same time. The
price is the time of an epoch of a softmax of ten classes, divided by that of one-vs-rest logistic regression.
Seconds are those of ``fit``; a fit to a few rows, which compiles the kernels, is run before each.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from numpy.typing import NDArray

import joker.estimators  # now: joker imports them at first use, and that time is not part of a fit
from joker import kernels
from joker.kernels.kernel import choose_bandwidth

SEED, FEW, LIMIT = 0, 4_000, 120.0
LETTERS, LETTER_ROWS, LETTER_INPUTS = 26, 20_000, 16
HEPC_FEATURES, HEPC_LAM, HEPC_DIVISOR = 20_000, 2.0**-7, 3.0
PRICE_FEATURES, PRICE_EPOCHS, PRICE_LAM = 20_000, 3, 2.0**-5
PRICE = "price of a softmax"
WAYS = {
    "logistic, one-vs-rest": ("KernelLogistic", "ovr"),
    "softmax": ("KernelLogistic", "softmax"),
    "squared hinge, one-vs-rest": ("KernelSVC", "ovr"),
    "Crammer–Singer": ("KernelSVC", "crammer_singer"),
}
Array = NDArray[Any]


def letters() -> tuple[Array, Array, Array, Array]:
    """Return generated rows of 26 classes, each with two centres: 16,000 to train on and 4,000 to test on."""
    rng = np.random.default_rng(SEED)
    y = rng.integers(LETTERS, size=LETTER_ROWS)
    centres = rng.normal(size=(2 * LETTERS, LETTER_INPUTS))
    x = centres[y + LETTERS * rng.integers(2, size=len(y))] + 0.9 * rng.normal(size=(len(y), LETTER_INPUTS))
    cut = LETTER_ROWS * 4 // 5
    return x[:cut].astype(np.float32), y[:cut], x[cut:].astype(np.float32), y[cut:]


def mnist() -> tuple[Array, Array, Array, Array]:
    """Return the official rows."""
    return *common.arrays("mnist", "train"), *common.arrays("mnist", "test")


def hepc() -> tuple[Array, Array, Array, Array]:
    """Return z-scored rows, a tenth of them to test on."""
    x, y = common.arrays("hepc")
    rows = np.random.default_rng(SEED).permutation(len(x))
    test, train = rows[: len(x) // 10], rows[len(x) // 10 :]
    mean, spread = x[train].mean(0), x[train].std(0)
    z = ((x - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)
    y = (y - y[train].mean()) / y[train].std()
    return z[train], y[train], z[test], y[test]


def fit(rows: tuple[Array, ...], name: str, **settings: Any) -> dict[str, Any]:
    """Fit once, after a fit to a few rows, and return seconds, memory, gap and test score."""
    x, y, x_test, y_test = rows
    make = getattr(joker, name)
    given = {"standardize": False, "device": "cuda", "random_state": SEED, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(**{**given, "max_epochs": 1}).fit(x[:FEW], y[:FEW])
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        model = make(**given).fit(x, y)
        seconds = time.perf_counter() - started
    found = model.predict(x_test)
    score = np.sqrt(np.mean((found - y_test) ** 2)) if name == "KernelRidge" else np.mean(found == y_test)
    return {
        "rows": len(x),
        "seconds": round(seconds, 2),
        "gap": model.gap_,
        "score": round(float(score), 5),
        "metric": "rmse" if name == "KernelRidge" else "accuracy",
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "stopped": model.stop_reason_,
        "evaluations": [[round(r["seconds"], 2), r["gap"]] for r in model.history_],
        "settings": {k: v for k, v in settings.items() if k != "memory"},
    }


def solve_letters() -> dict[str, Any]:
    """Solve 26 classes exactly to 1e-2."""
    given = {"n_features": None, "lam": 0.1, "bandwidth": 3.0, "tol": 1e-2, "max_epochs": 1_000, "max_time": LIMIT}
    return fit(letters(), "KernelSVC", multi_class="ovr", **given)


def solve_mnist() -> dict[str, Any]:
    """Solve ten classes of 60,000 rows exactly to 1e-2."""
    given = {"n_features": None, "lam": 2.0**-5, "bandwidth": 5.0, "tol": 1e-2, "max_epochs": 1_000, "max_time": LIMIT}
    return fit(mnist(), "KernelSVC", multi_class="ovr", **given)


def solve_hepc() -> dict[str, Any]:
    """Solve ridge regression to 1e-3, and let random blocks with momentum have as much time."""
    rows = hepc()
    median = choose_bandwidth("median", kernels.get("laplacian"), torch.from_numpy(rows[0]), SEED)
    given = {"kernel": "laplacian", "bandwidth": median / HEPC_DIVISOR, "lam": HEPC_LAM, "n_features": HEPC_FEATURES}
    given |= {"max_epochs": 1_000, "tol": 1e-3}
    chosen = fit(rows, "KernelRidge", max_time=4 * LIMIT, **given)
    blocks = fit(rows, "KernelRidge", max_time=chosen["seconds"], momentum=True, **given)
    return {**chosen, "same_time": blocks}


def price() -> dict[str, Any]:
    """Return the seconds of an epoch of each way to have ten classes, of the second of two runs."""
    rows, found = mnist(), {}
    given = {"n_features": PRICE_FEATURES, "lam": PRICE_LAM, "bandwidth": 5.0, "tol": 0.0, "max_epochs": PRICE_EPOCHS}
    for label, (name, classes) in 2 * list(WAYS.items()):
        one = fit(rows, name, multi_class=classes, **given)
        (first, _), *_, (last, _) = one["evaluations"]
        seconds = (last - first) / (PRICE_EPOCHS - 1)  # steps are captured in the first epoch
        found[label] = {"seconds_per_epoch": round(seconds, 3), "gap": one["gap"], "score": one["score"]}
    return {"rows": len(rows[0]), "settings": given, "ways": found}


CASES = {
    "letters, 26 classes, the exact kernel": solve_letters,
    "mnist, ten classes, the exact kernel": solve_mnist,
    "hepc, ridge, 20,000 features": solve_hepc,
    PRICE: price,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA GPU; torch finds none.")
    path = options.out / "gpu_gap.json"
    results = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() and options.only else {}
    for name, case in CASES.items():
        if options.only in name:
            results[name] = case()
            print(name, results[name], flush=True)
            machine = common.machine(SEED) | common.gpu("cuda")
            common.write_json(path, {"machine": machine, "cases": results})


if __name__ == "__main__":
    main()
