"""Curves of loss against CPU seconds: efforts 1 to 5 of joker beside boosting with 1, 10 and 100 configurations.

    python benchmarks/table_curves.py                              # every set and model on the first split: many hours
    python benchmarks/table_curves.py --sets wine --models joker,LightGBM --budgets 1,10
    python benchmarks/table_curves.py --missing                    # only what has no result yet
    python benchmarks/table_curves.py --jobs 14                    # as many points at a time, with one thread each
    python benchmarks/table_curves.py --models joker --estimate    # the CPU seconds of that, about; runs nothing
    python benchmarks/table_curves.py --summary                    # means over the sets that have all points
    python benchmarks/table_curves.py --draw                       # benchmarks/results/table_curves.png

Sets and splits are those of benchmarks/tables.py. The budget of joker is its effort, that of a boosting library a
number of configurations: its default one, and others at random from the usual ranges. The larger numbers begin with the
configurations of the smaller ones. A fifth of the training rows chooses among them, and the chosen one is fitted on all
training rows. Every point is measured in a process of its own, and the results are written after each.

The loss is the log loss, or the squared error divided by the variance of the targets of the training rows. The held-out
loss of joker is that of its own held-out rows. No choice uses a test row.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
import process
import table_models
import table_sets

JOKER = "joker"
EFFORTS, CONFIGURATIONS = (1, 2, 3, 4, 5), (1, 10, 100)
SEED, HELD_SHARE = 0, 0.2
LONGEST = 4 * 3_600.0  # seconds, after which the process of a point is ended
LEAST = 1e-15  # probability
CONFIGURATION = 5.0  # CPU seconds of a library, where they are not known yet
Settings = dict[str, Any]
Draw = np.random.Generator


def _log(draw: Draw, low: float, high: float) -> float:
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def _whole(draw: Draw, low: float, high: float) -> int:
    return round(_log(draw, low, high))


def _lightgbm(draw: Draw) -> Settings:
    return {
        "n_estimators": _whole(draw, 50, 1_000),
        "learning_rate": _log(draw, 0.01, 0.3),
        "num_leaves": _whole(draw, 8, 256),
        "min_child_samples": _whole(draw, 2, 100),
        "subsample": draw.uniform(0.5, 1),
        "subsample_freq": 1,
        "colsample_bytree": draw.uniform(0.5, 1),
        "reg_lambda": _log(draw, 1e-3, 10),
    }


def _catboost(draw: Draw) -> Settings:
    return {
        "iterations": _whole(draw, 50, 1_000),
        "learning_rate": _log(draw, 0.01, 0.3),
        "depth": int(draw.integers(4, 11)),
        "l2_leaf_reg": _log(draw, 1, 30),
        "random_strength": _log(draw, 0.1, 10),
    }


def _boosting(draw: Draw) -> Settings:
    return {
        "max_iter": _whole(draw, 50, 1_000),
        "learning_rate": _log(draw, 0.01, 0.3),
        "max_leaf_nodes": _whole(draw, 8, 256),
        "min_samples_leaf": _whole(draw, 2, 100),
        "l2_regularization": _log(draw, 1e-3, 10),
        "max_features": draw.uniform(0.5, 1),
        "early_stopping": False,
    }


# The model of a library with settings, and a draw of its settings.
LIBRARIES: dict[str, tuple[Callable[..., Any], Callable[[Draw], Settings]]] = {
    "LightGBM": (table_models.lightgbm, _lightgbm),
    "CatBoost": (table_models.catboost_categories, _catboost),
    "HistGradientBoosting": (table_models.boosting, _boosting),
}
MODELS = (JOKER, *LIBRARIES)


def configurations(library: str, count: int) -> list[Settings]:
    """Return the default configuration and random ones."""
    draw = np.random.default_rng(SEED)
    return [{}, *(LIBRARIES[library][1](draw) for _ in range(count - 1))]


def budgets(model: str) -> tuple[int, ...]:
    """Return the efforts of joker, or the numbers of configurations of a library."""
    return EFFORTS if model == JOKER else CONFIGURATIONS


def loss(task: str, fitted: Any, frame: Any, y: Any, variance: float) -> float:
    """Return the log loss, or the squared error in units of the variance of the training targets."""
    y = np.asarray(y)
    if task == "regression":
        return float(np.mean((np.asarray(fitted.predict(frame)) - y) ** 2) / variance)
    p, places = fitted.predict_proba(frame), {label: j for j, label in enumerate(fitted.classes_)}
    of_truth = [row[places[label]] if label in places else 0.0 for row, label in zip(p, y, strict=True)]
    return float(-np.mean(np.log(np.maximum(of_truth, LEAST))))


def work(send: process.Send, name: str, model: str, budget: int, seed: int) -> None:
    """Measure one point of a curve, and send its losses and CPU seconds."""
    warnings.simplefilter("ignore")
    part = table_sets.part(name, seed)
    variance = float(np.var(part.y)) if part.task == "regression" else 1.0
    send({"rows": len(part.frame)})
    started = process.cpu_seconds()
    fitted, held_out = (_joker if model == JOKER else _searched)(part, model, budget, variance)
    seconds = process.cpu_seconds() - started
    test = loss(part.task, fitted, part.test_frame, part.test_y, variance)
    send({"cpu_seconds": round(seconds, 2), "held_out_loss": held_out, "test_loss": test})


def _joker(part: table_sets.Part, model: str, effort: int, variance: float) -> tuple[Any, float | None]:
    fitted = table_models.joker_table(part.task, table_models.Budget(effort=effort))
    fitted.fit(part.frame, part.y)
    losses = [float(found) for found in fitted.held_out_losses_.values() if np.isfinite(found)]
    return fitted, losses[-1] / variance if losses else None


def _searched(part: table_sets.Part, library: str, count: int, variance: float) -> tuple[Any, float]:
    """Choose a configuration on a fifth of the training rows, and fit it on all of them."""
    make = LIBRARIES[library][0]
    order = np.random.default_rng(SEED).permutation(len(part.frame))
    cut = round(HELD_SHARE * len(order))
    x, x_held = (part.frame.iloc[rows].reset_index(drop=True) for rows in (order[cut:], order[:cut]))
    y, y_held = (part.y.iloc[rows].reset_index(drop=True) for rows in (order[cut:], order[:cut]))
    losses = []
    tried = configurations(library, count)
    for settings in tried:
        fitted = make(part.task, table_models.Budget(), **settings)
        fitted.fit(x, y)
        losses.append(loss(part.task, fitted, x_held, y_held, variance))
    best = int(np.argmin(losses))
    fitted = make(part.task, table_models.Budget(), **tried[best])
    fitted.fit(part.frame, part.y)
    return fitted, losses[best]


def points(results: dict[str, Any]) -> dict[str, dict[tuple[str, int], dict[str, float]]]:
    """Return the finished points of each set, by model and budget: means over splits."""
    found: dict[str, dict[tuple[str, int], dict[str, float]]] = {}
    for name, models in results["sets"].items():
        for model, by_budget in models.items():
            for budget, splits in by_budget.items():
                done = [entry for entry in splits.values() if "test_loss" in entry]
                if done:
                    found.setdefault(name, {})[model, int(budget)] = {
                        metric: float(np.mean([entry[metric] for entry in done if entry[metric] is not None] or np.nan))
                        for metric in ("cpu_seconds", "held_out_loss", "test_loss")
                    }
    return found


def summary(results: dict[str, Any]) -> Iterator[str]:
    """Yield, for each point, its test loss relative to the smallest one of the set, and its CPU seconds.

    Both are geometric means over the sets that have all points of the file.
    """
    found = points(results)
    keys = sorted({key for by_key in found.values() for key in by_key}, key=lambda key: (MODELS.index(key[0]), key[1]))
    whole = {name: by_key for name, by_key in found.items() if set(by_key) == set(keys)}
    yield f"{len(whole)} of {len(found)} sets have all points"
    for key in keys if whole else []:
        least = [min(point["test_loss"] for point in by_key.values()) for by_key in whole.values()]
        ratios = [by_key[key]["test_loss"] / best for by_key, best in zip(whole.values(), least, strict=True)]
        seconds = [by_key[key]["cpu_seconds"] for by_key in whole.values()]
        relative, cpu = (float(np.exp(np.mean(np.log(np.maximum(v, 1e-9))))) for v in (ratios, seconds))
        yield f"{key[0]:22s} {key[1]:4d}  test loss {relative:.3f} of the least  CPU {cpu:.1f} s"


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the curves of each set: test loss (solid) and held-out loss (dashed) against CPU seconds."""
    from matplotlib.figure import Figure

    found = points(results)
    rows = -(-len(found) // 3)
    figure = Figure(figsize=(12, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, 3, squeeze=False).ravel()
    for panel, (name, by_key) in zip(panels, found.items(), strict=False):
        for color, model in enumerate(MODELS):
            curve = sorted((point["cpu_seconds"], point) for (m, _), point in by_key.items() if m == model)
            seconds = [cpu for cpu, _ in curve]
            for metric, style in (("test_loss", "o-"), ("held_out_loss", "--")):
                label = model if style == "o-" else None
                panel.plot(seconds, [point[metric] for _, point in curve], style, color=f"C{color}", label=label)
        panel.set(xscale="log", title=name, xlabel="CPU seconds", ylabel="loss")
    for panel in panels[len(found) :]:
        panel.set_axis_off()
    panels[0].legend()
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen points, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(table_sets.SETS), help="the sets, with commas")
    parser.add_argument("--models", default=",".join(MODELS), help="the models, with commas")
    parser.add_argument("--budgets", default="", help="efforts and numbers of configurations; by default all")
    parser.add_argument("--splits", default="0", help="the seeds of the splits")
    parser.add_argument("--missing", action="store_true", help="skip what has a result")
    parser.add_argument("--jobs", type=int, default=1, help="points at a time; with several, each has one thread")
    parser.add_argument("--estimate", action="store_true", help="show an estimate of CPU seconds, and run nothing")
    parser.add_argument("--summary", action="store_true", help="show means over sets, and run nothing")
    parser.add_argument("--draw", action="store_true", help="draw the curves, and run nothing")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "table_curves.json", help="the results file")
    options = parser.parse_args(arguments)
    out: Path = options.out
    results = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"sets": {}}
    if options.summary:
        print("\n".join(summary(results)))
    if options.draw:
        draw(results, out.with_suffix(".png"))
    if options.summary or options.draw:
        return
    chosen = {int(budget) for budget in options.budgets.split(",") if budget}
    tasks, expected = [], {}
    for name in options.sets.split(","):
        for seed in options.splits.split(","):
            for model in options.models.split(","):
                for budget in (b for b in budgets(model) if not chosen or b in chosen):
                    kept = results["sets"].get(name, {}).get(model, {}).get(str(budget), {})
                    if options.missing and seed in kept:
                        continue
                    key = name, model, budget, int(seed)
                    tasks.append((key, work, key, LONGEST))
                    known = [entry["cpu_seconds"] for entry in kept.values() if "cpu_seconds" in entry]
                    of_plan = table_sets.expected_seconds(name, budget) if model == JOKER else CONFIGURATION * budget
                    expected[key] = float(np.mean(known)) if known else of_plan
    total = sum(expected.values())
    least = max([total / options.jobs, *expected.values()])
    print(
        f"{len(tasks)} points, about {total:,.0f} CPU seconds; with {options.jobs} jobs about {least / 60:.0f} minutes"
    )
    if options.estimate:
        return
    if options.jobs > 1:
        tasks.sort(key=lambda task: -expected[task[0]])  # the longest ones first
    for (name, model, budget, seed), found in process.all_apart(tasks, options.jobs):
        by_budget = results["sets"].setdefault(name, {}).setdefault(model, {})
        by_budget.setdefault(str(budget), {})[str(seed)] = {**found, "date": common.machine(SEED)["date"]}
        print(f"{name:12s} {model:22s} {budget:4d}  {found}", flush=True)
        results["machine"] = common.machine(SEED)
        common.write_json(out, results)


if __name__ == "__main__":
    main(sys.argv[1:])
