"""JokerClassifier and JokerRegressor on raw tables, against tree models and kernel methods.

    python benchmarks/tables.py                                     # every set, model and split: many hours
    python benchmarks/tables.py --sets wine,cells --models joker,LightGBM --splits 0,1
    python benchmarks/tables.py --models joker --effort 1           # into a results file of its own
    python benchmarks/tables.py --missing                           # only what has no result yet
    python benchmarks/tables.py --models joker --jobs 14            # as many fits at a time, with one thread each
    python benchmarks/tables.py --models joker --jobs 14 --estimate # the CPU seconds of that, about; runs nothing
    python benchmarks/tables.py --summary                           # mean ranks and wins of what there is

Sets: twelve tables with words and missing values, and five numeric sets. Each split tests on a fifth of the rows,
by the seed of the split. A model is fitted in its own process. joker searches by --effort and has no time limit; the
others have --limit seconds for fit and prediction. Each result has the CPU seconds of the fit, children included. The
results are written after every fit. No choice of any model uses a test row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
import process
import table_models
import table_sets
import table_summary
from scipy.special import softmax

LIMIT, EFFORT = table_models.Budget().limit, table_models.Budget().effort
COVERAGE = 0.9  # nominal, of prediction intervals
BINS = 10  # of the calibration error
GRACE = 3.0  # a fit may take so many times its limit before its process is ended
JOKER = "joker"
UNLIMITED = (JOKER, "joker.tune")  # the clock does not decide what they search
LONGEST = 7_200.0  # seconds, after which their process is ended
SPLITS = 5


def work(send: process.Send, name: str, model: str, seed: int, budget: table_models.Budget) -> None:
    """Fit one model on one split, and send its scores."""
    warnings.simplefilter("ignore")
    part = table_sets.part(name, seed)
    try:
        fitted = table_models.MODELS[model](part.task, budget)
    except ImportError as error:
        send({"not_installed": str(error)})
        return
    send({"rows": len(part.frame)})
    before, started, cpu = process.forget_peak(), time.perf_counter(), process.cpu_seconds()
    fitted.fit(part.frame, part.y)
    seconds, peak, cpu = time.perf_counter() - started, process.growth(before), process.cpu_seconds() - cpu
    started = time.perf_counter()
    found = fitted.predict(part.test_frame)
    predicting = time.perf_counter() - started
    send(
        {
            "scores": scores(part, fitted, found),
            "fit_seconds": round(seconds, 2),
            "fit_cpu_seconds": round(cpu, 2),
            "predict_seconds": round(predicting, 2),
            "peak_growth_bytes": peak,
        }
    )


def scores(part: table_sets.Part, fitted: Any, found: Any) -> dict[str, float]:
    """Return accuracy, AUC and log loss, or R² and RMSE."""
    from sklearn import metrics

    y = np.asarray(part.test_y)
    if part.task == "regression":
        result = {"r2": float(metrics.r2_score(y, found)), "rmse": float(metrics.root_mean_squared_error(y, found))}
        return result | covered(part, fitted, y)
    result = {"accuracy": float(metrics.accuracy_score(y, found))}
    if hasattr(fitted, "predict_proba"):
        try:
            p, labels = fitted.predict_proba(part.test_frame), list(fitted.classes_)
        except AttributeError:
            return result
        right = np.asarray(labels)[p.argmax(axis=1)] == y
        result["calibration_error"] = calibration_error(p, right)
        if getattr(fitted, "calibration", None) is not None:
            plain = softmax(_margins(fitted.decision_function(part.test_frame)), axis=1)
            right = np.asarray(labels)[plain.argmax(axis=1)] == y
            result["calibration_error_of_margins"] = calibration_error(plain, right)
        result["log_loss"] = float(metrics.log_loss(y, p, labels=labels))
        binary = len(labels) == 2
        chosen = p[:, 1] if binary else p
        result["auc"] = float(
            metrics.roc_auc_score(y, chosen, **({} if binary else {"multi_class": "ovr", "labels": labels}))
        )
    return result


def _margins(f: Any) -> Any:  # (n, classes)
    return np.stack([-f, f], axis=1) if f.ndim == 1 else f


def covered(part: table_sets.Part, fitted: Any, y: Any) -> dict[str, float]:
    """Return the share of test rows in intervals of a nominal coverage; empty for a model without intervals."""
    if not hasattr(fitted, "predict_interval"):
        return {}
    low, high = fitted.predict_interval(part.test_frame, COVERAGE).T
    return {f"coverage_of_{COVERAGE:g}": float(np.mean((low <= y) & (y <= high)))}


def calibration_error(p: Any, right: Any) -> float:
    """Return the mean distance of confidence and accuracy over bins of equal width, weighted by their rows."""
    confidence = p.max(axis=1)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(float(np.sum(confidence[bins == k] - right[bins == k]))) for k in range(BINS)]
    return sum(gaps) / len(p)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen models on the chosen splits, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(table_sets.SETS), help="the sets, with commas")
    parser.add_argument("--models", default=";".join(table_models.MODELS), help="the models, with semicolons")
    parser.add_argument("--splits", default=",".join(map(str, range(SPLITS))), help="the seeds of the splits")
    parser.add_argument("--effort", type=int, default=EFFORT, help="of joker")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each fit of another model")
    parser.add_argument("--missing", action="store_true", help="skip what has a result")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time; with several, each has one thread")
    parser.add_argument("--estimate", action="store_true", help="show an estimate of CPU seconds, and run nothing")
    parser.add_argument("--summary", action="store_true", help="show mean ranks and wins, and run nothing")
    parser.add_argument("--out", type=Path, default=None, help="the results file")
    options = parser.parse_args(arguments)
    out: Path = options.out or common.RESULTS / _results_file(options.limit, options.effort)
    budget = table_models.Budget(options.limit, options.effort)
    results = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"sets": {}}
    if options.summary:
        print(table_summary.text(results))
        return
    tasks, expected = [], {}
    for name in options.sets.split(","):
        for model in options.models.split(";"):
            for seed in map(int, options.splits.split(",")):
                kept = results["sets"].get(name, {}).get(model, {})
                if options.missing and str(seed) in kept:
                    continue
                longest = LONGEST if model in UNLIMITED else GRACE * options.limit
                key = name, model, seed
                tasks.append((key, work, (*key, budget), longest))
                of_plan = table_sets.expected_seconds(name, options.effort) if model == JOKER else options.limit
                expected[key] = table_summary.known_cpu_seconds(kept) or of_plan
    total = sum(expected.values())
    least = max([total / options.jobs, *expected.values()])
    print(f"{len(tasks)} fits, about {total:,.0f} CPU seconds; with {options.jobs} jobs about {least / 60:.0f} minutes")
    if options.estimate:
        return
    if options.jobs > 1:
        tasks.sort(key=lambda task: -expected[task[0]])  # the longest ones first
    for (name, model, seed), found in process.all_apart(tasks, options.jobs):
        entry = {**found, "date": common.machine(seed)["date"]}
        results["sets"].setdefault(name, {}).setdefault(model, {})[str(seed)] = entry
        print(f"{name:12s} {model:22s} {seed}  {_line(found)}", flush=True)
        results |= {"limit_seconds": options.limit, "effort": options.effort, "machine": common.machine(0)}
        common.write_json(out, results)


def _results_file(limit: float, effort: int) -> str:
    """Return the name of the file for these settings, which are not mixed."""
    of_limit = "" if limit == LIMIT else f"_{limit:g}s"
    return f"tables{of_limit}{'' if effort == EFFORT else f'_effort{effort}'}.json"


def _line(found: dict[str, Any]) -> str:
    if "scores" not in found:
        return str(found)
    text = "  ".join(f"{name} {value:.4f}" for name, value in found["scores"].items())
    seconds = f"fit {found['fit_seconds']:.1f} s, CPU {found['fit_cpu_seconds']:.1f} s"
    return f"{text}  {seconds}  predict {found['predict_seconds']:.1f} s"


if __name__ == "__main__":
    main(sys.argv[1:])
