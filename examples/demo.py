"""Two problems that need a kernel, with 100,000 rows each: a linear model, a kernel model of scikit-learn, and joker.

    make demo                             # a table, and two plots in demo/
    python examples/demo.py --quick       # the same in seconds, on few rows
    python examples/demo.py --results     # also writes benchmarks/results/demo.json and the table of a page
    python examples/demo.py --page        # writes the table of docs/first-steps.md from benchmarks/results/demo.json

Memory or time of scikit-learn's kernel models grows with the square of the number of rows, so they get a part of the
rows. Each model is fitted in its own process: seconds are those of ``fit``, and memory is the growth of the peak
resident memory of that process.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "demo.json"
MARKS = "<!-- the table of examples/demo.py -->", "<!-- end of the table -->"
SEED = 0
TEST_ROWS = 20_000
HALF_WIDTH = 3.0  # of the square that the plots show
SIDE = 120  # points along a side of the square


# The problems


def spirals(n: int, seed: int) -> tuple[Any, Any]:
    """Draw two spiral arms that rotate with a third input; one label in twenty is wrong."""
    rng = np.random.default_rng(seed)
    X = _inputs(n, rng)
    angle, radius = np.arctan2(X[:, 1], X[:, 0]), np.hypot(X[:, 0], X[:, 1])
    return X, (np.sin(angle + 4 * radius + X[:, 2]) > 0) ^ (rng.random(n) < 0.05)


def waves(n: int, seed: int) -> tuple[Any, Any]:
    """Draw a wave that shifts with a third input, with noise of deviation 0.2."""
    rng = np.random.default_rng(seed)
    X = _inputs(n, rng)
    return X, np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1] + X[:, 2]) + 0.2 * rng.normal(size=n)


def _inputs(n: int, rng: np.random.Generator) -> Any:
    return rng.uniform(-1, 1, (n, 3)) * [HALF_WIDTH, HALF_WIDTH, 1]


PROBLEMS = {"spirals": spirals, "waves": waves}
METRICS = {"spirals": "accuracy", "waves": "R²"}
BANDWIDTH = {"spirals": 0.4, "waves": 0.7}
LAM = {"spirals": 1.0, "waves": 0.1}


# The models


def linear(problem: str, quick: bool) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    return LogisticRegression() if problem == "spirals" else Ridge()


def peer(problem: str, quick: bool) -> Any:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC

    gamma = 1 / (2 * BANDWIDTH[problem] ** 2)
    if problem == "spirals":
        return SVC(C=1 / LAM[problem], gamma=gamma)
    return KernelRidge(alpha=LAM[problem], kernel="rbf", gamma=gamma)


def ours(problem: str, quick: bool) -> Any:
    from joker import KernelRidge, KernelSVC

    classifier = problem == "spirals"
    m = 100 if quick else 1_000 if classifier else 500
    return (KernelSVC if classifier else KernelRidge)(
        lam=LAM[problem],
        bandwidth=BANDWIDTH[problem],  # in units of the inputs, as for scikit-learn
        standardize=False,
        n_features=m,
        max_epochs=3,
        verbose=1,
        random_state=SEED,
    )


MAKERS = {"linear": linear, "peer": peer, "joker": ours}


@dataclass(frozen=True)
class Contender:
    """A model, its problem, and the number of rows."""

    problem: str
    maker: str
    rows: int
    quick: bool


def contenders(quick: bool) -> list[Contender]:
    rows = 2_000 if quick else 100_000
    part = {"spirals": rows // 10, "waves": rows // 20}
    return [
        Contender(problem, maker, part[problem] if maker == "peer" else rows, quick)
        for problem in PROBLEMS
        for maker in MAKERS
    ]


# One fit, in its own process


def measure(contender: Contender) -> dict[str, Any]:
    """Fit, score, and predict on a slice; runs in the process of the contender."""
    model = MAKERS[contender.maker](contender.problem, contender.quick)
    draw = PROBLEMS[contender.problem]
    X, y = draw(contender.rows, SEED)
    X_test, y_test = draw(2_000 if contender.quick else TEST_ROWS, SEED + 1)
    before = restart_peak()
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    after = peak_bytes()
    module = "joker" if contender.maker == "joker" else "sklearn"
    return {
        "problem": contender.problem,
        "model": f"{module} {type(model).__name__}",
        "rows": contender.rows,
        "metric": METRICS[contender.problem],
        "score": float(model.score(X_test, y_test)),
        "seconds": seconds,
        "peak_bytes": None if after is None or before is None else after - before,
        "gap": getattr(model, "gap_", None),
        "history": getattr(model, "history_", None),
        "slice": sliced(model).tolist(),
    }


def restart_peak() -> int | None:
    """Reset the memory peak where Linux allows it; return the present resident memory in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return peak_bytes()
    return _status("VmRSS")


def peak_bytes() -> int | None:
    """Return the memory peak of this process in bytes; None where the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int | None:
    status = Path("/proc/self/status")
    found = re.search(rf"{field}:\s+(\d+) kB", status.read_text(encoding="ascii")) if status.is_file() else None
    return int(found[1]) * 1024 if found else None


def sliced(model: Any) -> Any:
    """Return the values of a model where the third input is 0."""
    line = np.linspace(-HALF_WIDTH, HALF_WIDTH, SIDE)
    first, second = np.meshgrid(line, line)
    points = np.column_stack([first.ravel(), second.ravel(), np.zeros(SIDE**2)])
    return getattr(model, "decision_function", model.predict)(points)


# Tables and plots


def table(records: list[dict[str, Any]]) -> str:
    """Return the results as a table in Markdown."""
    head = ["problem", "model", "rows", "score", "fit", "memory", "gap"]
    lines = [head, *([_cell(record, name) for name in head] for record in records)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = [width * "-" for width in widths]
    lines = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in [head, rule, *lines[1:]]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(record: dict[str, Any], name: str) -> str:
    match name:
        case "rows":
            return f"{record['rows']:,}"
        case "score":
            return f"{record['metric']} {record['score']:.3f}"
        case "fit":
            return f"{record['seconds']:.1f} s"
        case "memory":
            return "not known" if record["peak_bytes"] is None else f"{record['peak_bytes'] / 1e6:,.0f} MB"
        case "gap":
            return "" if record["gap"] is None else f"{record['gap']:.1%}"
        case _:
            return str(record[name])


def draw_plots(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [draw_convergence(records, folder / "convergence.png"), draw_slices(records, folder / "decision.png")]


def draw_convergence(records: list[dict[str, Any]], path: Path) -> Path:
    """Draw the duality gap of each fit against time."""
    from matplotlib.figure import Figure

    from joker import ConvergenceDisplay

    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    for record in records:
        if history := record["history"]:
            columns = {name: [e[name] for e in history] for name in ("epoch", "seconds", "gap", "primal", "dual")}
            ConvergenceDisplay(**columns, estimator_name=f"{record['model']}, {record['problem']}").plot(
                ax, against="seconds"
            )
    figure.savefig(path, dpi=150)
    return path


def draw_slices(records: list[dict[str, Any]], path: Path) -> Path:
    """Draw the values of each model where the third input is 0."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(MAKERS), 4 * len(PROBLEMS)), layout="constrained")
    ends = (-HALF_WIDTH, HALF_WIDTH) * 2
    for ax, record in zip(figure.subplots(len(PROBLEMS), len(MAKERS)).ravel(), records, strict=True):
        values = np.reshape(record["slice"], (SIDE, SIDE))
        ax.imshow(values, origin="lower", extent=ends, cmap="RdBu", vmin=-1, vmax=1, interpolation="bilinear")
        ax.set_title(f"{record['model']}, {record['rows']:,} rows: {_cell(record, 'score')}", fontsize=9)
    figure.savefig(path, dpi=150)
    return path


# Results


def write_results(records: list[dict[str, Any]]) -> None:
    """Write the results with a description of the machine."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import common

    machine = {**common.machine(SEED), "command": "python examples/demo.py --results"}
    kept = [{name: value for name, value in record.items() if name not in ("history", "slice")} for record in records]
    common.write_json(RESULTS, {"machine": machine, "models": kept})
    print(f"results: {RESULTS.relative_to(ROOT)}")


def page(text: str, results: dict[str, Any]) -> str:
    """Return the text of the page with the table of these results between its marks."""
    machine = results["machine"]
    note = (
        f"On {machine['cores']} cores ({machine['cpu']}), torch {machine['torch']}, threads: {machine['threads']}, "
        f"{machine['date']}: [results file](../benchmarks/results/demo.json)."
    )
    start, end = MARKS
    head, _, rest = text.partition(start)
    _, _, tail = rest.partition(end)
    return f"{head}{start}\n{table(results['models'])}\n\n{note}\n{end}{tail}"


def write_page() -> None:
    path = ROOT / "docs" / "first-steps.md"
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    path.write_text(page(path.read_text(encoding="utf-8"), results), encoding="utf-8")
    print("table: docs/first-steps.md")


def run(quick: bool, folder: Path) -> list[dict[str, Any]]:
    started = time.perf_counter()
    records = []
    for contender in contenders(quick):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as own:
            records.append(own.submit(measure, contender).result())
        print(f"{contender.problem}: {records[-1]['model']} is done", flush=True)
    print(f"\n{table(records)}\n")
    print("One label in twenty of the spirals is wrong, so no model can have an accuracy above 0.95. The gap is a")
    print("certificate of joker: no model has an objective that is lower by a larger share.")
    if find_spec("matplotlib"):
        print("plots:", *draw_plots(records, folder))
    print(f"total time {time.perf_counter() - started:.0f} s")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rows")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="the folder of the plots")
    parser.add_argument("--results", action="store_true", help="write the results and the table of the page")
    parser.add_argument("--page", action="store_true", help="only write the table of the page")
    given = parser.parse_args()
    if given.quick and given.results:
        parser.error("--results must be those of a full run; got --quick. Leave out --quick.")
    if not given.page:
        records = run(given.quick, given.out)
    if given.results:
        write_results(records)
    if given.results or given.page:
        write_page()


if __name__ == "__main__":
    main()
