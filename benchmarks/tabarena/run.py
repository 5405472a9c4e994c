"""Run joker on TabArena, as a model or as a system.

    python benchmarks/tabarena/run.py --check            # generated tables, no downloads: both routes work here
    python benchmarks/tabarena/run.py model --lite       # the first split of each data set, the default configuration
    python benchmarks/tabarena/run.py model --configs 25
    python benchmarks/tabarena/run.py system --lite --time-limit 3600

It needs the packages ``tabarena`` and ``autogluon.tabular``, in an environment of their own: docs/tabarena.md. All but
``--check`` downloads the data sets from OpenML and the results of other methods.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from search_space import MODEL, SYSTEM


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("route", nargs="?", choices=["model", "system"], default="model")
    parser.add_argument("--check", action="store_true", help="fit both routes on generated tables, and stop")
    parser.add_argument("--lite", action="store_true", help="the first split of each data set")
    parser.add_argument("--configs", type=int, default=0, help="random configurations of the model")
    parser.add_argument("--time-limit", type=int, default=3_600, help="seconds of a fit")
    parser.add_argument("--out", type=Path, default=Path("tabarena_results"), help="the folder of the results")
    given = parser.parse_args(arguments)
    if given.check:
        for line in check():
            print(line)
        return
    run(given)


def run(given: argparse.Namespace) -> None:
    """Fit on the data sets of TabArena, and compare with its other methods."""
    from tabarena.benchmark.experiment import TabArenaV0pt1ExperimentBundle
    from tabarena.contexts import TabArenaContext

    system = given.route == "system"
    models = [(SYSTEM, 0)] if system else [(MODEL, given.configs)]
    bundle = TabArenaV0pt1ExperimentBundle(models=models, **({"system_experiments": True} if system else {}))
    context = TabArenaContext()
    context.build_and_run_jobs(
        bundle.build_experiments(time_limit=given.time_limit),
        expname=str(given.out / "experiments"),
        **({"subset": ["lite"]} if given.lite else {}),
    )
    leaderboard = context.compare(output_dir=given.out / "leaderboard")
    print(context.leaderboard_to_website_format(leaderboard=leaderboard).to_markdown(index=False))


def generated(problem: str, n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return a table with numbers, a category, missing values and a target of the problem type."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n) * 100 + 7, "c": rng.choice(list("xyz"), n)})
    value = np.sin(2 * X["a"]) + 0.01 * (X["b"] - 7) * (X["c"] == "x")
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    if problem == "regression":
        return X, pd.Series(10 + value + 0.1 * rng.normal(size=n), name="y")
    edges = [0.0] if problem == "binary" else [-0.5, 0.5]
    return X, pd.Series(np.array(["low", "middle", "high"])[np.digitize(value, edges)], name="y")


def check() -> list[str]:
    """Fit both routes on generated tables as TabArena does; return a line for each."""
    lines = []
    for problem in ("binary", "multiclass", "regression"):
        X, y = generated(problem)
        train, test = (X[:300], y[:300]), (X[300:], y[300:])
        for name, fitted in (("model", fit_model(problem, *train)), ("system", fit_system(problem, *train))):
            score = score_of(fitted, *test)
            lines.append(f"{name:7} {problem:11} score {score:.3f}")
    return lines


def fit_model(problem: str, X: pd.DataFrame, y: pd.Series, time_limit: float = 60, **fit: Any) -> Any:
    """Return AutoGluon's predictor with the model alone, bagged as TabArena bags it."""
    from autogluon.tabular import TabularPredictor
    from joker_model import JokerKernelModel

    path = tempfile.mkdtemp(prefix="tabarena_check_")
    predictor = TabularPredictor(label="y", problem_type=problem, path=path, verbosity=0)
    bags = {"num_bag_folds": 3, "num_bag_sets": 1, "ag_args_ensemble": {"fold_fitting_strategy": "sequential_local"}}
    return predictor.fit(
        X.assign(y=y),
        hyperparameters={JokerKernelModel: [{}]},
        fit_weighted_ensemble=False,
        time_limit=time_limit,
        **{**bags, **fit},
    )


def fit_system(problem: str, X: pd.DataFrame, y: pd.Series, time_limit: float = 600, **metadata: Any) -> Any:
    """Return the fitted system, handed what TabArena hands it."""
    from autogluon.core.metrics import get_metric
    from joker_system import JokerSystem

    metric = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "root_mean_squared_error"}[problem]
    system = JokerSystem(
        effort=1,
        problem_type=problem,
        eval_metric=get_metric(metric, problem),
        validation_metadata=metadata or None,
        fit_kwargs={"num_cpus": 1, "time_limit": time_limit},
    )
    system.warmup_fn()
    system.fit(X, y)
    return system


def score_of(fitted: Any, X: pd.DataFrame, y: pd.Series) -> float:
    """Return the share of right classes, or R²."""
    found = np.asarray(fitted.predict(X))
    if y.dtype.kind in "OUT" or not np.issubdtype(np.asarray(y).dtype, np.number):
        return float(np.mean(found == np.asarray(y)))
    residuals = np.asarray(y) - found
    return float(1 - np.mean(residuals**2) / np.var(np.asarray(y)))


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s")
