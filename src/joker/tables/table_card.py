"""The model card of a table model: its columns, its members and its score, in Markdown."""

from __future__ import annotations

from typing import Any

from joker.estimators.model_card import (
    Scores,
    contained,
    device_of,
    environment,
    given_scores,
    listed,
    page,
    settings,
    stored_rows,
    table,
)


def table_card(model: Any, scores: Scores = None) -> str:
    """Return the model card of a fitted table model."""
    blend = model.blend
    data: dict[str, Any] = {"columns": model.n_features_in_}
    if hasattr(model, "target_name_"):
        data["target"] = f"`{model.target_name_}`"
    if blend.classes:
        data["classes"] = listed(model.classes_.tolist())
    models = [member.model for member in blend.members]
    data["training rows"] = contained(max(map(stored_rows, models)))
    score = "accuracy" if blend.classes else "R²"
    held = [(f"{score} on held-out rows", model.held_out_score_)] if model.held_out_score_ is not None else []
    rows = [*held, *given_scores(scores)]
    sections = {
        "Data": table(("", ""), data.items()) + _rows(model.columns_),
        "Model": "The prediction is the weighted mean of these kernel models.\n" + _rows(model.members_),
        "Settings": settings(model),
        "Scores": table(("score", "value"), rows) if rows else "",
        "Environment": environment(device_of(models[0])),
    }
    return page(type(model).__name__, sections)


def _rows(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return "\n" + table(names, ([row.get(name) for name in names] for row in rows)) if rows else ""
