"""The HTML of a fitted table model in a notebook: its members and its columns."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from joker.estimators.html_repr import NotebookView

MAX_SHOWN = 60  # columns


class TableView(NotebookView):
    """Adds tables of members and columns to the HTML of a scikit-learn estimator."""

    def _summary_html(self) -> str:
        return summary(self)


def summary(model: Any) -> str:
    """Return two small HTML tables that describe a fitted model; empty before the fit."""
    if not hasattr(model, "columns_"):
        return ""
    score = "" if model.held_out_score_ is None else f", score {model.held_out_score_:.4f} on held-out rows"
    title = f"{type(model).__name__}, fitted{score}"
    return _table(title, model.members_) + _table("columns", model.columns_[:MAX_SHOWN])


def _table(title: str, rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(shown(v))}</td>' for v in row.values())}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
