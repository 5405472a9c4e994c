"""Formulas of docstrings and pages can be set by the site, and code stays code."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from repository import ROOT

DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason=f"needs {DOCS}")


@pytest.fixture
def formulas(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(DOCS))
    yield import_module("formulas")
    del sys.modules["formulas"]


def literals(formulas: Any) -> set[str]:
    """The literals of all docstrings."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found |= set(formulas.LITERAL.findall(ast.get_docstring(node) or ""))
    return found


def test_a_formula_is_set_and_code_is_kept(formulas: Any) -> None:
    lines = ["Minimises ``λ/2 ‖θ‖² + Σ w_i max(1 − u_i, 0)``,", "with ``lam=0.1`` and ``max_epochs``."]
    formulas.set_formulas(None, "class", "joker.X", None, None, lines)
    formula = r":math:`\tfrac{λ}{2} {\lVert θ\rVert}^2 + \sum_i w_i \max(1 - u_i, 0)`"
    assert lines == [f"Minimises {formula},", "with ``lam=0.1`` and ``max_epochs``."]


def test_docstrings_have_formulas_and_no_sign_of_plain_text_remains(formulas: Any) -> None:
    found = [text for text in literals(formulas) if formulas.MATHEMATICAL.search(text)]
    assert len(found) > 50
    assert not [text for text in found if set(formulas.latex(text)) & set("‖√Σ²³½⟨⟩·≥≤≠≈−₁₂")]


def test_every_formula_of_docstrings_and_pages_is_valid(formulas: Any) -> None:
    converter = pytest.importorskip("docutils.utils.math.latex2mathml", reason="needs docutils 0.22")
    for text in literals(formulas):
        if formulas.MATHEMATICAL.search(text):
            converter.tex2mathml(formulas.latex(text))
    for page in DOCS.glob("*.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for block, inline in re.findall(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+?)\$(?!\$)", text, re.DOTALL):
            converter.tex2mathml(block or inline, as_block=bool(block))
