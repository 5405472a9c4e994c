"""Table models in the program: their fit, their predictions, their metrics and the facts about them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.cli import parse
from joker.cli.console import ReportOptions
from joker.cli.options import ComputeOptions, ModelOptions
from joker.cli.raw_tables import RawData
from joker.data import guess_task
from joker.data.sources.column_selection import TableColumns
from joker.errors import InvalidData, InvalidParameter
from joker.runtime import format_bytes

MAX_CLASS_SHARE = 0.5  # distinct classes, as a share of the rows
MIN_ROWS = 30  # a smaller table may be an example
BEST_SHOWN = 5  # trials of the leaderboard that are printed


def fit_table(
    data: RawData,
    model: ModelOptions,
    compute: ComputeOptions,
    kinds: str | None,
    max_time: float | None,
    report: ReportOptions,
) -> tuple[Any, dict[str, Any]]:
    """Fit the model for a raw table; return it with the time that it took."""
    from joker.tables import JokerClassifier, JokerRegressor

    guess = guess_task(data.y)
    task = model.task.noun if model.task else guess.task
    settings: dict[str, Any] = {
        "columns": parse_kinds(kinds),
        "max_time": "auto" if max_time is None else max_time,
        "device": "auto" if compute.device is None else compute.device,
        "memory": compute.memory,
        "random_state": compute.seed,
    }
    found = f" because it has {guess.reason}" if not model.task else ""
    y = data.y
    labels = as_labels(y) if task == "classification" else None
    if labels is not None and not model.task:
        _check_repeated(data.target, labels)
    report.note(f"The target {data.target!r} means {task}{found}; --task changes that.")
    if labels is not None:
        weights = parse.class_weights(model.class_weight, np.unique(labels))
        estimator: Any = JokerClassifier(class_weight=weights, **settings)
        y = labels
    else:
        if y.dtype.kind != "f":
            raise InvalidParameter(f"--task regress needs a target of numbers; {data.target!r} is text.")
        estimator = JokerRegressor(**settings)
    started = time.perf_counter()
    estimator.fit(data.inputs, y)
    estimator.target_name_ = data.target
    return estimator, {"seconds": time.perf_counter() - started}


def _check_repeated(target: str, labels: NDArray[Any]) -> None:
    """Refuse text with about as many values as rows, which is no class unless the user says so."""
    distinct = len(np.unique(labels))
    if labels.dtype.kind not in "iuf" and len(labels) >= MIN_ROWS and distinct > MAX_CLASS_SHARE * len(labels):
        raise InvalidData(
            f"classes must repeat; the target {target!r} is text with {distinct:,} distinct values in {len(labels):,} "
            f"rows, such as {str(labels[0])!r}. Write numbers as numbers, use another --target, or say --task classify."
        )


def as_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers, so that classes are written without a fraction."""
    if y.dtype.kind == "f" and bool((y == np.round(y)).all()):
        return y.astype(np.int64)
    return y


def parse_kinds(text: str | None) -> dict[str, str] | None:
    """Parse kinds of columns: ``zip=category,note=drop``.

    >>> parse_kinds("zip=category, note=drop")
    {'zip': 'category', 'note': 'drop'}
    """
    if text is None:
        return None
    pairs = [term.rpartition("=") for term in parse.names(text) or []]
    if not all(name and kind for name, _, kind in pairs):
        raise InvalidParameter(f"--kinds must be names with kinds, such as zip=category; got {text!r}. Correct it.")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def is_table_model(model: Any) -> bool:
    """Whether a model encodes raw tables by itself."""
    return hasattr(model, "blend")


def inputs_of(model: Any, table: Any, columns: TableColumns) -> Any:
    """Return the inputs of the model from an Arrow table; by name, or by place in a file without names."""
    names = [row["name"] for row in model.columns_]
    if columns.named:
        return table
    places = [name for name in table.column_names if name != getattr(model, "target_name_", None)]
    if len(places) != len(names):
        raise InvalidData(
            f"{columns.source}: the columns must be those of the training data, {len(names)} inputs; the file has "
            f"{len(places)} columns without names. Leave out the others, or give the file a header."
        )
    return table.select(places).rename_columns(names)


def outputs(model: Any, proba: bool) -> tuple[list[str], Callable[[Any], list[Any]]]:
    """The names of the predicted columns, and the function that computes them for rows of a table."""
    if not proba:
        return ["prediction"], lambda table: [model.predict(table)]
    if not hasattr(model, "predict_proba"):
        raise InvalidParameter("--proba needs a model of classes; this one predicts numbers. Leave --proba out.")
    return probability_outputs(model)


def probability_outputs(model: Any) -> tuple[list[str], Callable[[Any], list[Any]]]:
    """The names of the columns of classes and probabilities, and the function that computes them."""
    names = ["prediction", *(f"probability={label}" for label in model.classes_.tolist())]

    def classes_and_probabilities(x: Any) -> list[Any]:
        p = model.predict_proba(x)
        return [model.classes_[p.argmax(axis=1)], *p.T]

    return names, classes_and_probabilities


def metrics(model: Any, table: Any, y: NDArray[Any]) -> dict[str, float | None]:
    """Return accuracy, AUC and log loss, or RMSE, MAE and R², on all rows of a table."""
    from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score

    if not hasattr(model, "predict_proba"):
        wrong = model.predict(table) - y
        r2 = float(r2_score(y, y + wrong)) if len(y) > 1 and y.std() > 0 else None
        return {"rmse": float(np.sqrt(np.mean(wrong**2))), "mae": float(np.mean(np.abs(wrong))), "r2": r2}
    labels = as_labels(y).astype(model.classes_.dtype)
    if len(unknown := np.setdiff1d(labels, model.classes_)):
        raise InvalidData(
            f"the target must have the classes of the model, {', '.join(map(str, model.classes_.tolist()))}; found "
            f"{unknown[0]!r}. Leave such rows out, or fit again with them."
        )
    p = model.predict_proba(table)
    found = model.classes_[p.argmax(axis=1)]
    binary = len(model.classes_) == 2 and len(np.unique(labels)) == 2
    return {
        "accuracy": float(accuracy_score(labels, found)),
        "auc": float(roc_auc_score(labels == model.classes_[1], p[:, 1])) if binary else None,
        "log_loss": float(log_loss(labels, p, labels=model.classes_)),
    }


def facts_of(model: Any, path: Path | None, *, as_json: bool) -> dict[str, Any]:
    """The facts about a table model that the program prints."""
    classes = getattr(model, "classes_", None)
    score = "held_out_accuracy" if classes is not None else "held_out_r2"
    return {
        "model": None if path is None else str(path),
        "estimator": type(model).__name__,
        "target": getattr(model, "target_name_", None),
        "classes": None if classes is None else classes.tolist(),
        score: model.held_out_score_,
        "members": model.members_ if as_json else _lines(model.members_),
        "columns": model.columns_ if as_json else _lines(model.columns_),
        "leaderboard": model.leaderboard_ if as_json else _lines(best_trials(model.leaderboard_)),
        "size": None if path is None else format_bytes(path.stat().st_size),
    }


def best_trials(leaderboard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best trials of the last stage of each encoding."""
    last: dict[str, int] = {}
    for trial in leaderboard:
        last[trial["weights"]] = max(last.get(trial["weights"], 0), trial["stage"])
    final = [trial for trial in leaderboard if trial["stage"] == last[trial["weights"]]]
    shown = ("weights", "kernel", "bandwidth", "lam", "rows", "loss", "score")
    ranked = sorted(final, key=lambda trial: trial["loss"])[:BEST_SHOWN]
    return [{name: trial[name] for name in shown} for trial in ranked]


def _lines(rows: list[dict[str, Any]]) -> str | None:
    """Rows as aligned lines under their names."""
    from joker.tables.html_view import shown  # imports scikit-learn, which is slow and which --help does not need

    if not rows:
        return None
    cells = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n  " + "\n  ".join(lines)
