"""Problems on which kernel solvers stall: seconds of joker to a relative gap of 1e-3, and those of a reference.

    python benchmarks/hard_problems.py               # all, about five minutes with one thread
    python benchmarks/hard_problems.py --only hinge  # problems whose name contains this; others keep their results

Large C, small λ, clusters, duplicates, wide and narrow bandwidths, few or sparse inputs, many or rare classes. The
reference is a Cholesky factorisation (scikit-learn's KernelRidge), LIBSVM (SVC and SVR) or LIBLINEAR (LinearSVC and
LinearSVR), at the largest of some tolerances at which its own relative gap is at most 1e-3: that of LIBSVM is computed
from its dual variables, of 500 classes as the largest of some pairs; LIBLINEAR does not return them, and its primal
objective is compared with the best dual value of a long fit of joker. HuberRegressor estimates a scale as well, and has
no gap. LIBSVM does not penalise its intercept, all others do.

Both use one thread, in turn. Seconds are those of the processor, the least of up to twenty repeats, as many as two
seconds hold. joker's gap is the one it reports. A reference that takes more than twice as long may have a larger gap.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import common
import numpy as np
import scipy.sparse
import torch
from sklearn import clone, kernel_ridge, linear_model, svm
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import pairwise_kernels

import joker

SEED = 0
REPEATS, ENOUGH = 20, 2.0  # a fit is repeated so often, or until so many seconds are used
TOL, MOST_RATIO = 1e-3, 3.0
TOLERANCES = [10 ** (-k / 2) for k in range(15)]  # of a reference: 1, 0.3, 0.1, ...
LONG = 1e-7  # the tolerance of a fit whose dual value is nearly the optimum
MUCH_LONGER = 2.0  # times joker's seconds: a reference that takes so long need not reach the gap
PAIRS = 20  # of classes
EPSILON = 0.1  # of the regressions


@dataclass(frozen=True)
class Problem:
    """A problem with joker's model and a reference; both are fitted to X and y."""

    name: str
    data: Callable[[], tuple[Any, Any]]
    model: Callable[[Any, Any], Any]
    reference: Callable[[Any, Any, float], Any]  # X, y and the tolerance
    gap: Callable[[Any, Any, Any], float] | None = None  # of the fitted reference; None where it has no tolerance


def median(x: Any) -> float:
    """Return the median distance of some rows."""
    distances = pairwise_distances(np.asarray(x[:1_000]))
    return float(np.median(distances[np.triu_indices_from(distances, 1)]))


def heavy_tails() -> tuple[Any, Any]:
    """Return inputs with infinite variance."""
    rng = np.random.default_rng(SEED)
    x = rng.standard_t(1.5, size=(3_000, 4))
    return x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=len(x))


def standard(y: Any) -> Any:
    """Return targets with the mean 0 and the deviation 1, as joker's regressions scale them."""
    return (y - y.mean()) / y.std()


def smooth(n: int, d: int) -> tuple[Any, Any]:
    """Return normal inputs and a smooth function of them with noise."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(n, d))
    return x, standard(np.sin(x[:, 0]) + x[:, -1] ** 2 / 2 + 0.1 * rng.normal(size=n))


def signs(x: Any, y: Any) -> tuple[Any, Any]:
    """Return two classes: targets above their median, and others."""
    return x, np.where(y > np.median(y), 1, -1)


def clusters() -> tuple[Any, Any]:
    """Return twenty clusters with noisy classes."""
    rng = np.random.default_rng(SEED)
    centres, number = rng.normal(size=(20, 4)), rng.integers(20, size=2_500)
    x = centres[number] + 0.05 * rng.normal(size=(2_500, 4))
    return x, np.where((number % 2 == 0) ^ (rng.random(2_500) < 0.05), 1, -1)


def duplicates() -> tuple[Any, Any]:
    """Return every row twice, a tenth of them with opposite classes."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(1_250, 5))
    y = np.where(x[:, 0] + x[:, 1] ** 2 > 0.5, 1, -1)
    return np.vstack([x, x]), np.concatenate([y, np.where(rng.random(len(y)) < 0.1, -y, y)])


def text(regression: bool) -> tuple[Any, Any]:
    """Return sparse rows with frequent and rare words, of length 1."""
    rng = np.random.default_rng(SEED)
    n, d, words = 5_000, 5_000, 60
    frequency = 1 / np.arange(1, d + 1)
    columns = rng.choice(d, size=(n, words), p=frequency / frequency.sum())
    x = scipy.sparse.csr_matrix((np.ones(n * words), (np.repeat(np.arange(n), words), columns.ravel())), shape=(n, d))
    x = scipy.sparse.csr_matrix(x.multiply(1 / np.sqrt(x.multiply(x).sum(1))))
    f = 3 * (x @ rng.normal(size=d)) + 0.3 * rng.normal(size=n)
    return (x, standard(f)) if regression else (x, np.where(f > 0, 1, -1))


def many_classes() -> tuple[Any, Any]:
    """Return 500 classes of eight rows."""
    rng = np.random.default_rng(SEED)
    y = np.repeat(np.arange(500), 8)
    return rng.normal(size=(500, 10))[y] + 0.3 * rng.normal(size=(4_000, 10)), y


def rare() -> tuple[Any, Any]:
    """Return one positive row in a thousand."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(10_000, 5))
    y = np.full(len(x), -1)
    y[np.argsort(-x[:, 0] - 0.5 * rng.normal(size=len(x)))[:10]] = 1
    return x, y


def hinge(C: float, times: float = 1.0, sigma: float | None = None) -> dict[str, Any]:
    """Return joker's SVC and LIBSVM's with a multiple of the median distance as their bandwidth."""

    def width(x: Any) -> float:
        return times * median(x) if sigma is None else sigma

    return {
        "model": lambda x, y: joker.KernelSVC(
            lam=1 / C, loss="hinge", bandwidth=width(x), standardize=False, random_state=SEED
        ),
        "reference": lambda x, y, tol: svm.SVC(C=C, gamma=0.5 / width(x) ** 2, cache_size=2_000, tol=tol),
        "gap": libsvm_gap,
    }


def svr(C: float, times: float = 1.0) -> dict[str, Any]:
    """Return joker's SVR and LIBSVM's; the targets have the mean 0 and the deviation 1."""
    return {
        "model": lambda x, y: joker.KernelSVR(
            lam=1 / C, bandwidth=times * median(x), standardize=False, random_state=SEED
        ),
        "reference": lambda x, y, tol: svm.SVR(C=C, gamma=0.5 / (times * median(x)) ** 2, cache_size=2_000, tol=tol),
        "gap": libsvm_gap,
    }


def primal_of(model: Any, y: Any, f: Any, square: float, C: float) -> float:
    """Return ‖θ‖²/2 + C Σ ℓ(y, f) of the hinge, or of the ε-insensitive loss."""
    if hasattr(model, "classes_"):
        return square / 2 + C * float(np.maximum(1 - np.where(y == model.classes_[1], f, -f), 0).sum())
    return square / 2 + C * float(np.maximum(np.abs(y - f) - EPSILON, 0).sum())


def libsvm_gap(model: Any, x: Any, y: Any) -> float:
    """Return the relative gap of SVC or SVR from its dual variables; of many classes, the largest of some pairs."""
    if len(getattr(model, "classes_", [])) > 2:  # each pair is a problem of its own
        rng = np.random.default_rng(SEED)
        pairs = [rng.choice(model.classes_, size=2, replace=False) for _ in range(PAIRS)]
        rows = [np.isin(y, pair) for pair in pairs]
        return max(libsvm_gap(clone(model).fit(x[some], y[some]), x[some], y[some]) for some in rows)
    kernel = pairwise_kernels(x, x[model.support_], metric="rbf", gamma=model.gamma)
    a = model.dual_coef_[0]
    f, own = kernel @ a + model.intercept_[0], kernel[model.support_]
    square = float(a @ own @ a)
    linear = np.abs(a).sum() if hasattr(model, "classes_") else a @ y[model.support_] - EPSILON * np.abs(a).sum()
    primal = primal_of(model, y, f, square, model.C)
    return float(primal - (linear - square / 2)) / primal


def ridge(lam: float) -> dict[str, Any]:
    """Return joker's ridge and a Cholesky factorisation."""
    return {
        "model": lambda x, y: joker.KernelRidge(lam=lam, bandwidth=median(x), standardize=False, random_state=SEED),
        "reference": lambda x, y, tol: kernel_ridge.KernelRidge(alpha=lam, kernel="rbf", gamma=0.5 / median(x) ** 2),
    }


class LambdaPath:
    """A Cholesky factorisation for each λ, on one kernel matrix."""

    def __init__(self, lams: Any, gamma: float) -> None:
        self.lams, self.gamma = lams, gamma

    def fit(self, x: Any, y: Any) -> None:
        """Solve for each λ."""
        kernel = pairwise_kernels(x, metric="rbf", gamma=self.gamma)
        for lam in self.lams:
            kernel_ridge.KernelRidge(alpha=lam, kernel="precomputed").fit(kernel, y)


def linear(regression: bool) -> dict[str, Any]:
    """Return joker's linear model and LIBLINEAR's; both penalise the intercept, and the targets have the mean 0."""
    kind, reference = (joker.KernelSVR, svm.LinearSVR) if regression else (joker.KernelSVC, svm.LinearSVC)
    own = {"scale_target": False, "epsilon": EPSILON} if regression else {"loss": "hinge"}
    same = {"epsilon": EPSILON} if regression else {"loss": "hinge"}

    def model(tol: float = TOL) -> Any:
        return kind(lam=1.0, kernel="linear", standardize=False, random_state=SEED, tol=tol, **own)

    def gap(fitted: Any, x: Any, y: Any) -> float:
        lower = model(LONG).fit(x, y).history_[-1]["dual"]
        theta = np.append(np.ravel(fitted.coef_), fitted.intercept_)
        f = x @ theta[:-1] + theta[-1]
        primal = primal_of(fitted, y, f, float(theta @ theta), 1.0)
        return (primal - lower) / primal

    return {
        "model": lambda x, y: model(),
        "reference": lambda x, y, tol: reference(C=1.0, max_iter=100_000, random_state=SEED, tol=tol, **same),
        "gap": gap,
    }


LAMS = np.logspace(-6, 1, 15)
PROBLEMS = [
    Problem("ridge, t(1.5) inputs, λ = 1e-3, n = 3,000", heavy_tails, **ridge(1e-3)),
    Problem("ridge, λ = 1e-6, n = 2,500", lambda: smooth(2_500, 5), **ridge(1e-6)),
    Problem(
        "ridge, 15 λ from 1e-6, n = 2,500", lambda: smooth(2_500, 5),
        lambda x, y: joker.KernelRidge(lam=LAMS, bandwidth=median(x), standardize=False, random_state=SEED),
        lambda x, y, tol: LambdaPath(LAMS, 0.5 / median(x) ** 2),
    ),
    Problem("hinge, 20 clusters, C = 1e3", clusters, **hinge(1e3)),
    Problem("hinge, 100 × the median, C = 1e4", lambda: signs(*smooth(2_500, 5)), **hinge(1e4, 100)),
    Problem("SVR, 100 × the median, C = 1e4", lambda: smooth(2_500, 5), **svr(1e4, 100)),
    Problem("hinge, duplicates with opposite labels, C = 1e4", duplicates, **hinge(1e4)),
    Problem("hinge, linear, d = 2, n = 20,000", lambda: signs(*smooth(20_000, 2)), **linear(regression=False)),
    Problem("SVR, linear, d = 2, n = 20,000", lambda: smooth(20_000, 2), **linear(regression=True)),
    Problem("hinge, sparse text, linear, d = 5,000", lambda: text(regression=False), **linear(regression=False)),
    Problem("SVR, sparse text, linear, d = 5,000", lambda: text(regression=True), **linear(regression=True)),
    Problem("SVC, 500 classes, n = 4,000", many_classes, **hinge(1.0)),
    Problem("hinge, 1 positive in 1,000, n = 10,000", rare, **hinge(1.0)),
    *(
        Problem(
            f"hinge, one block of 400 rows, bandwidth 50, C = {C:g}", lambda: signs(*smooth(400, 5)),
            **hinge(C, sigma=50.0),
        )
        for C in (1e4, 1e5, 1e6)
    ),
    Problem(
        "Huber, 600 features, n = 6,000, λ = 0.1", lambda: smooth(6_000, 5),
        lambda x, y: joker.KernelHuber(lam=0.1, n_features=600, random_state=SEED),
        lambda x, y, tol: linear_model.HuberRegressor(alpha=0.1, max_iter=1_000, tol=1e-5),
    ),
]  # fmt: skip


def timed(make: Callable[[], Any], x: Any, y: Any) -> tuple[float, Any]:
    """Return the least seconds of a fit, and the fitted model."""
    least, spent = float("inf"), 0.0
    for _ in range(REPEATS):
        model = make()
        started = time.process_time()
        model.fit(x, y)
        seconds = time.process_time() - started
        least, spent = min(least, seconds), spent + seconds
        if spent > ENOUGH:
            break
    return least, model


def reference_tolerance(problem: Problem, x: Any, y: Any, enough: float) -> tuple[float, float | None]:
    """Return the largest tolerance at which the reference has a gap of 1e-3, or is too slow, and its gap."""
    if problem.gap is None:
        return TOL, None
    tol, gap = TOL, float("inf")
    for tol in TOLERANCES:
        started = time.process_time()
        model = problem.reference(x, y, tol).fit(x, y)
        seconds = time.process_time() - started
        gap = problem.gap(model, x, y)
        if gap <= TOL or seconds > enough:
            break
    return tol, gap


def measured(problem: Problem) -> dict[str, Any]:
    """Return the seconds and gaps of both, and the end of joker's fit."""
    x, y = problem.data()
    inputs = x
    if problem.name.startswith("Huber"):  # the reference has as many random features
        gamma = 0.5 / median(x) ** 2
        inputs = RBFSampler(gamma=gamma, n_components=600, random_state=SEED).fit_transform(x)
    ours, model = timed(lambda: problem.model(x, y), x, y)
    tol, gap = reference_tolerance(problem, inputs, y, MUCH_LONGER * ours)
    theirs, _ = timed(lambda: problem.reference(inputs, y, tol), inputs, y)
    return {
        "seconds": round(ours, 4),
        "reference": round(theirs, 4),
        "ratio": round(ours / theirs, 2),
        "gap": float(np.max(model.gap_)),
        "reference_gap": gap,
        "reference_tol": None if gap is None else float(f"{tol:.2g}"),
        "epochs": model.n_iter_,
        "dtype": str(model.plan_.dtype).removeprefix("torch."),
        "end": str(model.stop_reason_),
    }


def main() -> None:
    """Measure the problems, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "hard_problems.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    saved = json.loads(options.out.read_text(encoding="utf-8"))["problems"] if options.out.exists() else {}
    found = {}
    for problem in PROBLEMS:
        if options.only in problem.name:
            found[problem.name] = saved[problem.name] = measured(problem)
            print(f"{problem.name:55} {json.dumps(found[problem.name])}", flush=True)
            common.write_json(options.out, {"machine": common.machine(SEED), "problems": saved})
    missed = [name for name, row in found.items() if row["ratio"] > MOST_RATIO or row["gap"] > TOL]
    print(f"{len(found) - len(missed)} of {len(found)} within {MOST_RATIO:g} times the reference and a gap of {TOL:g}")


if __name__ == "__main__":
    main()
