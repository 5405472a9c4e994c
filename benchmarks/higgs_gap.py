"""What separates kernels from boosting on higgs33k: bandwidths per input, a learned metric, features of the inputs.

    python benchmarks/higgs_gap.py             # about six minutes on two cores
    python benchmarks/higgs_gap.py --quick     # shows that it runs

The inputs are changed in one way or another, and the same kernel machine is fitted to what comes out: the kernel
exp(-‖x - z‖/σ) itself and the squared hinge. σ and λ are chosen by AUC on a part of the training rows, and the machine
is then fitted to all of them. The AUC is that of the test part (20%). Beside it stands HistGradientBoosting, also when
it may join one input only, or two, in a tree, which tells how much of its lead lies in interactions.

A metric is learned as recursive feature machines learn theirs: fit, take the gradients of f at training rows (by
central differences), replace x by M^½ x with M the mean of ∇f ∇fᵀ, or its diagonal, and fit again. "share of the gap"
is how far a variant gets from the kernel with one bandwidth to boosting: 1 is all the way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import sets
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import QuantileTransformer

import joker

SHARES = (2.0, 1.0, 0.5)  # of the median distance: bandwidths to choose from
LAMS = [10.0, 1.0, 0.1, 0.01]
Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    choosing: int = 5_000  # rows for choosing σ and λ, and as many at most to score them
    slopes: int = 28_000  # derivatives that are taken in a round: rows times inputs
    rounds: int = 3
    epochs: int = 3
    quick: bool = False


FULL, QUICK = Plan(), Plan(choosing=200, slopes=240, rounds=1, epochs=1, quick=True)


@dataclass(frozen=True)
class Rows:
    """Inputs after a change; the targets stay what they are."""

    x: Array
    x_test: Array

    def map(self, change: Callable[[Array], Array]) -> Rows:
        """Both parts changed alike."""
        return Rows(change(self.x).astype(np.float32), change(self.x_test).astype(np.float32))


Variant = Callable[[Rows, Array, Plan], Rows]


# The machine that every variant shares


def machine(sigma: float | str, lam: float | list[float], epochs: int, block: int = 512) -> joker.KernelSVC:
    """An unfitted machine: the kernel itself, a few epochs."""
    settings: dict[str, Any] = {"kernel": "matern12", "n_features": None, "random_state": sets.SEED}
    return joker.KernelSVC(bandwidth=sigma, lam=lam, max_epochs=epochs, block_size=block, **settings)


def choose(rows: Rows, y: Array, plan: Plan) -> tuple[float, float]:
    """The bandwidth and λ with the best AUC on training rows that the choice is not fitted to."""
    x, labels = rows.x[: plan.choosing], y[: plan.choosing]
    held = slice(plan.choosing, 2 * plan.choosing)
    median = machine("median", 1.0, 0).fit(x, labels).bandwidth_
    best = (-1.0, median, 1.0)
    for share in SHARES:
        path = machine(share * median, LAMS, plan.epochs).fit(x, labels, eval_set=(rows.x[held], y[held])).path_
        for lam, model in zip(path.lam, path.models, strict=True):
            found = float(roc_auc_score(y[held] > 0, model.decision_function(rows.x[held])))
            best = max(best, (found, share * median, float(lam)))
    return best[1], best[2]


def fitted(rows: Rows, y: Array, plan: Plan) -> joker.KernelSVC:
    """A machine for the rows, its σ and λ chosen."""
    return machine(*choose(rows, y, plan), plan.epochs, block=2_048).fit(rows.x, y)


# The variants


def as_they_are(rows: Rows, y: Array, plan: Plan) -> Rows:
    """One bandwidth for all inputs."""
    return rows


def by_importance(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Inputs scaled by the root of their permutation importance in a boosting of the training rows."""
    cut = len(y) // 5
    boosting = HistGradientBoostingClassifier(random_state=sets.SEED).fit(rows.x[cut:], y[cut:])
    found = permutation_importance(
        boosting, rows.x[:cut], y[:cut], scoring="roc_auc", n_repeats=2, random_state=sets.SEED
    ).importances_mean
    weights = np.sqrt(np.maximum(found, 0) / max(found.max(), 1e-12))
    return rows.map(lambda x: x * np.maximum(weights, 0.05))


def gradients(model: joker.KernelSVC, x: Array, step: float = 0.05) -> Array:  # (k, d)
    """∇f at some rows, by central differences."""
    columns = []
    for j in range(x.shape[1]):
        ahead, behind = x.copy(), x.copy()
        ahead[:, j] += step
        behind[:, j] -= step
        columns.append((model.decision_function(ahead) - model.decision_function(behind)) / (2 * step))
    return np.stack(columns, axis=1)


def learned(rows: Rows, y: Array, plan: Plan, *, diagonal: bool) -> Rows:
    """Inputs in the metric of the mean outer product of gradients, after some rounds."""
    few = np.random.default_rng(sets.SEED).permutation(len(y))
    train = few[: plan.choosing]
    at = few[plan.choosing :][: max(1, plan.slopes // rows.x.shape[1])]
    root = np.eye(rows.x.shape[1])
    for _ in range(plan.rounds):
        here = Rows(rows.x[train] @ root, rows.x[:1] @ root).map(lambda x: x)
        sigma = float(machine("median", 1.0, 0).fit(here.x, y[train]).bandwidth_)
        model = machine(sigma, 1.0, plan.epochs).fit(here.x, y[train])
        slopes = gradients(model, (rows.x[at] @ root).astype(np.float32)) @ root.T  # by the inputs themselves
        root = root_of(slopes.T @ slopes / len(at), diagonal)
    return rows.map(lambda x: x @ root)


def root_of(M: Array, diagonal: bool) -> Array:  # (d, d)
    """M^½ with largest entry or eigenvalue 1, of its diagonal alone if asked for."""
    if diagonal:
        weights = np.sqrt(np.diag(M))
        return np.diag(weights / max(weights.max(), 1e-12))
    values, vectors = np.linalg.eigh(M)
    roots = np.sqrt(np.maximum(values, 0))
    return (vectors * (roots / max(roots.max(), 1e-12))) @ vectors.T


def normal(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Each input replaced by the normal quantile of its rank."""
    count = min(1_000, len(rows.x))
    ranks = QuantileTransformer(n_quantiles=count, output_distribution="normal", random_state=sets.SEED).fit(rows.x)
    return rows.map(lambda x: np.clip(ranks.transform(x), -3, 3))


def with_products(rows: Rows, y: Array, plan: Plan) -> Rows:
    """The inputs and the products of all pairs of them, each with deviation 1; the products weigh as much as inputs."""
    i, j = np.triu_indices(rows.x.shape[1], 1)
    mean, spread = (getattr(rows.x[:, i] * rows.x[:, j], what)(0) for what in ("mean", "std"))
    weight = np.sqrt(rows.x.shape[1] / len(i))
    return rows.map(lambda x: np.hstack([x, np.clip((x[:, i] * x[:, j] - mean) / spread, -5, 5) * weight]))


def both(first: Variant, second: Variant) -> Variant:
    """One change after another."""
    return lambda rows, y, plan: second(first(rows, y, plan), y, plan)


def diagonal(rows: Rows, y: Array, plan: Plan) -> Rows:
    """A learned bandwidth for each input."""
    return learned(rows, y, plan, diagonal=True)


def full(rows: Rows, y: Array, plan: Plan) -> Rows:
    """A learned metric."""
    return learned(rows, y, plan, diagonal=False)


ONE = "one bandwidth"
VARIANTS: dict[str, Variant] = {
    ONE: as_they_are,
    "bandwidths by importance": by_importance,
    "bandwidths learned": diagonal,
    "metric learned": full,
    "normal quantiles": normal,
    "products of pairs": with_products,
    "normal quantiles, bandwidths learned": both(normal, diagonal),
    "normal quantiles, metric learned": both(normal, full),
    "normal quantiles, products, bandwidths learned": both(both(normal, with_products), diagonal),
}
BOOSTING = "boosting"
BOOSTINGS: dict[str, dict[str, Any]] = {
    BOOSTING: {},
    "boosting, pairs of inputs": {"interaction_cst": "pairwise"},
    "boosting, single inputs": {"interaction_cst": "no_interactions"},
}


def run_variant(change: Variant, parts: sets.Split, plan: Plan) -> dict[str, Any]:
    """Change the inputs, choose, fit and score."""
    started = time.perf_counter()
    rows = change(Rows(parts.x, parts.x_test), parts.y, plan)
    model = fitted(rows, parts.y, plan)
    seconds = time.perf_counter() - started
    f = model.decision_function(rows.x_test)
    chosen = {"bandwidth": float(f"{model.bandwidth_:.4g}"), "lam": model.lam_, "inputs": rows.x.shape[1]}
    return {"auc": _auc(parts, f), "seconds": round(seconds, 1), **chosen}


def run_boosting(settings: dict[str, Any], parts: sets.Split) -> dict[str, Any]:
    """Boosting, which stops where held-out rows gain no more."""
    started = time.perf_counter()
    model = HistGradientBoostingClassifier(
        max_iter=500, learning_rate=0.05, early_stopping=True, random_state=sets.SEED, **settings
    ).fit(parts.x, parts.y)
    seconds = time.perf_counter() - started
    return {"auc": _auc(parts, model.decision_function(parts.x_test)), "seconds": round(seconds, 1)}


def _auc(parts: sets.Split, f: Array) -> float:
    return round(float(roc_auc_score(parts.y_test > 0, f)), 5)


def shares(results: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """How much of the way from one bandwidth to boosting each variant goes; None where there is no gap."""
    low, high = results[ONE]["auc"], results[BOOSTING]["auc"]
    if high <= low:
        return dict.fromkeys(results)
    return {name: round((found["auc"] - low) / (high - low), 3) for name, found in results.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and write what it reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few generated rows")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else FULL
    parts = sets.split(sets.SETS["higgs33k"], options.quick)
    results: dict[str, dict[str, Any]] = {}
    for name in (*BOOSTINGS, *VARIANTS):
        boosted = name in BOOSTINGS
        found = run_boosting(BOOSTINGS[name], parts) if boosted else run_variant(VARIANTS[name], parts, plan)
        results[name] = {"kernel": not boosted, **found}
        print(f"{name:48s} AUC {found['auc']:.4f}  {found['seconds']:6.1f} s", flush=True)
    closed = shares(results)
    entries = {name: found | {"share_of_the_gap": closed[name]} for name, found in results.items()}
    best = max((name for name in VARIANTS), key=lambda name: results[name]["auc"])
    print(f"best kernel: {best}, share of the gap {closed[best]}")
    common.write_json(
        options.out / "higgs_gap.json",
        {
            "machine": common.machine(sets.SEED),
            "train": len(parts.y),
            "test": len(parts.y_test),
            "generated": plan.quick,
            "variants": entries,
            "best_kernel": best,
        },
    )


if __name__ == "__main__":
    main()
