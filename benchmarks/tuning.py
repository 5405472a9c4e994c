"""What tuning is worth: `joker.tune` against the median bandwidth, in test scores and in seconds.

    python benchmarks/tuning.py            # some minutes on two cores
    python benchmarks/tuning.py --plot     # draw again from the results that are there

covtype (class 2 against the rest; 50,000 rows to train, 12,500 to test), kin40k (90/10) and higgs33k (80/20), with
z-scores by the training part's figures. Every machine has the settings of `KernelClassifier()` or `KernelRidge()`:
five epochs with the kernel itself, but 4,000 random features for the Laplacian kernel on covtype. The median
bandwidth gets a path of five λ, 10 to 10⁻³, of which the best on a tenth of 10,000 rows is fitted on all rows, with
each of the kernels that `joker.tune` tries. `joker.tune` chooses kernel, bandwidth and λ, and fits on all rows too.
Seconds are those of the clock and of the CPU; the latter are the ones to compare where other programs run beside it.
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
PATH_ROWS = 10_000  # on which the λ of the median bandwidth is chosen
Array = NDArray[Any]


@dataclass(frozen=True)
class DataSet:
    """A data set, and how it is cut."""

    name: str
    rows: int
    test_share: float
    regression: bool = False

    @property
    def metric(self) -> str:
        """What the test part is scored by."""
        return "rmse" if self.regression else "accuracy"


@dataclass(frozen=True)
class Plan:
    """What is run."""

    rows: int | None = None  # fewer rows than a data set names
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
    """Training and test rows in float32, z-scored by the figures of the training part."""

    x: Array  # (n, d)
    y: Array  # (n,)
    x_test: Array
    y_test: Array


def split(data: DataSet, plan: Plan) -> Split:
    """Draw the rows and cut them; targets of a regression are z-scored as well."""
    n = min(plan.rows or data.rows, data.rows)
    task = common.REGRESSION if data.regression else common.CLASSIFICATION
    x, y = common.generated(task, n, SEED) if plan.generated else common.load(data.name)
    x, y = common.shuffled(x, y, n, SEED)
    cut = round(len(x) * (1 - data.test_share))
    y = common.standardise(y, y[:cut]) if data.regression else y
    x = common.standardise(x, x[:cut]).float()
    return Split(x[:cut].numpy(), y[:cut].numpy(), x[cut:].numpy(), y[cut:].numpy())


def scores(data: DataSet, parts: Split, model: Any) -> dict[str, float]:
    """How a model does on the test part."""
    if data.regression:
        return {"rmse": round(float(np.sqrt(np.mean((model.predict(parts.x_test) - parts.y_test) ** 2))), 5)}
    f = model.decision_function(parts.x_test)
    accuracy = np.mean((f > 0) == (parts.y_test > 0))
    return {"accuracy": round(float(accuracy), 5), "auc": round(float(roc_auc_score(parts.y_test > 0, f)), 5)}


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What a piece of work gives, and what it takes."""
    started, begun = time.perf_counter(), time.process_time()
    done = work()
    spent = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - begun}
    return done, {name: round(value, 1) for name, value in spent.items()}


def with_median(base: Any, kernel: str, parts: Split) -> Any:
    """The median bandwidth: λ chosen on some of the rows, then fitted on all."""
    path = clone(base).set_params(kernel=kernel, bandwidth="median", lam=LAMS)
    path.fit(parts.x[:PATH_ROWS], parts.y[:PATH_ROWS])
    return clone(base).set_params(kernel=kernel, bandwidth="median", lam=path.lam_).fit(parts.x, parts.y)


def run(data: DataSet, parts: Split, plan: Plan) -> dict[str, Any]:
    """Every way of choosing, on one data set."""
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
    """What was chosen; where each input has its own bandwidth, that of the one that counts most, and the widest."""
    widths = {"widest": rounded(float(np.max(model.bandwidth_)))} if np.ndim(model.bandwidth_) else {}
    narrowest = float(np.min(model.bandwidth_))
    return {"kernel": model.kernel, "bandwidth": rounded(narrowest), **widths, "lam": rounded(model.lam_)}


def rounded(value: Any) -> Any:
    """Numbers to four digits, also those of an entry of a table."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def run_all(plan: Plan, names: Sequence[str], path: Path) -> None:
    """Run the data sets named; each is written as soon as it is done, beside what the file has of the others."""
    for data in SETS:
        if data.name in names:
            found = {"set": data.name, "machine": common.machine(SEED), **run(data, split(data, plan), plan)}
            before = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []
            runs = {one["set"]: one for one in (*before, found)}
            ordered = [runs[one.name] for one in SETS if one.name in runs]
            about = {"machine": common.machine(SEED), "plan": {"features": plan.features, "lam": LAMS}}
            common.write_json(path, {**about, "runs": ordered})


def show(data: DataSet, way: dict[str, Any]) -> None:
    """Print what one way has come to."""
    chosen = f"{way['kernel']}, σ {way['bandwidth']:g}, λ {way['lam']:g}"
    print(f"{data.name:10}{way['way']:20}{data.metric} {way[data.metric]:.4f}   {chosen}", flush=True)


def show_summary(results: dict[str, Any]) -> None:
    """Print one line a way."""
    print(f"\n{'':10}{'':20}{'test':>10}{'':10}{'CPU s':>9}{'seconds':>9}")
    for run in results["runs"]:
        for way in run["ways"]:
            score = f"{way[run['metric']]:10.4f} {run['metric']:9}"
            print(f"{run['data']:10}{way['way']:20}{score}{way['cpu_seconds']:9.1f}{way['seconds']:9.1f}")
        share = run["search_seconds"] / max(run["fit_seconds"], 0.1)
        print(f"{'':10}the search took {share:.1f} times as long as the fit on all rows that followed")


def draw(results: dict[str, Any], path: Path) -> None:
    """One panel a data set: the held-out loss of every bandwidth tried, with its best λ, by stage."""
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
    """The share of the median and the loss of each candidate, for each stage and kernel, with inputs weighted alike."""
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
    parser.add_argument("--quick", action="store_true", help="a small run on generated data, to show that it works")
    parser.add_argument("--plot", action="store_true", help="print and draw the results that are there")
    names = [data.name for data in SETS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names, help="data sets; others stay in the file")
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
