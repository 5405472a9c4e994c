"""The averaged iterate against the last iterate, epoch by epoch, for every loss.

    python benchmarks/averaging.py            # about seven minutes on one core
    python benchmarks/averaging.py --plot     # draw again from the existing results

60,000 rows of covtype (class 2 one-vs-rest; 48,000 to train, 12,000 to test) with the L1 Laplacian kernel and
σ = median / 3, and kin40k (90/10) with the Gaussian kernel and σ = median / 2; z-scores by mean and deviation of the
training rows, 2,000 random features, blocks of 512, float32. Each descent visits every block once per epoch; after each
epoch the last iterate and the average are scored on the test rows, and their duality gap is evaluated. The squared loss
also runs with momentum. Seconds are those of the descent, with the evaluations of the gap and without the scoring;
compare CPU seconds where other programs run on the same machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import common
import torch
from torch import Tensor

from joker import kernels
from joker.kernels.kernel import choose_bandwidth
from joker.models import FeatureMachine
from joker.prepare import prepare
from joker.solvers import Record, Settings, certify

SEED = 0
WITH_MOMENTUM = ("squared",)


@dataclass(frozen=True)
class DataSet:
    """A data set, its kernel, and its losses."""

    name: str
    rows: int
    test_share: float
    kernel: str
    bandwidth_divisor: float  # σ is the median distance divided by this
    lam: float
    losses: tuple[str, ...]

    @property
    def metric(self) -> str:
        """The metric of the test rows."""
        return "accuracy" if self.name == common.CLASSIFICATION else "rmse"


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    features: int = 2_000
    block: int = 512
    epochs: int = 5
    rows: int | None = None  # in place of the number of rows of a data set
    generated: bool = False


COVTYPE = DataSet(
    common.CLASSIFICATION, 60_000, 0.2, "laplacian", 3.0, 1 / 32, ("hinge", "squared_hinge", "logistic", "squared")
)
KIN40K = DataSet(
    common.REGRESSION,
    40_000,
    0.1,
    "gaussian",
    2.0,
    1 / 32,
    ("squared", "huber", "absolute", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "lp"),
)
SETS = (COVTYPE, KIN40K)
FULL, QUICK = Plan(), Plan(features=64, block=64, epochs=2, rows=400, generated=True)


@dataclass(frozen=True)
class Split:
    """Training and test rows in float32, z-scored by mean and deviation of the training rows."""

    x: Tensor  # (n, d)
    y: Tensor  # (n,)
    x_test: Tensor
    y_test: Tensor


def split(data: DataSet, plan: Plan) -> Split:
    """Shuffle, split and standardise the rows, and the targets of a regression."""
    rows = plan.rows or data.rows
    x, y = common.generated(data.name, rows, SEED) if plan.generated else common.load(data.name)
    x, y = common.shuffled(x, y, rows, SEED)
    n = len(x) - round(data.test_share * len(x))
    targets = y if data.metric == "accuracy" else common.standardise(y, y[:n])
    inputs = common.standardise(x, x[:n])
    return Split(*(part.float() for part in (inputs[:n], targets[:n], inputs[n:], targets[n:])))


def score(metric: str, y: Tensor, f: Tensor) -> float:
    """Return the accuracy of the sign, or the RMSE in units of the deviation of the target."""
    if metric == "accuracy":
        return float(((f > 0) == (y > 0)).double().mean())
    return float((f - y).double().square().mean().sqrt())


def run(data: DataSet, parts: Split, sigma: float, loss: str, momentum: bool, plan: Plan) -> dict[str, Any]:
    """Run one descent, and evaluate both iterates after each epoch."""
    settings = Settings(block_size=plan.block, max_epochs=plan.epochs, tol=0, momentum=momentum, seed=SEED)
    training = prepare(
        parts.x,
        parts.y,
        loss=loss,
        lam=data.lam,
        kernel=data.kernel,
        bandwidth=sigma,
        n_features=plan.features,
        settings=settings,
    )
    descent, features = training.descent, training.features
    average = descent.method.mean
    assert features is not None
    assert average is not None
    epochs: list[dict[str, Any]] = []
    begun, evaluating, evaluating_cpu = time.process_time(), 0.0, 0.0

    def evaluate(record: Record) -> None:
        nonlocal evaluating, evaluating_cpu
        started, started_cpu = time.perf_counter(), time.process_time()
        state = descent.state
        points = {"last": (state.alpha, state.image), "average": average.read(state)}
        gaps = certify(state, descent.problem, list(points.values()))
        thetas = torch.cat([image for _, image in points.values()], dim=1)
        f = FeatureMachine(features, thetas).predict(parts.x_test)
        row: dict[str, Any] = {
            "epoch": round(record.epoch),
            "seconds": round(record.seconds - evaluating, 2),
            "cpu_seconds": round(started_cpu - begun - evaluating_cpu, 2),
        }
        for k, (name, gap) in enumerate(zip(points, gaps, strict=True)):
            row[name] = {
                data.metric: round(score(data.metric, parts.y_test, f[:, k]), 5),
                "relative_gap": float(f"{gap.worst:.4g}"),
                "dual": float(f"{float(gap.dual):.8g}"),
            }
        epochs.append(row)
        evaluating += time.perf_counter() - started
        evaluating_cpu += time.process_time() - started_cpu

    report = descent.run(evaluate)
    visits = descent.method.blocks.count * plan.epochs
    return {
        "data": data.name,
        "loss": loss,
        "momentum": momentum,
        "metric": data.metric,
        "epochs": epochs,
        "seconds": epochs[-1]["seconds"],
        "cpu_seconds": epochs[-1]["cpu_seconds"],
        "products_per_visit": round(report.products / visits, 1),
        "outcomes": {outcome.name.lower(): count for outcome, count in sorted(report.outcomes.items())},
    }


def run_all(plan: Plan) -> dict[str, Any]:
    """Run every data set and loss."""
    started, runs, sets = time.perf_counter(), [], []
    for data in SETS:
        parts = split(data, plan)
        kernel = kernels.get(data.kernel)
        sigma = choose_bandwidth("median", kernel, parts.x, SEED) / data.bandwidth_divisor
        sets.append(
            {
                "name": "generated" if plan.generated else data.name,
                "train": len(parts.y),
                "test": len(parts.y_test),
                "kernel": data.kernel,
                "bandwidth": sigma,
                "lam": data.lam,
                "majority": float(torch.maximum((parts.y_test > 0).float().mean(), (parts.y_test < 0).float().mean())),
            }
        )
        if data.metric != "accuracy":
            del sets[-1]["majority"]
        for loss in data.losses:
            for momentum in (False, True) if loss in WITH_MOMENTUM else (False,):
                runs.append(run(data, parts, sigma, loss, momentum, plan))
                show_run(runs[-1])
    return {
        "machine": common.machine(SEED),
        "plan": {"features": plan.features, "block": plan.block, "epochs": plan.epochs, "dtype": "float32"},
        "sets": sets,
        "runs": runs,
        "seconds": round(time.perf_counter() - started, 1),
    }


def title(run: dict[str, Any]) -> str:
    """Return the title of a run."""
    return f"{run['data']}, {run['loss'].replace('_', ' ')}{' + momentum' if run['momentum'] else ''}"


def show_run(run: dict[str, Any]) -> None:
    """Print a run, one line per epoch."""
    products = f"{run['products_per_visit']} matrix-vector products per visit"
    print(f"\n{title(run)}: {run['cpu_seconds']:.1f} s of CPU, {products}")
    print(f"  epoch      CPU |{'last ' + run['metric']:>14}{'gap':>11} |{'average ' + run['metric']:>18}{'gap':>11}")
    for row in run["epochs"]:
        last, mean = row["last"], row["average"]
        print(
            f"  {row['epoch']:5}{row['cpu_seconds']:9.1f} |{last[run['metric']]:14.4f}{last['relative_gap']:11.2e}"
            f" |{mean[run['metric']]:18.4f}{mean['relative_gap']:11.2e}",
            flush=True,
        )


def show_summary(results: dict[str, Any]) -> None:
    """Print one line per run: the scores after the first and after the last epoch."""
    print(f"\n{'':44} |{'first epoch':^22}|{'last epoch':^22}|{'gap, last epoch':^23}|")
    print(f"{'':44} |{'last':>11}{'average':>11}|{'last':>11}{'average':>11}|{'last':>11}{'average':>12}|   CPU s")
    for run in results["runs"]:
        ends = [run["epochs"][0], run["epochs"][-1]]
        scores = "|".join(f"{row['last'][run['metric']]:11.4f}{row['average'][run['metric']]:11.4f}" for row in ends)
        gaps = f"{ends[1]['last']['relative_gap']:11.2e}{ends[1]['average']['relative_gap']:12.2e}"
        print(f"{title(run):44} |{scores}|{gaps}|{run['cpu_seconds']:8.1f}")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the test score of both iterates by epoch, one panel per run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    columns, places, shared = 5, [], {}
    # Each data set starts a row of panels, which have the same vertical range.
    for data in dict.fromkeys(run["data"] for run in results["runs"]):
        runs = [run for run in results["runs"] if run["data"] == data]
        first = -(-len(places) // columns) * columns
        places += [None] * (first - len(places)) + runs
        values = [row[name][run["metric"]] for run in runs for row in run["epochs"] for name in ("last", "average")]
        margin = 0.05 * (max(values) - min(values))
        shared[data] = (min(values) - margin, max(values) + margin)
    rows = -(-len(places) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(14, 2.5 * rows + 0.7), squeeze=False)
    for axis, run in zip(axes.flat, places + [None] * (rows * columns - len(places)), strict=True):
        if run is None:
            axis.axis("off")
            continue
        epochs, metric = [row["epoch"] for row in run["epochs"]], run["metric"]
        for name, color, style in (("last", "#df6d1c", "o--"), ("average", "#0b5fa5", "o-")):
            values = [row[name][metric] for row in run["epochs"]]
            axis.plot(epochs, values, style, color=color, lw=1.6, ms=4, label=f"{name} iterate")
        axis.set_title(title(run), fontsize=9)
        axis.set_ylim(*shared[run["data"]])
        axis.set_ylabel(f"test {'accuracy' if metric == 'accuracy' else 'RMSE'}", fontsize=8)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(color="0.93", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.supxlabel("epoch", fontsize=10)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper center", ncols=2, fontsize=9)
    figure.tight_layout(rect=(0, 0.005, 1, 1 - 0.35 / figure.get_figheight()))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small run on generated data, which shows that it works")
    parser.add_argument("--plot", action="store_true", help="print and draw the existing results")
    parser.add_argument("--epochs", type=int, default=FULL.epochs, help="visits to every block")
    parser.add_argument("--out", type=Path, default=common.RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    path = options.out / "averaging.json"
    if not options.plot:
        torch.set_num_threads(1)
        common.write_json(path, run_all(QUICK if options.quick else replace(FULL, epochs=options.epochs)))
    results = json.loads(path.read_text(encoding="utf-8"))
    show_summary(results)
    draw(results, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
