"""Ablations of the parts of a table fit: each is taken out, and the loss of held-out rows is compared.

    python benchmarks/table_parts.py                       # about twenty minutes on one core
    python benchmarks/table_parts.py --only "linear trend" # the others keep their results

Every table of `named_tables.py` and of the list below has some of its training rows: three quarters are fitted with
effort 1 and the rest is scored, so that no test row is read. The loss is the squared error in units of the variance of
the target, or the log loss. A ratio below 1 says that the part lowers it; ratios are geometric means over the tables
that the part changes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import named_tables
import numpy as np
import process
from named_tables import NamedTable

ROWS = 2_000  # fitted and scored
MORE: dict[str, NamedTable] = {
    "Wage": NamedTable("ISLR", "Wage", "wage", ("logwage",)),
    "ames": NamedTable("modeldata", "ames", "Sale_Price"),
    "Chicago": NamedTable("modeldata", "Chicago", "ridership"),
    "deliveries": NamedTable("modeldata", "deliveries", "time_to_delivery"),
    "gapminder": NamedTable("gapminder", "gapminder_unfiltered", "lifeExp"),
    "movies": NamedTable("ggplot2movies", "movies", "rating"),
    "baseball": NamedTable("plyr", "baseball", "r"),
    "airfare": NamedTable("wooldridge", "airfare", "fare", ("lfare",)),
    "wa_churn": NamedTable("modeldata", "wa_churn", "churn", classes=True),
    "lending_club": NamedTable("modeldata", "lending_club", "int_rate"),
    "stackoverflow": NamedTable("modeldata", "stackoverflow", "Salary"),
    "weather": NamedTable("nycflights13", "weather", "temp", ("dewp",)),
    "use_of_force": NamedTable(
        "openintro", "mn_police_use_of_force", "force_type", ("force_type_action",), classes=True
    ),
    "MplsStops": NamedTable("carData", "MplsStops", "problem", classes=True),
    "inspections": NamedTable("causaldata", "restaurant_inspections", "inspection_score"),
    "Chem97": NamedTable("mlmRev", "Chem97", "score"),
    "seattlepets": NamedTable("openintro", "seattlepets", "species", classes=True),
    "diseases": NamedTable("dslabs", "us_contagious_diseases", "count"),
    "loans": NamedTable("openintro", "loans_full_schema", "interest_rate", ("grade", "sub_grade")),
}


def _nothing(*given: Any, **named: Any) -> None:
    """Take the place of a function that proposes a part."""


def _all(problem: Any, kinds: Any, encoding: Any, x: Any) -> dict[int, Any]:
    """Confirm all codes, in place of `joker.tables.choices.lasting`."""
    return dict(kinds)


def _kinds(model: Any) -> Iterator[Any]:
    return (kind for encoding in model.ensemble.encodings for kind in encoding.kinds)


@dataclass(frozen=True)
class Part:
    """How a part is taken out: values in the place of names of modules."""

    changes: tuple[tuple[str, str, Any], ...]
    has: Callable[[Any], bool]  # whether a model was fitted with it; else taking it out changes nothing


PARTS = {
    "linear trend": Part(
        (("joker.tables.refit", "trend_inputs", _nothing),),
        lambda model: any(member.trend is not None for member in model.ensemble.members),
    ),
    "identifiers as numbers": Part(
        (("joker.tables.choices", "GAINS", {"number": 1.0, "text": 0.01, "drop": 0.0}),),
        lambda model: any(kind.kind == "number" and kind.reason for kind in _kinds(model)),
    ),
    "codes that later rows confirm": Part(
        (("joker.tables.search", "lasting", _all),), lambda model: any(map(_orders, model.feature_names_in_))
    ),
    "steps": Part(
        (("joker.tables.search", "may_have_steps", _nothing),),
        lambda model: any(trial["scaling"].endswith("steps") for trial in model.leaderboard_),
    ),
    "text": Part(
        (
            ("joker.tables.columns", "FREE_TEXT_WORDS", math.inf),
            ("joker.tables.choices", "MIN_TEXTS", math.inf),
        ),
        lambda model: any(kind.kind == "text" for kind in _kinds(model)),
    ),
}
WITH_ALL = "all parts"


def _orders(name: str) -> bool:
    from joker.tables.optimism import TIME_NAME

    return TIME_NAME.fullmatch(name) is not None


@contextmanager
def without(part: str) -> Iterator[None]:
    """Take a part out."""
    changes = () if part == WITH_ALL else PARTS[part].changes
    owners = [(importlib.import_module(module), name, value) for module, name, value in changes]
    before = [getattr(owner, name) for owner, name, _ in owners]
    for owner, name, value in owners:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(owners, before, strict=True):
            setattr(owner, name, value)


def measure(part: str, some: named_tables.Split, effort: int) -> tuple[Any, dict[str, Any]]:
    """Return the model without one part on one table, its loss and the CPU seconds of the fit."""
    from sklearn.metrics import log_loss

    model = named_tables.joker_model(some.table.classes, effort)
    started = process.cpu_seconds()
    with without(part):
        model.fit(some.frame, some.y)
    seconds = process.cpu_seconds() - started
    if some.table.classes:
        known = np.isin(some.test_y, model.classes_)
        p = model.predict_proba(some.test_frame[known])
        loss = log_loss(some.test_y[known], p, labels=model.classes_)
    else:
        loss = np.mean((model.predict(some.test_frame) - some.test_y) ** 2) / np.var(some.test_y)
    return model, {"loss": round(float(loss), 5), "cpu_seconds": round(seconds, 1)}


def measure_table(name: str, rows: int, effort: int, parts: list[str]) -> None:
    """Print the losses of one table with all parts, and without each."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    named_tables.TABLES.update(MORE)
    some = named_tables.fitted_rows(name, rows)
    model, found = measure(WITH_ALL, some, effort)
    results = {WITH_ALL: found}
    for part in parts:
        results[part] = measure(part, some, effort)[1] if PARTS[part].has(model) else {**found, "not used": True}
    print(json.dumps(results))


def summary(tables: dict[str, Any], part: str) -> dict[str, Any]:
    """Compare all parts with all but one."""
    both = {name: (found[WITH_ALL], found[part]) for name, found in tables.items() if part in found}
    losses = {name: (a["loss"], b["loss"]) for name, (a, b) in both.items() if "loss" in a and "loss" in b}
    changed = {name: a / b for name, (a, b) in losses.items() if a != b}
    cost = [a["cpu_seconds"] / b["cpu_seconds"] for a, b in both.values() if "not used" not in b]
    better = sum(one < 1 for one in changed.values())
    mean = math.exp(sum(map(math.log, changed.values())) / len(changed)) if changed else 1.0
    return {
        "ratio": round(mean, 4),
        "changed": len(changed),
        "better": better,
        "tables": len(losses),
        "cpu_ratio": round(math.exp(sum(map(math.log, cost)) / len(cost)), 3) if cost else None,
        "ratios": {name: round(one, 4) for name, one in sorted(changed.items(), key=lambda item: item[1])},
    }


def main() -> None:
    """Take out every part, and write the results after each fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts whose name contains this; the others keep their results")
    parser.add_argument("--tables", default=",".join([*named_tables.TABLES, *MORE]), help="separated by commas")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--effort", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="measure what is in the file, too")
    parser.add_argument("--table", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    parts = [part for part in PARTS if given.only in part]
    if given.table:
        measure_table(given.table, given.rows, given.effort, parts)
        return
    path = given.out / "table_parts.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    size = ["--rows", str(given.rows), "--effort", str(given.effort)]
    for name in given.tables.split(","):
        known = results["tables"].setdefault(name, {})
        if not given.again and all("loss" in known.get(part, {}) for part in (WITH_ALL, *parts)):
            continue
        command = [sys.executable, __file__, "--table", name, "--only", given.only, *size]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(name, done.stderr[-300:], flush=True)
            continue
        known |= json.loads(done.stdout.splitlines()[-1])
        print(name, known, flush=True)
        results["parts"] = {one: summary(results["tables"], one) for one in PARTS}
        results["machine"] = {**common.machine(named_tables.SEED), "rows": given.rows, "effort": given.effort}
        common.write_json(path, results)


if __name__ == "__main__":
    main()
