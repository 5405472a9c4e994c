"""Models in files: the rows that they take, the columns that they predict, and the facts that the program prints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.cli.command import ReportOptions
from joker.cli.data_files import FileRows, is_store, open_training, store_rows, table_batches
from joker.cli.options import TableFormat, TableOptions
from joker.data import Schema, open_source
from joker.data.readers.open import read_raw_table
from joker.data.readers.source import TableColumns
from joker.errors import InvalidData, InvalidParameter
from joker.models.files import load_with_document
from joker.runtime import format_bytes

BEST_SHOWN = 5  # trials of the leaderboard that are printed
LEFT_OUT = "left out"  # the kind of a column that a table model does not use
FACTS_OF_A_FIT = ("held_out_error", "splits", "seconds", "stopped_by_time")  # a model from a file may lack them
LOSS_SETTINGS = ("loss", "delta", "epsilon", "p", "quantile", "expectile", "power")
Array = NDArray[Any]
Predict = Callable[[Any], list[Array]]


@dataclass(frozen=True, eq=False)
class LoadedModel(ABC):
    """A fitted estimator, and what the commands ask of it."""

    estimator: Any
    document: dict[str, Any] = field(default_factory=dict)  # of its file

    @abstractmethod
    def open(self, data: Path, target: str | None, table_format: TableFormat, *, labelled: bool = False) -> FileRows:
        """Open a file with the columns that the model was fitted on; with ``labelled`` also the target."""

    @abstractmethod
    def classify(self, x: Any) -> tuple[Array, Array, Array | None]:
        """Return the classes of rows, their decision values and, if the model has them, the probabilities."""

    @abstractmethod
    def facts(self, path: Path | None, *, as_json: bool = False) -> dict[str, Any]:
        """Return the facts about the model that the program prints."""

    @property
    def labels(self) -> list[str]:
        """The classes that are text."""
        return [label for label in _classes(self.estimator) or () if isinstance(label, str)]

    def outputs(self, proba: bool) -> tuple[list[str], Predict]:
        """Return the names of the predicted columns, and the function that computes them for a batch of rows."""
        model = self.estimator
        if not proba:
            return self._names(), lambda x: list(np.atleast_2d(model.predict(x).T))
        if not hasattr(model, "classes_"):
            raise InvalidParameter("--proba needs a model of classes; this one predicts numbers. Leave --proba out.")
        if not hasattr(model, "predict_proba"):
            loss = getattr(model, "loss", None)
            title = f"{type(model).__name__} ({loss})" if isinstance(loss, str) else type(model).__name__
            raise InvalidParameter(
                f"--proba needs a model of the loss logistic, which has probabilities; this is a {title}. "
                "Leave --proba out, or fit with --loss logistic or --calibrate."
            )
        names = ["prediction", *(f"probability={label}" for label in model.classes_.tolist())]

        def classes_and_probabilities(x: Any) -> list[Array]:
            p = model.predict_proba(x)
            return [model.classes_[p.argmax(axis=1)], *p.T]

        return names, classes_and_probabilities

    def _names(self) -> list[str]:
        levels: Any = getattr(self.estimator, "quantile", None)
        if np.ndim(levels):
            return [f"prediction={level:g}" for level in levels]
        outputs = 1 if hasattr(self.estimator, "classes_") else np.size(getattr(self.estimator, "intercept_", 0))
        return ["prediction"] if outputs == 1 else [f"prediction{j}" for j in range(outputs)]


def open_model(path: Path, *, device: str | None = None, memory: str | None = None) -> LoadedModel:
    """Read a model that computes on ``device`` and in at most ``memory``."""
    from joker.tables.estimator import TableEstimator

    estimator, document = load_with_document(path, device=device)
    if memory is not None:
        estimator.set_params(memory=memory)
    return (TableModel if isinstance(estimator, TableEstimator) else KernelModel)(estimator, document)


class KernelModel(LoadedModel):
    """One kernel machine, whose inputs are columns of numbers."""

    def open(self, data: Path, target: str | None, table_format: TableFormat, *, labelled: bool = False) -> FileRows:
        model, schema = self.estimator, self.schema
        if is_store(data):
            return store_rows(data, schema, target, table_format)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # the schema checks the names; batches are arrays without names
        source = open_source(data, target=target, schema=schema, **table_format.keywords)
        if source.schema.width != model.n_features_in_:
            raise InvalidData(
                f"{data}: the table must have the {model.n_features_in_} inputs that the model was fitted on, which "
                f"have no names; it has {source.schema.width}. Leave out the others."
            )
        return FileRows(source.rows, source.schema.width, source.batches)

    @property
    def schema(self) -> Schema | None:
        """The columns of the table that the model was fitted on; None if they had no names."""
        schema: Schema | None = getattr(self.estimator, "schema_", None)
        names = getattr(self.estimator, "feature_names_in_", None)
        return schema if schema is not None or names is None else Schema.numbers([str(name) for name in names])

    def classify(self, x: Any) -> tuple[Array, Array, Array | None]:
        from joker.estimators.scoring import with_predictions

        model = with_predictions(self.estimator, x)
        p = model.predict_proba(x) if hasattr(model, "predict_proba") else None
        return model.predict(x), model.decision_function(x), p

    def facts(self, path: Path | None, *, as_json: bool = False) -> dict[str, Any]:
        model, schema = self.estimator, self.schema
        tried = getattr(model, "path_", None)
        scores = None if tried is None else zip(tried.lam, tried.scores, strict=True)
        return {
            "model": None if path is None else str(path),
            "estimator": type(model).__name__,
            **{name: value for name in LOSS_SETTINGS if (value := getattr(model, name, None)) is not None},
            "kernel": str(model.kernel),
            "bandwidth": model.bandwidth_,
            "lam": np.asarray(model.lam_).tolist(),  # one for each class with nu
            "features": np.shape(model.coef_)[-1] if hasattr(model, "coef_") else "exact",
            "inputs": model.n_features_in_,
            "columns": None if schema is None else list(schema.names),
            "target": None if schema is None else schema.target,
            "classes": _classes(model),
            "standardized": hasattr(model, "mean_"),
            "epochs": model.history_[-1]["epoch"],
            "seconds": model.history_[-1]["seconds"],
            "gap": model.gap_,
            "scores_held_out": scores and {f"{lam:g}": float(score) for lam, score in scores},
            "ended": str(model.stop_reason_),
            "size": _size(path),
        }


class TableModel(LoadedModel):
    """A model for tabular data, which encodes the columns of a table by itself."""

    def open(self, data: Path, target: str | None, table_format: TableFormat, *, labelled: bool = False) -> FileRows:
        if labelled:
            options = TableOptions(**vars(table_format), target=target or getattr(self.estimator, "target_name_", None))
            rows = open_training(data, options, "impute", ReportOptions(quiet=True))
            inputs, y = rows.inputs, rows.y
        else:
            inputs, y = self._inputs(*read_raw_table(data, **table_format.raw)), None
        return FileRows(inputs.num_rows, inputs.num_columns, partial(table_batches, inputs, y))

    def _inputs(self, table: Any, columns: TableColumns) -> Any:
        """Return the inputs of an Arrow table: by name, or by place in a file without names."""
        if columns.named:
            return table
        names = [row["name"] for row in self.estimator.columns_]
        places = [name for name in table.column_names if name != getattr(self.estimator, "target_name_", None)]
        if len(places) != len(names):
            raise InvalidData(
                f"{columns.source}: the columns must be those of the training data, {len(names)} inputs; the file has "
                f"{len(places)} columns without names. Leave out the others, or give the file a header."
            )
        return table.select(places).rename_columns(names)

    def classify(self, x: Any) -> tuple[Array, Array, Array | None]:
        p = self.estimator.predict_proba(x)
        return self.estimator.classes_[p.argmax(axis=1)], p[:, 1], p

    def facts(self, path: Path | None, *, as_json: bool = False) -> dict[str, Any]:
        model, classes = self.estimator, _classes(self.estimator)
        rows = {"members": model.members_, "columns": model.columns_}
        board = {"leaderboard": model.leaderboard_ if as_json else best_trials(model.leaderboard_)}
        left_out = [row["name"] for row in model.columns_ if row["kind"] == LEFT_OUT]
        return {
            "model": None if path is None else str(path),
            "estimator": type(model).__name__,
            "target": getattr(model, "target_name_", None),
            "classes": classes,
            "held_out_r2" if classes is None else "held_out_accuracy": model.held_out_score_,
            **{name: getattr(model, f"{name}_", None) for name in FACTS_OF_A_FIT},
            "effort": getattr(model, "effort", None),
            "columns_left_out": left_out,
            **{name: value if as_json else _lines(value) for name, value in (rows | board).items()},
            "size": _size(path),
        }


def best_trials(leaderboard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best trials of the last stage of each encoding."""
    last = {trial["weights"]: trial["stage"] for trial in sorted(leaderboard, key=itemgetter("stage"))}
    final = [trial for trial in leaderboard if trial["stage"] == last[trial["weights"]]]
    shown = ("weights", "kernel", "bandwidth", "lam", "rows", "loss", "score")
    ranked = sorted(final, key=itemgetter("loss"))[:BEST_SHOWN]
    return [{name: trial[name] for name in shown} for trial in ranked]


def _lines(rows: list[dict[str, Any]]) -> str | None:
    """Rows as aligned lines under their names."""
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))  # members may have facts that others lack
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)
    return "\n  " + "\n  ".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else " ".join(str(value).splitlines())


def _classes(model: Any) -> list[Any] | None:
    return model.classes_.tolist() if hasattr(model, "classes_") else None


def _size(path: Path | None) -> str | None:
    return None if path is None else format_bytes(path.stat().st_size)
