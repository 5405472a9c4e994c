"""A model card: what a fitted model is, in Markdown, for people who use it and did not fit it."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from joker.errors import InvalidParameter
from joker.estimators.html_repr import facts
from joker.models import ExactMachine
from joker.runtime import VERSION

PACKAGES = ("torch", "numpy", "scikit-learn")
MAX_LISTED = 50  # inputs or classes
Scores = Mapping[str, float] | None


def model_card(model: Any, scores: Scores = None) -> str:
    """Return the model card of a fitted kernel estimator."""
    check_is_fitted(model, "_machine")
    sections = {
        "Data": table(("", ""), _data(model).items()) + _inputs(model),
        "Model": table(("", ""), facts(model).items()),
        "Settings": settings(model),
        "Scores": _scores(model, scores),
        "Environment": environment(device_of(model)),
    }
    return page(type(model).__name__, sections)


def device_of(model: Any) -> str:
    """Return the device of a fitted kernel estimator."""
    return str(model._machine.constant.device)


def page(title: str, sections: Mapping[str, str]) -> str:
    """Return a page with a heading for each section that is not empty."""
    parts = [f"# Model card: {title}", *(f"## {name}\n\n{text}" for name, text in sections.items() if text)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    cells = [[_cell(value) for value in row] for row in rows]
    lines = [list(head), ["---"] * len(head), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def settings(model: Any) -> str:
    """Return the parameters of the constructor, those that differ from their defaults first."""
    given = [(field.name, getattr(model, field.name), field.default) for field in fields(model) if field.init]
    ranked = sorted(given, key=lambda one: _same(one[1], one[2]))
    return table(
        ("setting", "value", "default"),
        ((f"`{name}`", f"`{value!r}`", f"`{usual!r}`") for name, value, usual in ranked),
    )


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.all(value == default))


def environment(device: str) -> str:
    """Return the versions of the packages, and the device."""
    rows = [("joker", VERSION), *((name, version(name)) for name in PACKAGES)]
    return table(("", ""), [*rows, ("Python", platform.python_version()), ("device", device)])


def given_scores(scores: Scores) -> list[tuple[str, float]]:
    """Return the scores that the user adds, after a check."""
    if scores is None:
        return []
    if not isinstance(scores, Mapping) or not all(isinstance(value, Real) for value in scores.values()):
        raise InvalidParameter(
            f"scores must be a dictionary from names to numbers; got {scores!r}. Use {{'accuracy on new rows': 0.9}}."
        )
    return [(str(name), float(value)) for name, value in scores.items()]


def listed(names: Sequence[Any]) -> str:
    """Return names as one text; of many only the first ones."""
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(f"`{name}`" for name in names[:MAX_LISTED]) + more


def stored_rows(model: Any) -> int:
    """Return the number of training rows that a kernel estimator contains."""
    return len(model._machine.x) if isinstance(model._machine, ExactMachine) else 0


def _data(model: Any) -> dict[str, Any]:
    schema = getattr(model, "schema_", None)
    classes = getattr(model, "classes_", None)
    rows = stored_rows(model)
    return {
        "inputs": model.n_features_in_,
        "inputs are standardized": "yes" if hasattr(model, "mean_") else "no",
        **({"target": f"`{schema.target}`"} if schema is not None and schema.target else {}),
        **({"classes": listed(classes.tolist())} if classes is not None else {"outputs": len(model._offset)}),
        "training rows": contained(rows),
    }


def contained(rows: int) -> str:
    """Return whether a model contains training rows, which its reader may have to keep confidential."""
    return f"{rows:,}, which the model contains" if rows else "the model contains none"


def _inputs(model: Any) -> str:
    """Return a table of the inputs with names, means and deviations, as far as they are known."""
    schema = getattr(model, "schema_", None)
    names = schema.names if schema is not None else getattr(model, "feature_names_in_", None)
    if names is None and not hasattr(model, "mean_"):
        return ""
    shown = range(min(model.n_features_in_, MAX_LISTED))
    columns: dict[str, list[Any]] = {"input": [f"`{names[j]}`" if names is not None else j for j in shown]}
    if hasattr(model, "mean_"):
        columns["mean"] = [float(model.mean_[j]) for j in shown]
        columns["deviation"] = [float(model.scale_[j]) for j in shown]
    if np.ndim(model.bandwidth_):
        columns["bandwidth"] = [float(model.bandwidth_[j]) for j in shown]
    left = model.n_features_in_ - len(shown)
    more = f"\n{left:,} more inputs are not listed.\n" if left else ""
    return "\n" + table(tuple(columns), zip(*columns.values(), strict=True)) + more


def _scores(model: Any, scores: Scores) -> str:
    rows = given_scores(scores)
    if hasattr(model, "path_"):
        found = zip(model.path_.lam.tolist(), model.path_.scores.tolist(), strict=True)
        name = model.early_stopping if isinstance(model.early_stopping, str) else "minus the mean loss"
        rows += [(f"{name} on held-out rows, λ = {lam:.4g}", score) for lam, score in found]
    return table(("score", "value"), rows) if rows else ""
