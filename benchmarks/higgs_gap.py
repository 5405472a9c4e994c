"""The gap between kernels and boosting on higgs33k: bandwidths per input, a learned metric, transformed inputs.

    python benchmarks/higgs_gap.py             # about six minutes on two cores
    python benchmarks/higgs_gap.py --quick     # shows that it runs

Each variant transforms the inputs, and the same kernel machine is fitted to the result: the exact kernel
exp(-‖x - z‖/σ) and the squared hinge loss. σ and λ are chosen by AUC on a part of the training rows, and the machine is
then fitted to all of them. The AUC is that of the test rows (20%). For comparison HistGradientBoosting is run as usual,
and with trees that may combine only one or two inputs, which shows how much of its lead is due to interactions.

A metric is learned as in recursive feature machines: fit, compute the gradients of f at training rows (by central
differences), replace x by M^½ x with M the mean of ∇f ∇fᵀ, or its diagonal, and fit again. The "share of the gap" is
(AUC − AUC with one bandwidth) / (AUC of boosting − AUC with one bandwidth).
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

SHARES = (2.0, 1.0, 0.5)  # bandwidths to choose from, as shares of the median distance
LAMS = [10.0, 1.0, 0.1, 0.01]
Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    choosing: int = 5_000  # rows on which σ and λ are chosen; at most as many score them
    slopes: int = 28_000  # derivatives per round: rows times inputs
    rounds: int = 3
    epochs: int = 3
    quick: bool = False


FULL, QUICK = Plan(), Plan(choosing=200, slopes=240, rounds=1, epochs=1, quick=True)


@dataclass(frozen=True)
class Rows:
    """Transformed inputs; the targets are unchanged."""

    x: Array
    x_test: Array

    def map(self, change: Callable[[Array], Array]) -> Rows:
        """Apply a transformation to both parts."""
        return Rows(change(self.x).astype(np.float32), change(self.x_test).astype(np.float32))


Variant = Callable[[Rows, Array, Plan], Rows]


# The machine of every variant


def machine(sigma: float | str, lam: float | list[float], epochs: int, block: int = 512) -> joker.KernelSVC:
    """Build an unfitted machine with the exact kernel."""
    settings: dict[str, Any] = {
        "kernel": "matern12",
        "n_features": None,
        "standardize": False,
        "random_state": sets.SEED,
    }
    return joker.KernelSVC(bandwidth=sigma, lam=lam, max_epochs=epochs, block_size=block, **settings)


def choose(rows: Rows, y: Array, plan: Plan) -> tuple[float, float]:
    """Return the bandwidth and λ with the best AUC on held-out training rows."""
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
    """Choose σ and λ, and fit to all rows."""
    return machine(*choose(rows, y, plan), plan.epochs, block=2_048).fit(rows.x, y)


# The variants


def as_they_are(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Leave the inputs unchanged: one bandwidth for all."""
    return rows


def by_importance(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Scale the inputs by the root of their permutation importance in a boosting model of the training rows."""
    cut = len(y) // 5
    boosting = HistGradientBoostingClassifier(random_state=sets.SEED).fit(rows.x[cut:], y[cut:])
    found = permutation_importance(
        boosting, rows.x[:cut], y[:cut], scoring="roc_auc", n_repeats=2, random_state=sets.SEED
    ).importances_mean
    weights = np.sqrt(np.maximum(found, 0) / max(found.max(), 1e-12))
    return rows.map(lambda x: x * np.maximum(weights, 0.05))


def gradients(model: joker.KernelSVC, x: Array, step: float = 0.05) -> Array:  # (k, d)
    """Return ∇f at some rows, by central differences."""
    columns = []
    for j in range(x.shape[1]):
        ahead, behind = x.copy(), x.copy()
        ahead[:, j] += step
        behind[:, j] -= step
        columns.append((model.decision_function(ahead) - model.decision_function(behind)) / (2 * step))
    return np.stack(columns, axis=1)


def learned(rows: Rows, y: Array, plan: Plan, *, diagonal: bool) -> Rows:
    """Transform the inputs to the metric of the mean outer product of gradients, over some rounds."""
    few = np.random.default_rng(sets.SEED).permutation(len(y))
    train = few[: plan.choosing]
    at = few[plan.choosing :][: max(1, plan.slopes // rows.x.shape[1])]
    root = np.eye(rows.x.shape[1])
    for _ in range(plan.rounds):
        here = Rows(rows.x[train] @ root, rows.x[:1] @ root).map(lambda x: x)
        sigma = float(machine("median", 1.0, 0).fit(here.x, y[train]).bandwidth_)
        model = machine(sigma, 1.0, plan.epochs).fit(here.x, y[train])
        slopes = gradients(model, (rows.x[at] @ root).astype(np.float32)) @ root.T  # with respect to the inputs
        root = root_of(slopes.T @ slopes / len(at), diagonal)
    return rows.map(lambda x: x @ root)


def root_of(M: Array, diagonal: bool) -> Array:  # (d, d)
    """Return M^½, or that of its diagonal, scaled to a largest eigenvalue of 1."""
    if diagonal:
        weights = np.sqrt(np.diag(M))
        return np.diag(weights / max(weights.max(), 1e-12))
    values, vectors = np.linalg.eigh(M)
    roots = np.sqrt(np.maximum(values, 0))
    return (vectors * (roots / max(roots.max(), 1e-12))) @ vectors.T


def normal(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Replace each input by the normal quantile of its rank."""
    count = min(1_000, len(rows.x))
    ranks = QuantileTransformer(n_quantiles=count, output_distribution="normal", random_state=sets.SEED).fit(rows.x)
    return rows.map(lambda x: np.clip(ranks.transform(x), -3, 3))


def with_products(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Append the products of all pairs of inputs, with deviation 1; they weigh as much as the inputs together."""
    i, j = np.triu_indices(rows.x.shape[1], 1)
    mean, spread = (getattr(rows.x[:, i] * rows.x[:, j], what)(0) for what in ("mean", "std"))
    weight = np.sqrt(rows.x.shape[1] / len(i))
    return rows.map(lambda x: np.hstack([x, np.clip((x[:, i] * x[:, j] - mean) / spread, -5, 5) * weight]))


def both(first: Variant, second: Variant) -> Variant:
    """Apply one transformation after another."""
    return lambda rows, y, plan: second(first(rows, y, plan), y, plan)


def diagonal(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Learn a bandwidth for each input."""
    return learned(rows, y, plan, diagonal=True)


def full(rows: Rows, y: Array, plan: Plan) -> Rows:
    """Learn a metric."""
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
    """Transform the inputs, choose σ and λ, fit and score."""
    started = time.perf_counter()
    rows = change(Rows(parts.x, parts.x_test), parts.y, plan)
    model = fitted(rows, parts.y, plan)
    seconds = time.perf_counter() - started
    f = model.decision_function(rows.x_test)
    chosen = {"bandwidth": float(f"{model.bandwidth_:.4g}"), "lam": model.lam_, "inputs": rows.x.shape[1]}
    return {"auc": _auc(parts, f), "seconds": round(seconds, 1), **chosen}


def run_boosting(settings: dict[str, Any], parts: sets.Split) -> dict[str, Any]:
    """Fit and score boosting with early stopping."""
    started = time.perf_counter()
    model = HistGradientBoostingClassifier(
        max_iter=500, learning_rate=0.05, early_stopping=True, random_state=sets.SEED, **settings
    ).fit(parts.x, parts.y)
    seconds = time.perf_counter() - started
    return {"auc": _auc(parts, model.decision_function(parts.x_test)), "seconds": round(seconds, 1)}


def _auc(parts: sets.Split, f: Array) -> float:
    return round(float(roc_auc_score(parts.y_test > 0, f)), 5)


def shares(results: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """Return the share of the gap of each variant; None where boosting is not ahead."""
    low, high = results[ONE]["auc"], results[BOOSTING]["auc"]
    if high <= low:
        return dict.fromkeys(results)
    return {name: round((found["auc"] - low) / (high - low), 3) for name, found in results.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all variants and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few generated rows")
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
