"""The tables of docs/solver.md state the defaults of the code."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import fields
from importlib import import_module
from math import inf
from pathlib import Path

import pytest

from joker.solvers import BlockSolver, Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "solver.md"
ROW = re.compile(r"^\| `([\w.]+)` \| `([^`]+)` \| \S.* \|$", re.MULTILINE)
SPECIAL = {"inf": inf, "BlockSolver()": BlockSolver()}


def table(heading: str) -> dict[str, object]:
    """The names and defaults of the table under a heading."""
    _, text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")
    text = text.split("\n## ")[0]
    rows = ROW.findall(text)
    assert "| name | default | meaning |" in text
    assert len(rows) == sum(line.startswith("|") for line in text.splitlines()) - 2, "a row has another form"
    return {name: SPECIAL[default] if default in SPECIAL else literal_eval(default) for name, default in rows}


@pytest.mark.parametrize("settings", [Settings(), BlockSolver()], ids=lambda settings: type(settings).__name__)
def test_the_page_states_every_default(settings: Settings | BlockSolver) -> None:
    defaults = {field.name: getattr(settings, field.name) for field in fields(settings)}
    assert table(f"`{type(settings).__name__}`") == defaults


def test_the_page_states_the_constants() -> None:
    for name, value in table("Constants").items():
        module, _, constant = name.rpartition(".")
        assert getattr(import_module(f"joker.solvers.{module}"), constant) == value
