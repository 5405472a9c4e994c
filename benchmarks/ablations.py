"""Ablations of the defaults: one setting changed at a time, on four data sets.

    python benchmarks/ablations.py                   # about six minutes on two cores
    python benchmarks/ablations.py --device cuda     # more rows and features; also compares precisions
    python benchmarks/ablations.py --only block_size
    python benchmarks/ablations.py --judge           # judge the existing results against the present defaults
    python benchmarks/ablations.py --quick           # shows that it runs

Parts of covtype (class 2 one-vs-rest), hepc, kin40k and higgs33k, split and scaled as in benchmarks/peers.py; the
squared hinge loss for classes and the squared loss for numbers. The base has random features, random blocks and the
default settings of an estimator, with the bandwidth and λ of the table BASES; axes whose names begin with "method"
compare it with the methods that joker chooses. Every choice is run for five epochs and scored after each on held-out
rows of the training part; the time of scoring is not counted. Axes that end with "kernel" have no features, and every
choice is run as the default fit is: until the relative gap is 1e-3, here for at most 60 epochs. No test row is read.

A verdict compares errors (RMSE, or the share of wrong classes) at equal time: the error of an alternative is that of
the last epoch that it completed within the time of the default's last epoch. The verdict is "kept" unless an
alternative has a geometric mean error over the sets that is lower by more than 2% and is better on more than half of
the sets.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import common
import numpy as np
import sets
import torch
from paper import PaperBlocks

from joker import kernels
from joker.kernels.kernel import choose_bandwidth
from joker.prepare import Training, prepare
from joker.solvers import BlockSolver, Record, Settings

EPOCHS = 5
KERNEL_EPOCHS, KERNEL_TOL = 60, 1e-3  # of a solve with the exact kernel
EXACT_BLOCK = 1_024  # the default with the exact kernel
MARGIN = 0.98  # largest error, relative to the default's, at which an alternative counts as better
SLACK = 1.1  # longest time, relative to the default's, that counts as equal time


@dataclass(frozen=True)
class Base:
    """A data set, and the settings of the base that have no default."""

    data: str
    share: float  # the bandwidth, as a share of the median distance
    lam: float


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    rows: int
    held_out: int
    features: int
    device: str = "cpu"
    quick: bool = False


@dataclass(frozen=True)
class Setup:
    """The settings that are compared; the values are the defaults of an estimator with random blocks."""

    method: str | type[PaperBlocks] = "random_blocks"
    exact: bool = False  # the exact kernel

    averaging: bool = True
    block_size: int = 512
    features: str = "fourier"
    bandwidth: str | None = None  # None: the bandwidth of the base
    momentum: bool = False
    tolerance: float = BlockSolver().tol
    patience: float = BlockSolver().patience
    mixed: bool = False


BASES = (
    Base("covtype-50k", 1 / 3, 2.0**-5),
    Base("hepc-50k", 1 / 3, 2.0**-5),
    Base("kin40k", 1 / 2, 2.0**-5),
    Base("higgs33k", 1.0, 1.0),
)
# The first choice of each axis is the default.
AXES: dict[str, dict[str, dict[str, Any]]] = {
    "method": {"auto": {"method": "auto"}, "random_blocks": {}},
    "method, kernel": {
        "auto": {"method": "auto", "exact": True},
        "random_blocks": {"exact": True, "block_size": 1_024},
    },
    "block_size, kernel": {
        str(b): {"method": "auto", "exact": True, "block_size": b} for b in (EXACT_BLOCK, 256, 512, 2_048)
    },
    "averaging": {"on": {}, "off": {"averaging": False}},
    "order": {"shuffled": {}, "random": {"method": PaperBlocks}},
    "block_size": {str(b): {"block_size": b} for b in (512, 128, 256, 1_024, 2_048)},
    "features": {kind: {"features": kind} for kind in ("fourier", "fourier_pairs", "orthogonal", "structured")},
    "bandwidth": {rule: {"bandwidth": rule} for rule in ("median/2", "median", "paper", "median/3")},
    "momentum": {"off": {}, "on": {"momentum": True}},
    # Of a block solve: its tolerance, and the matrix-vector products after which it gives up a search.
    "tolerance": {str(tol): {"tolerance": tol} for tol in (BlockSolver().tol, 0.02, 0.1, 0.4, 0.8)},
    "patience": {str(p): {"patience": p} for p in (BlockSolver().patience, 4, 64, math.inf)},
    "precision": {"mixed": {"mixed": True}, "float32": {"mixed": False}},
}
PLANS = {
    "cpu": Plan(rows=16_000, held_out=4_000, features=2_000),
    "cuda": Plan(rows=26_000, held_out=6_000, features=20_000, device="cuda"),
}
QUICK = Plan(rows=400, held_out=200, features=64, quick=True)


def sigma(setup: Setup, base: Base, x: torch.Tensor) -> float:
    """Return the bandwidth of the Gaussian kernel."""
    gaussian = kernels.get("gaussian")
    rule, _, divisor = (setup.bandwidth or "median").partition("/")
    found = choose_bandwidth(rule, gaussian, x, sets.SEED)
    return found * base.share if setup.bandwidth is None else found / float(divisor or 1)


def training(setup: Setup, base: Base, plan: Plan, parts: sets.Split) -> Training:
    """Prepare a fit."""
    x = torch.from_numpy(parts.x).to(plan.device)
    y = torch.from_numpy(parts.y).to(x)
    options = {name: getattr(setup, name) for name in ("method", "averaging", "block_size", "momentum")}
    return prepare(
        x,
        torch.where(y > 0, 1.0, -1.0) if not sets.SETS[base.data].regression else y,
        loss="squared" if sets.SETS[base.data].regression else "squared_hinge",
        lam=base.lam,
        kernel="gaussian",
        bandwidth=sigma(setup, base, x),
        n_features=None if setup.exact else plan.features,
        features="auto" if setup.exact else setup.features,
        intercept=True,
        memory="1GB",
        mixed=setup.mixed,
        settings=Settings(
            max_epochs=KERNEL_EPOCHS if setup.exact else EPOCHS,
            tol=KERNEL_TOL if setup.exact else 0.0,
            seed=sets.SEED,
            block=BlockSolver(tol=setup.tolerance, patience=setup.patience),
            **options,
        ),
    )


def measure(setup: Setup, base: Base, plan: Plan, parts: sets.Split) -> list[dict[str, float]]:
    """Return the error on the held-out rows and the seconds after each epoch."""
    fit = training(setup, base, plan, parts)
    x_test = torch.from_numpy(parts.x_test).to(plan.device)
    curve: list[dict[str, float]] = []
    spent = 0.0

    def evaluate(record: Record) -> None:
        nonlocal spent
        now = time.perf_counter()
        point = fit.descent.point
        assert point is not None
        f = fit.machine(fit.weights(point)).predict(x_test)[:, 0].cpu().numpy()
        seconds = now - started - spent
        curve.append({"epoch": record.epoch, "seconds": round(seconds, 3), "error": error(base, parts, f)})
        spent += time.perf_counter() - now

    started = time.perf_counter()
    fit.run(evaluate)
    return curve


def error(base: Base, parts: sets.Split, f: np.ndarray) -> float:
    """Return the RMSE, or the share of wrong classes."""
    if sets.SETS[base.data].regression:
        return round(float(np.sqrt(np.mean((f - parts.y_test) ** 2))), 5)
    return round(float(np.mean((f > 0) != (parts.y_test > 0))), 5)


class Bench:
    """Runs each setup once on every set; most axes include the base among their choices."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.cuts = plan, cut(plan)
        self.start = Setup(mixed=plan.device == "cuda")
        self.known: dict[Setup, dict[str, Any]] = {}

    def curves(self, change: dict[str, Any]) -> dict[str, Any]:
        """Return the curve of the base with a change, on every set.

        On a GPU every setup runs twice and the second run counts, because the first one compiles kernels.
        """
        setup, runs = replace(self.start, **change), 1 if self.plan.device == "cpu" else 2
        if setup not in self.known:
            for _ in range(runs):
                found = {base.data: measure(setup, base, self.plan, self.cuts[base.data]) for base in BASES}
            self.known[setup] = found
        return self.known[setup]


def run_axis(axis: str, bench: Bench) -> dict[str, Any]:
    """Run every choice of an axis on every set."""
    found: dict[str, Any] = {}
    for name, change in AXES[axis].items():
        curves = found[name] = bench.curves(change)
        last = "  ".join(f"{data} {curve[-1]['error']:.4f}" for data, curve in curves.items())
        print(f"{axis:11s}{name:15s}{last}  ({sum(c[-1]['seconds'] for c in curves.values()):.1f} s)", flush=True)
    return {"choices": found, "verdict": verdict(found)}


def verdict(choices: dict[str, dict[str, list[dict[str, float]]]]) -> dict[str, Any]:
    """Compare the alternatives with the default, which is the first choice."""
    default, *others = choices
    ratios = {name: [_ratio(choices[name][data], curve) for data, curve in choices[default].items()] for name in others}
    epochs = {name: [_last(choices[name][data], curve) for data, curve in choices[default].items()] for name in others}
    means = {name: round(_mean(found), 4) for name, found in ratios.items()}
    wins = {name: sum(ratio < 1 for ratio in found) for name, found in ratios.items()}
    better = [name for name in others if means[name] < MARGIN and wins[name] > len(ratios[name]) / 2]
    best = min(better, key=lambda name: means[name], default=None)
    return {
        "default": default,
        "verdict": "kept" if best is None else f"{best} is better",
        "error_ratio_at_equal_time": means,
        "error_ratio_at_equal_epochs": {name: round(_mean(found), 4) for name, found in epochs.items()},
        "sets_won_at_equal_time": wins,
    }


def judged(axes: dict[str, Any]) -> dict[str, Any]:
    """Return axes measured before, each with the present default first and a new verdict."""
    found = {}
    for axis, known in axes.items():
        choices = {name: known["choices"][name] for name in AXES[axis] if name in known["choices"]}
        found[axis] = {"choices": choices, "verdict": verdict(choices)}
    return found


def _ratio(curve: list[dict[str, float]], default: list[dict[str, float]]) -> float:
    """Return the error at the time of the default's last epoch, relative to the default's error."""
    in_time = [point for point in curve if point["seconds"] <= SLACK * default[-1]["seconds"]] or curve[:1]
    return in_time[-1]["error"] / max(default[-1]["error"], 1e-12)


def _last(curve: list[dict[str, float]], default: list[dict[str, float]]) -> float:
    """Return the error after the last epoch, relative to the default's error."""
    return curve[-1]["error"] / max(default[-1]["error"], 1e-12)


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(math.log(max(ratio, 1e-12)) for ratio in ratios) / len(ratios))


def cut(plan: Plan) -> dict[str, sets.Split]:
    """Return the first rows of the training part of each set, and the rows after them in place of the test rows."""
    found = {}
    for base in BASES:
        parts = sets.split(sets.SETS[base.data], plan.quick)
        rows = min(plan.rows, len(parts.y) - plan.held_out)
        held = slice(rows, rows + plan.held_out)
        found[base.data] = replace(parts.first(rows), x_test=parts.x[held], y_test=parts.y[held])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, compare, and add the results of this device to the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=tuple(PLANS), default="cpu")
    parser.add_argument("--only", choices=tuple(AXES), help="one axis")
    parser.add_argument("--judge", action="store_true", help="judge the existing results against the present defaults")
    parser.add_argument("--quick", action="store_true", help="a few generated rows")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    file = options.out / "ablations.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if options.judge:
        common.write_json(file, {device: entry | {"axes": judged(entry["axes"])} for device, entry in before.items()})
        return
    plan = replace(QUICK, device=options.device) if options.quick else PLANS[options.device]
    bench = Bench(plan)
    axes = before.get(options.device, {}).get("axes", {}) if options.only else {}
    for axis in AXES if options.only is None else (options.only,):
        if axis == "precision" and options.device == "cpu":
            print("precision  left out: mixed and float32 are the same on the CPU")
            continue
        axes[axis] = run_axis(axis, bench)
        print(f"{axis}: {axes[axis]['verdict']['verdict']}")
        entry = {
            "machine": common.machine(sets.SEED) | common.gpu(options.device),
            "plan": {"rows": plan.rows, "held_out": plan.held_out, "features": plan.features, "generated": plan.quick},
            "bases": [{"data": base.data, "share_of_median": round(base.share, 4), "lam": base.lam} for base in BASES],
            "axes": axes,
        }
        common.write_json(file, before | {options.device: entry})


if __name__ == "__main__":
    main()
