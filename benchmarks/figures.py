"""The plots of the results page, each drawn from a results file; by default nothing is measured.

    python benchmarks/figures.py                 # draw docs/figures/*.png from the existing results
    python benchmarks/figures.py --measure       # first measure results/figures.json: about five minutes on two cores
    python benchmarks/figures.py --quick --measure --out DIR     # shows that it runs

Measured here, on parts of kin40k and covtype (class 2 one-vs-rest), with the Gaussian kernel: the score against
the number of features; the score of every model against time; primal and dual objective and held-out loss against
steps, with the exact kernel and with features. Memory against m comes from benchmarks/scaling.py, the scores of other
programs against time from benchmarks/peers.py.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import sets
import torch

from joker import losses
from joker.prepare import Training, prepare
from joker.solvers import Record, Settings

PICTURES = common.ROOT / "docs" / "figures"
REGRESSION = {"ridge": "squared", "Huber": "huber", "SVR": "epsilon_insensitive", "median": "absolute"}
CLASSIFICATION = {"L2-SVC": "squared_hinge", "SVC": "hinge", "logistic": "logistic", "ridge": "squared"}
LAM = 2.0**-5
COLORS = (
    "#0b5fa5",
    "#df6d1c",
    "#2a8c4a",
    "#8a3fa0",
    "#b3262e",
    "#6b6b6b",
    "#a88a00",
    "#2aa6a6",
    "#d04a8b",
    "#444444",
    "#7a5230",
    "#5b8ff9",
    "#9bbf30",
)
MARKERS = "osD^v*PX<>phd"


@dataclass(frozen=True)
class Problem:
    """A part of a data set and its bandwidth."""

    data: str
    rows: int
    sigma: float

    @property
    def models(self) -> dict[str, str]:
        """The models for its kind of targets, with their losses."""
        return REGRESSION if sets.SETS[self.data].regression else CLASSIFICATION


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    problems: tuple[Problem, ...]
    features: int
    sizes: tuple[int, ...]
    epochs: int
    exact_rows: int
    quick: bool = False


FULL = Plan(
    (Problem("kin40k", 20_000, 1.96), Problem("covtype-50k", 20_000, 3.0)),
    features=2_000,
    sizes=(125, 250, 500, 1_000, 2_000, 4_000, 8_000),
    epochs=8,
    exact_rows=8_000,
)
QUICK = Plan((Problem("kin40k", 400, 2.0), Problem("covtype-50k", 400, 2.0)), 64, (16, 32, 64), 2, 300, quick=True)


# Measuring


def lay(problem: Problem, parts: sets.Split, loss: str, m: int | None, epochs: int, block: int = 512) -> Training:
    """Prepare a fit."""
    return prepare(
        torch.from_numpy(parts.x),
        torch.from_numpy(parts.y).float(),
        loss=loss,
        lam=LAM,
        kernel="gaussian",
        bandwidth=problem.sigma,
        n_features=m,
        intercept=True,
        settings=Settings(block_size=block, max_epochs=epochs, tol=0.0, seed=sets.SEED),
    )


def watch(training: Training, parts: sets.Split, evaluate: Callable[[Record, torch.Tensor, float], None]) -> None:
    """Run a fit, and call ``evaluate`` after each epoch with f of the test rows and the seconds without evaluations."""
    x = torch.from_numpy(parts.x_test)
    spent = 0.0

    def epoch(record: Record) -> None:
        nonlocal spent
        now = time.perf_counter()
        point = training.descent.point
        assert point is not None
        evaluate(record, training.machine(training.weights(point)).predict(x)[:, 0], now - started - spent)
        spent += time.perf_counter() - now

    started = time.perf_counter()
    training.run(epoch)


def score(problem: Problem, parts: sets.Split, f: torch.Tensor) -> float:
    """Return the RMSE, or the accuracy."""
    if sets.SETS[problem.data].regression:
        return round(float(np.sqrt(np.mean((f.numpy() - parts.y_test) ** 2))), 5)
    return round(float(np.mean((f.numpy() > 0) == (parts.y_test > 0))), 5)


def curve(problem: Problem, parts: sets.Split, loss: str, m: int, epochs: int) -> list[list[float]]:
    """Return seconds and score after each epoch."""
    found: list[list[float]] = []
    watch(
        lay(problem, parts, loss, m, epochs),
        parts,
        lambda _, f, seconds: found.append([round(seconds, 3), score(problem, parts, f)]),
    )
    return found


def objectives(problem: Problem, parts: sets.Split, loss: str, m: int | None, plan: Plan) -> list[dict[str, float]]:
    """Return the number of steps, primal, dual and held-out loss after each epoch."""
    training = lay(problem, parts, loss, m, plan.epochs, block=128 if plan.quick else 512)
    judged, y = losses.get(loss), torch.from_numpy(parts.y_test).float()
    found: list[dict[str, float]] = []

    def evaluate(record: Record, f: torch.Tensor, seconds: float) -> None:
        entry = record.entry()
        found.append(
            {
                "steps": training.descent.steps,
                "primal": float(f"{entry['primal']:.6g}"),
                "dual": float(f"{entry['dual']:.6g}"),
                "held_out": float(f"{float(judged.value(y[:, None], f[:, None]).mean()):.5g}"),
            }
        )

    watch(training, parts, evaluate)
    return found


def measure(plan: Plan) -> dict[str, Any]:
    """Measure everything that this script measures."""
    started = time.perf_counter()
    found: dict[str, Any] = {}
    for problem in plan.problems:
        parts = sets.split(sets.SETS[problem.data], plan.quick).first(problem.rows)
        loss = next(iter(problem.models.values()))
        sizes = [[m, curve(problem, parts, loss, m, min(5, plan.epochs))[-1][1]] for m in plan.sizes]
        print(f"{problem.data}: {loss} against the number of features: {sizes}", flush=True)
        times = {name: curve(problem, parts, kind, plan.features, plan.epochs) for name, kind in problem.models.items()}
        print(f"{problem.data}: " + ", ".join(f"{name} {found[-1]}" for name, found in times.items()), flush=True)
        few = parts.first(plan.exact_rows)
        found[problem.data] = {
            "rows": len(parts.x),
            "metric": "rmse" if sets.SETS[problem.data].regression else "accuracy",
            "bandwidth": problem.sigma,
            "features": plan.features,
            "sizes": {"model": next(iter(problem.models)), "points": sizes},
            "times": times,
            "objectives": {
                "model": next(iter(problem.models)),
                "rows": len(few.x),
                "exact": objectives(problem, few, loss, None, plan),
                "features": objectives(problem, few, loss, plan.features, plan),
            },
        }
    seconds = round(time.perf_counter() - started, 1)
    return {"machine": common.machine(sets.SEED), "lam": LAM, "problems": found, "seconds": seconds}


# Drawing


def axes_of(count: int, width: float = 4.4, height: float = 3.4, most: int = 4) -> tuple[Any, list[Any]]:
    """Return a figure with ``count`` panels, at most ``most`` in a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(count, most)
    lines = -(-count // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(width * columns, height * lines), squeeze=False)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    for axis in axes.flat[:count]:
        axis.grid(color="0.93", lw=0.6, which="both")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8, which="both")
    return figure, list(axes.flat[:count])


def saved(figure: Any, path: Path) -> Path:
    """Write a plot with few pixels, which is small enough to be committed."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)
    return path


def draw_sizes(results: dict[str, Any], folder: Path) -> Path:
    """Draw the score against the number of features."""
    figure, axes = axes_of(len(results["problems"]))
    for axis, (name, found) in zip(axes, results["problems"].items(), strict=True):
        m, scores = zip(*found["sizes"]["points"], strict=True)
        axis.plot(m, scores, "o-", color=COLORS[0], ms=4)
        axis.set_xscale("log")
        axis.set_title(f"{name}, {found['rows']:,} rows, {found['sizes']['model']}", fontsize=9)
        axis.set_xlabel("random features m", fontsize=9)
        axis.set_ylabel(f"test {found['metric']}", fontsize=9)
    return saved(figure, folder / "model_size.png")


def draw_times(results: dict[str, Any], folder: Path) -> Path:
    """Draw the score of every model against time."""
    figure, axes = axes_of(len(results["problems"]))
    for axis, (name, found) in zip(axes, results["problems"].items(), strict=True):
        for color, marker, (model, points) in zip(COLORS, MARKERS, found["times"].items(), strict=False):
            seconds, scores = zip(*points, strict=True)
            axis.plot(seconds, scores, f"{marker}-", color=color, ms=4, lw=1.2, label=model)
        axis.set_title(f"{name}, {found['rows']:,} rows, m = {found['features']:,}", fontsize=9)
        axis.set_xlabel("seconds", fontsize=9)
        axis.set_ylabel(f"test {found['metric']}", fontsize=9)
        axis.legend(fontsize=8)
    return saved(figure, folder / "models_time.png")


def draw_objectives(results: dict[str, Any], folder: Path) -> Path:
    """Draw primal, dual and held-out loss against steps, with the exact kernel and with features."""
    figure, axes = axes_of(2 * len(results["problems"]))
    panels = [(name, found, kind) for name, found in results["problems"].items() for kind in ("exact", "features")]
    for axis, (name, found, kind) in zip(axes, panels, strict=True):
        points = found["objectives"][kind]
        steps = [point["steps"] for point in points]
        for color, what in zip(COLORS, ("primal", "dual"), strict=False):
            axis.plot(steps, [point[what] for point in points], "o-", color=color, ms=3, lw=1.2, label=what)
        axis.set_yscale("log")
        other = axis.twinx()
        other.plot(steps, [point["held_out"] for point in points], "s--", color=COLORS[2], ms=3, lw=1.2)
        other.tick_params(labelsize=8, colors=COLORS[2])
        axis.plot([], [], "s--", color=COLORS[2], ms=3, lw=1.2, label="held-out loss (right)")
        how = "exact kernel" if kind == "exact" else f"m = {found['features']:,}"
        axis.set_title(f"{name}, {found['objectives']['model']}, {how}", fontsize=9)
        axis.set_xlabel("steps", fontsize=9)
        axis.legend(fontsize=7)
    return saved(figure, folder / "objectives.png")


def draw_memory(results: dict[str, Any], folder: Path) -> Path:
    """Draw memory against the number of features, and the size of an m × m matrix for comparison."""
    shown = {device: found for device, found in results.items() if "m" in found["axes"]}
    figure, axes = axes_of(max(1, len(shown)))
    for axis, (device, found) in zip(axes, shown.items(), strict=False):
        points = [(p["m"], p["peak_bytes"] / 1e6) for p in found["axes"]["m"]["points"] if p["peak_bytes"]]
        m, memory = zip(*points, strict=True)
        axis.loglog(m, memory, "o-", color=COLORS[0], ms=4, label="joker")
        axis.loglog(m, [4e-6 * size**2 for size in m], ":", color="0.4", label="an m × m matrix in float32")
        slope = found["axes"]["m"]["memory_slope"]
        axis.set_title(f"{found['machine'].get('card', device.upper())}: slope {slope}", fontsize=9)
        axis.set_xlabel("random features m", fontsize=9)
        axis.set_ylabel("peak memory in MB", fontsize=9)
        axis.legend(fontsize=8)
    return saved(figure, folder / "memory.png")


def draw_scaling(results: dict[str, Any], folder: Path) -> Path:
    """Draw time against n, m, d and t."""
    figure, axes = axes_of(4, width=3.6)
    for axis, name in zip(axes, ("n", "m", "d", "t"), strict=True):
        for color, (device, found) in zip(COLORS, results.items(), strict=False):
            if name in found["axes"]:
                points = [(p[name], p["seconds"]) for p in found["axes"][name]["points"]]
                label = f"{found['machine'].get('card', device.upper())}: {found['axes'][name]['time_slope']}"
                axis.loglog(*zip(*points, strict=True), "o-", color=color, ms=4, label=label)
        axis.set_xlabel(name, fontsize=9)
        axis.set_ylabel("seconds of an epoch" if name == "n" else "seconds of a step", fontsize=9)
        axis.legend(fontsize=7, title="slope", title_fontsize=7)
    return saved(figure, folder / "scaling.png")


def draw_peers(results: dict[str, Any], folder: Path) -> Path:
    """Draw the best score of each program against seconds of a fit, over fits to growing parts of the rows."""
    shown = {
        name: entry for name, entry in results["sets"].items() if any(p.get("curve") for p in entry["peers"].values())
    }
    figure, axes = axes_of(len(shown), height=4.0, most=3)
    everyone = list(dict.fromkeys(re.split(r" \+ |R$|C$", peer)[0] for e in shown.values() for peer in e["peers"]))
    for axis, (name, entry) in zip(axes, shown.items(), strict=True):
        for peer, found in entry["peers"].items():
            points = frontier(entry["metric"], found.get("curve", []))
            if points:
                # SVC and SVR have the same style, and so do pipelines with one feature map.
                number = everyone.index(re.split(r" \+ |R$|C$", peer)[0])
                style = f"{MARKERS[number % len(MARKERS)]}{'-' if found['kernel'] else ':'}"
                color = COLORS[number % len(COLORS)]
                wide = 2.2 if peer.startswith("joker") else 1.0
                axis.plot(*zip(*points, strict=True), style, color=color, ms=4, lw=wide, label=peer)
        axis.set_xscale("log")
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("seconds of a fit", fontsize=9)
        axis.set_ylabel(f"test {entry['metric']}", fontsize=9)
        axis.legend(fontsize=5.5)
    return saved(figure, folder / "peers_time.png")


def frontier(metric: str, curve: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return the points of a curve that are better than all earlier points."""
    found: list[tuple[float, float]] = []
    for seconds, score in sorted((point["seconds"], point[metric]) for point in curve):
        if not found or sets.better(metric, score, found[-1][1]):
            found.append((seconds, score))
    return found


DRAWN: dict[str, tuple[Callable[[dict[str, Any], Path], Path], ...]] = {
    "figures": (draw_sizes, draw_times, draw_objectives),
    "scaling": (draw_memory, draw_scaling),
    "peers": (draw_peers,),
}


def draw(results: Path, folder: Path) -> list[Path]:
    """Draw all plots whose results exist, and print which results are missing."""
    plots = []
    for name, drawers in DRAWN.items():
        file = results / f"{name}.json"
        if not file.is_file():
            print(f"{file.name} is missing: {', '.join(drawer.__name__ for drawer in drawers)} left out")
            continue
        found = json.loads(file.read_text(encoding="utf-8"))
        plots += [drawer(found, folder) for drawer in drawers]
    return plots


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure on request, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure results/figures.json before drawing")
    parser.add_argument("--quick", action="store_true", help="a few generated rows")
    parser.add_argument("--out", type=Path, default=common.RESULTS, help="folder of the results")
    parser.add_argument("--pictures", type=Path, help="folder of the plots; docs/figures, or --out if that is given")
    options = parser.parse_args(arguments)
    if options.measure:
        common.write_json(options.out / "figures.json", measure(QUICK if options.quick else FULL))
    default = PICTURES if options.out == common.RESULTS else options.out
    for picture in draw(options.out, options.pictures or default):
        print(picture)


if __name__ == "__main__":
    main()
