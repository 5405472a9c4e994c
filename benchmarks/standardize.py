"""The effect of z-scores of the inputs, and of ``standardize="auto"``, on tables as they come.

    python benchmarks/standardize.py              # about two minutes on one core
    python benchmarks/standardize.py --quick      # shows that it runs, on generated rows

3,000 rows to train on and 1,000 to test on, drawn at random; KernelRidge or KernelSVC with default settings and a path
of four λ. Columns of text become 0/1 columns, missing numbers the mean of their column. The score is R² or accuracy.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
from common import Array

import joker

SEED, ROWS, TEST_ROWS = 0, 4_000, 1_000
LAMS = [0.01, 0.1, 1.0, 10.0]
SETS = {name: "classification" for name in ("covtype", "higgs33k", "mnist", "a9a")}
SETS |= {name: "regression" for name in ("kin40k", "protein", "hepc")}
SMALLER = 0.01  # differences of scores up to this one are noise: one standard error of an accuracy on the test rows


def tables() -> Iterator[tuple[str, Array, Array, str]]:
    """Yield the name, inputs, targets and task of every data set."""
    for name, task in SETS.items():
        x, y = common.arrays(name, "train" if name in ("mnist", "a9a") else "all")
        rows = np.random.RandomState(SEED).permutation(len(x))[:ROWS]
        yield name, x[rows], y[rows], task
    folder = common.data_folder()
    assert folder is not None
    for name, facts in json.loads((folder / "tables" / "tables.json").read_text(encoding="utf-8")).items():
        yield name, *mixed_table(folder / "tables" / f"{name}.csv.xz", facts), facts["task"]


def mixed_table(path: Path, facts: dict[str, Any]) -> tuple[Array, Array]:
    """Return some rows of a table of numbers and text, as numbers."""
    import pandas as pd

    with lzma.open(path, "rt", encoding="utf-8") as file:
        frame = pd.read_csv(file).drop(columns=facts["drop"])
    frame = frame[frame[facts["target"]].notna()].sample(min(ROWS, len(frame)), random_state=SEED)
    y = frame.pop(facts["target"])
    x = pd.get_dummies(frame.dropna(axis=1, thresh=len(frame) // 2)).astype(np.float64)
    y = np.log(y.astype(float)) if facts.get("log_target") else y
    return x.fillna(x.mean()).to_numpy(np.float32), y.to_numpy()


def generated() -> Iterator[tuple[str, Array, Array, str]]:
    """Yield rows that only show that the script works."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(400, 3))
    yield "one scale", x, x[:, 0] * x[:, 1], "regression"
    yield "three scales", x * [1.0, 100.0, 1e4], x[:, 0] * x[:, 1] > 0, "classification"


def measure(x: Array, y: Array, task: str) -> dict[str, Any]:
    """Return the scores of both settings, and which of them "auto" takes."""
    kind = joker.KernelRidge if task == "regression" else joker.KernelSVC
    cut = len(x) - min(TEST_ROWS, len(x) // 4)
    models = {
        way: kind(lam=LAMS, standardize=way, random_state=SEED).fit(x[:cut], y[:cut]) for way in (False, True, "auto")
    }
    scores = {way: round(float(model.score(x[cut:], y[cut:])), 4) for way, model in models.items()}
    on = hasattr(models["auto"], "mean_")
    assert scores["auto"] == scores[on]
    return {"rows": cut, "inputs": x.shape[1], "task": task, "off": scores[False], "on": scores[True], "auto": on}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every set, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="generated rows")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    found = {}
    for name, x, y, task in generated() if options.quick else tables():
        found[name] = one = measure(x, y, task)
        print(
            f"{name:12} off {one['off']:7.4f}  on {one['on']:7.4f}  auto: {'on' if one['auto'] else 'off'}", flush=True
        )
    lost = {name: round(max(r["off"], r["on"]) - r["on" if r["auto"] else "off"], 4) for name, r in found.items()}
    summary = {
        "sets": len(found),
        "auto_loses_more_than_noise_on": [name for name, loss in lost.items() if loss > SMALLER],
        "mean_off": round(float(np.mean([r["off"] for r in found.values()])), 4),
        "mean_on": round(float(np.mean([r["on"] for r in found.values()])), 4),
        "mean_auto": round(float(np.mean([r["on" if r["auto"] else "off"] for r in found.values()])), 4),
    }
    print(summary)
    content = {"machine": common.machine(SEED), "noise": SMALLER, "summary": summary, "sets": found}
    common.write_json(options.out / "standardize.json", content)


if __name__ == "__main__":
    main()
