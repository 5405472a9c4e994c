"""KernelOneClass against scikit-learn's OneClassSVM: the same problem, its solution, its scores and the seconds.

    python benchmarks/one_class.py           # some minutes on one core
    python benchmarks/one_class.py --quick   # generated rows; needs no files

Rows of one kind are usual: a class, or targets below the median. Both programs are fitted to some usual rows, with the
Gaussian kernel, the same ν and bandwidth, and one thread; inputs are z-scores of the training rows. The AUC is that of
other usual rows against rows of the other kinds. OneClassSVM has its default tolerance and a cache that holds the
kernel matrix; joker has its default tolerance, and a second line has 500 random features. The seconds are the least
of three repeats. The gap of OneClassSVM is computed from its dual variables, as joker's is: relative to the objective.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

import joker

SEED, NU, TRAIN, TEST, REPEATS, CACHE_MB = 0, 0.1, 5_000, 2_000, 3, 2_000
FEATURES = 500
USUAL = {  # by the targets of a set
    "covtype": lambda y: y == common.COVTYPE_POSITIVE,
    "mnist": lambda y: y == 1,
    "a9a": lambda y: y < 0,
    "higgs33k": lambda y: y <= 0,
    "protein": lambda y: y < np.median(y),
}


def rows(name: str, quick: bool) -> tuple[Any, Any, Any]:
    """Return usual rows to fit, and other rows with whether each is usual."""
    if quick:
        x, y = (part.numpy() for part in common.generated(common.CLASSIFICATION, 1_000, SEED))
        usual, (train, test) = y > 0, (200, 100)
    else:
        x, y = common.arrays(name)
        usual, train, test = USUAL[name](y), TRAIN, TEST
    rng = np.random.default_rng(SEED)
    inside, outside = rng.permutation(np.flatnonzero(usual)), rng.permutation(np.flatnonzero(~usual))
    fitted, scored = x[inside[:train]], np.concatenate([x[inside[train : train + test]], x[outside[:test]]])
    spread = fitted.std(0)
    spread[spread == 0] = 1.0
    answers = np.arange(len(scored)) < min(test, len(inside) - train)
    fitted, scored = ((part - fitted.mean(0)) / spread for part in (fitted, scored))
    return fitted.astype(np.float64), scored.astype(np.float64), answers


def least_seconds(fit: Any) -> tuple[Any, float]:
    """Return the result of a fit and the seconds of the fastest repeat."""
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        model = fit()
        taken.append(time.perf_counter() - started)
    return model, min(taken)


def gap_of(model: OneClassSVM, x: Any, gamma: float) -> float:
    """Return the duality gap of a solution of LIBSVM, divided by its dual objective."""
    alpha = np.zeros(len(x))
    alpha[model.support_] = model.dual_coef_[0]
    f = rbf_kernel(x, x[model.support_], gamma) @ model.dual_coef_[0]
    total = alpha.sum()
    rho = np.sort(f)[int(np.ceil(total * (1 - 1e-12))) - 1]
    norm = alpha @ f
    return float((norm - total * rho + np.maximum(rho - f, 0).sum()) / (norm / 2))


def measure(name: str, quick: bool) -> dict[str, dict[str, float]]:
    """Return the AUC, the gap and the seconds of each program on a set."""
    x, new, usual = rows(name, quick)
    shared = {"nu": NU, "standardize": False, "random_state": SEED}
    exact, seconds = least_seconds(lambda: joker.KernelOneClass(n_features=None, **shared).fit(x))
    sigma = float(exact.bandwidth_)
    shared["bandwidth"], gamma = sigma, 1 / (2 * sigma**2)
    found = {"joker": scored(exact, new, usual, seconds, exact.gap_)}
    m = 100 if quick else FEATURES
    features, seconds = least_seconds(lambda: joker.KernelOneClass(n_features=m, **shared).fit(x))
    found["joker, random features"] = scored(features, new, usual, seconds, features.gap_)
    theirs, seconds = least_seconds(lambda: OneClassSVM(nu=NU, gamma=gamma, cache_size=CACHE_MB).fit(x))
    found["OneClassSVM"] = scored(theirs, new, usual, seconds, gap_of(theirs, x, gamma))
    worst = np.abs(exact.score_samples(new) - theirs.score_samples(new)).max()
    found["joker"]["difference"] = float(worst / np.abs(theirs.score_samples(new)).max())
    return found


def scored(model: Any, new: Any, usual: Any, seconds: float, gap: float) -> dict[str, float]:
    """Return what is stored of a fitted model."""
    return {
        "auc": float(roc_auc_score(usual, model.score_samples(new))),
        "gap": gap,
        "offset": float(np.ravel(model.offset_)[0]),
        "seconds": seconds,
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure all sets and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="generated rows in place of the sets")
    parser.add_argument("--out", type=Path, default=common.RESULTS, help="the folder of the results")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cells = {}
    for name in USUAL:
        cells[name] = measure(name, given.quick)
        for program, one in cells[name].items():
            print(f"{name:10} {program:24} AUC {one['auc']:.4f}  gap {one['gap']:.1e}  {one['seconds']:.2f} s")
    sizes = {"nu": NU, "rows": TRAIN, "features": FEATURES}
    common.write_json(given.out / "one_class.json", {"machine": common.machine(SEED), **sizes, "cells": cells})


if __name__ == "__main__":
    main()
