"""`joker.tune` against the median bandwidth: test scores and seconds.

    python benchmarks/tuning.py            # some minutes on two cores
    python benchmarks/tuning.py --plot     # draw again from the existing results

covtype (class 2 one-vs-rest; 50,000 rows to train, 12,500 to test), kin40k (90/10) and higgs33k (80/20), with
z-scores by mean and deviation of the training rows. Every machine has the settings of `KernelClassifier()` or
`KernelRidge()`: five epochs with the exact kernel, but 4,000 random features for the Laplacian kernel on covtype. With
the median bandwidth, each kernel that `joker.tune` tries gets a path of five λ, 10 to 10⁻³; the best λ on a tenth of
10,000 rows is then fitted on all rows. `joker.tune` chooses kernel, bandwidth and λ, and also fits on all rows. Seconds
are wall time and CPU time; compare CPU time where other programs run on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import joker

SEED = 0
LAMS = [10.0, 1.0, 0.1, 0.01, 0.001]
KERNELS = ("gaussian", "matern12", "laplacian")
PATH_ROWS = 10_000  # rows on which λ is chosen for the median bandwidth
Array = NDArray[Any]


@dataclass(frozen=True)
class DataSet:
    """A data set, and how it is split."""

    name: str
    rows: int
    test_share: float
    regression: bool = False

    @property
    def metric(self) -> str:
        """The metric of the test rows."""
        return "rmse" if self.regression else "accuracy"


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    rows: int | None = None  # in place of the number of rows of a data set
    features: int | str = "auto"
    generated: bool = False


SETS = (
    DataSet(common.CLASSIFICATION, 62_500, 0.2),
    DataSet(common.REGRESSION, 40_000, 0.1, regression=True),
    DataSet("higgs33k", 33_461, 0.2),
)
FULL, QUICK = Plan(), Plan(rows=600, features=64, generated=True)


@dataclass(frozen=True)
class Split:
    """Training and test rows in float32, z-scored by mean and deviation of the training rows."""

    x: Array  # (n, d)
    y: Array  # (n,)
    x_test: Array
    y_test: Array


def split(data: DataSet, plan: Plan) -> Split:
    """Draw and split the rows; targets of a regression are z-scored too."""
    n = min(plan.rows or data.rows, data.rows)
    task = common.REGRESSION if data.regression else common.CLASSIFICATION
    x, y = common.generated(task, n, SEED) if plan.generated else common.load(data.name)
    x, y = common.shuffled(x, y, n, SEED)
    cut = round(len(x) * (1 - data.test_share))
    y = common.standardise(y, y[:cut]) if data.regression else y
    x = common.standardise(x, x[:cut]).float()
    return Split(x[:cut].numpy(), y[:cut].numpy(), x[cut:].numpy(), y[cut:].numpy())


def scores(data: DataSet, parts: Split, model: Any) -> dict[str, float]:
    """Return the scores of a model on the test rows."""
    if data.regression:
        return {"rmse": round(float(np.sqrt(np.mean((model.predict(parts.x_test) - parts.y_test) ** 2))), 5)}
    f = model.decision_function(parts.x_test)
    accuracy = np.mean((f > 0) == (parts.y_test > 0))
    return {"accuracy": round(float(accuracy), 5), "auc": round(float(roc_auc_score(parts.y_test > 0, f)), 5)}


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of ``work``, and its wall and CPU seconds."""
    started, begun = time.perf_counter(), time.process_time()
    done = work()
    spent = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - begun}
    return done, {name: round(value, 1) for name, value in spent.items()}


def with_median(base: Any, kernel: str, parts: Split) -> Any:
    """Choose λ on a part of the rows with the median bandwidth, then fit on all rows."""
    path = clone(base).set_params(kernel=kernel, bandwidth="median", lam=LAMS)
    path.fit(parts.x[:PATH_ROWS], parts.y[:PATH_ROWS])
    return clone(base).set_params(kernel=kernel, bandwidth="median", lam=path.lam_).fit(parts.x, parts.y)


def run(data: DataSet, parts: Split, plan: Plan) -> dict[str, Any]:
    """Run every way of choosing on one data set."""
    kind = joker.KernelRidge if data.regression else joker.KernelClassifier
    base = kind(n_features=plan.features, random_state=SEED)
    ways = []
    for kernel in KERNELS:
        model, spent = timed(lambda kernel=kernel: with_median(base, kernel, parts))
        ways.append({"way": f"median, {kernel}", **settings(model), **scores(data, parts, model), **spent})
        show(data, ways[-1])
    tuned, spent = timed(lambda: joker.tune(parts.x, parts.y, estimator=base))
    found = scores(data, parts, tuned.estimator)
    ways.append({"way": "tuned", **settings(tuned.estimator), **found, **spent})
    show(data, ways[-1])
    return {
        "data": "generated" if plan.generated else data.name,
        "train": len(parts.y),
        "test": len(parts.y_test),
        "metric": data.metric,
        "ways": ways,
        "search_seconds": round(tuned.search_seconds, 1),
        "fit_seconds": round(tuned.fit_seconds, 1),
        "medians": {way["kernel"]: way["bandwidth"] for way in ways[:-1]},
        "trials": [rounded(entry) for entry in tuned.table],
    }


def settings(model: Any) -> dict[str, Any]:
    """Return the chosen settings; where each input has its own bandwidth, the smallest and the largest ("widest")."""
    largest = {"widest": rounded(float(np.max(model.bandwidth_)))} if np.ndim(model.bandwidth_) else {}
    smallest = float(np.min(model.bandwidth_))
    return {"kernel": model.kernel, "bandwidth": rounded(smallest), **largest, "lam": rounded(model.lam_)}


def rounded(value: Any) -> Any:
    """Round numbers to four digits, also inside a dictionary."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def run_all(plan: Plan, names: Sequence[str], path: Path) -> None:
    """Run the selected data sets; each result is added to the file as soon as it is complete."""
    for data in SETS:
        if data.name in names:
            found = {"set": data.name, "machine": common.machine(SEED), **run(data, split(data, plan), plan)}
            before = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []
            runs = {one["set"]: one for one in (*before, found)}
            ordered = [runs[one.name] for one in SETS if one.name in runs]
            about = {"machine": common.machine(SEED), "plan": {"features": plan.features, "lam": LAMS}}
            common.write_json(path, {**about, "runs": ordered})


def show(data: DataSet, way: dict[str, Any]) -> None:
    """Print the result of one way."""
    chosen = f"{way['kernel']}, σ {way['bandwidth']:g}, λ {way['lam']:g}"
    print(f"{data.name:10}{way['way']:20}{data.metric} {way[data.metric]:.4f}   {chosen}", flush=True)


def show_summary(results: dict[str, Any]) -> None:
    """Print one line per way."""
    print(f"\n{'':10}{'':20}{'test':>10}{'':10}{'CPU s':>9}{'seconds':>9}")
    for run in results["runs"]:
        for way in run["ways"]:
            score = f"{way[run['metric']]:10.4f} {run['metric']:9}"
            print(f"{run['data']:10}{way['way']:20}{score}{way['cpu_seconds']:9.1f}{way['seconds']:9.1f}")
        share = run["search_seconds"] / max(run["fit_seconds"], 0.1)
        print(f"{'':10}the search took {share:.1f} times as long as the fit on all rows that followed")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the held-out loss of every bandwidth with its best λ, by stage, one panel per data set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    colors = {"gaussian": "#0b5fa5", "matern12": "#2a8a5a", "laplacian": "#df6d1c"}
    runs = results["runs"]
    figure, axes = plt.subplots(1, len(runs), figsize=(4.4 * len(runs), 3.6), squeeze=False)
    for axis, run in zip(axes.flat, runs, strict=True):
        for (stage, rows, kernel), points in curves(run).items():
            shares, losses = zip(*points, strict=True)
            axis.plot(shares, losses, "o-", color=colors[kernel], alpha=0.35 + 0.2 * stage, lw=1.4, ms=4)
            offset = {"xytext": (4, 2), "textcoords": "offset points"}
            axis.annotate(f"{rows:,}", (shares[-1], losses[-1]), fontsize=7, color="0.4", **offset)
        *medians, tuned = (way[run["metric"]] for way in run["ways"])
        best = min(medians) if run["metric"] == "rmse" else max(medians)
        axis.set_title(f"{run['data']}: test {run['metric']} {tuned:.3f}, with the median {best:.3f}", fontsize=9)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("bandwidth / median distance", fontsize=9)
        axis.set_ylabel("held-out loss of the best λ", fontsize=9)
        axis.grid(color="0.93", lw=0.6, which="both")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8, which="both")
    lines = [Line2D([], [], color=color, marker="o", ms=4, label=kernel) for kernel, color in colors.items()]
    note = "numbers are the rows of a trial"
    figure.legend(handles=lines, loc="upper center", ncols=3, fontsize=9, title=note, title_fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.87))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def curves(run: dict[str, Any]) -> dict[tuple[int, int, str], list[tuple[float, float]]]:
    """Return bandwidth / median and loss of each candidate with equal input weights, for each stage and kernel."""
    best: dict[tuple[int, int, str, float], float] = {}
    for trial in (trial for trial in run["trials"] if not trial.get("relevance")):  # others have another median
        key = (trial["stage"], trial["rows"], trial["kernel"], trial["bandwidth"])
        best[key] = min(trial["loss"], best.get(key, np.inf))
    found: dict[tuple[int, int, str], list[tuple[float, float]]] = {}
    for (stage, rows, kernel, sigma), loss in sorted(best.items()):
        found.setdefault((stage, rows, kernel), []).append((sigma / run["medians"][kernel], loss))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small run on generated data, which shows that it works")
    parser.add_argument("--plot", action="store_true", help="print and draw the existing results")
    names = [data.name for data in SETS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, help="data sets to run; others keep results")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of torch")
    parser.add_argument("--out", type=Path, default=common.RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    path = options.out / "tuning.json"
    if not options.plot:
        torch.set_num_threads(options.threads)
        run_all(QUICK if options.quick else FULL, options.sets, path)
    results = json.loads(path.read_text(encoding="utf-8"))
    show_summary(results)
    draw(results, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
