"""What a table model says of itself: progress of the fit, a summary, a model card, and the importance of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from joker.callbacks.progress import show_steps, write_lines
from joker.distributed import current
from joker.estimators.card import ModelReport, NotebookView, TextTable, code, device_of, listed, training_rows
from joker.estimators.regression import LOG_LINKS
from joker.runtime import visible
from joker.tables.candidates import FittedEnsemble
from joker.tables.choices import KEPT
from joker.tables.columns import DROP
from joker.tables.encoding import Encoding
from joker.tables.ensemble import EnsembleMember
from joker.tables.problem import TableProblem
from joker.tables.table import RawTable
from joker.tuning.ard import coded_targets

Array = NDArray[Any]
MAX_COLUMNS = 60  # that a notebook shows
MAX_ROWS = 400  # for the importance of columns
MIN_ROWS = 50  # of them, where columns are many
SHUFFLES = 2
IMPORTANCE_ENTRIES = 1e11  # products of an input of a row and one of a support vector: about ten seconds of a core
ASSOCIATION_ENTRIES = 2_000_000  # rows times classes
ASSOCIATION_INPUTS = 2**22  # entries of the encoded rows that correlations are computed from
ASSOCIATION_ROWS = 20_000
MAX_SHOWN = 12  # columns that a line of a summary names


class TableView(NotebookView):
    """Adds tables of members and columns to the HTML of a scikit-learn estimator, and a summary to `print`."""

    def _report(self) -> ModelReport:
        return table_report(self)

    def __str__(self) -> str:
        return summary(self) if hasattr(self, "members_") and hasattr(self, "_ensemble") else repr(self)


def table_report(model: Any) -> ModelReport:
    """Return what a fitted table model says of itself."""
    ensemble, score = model.ensemble, model.held_out_score_
    models = [member.model for member in ensemble.members]
    data = {
        "columns": model.n_features_in_,
        **({"target": code(model.target_name_)} if hasattr(model, "target_name_") else {}),
        **({"classes": listed(model.classes_.tolist())} if ensemble.classes else {}),
        "training rows": training_rows(*models),
        **dict(_facts(model)),
    }
    metric = "accuracy" if ensemble.classes else "R²"
    members = TextTable.of_records(model.members_)
    title = f"{type(model).__name__}, fitted" + ("" if score is None else f", score {score:.4f} on held-out rows")
    return ModelReport(
        data=(TextTable.of_facts(data), TextTable.of_records(model.columns_)),
        model=members,
        scores=[] if score is None else [(f"{metric} on held-out rows", score)],
        device=device_of(models[0]),
        notebook={
            title: members,
            "fit": TextTable.of_facts(dict(_facts(model))),
            "columns": TextTable.of_records(model.columns_[:MAX_COLUMNS]),
        },
        introduction="The prediction is the weighted mean of these kernel models.\n\n",
    )


def summary(model: Any) -> str:
    """Return what a fit decided and found, in some lines."""
    lines = [f"{type(model).__name__}, fitted", *(f"  {name}: {value}" for name, value in _facts(model))]
    for member in model.members_:
        settings = f"{member['kernel']}, bandwidth {member['bandwidth']:.3g}, λ {member['lam']:.3g}"
        settings += f", loss {member['loss']}" if "loss" in member else ""
        settings += ", beside a linear trend" if member.get("trend") else ""
        lines.append(f"  member of weight {member['weight']:.2f}: {settings}, gap {member['gap']:.2g}")
    return visible("\n".join(lines))


def _facts(model: Any) -> Iterator[tuple[str, str]]:
    """The lines of a summary that are not members; a model of an earlier version lacks some."""
    score, error = getattr(model, "held_out_score_", None), getattr(model, "held_out_error_", None)
    if score is not None:
        metric = "accuracy" if model.ensemble.classes else "R²"
        spread = "" if error is None else f" ± {error:.4f} (standard error)"
        yield "held-out score", f"{metric} {score:.4f}{spread}"
    if hasattr(model, "splits_"):
        yield "held out", model.splits_
    dropped = [f"{c['name']} ({c['encoding']})" for c in model.columns_ if c["kind"] == "left out"]
    if dropped:
        yield "columns left out", _some(dropped)
    recoded = [
        f"{c['name']} ({c['kind']}: {c['encoding']})"
        for c in model.columns_
        if c["kind"] not in _PLAIN or c["encoding"].endswith(KEPT)
    ]
    if recoded:
        yield "columns recoded", _some(recoded)
    if hasattr(model, "seconds_"):
        ended = ", ended by max_time" if model.stopped_by_time_ else ""
        yield "effort", f"{model.effort}, {model.seconds_:.1f} s{ended}"


_PLAIN = ("left out", "number", "boolean")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(" ".join(name.split()) for name in names[:MAX_SHOWN]) + more


def print_summary(model: Any) -> None:
    """Write the summary to standard error; in a group of processes the first one does."""
    if current().rank == 0:
        write_lines(summary(model))


@contextmanager
def progress_of(model: Any) -> Iterator[Callable[[int, int, str], None]]:
    """Show the step of the plan on standard error where ``verbose`` asks for it."""
    if not model.verbose or current().rank:
        yield lambda done, steps, what: None
        return
    with show_steps() as show:
        yield show


def member_facts(member: EnsembleMember) -> dict[str, Any]:
    """Return the settings and the result of a member."""
    model = member.model
    return {
        "weight": member.weight,
        "encoding": member.encoding,
        "kernel": str(model.kernel),
        "lam": model.lam_,
        "bandwidth": float(np.min(model.bandwidth_)),
        "gap": model.gap_,
        **({"target": member.target.form} if member.target is not None else {}),
        **({"loss": model.loss} if is_regressor(model) and getattr(model, "loss", None) in LOG_LINKS else {}),
        **({"trend": "linear"} if member.trend is not None else {}),
    }


def held_out_error(
    fitted: FittedEnsemble, problem: TableProblem, row_scores: Callable[[FittedEnsemble, TableProblem], Array]
) -> float | None:
    """Return the standard error of the held-out score; rows of a group, or of a time, count as one."""
    if len(fitted.held_rows) < 2:
        return None
    scores, groups = row_scores(fitted, problem), problem.validation.blocks()
    if groups is None:
        return float(scores.std(ddof=1) / len(scores) ** 0.5)
    _, of_row = np.unique(groups[fitted.held_rows], return_inverse=True)
    sums = np.bincount(of_row.ravel(), weights=scores - scores.mean())
    if len(sums) < 2:
        return None
    return float(np.sqrt(np.sum(sums**2) * len(sums) / (len(sums) - 1)) / len(scores))


def column_facts(
    fitted: FittedEnsemble, problem: TableProblem, losses: Callable[[Array, Array], Array]
) -> list[dict[str, Any]]:
    """Return what was decided for each column, with its importance; ``losses`` are those of values and targets."""
    encoding = fitted.ensemble.encodings[0]
    if encoding is None:
        return []
    used = [kind.name for kind in encoding.kinds if kind.kind != DROP]
    associations = column_associations(encoding, problem.inputs, problem.y, problem.classes)
    importances = None
    if fitted.held_ensemble is not None:
        ensemble, held = fitted.held_ensemble, fitted.first_held
        rows = held[:: max(1, len(held) // MAX_ROWS)][:MAX_ROWS]
        importances = column_importances(
            problem.inputs.some(rows),
            used,
            lambda table, some: losses(ensemble.values(table), problem.y[rows[some]]),
            associations,
            ensemble.entries_of_row,
            problem.seed,
            problem.clock.is_over,
        )
    return encoding.facts((associations if importances is None else importances).tolist())


def column_associations(encoding: Encoding, table: RawTable, y: Array, classes: int) -> Array:  # (columns used,)
    """Return the share of each column in the squared correlations of its inputs with the target."""
    most = max(1, min(ASSOCIATION_ENTRIES // max(1, classes), ASSOCIATION_INPUTS // encoding.width, ASSOCIATION_ROWS))
    rows = np.arange(0, table.rows, max(1, -(-table.rows // most)))
    x = replace(encoding, weights=None).transform(table.some(rows)).astype(np.float64)
    targets = coded_targets(y[rows], classes).numpy()
    x -= x.mean(axis=0)
    targets -= targets.mean(axis=0)
    scale = np.sqrt((x**2).sum(axis=0))[:, None] * np.sqrt((targets**2).sum(axis=0))
    correlations = np.divide(x.T @ targets, scale, out=np.zeros_like(scale), where=scale > 0)
    squares = (correlations**2).mean(axis=1)
    found = np.zeros(len(encoding.encoders))
    place = 0
    for j, encoder in enumerate(encoding.encoders):
        found[j] = squares[place : place + len(encoder.names)].sum()
        place += len(encoder.names)
    return _shares(found)


def column_importances(
    table: RawTable,
    used: list[str],  # the columns that are not left out
    losses: Callable[[RawTable, Array], Array],  # of a table of some of its rows, and of the numbers of these rows
    associations: Array,  # (columns that are used,)
    entries: float,  # products that the prediction of a row takes
    seed: int,
    out_of_time: Callable[[], bool],
) -> Array | None:  # (columns that are used,)
    """Return the share of each column in the sum of all increases of the loss when the column is shuffled.

    Where that is too much work, fewer rows are shuffled once, and only the columns with the largest correlations; the
    others have the importance 0. None: time is up before all are known.
    """
    random = np.random.RandomState(seed)
    fits = IMPORTANCE_ENTRIES / max(entries, 1.0)  # rows of all columns in all
    shuffles = SHUFFLES if fits >= SHUFFLES * len(used) * table.rows else 1
    count = int(np.clip(fits // max(1, len(used)), min(MIN_ROWS, table.rows), table.rows))
    places = np.sort(np.argsort(-associations, kind="stable")[: max(1, int(fits // (shuffles * count)))])
    rows = np.sort(random.permutation(table.rows)[:count])
    some = table.some(rows)
    before = float(losses(some, rows).mean())
    increases = np.zeros(len(used))
    for j in places:
        if out_of_time():
            return None
        for _ in range(shuffles):
            order = random.permutation(some.rows)
            shuffled = [column.some(order) if column.name == used[j] else column for column in some.columns]
            after = float(losses(replace(some, columns=tuple(shuffled)), rows).mean())
            increases[j] += max(0.0, after - before)
    return _shares(increases)


def _shares(values: Array) -> Array:
    total = values.sum()
    return values / total if total > 0 else values
