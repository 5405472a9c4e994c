"""Formulas of docstrings: plain text for ``help()``, and formulas on the site.

A literal of a docstring that has a sign of mathematics, such as ``λ/2 ‖θ‖² + Σ w_i ℓ(y_i, f(x_i))``, is set as a
formula. All others are code.
"""

from __future__ import annotations

import re
from typing import Any

LITERAL = re.compile(r"(?<!`)``([^`]+)``(?!`)")
# Signs that no code of a docstring has, and functions of one letter as losses write them.
MATHEMATICAL = re.compile(r"[‖Σℓ²³½√⟨−·≠≥≤≈±₁₂]|\|[a-z]\||^(?:max|log)\(\d? ?[-+]? ?[a-z]")
SIGNS = {
    "⁻²": "^{-2}",
    "−": "-",
    "Σ_": r"\sum_",
    "Σ": r"\sum_i ",
    "λ/2": r"\tfrac{λ}{2}",
    "½": r"\tfrac{1}{2}",
    "²": "^2",
    "³": "^3",
    "₁": "_1",
    "₂": "_2",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "·": r"\cdot ",
    "±": r"\pm ",
    "≥": r"\ge ",
    "≤": r"\le ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "<=": r"\le ",
    "ᵀ": r"^\top ",
    "ℓ": r"\ell ",
}
FUNCTIONS = {"exp", "log", "max", "min"}


def latex(text: str) -> str:
    """Return a formula that is written in plain text as LaTeX."""
    text = re.sub(r"√(\w)", r"\\sqrt{\1}\\,", text)
    text = re.sub(r"_([a-z]{2,})", r"_{\1}", text)  # two indices
    text = re.sub(r"(?<![\\\w{])[A-Za-z]{2,}", _word, text)
    text = re.sub(r"‖(.+?)‖", r"{\\lVert \1\\rVert}", text)
    for sign, command in SIGNS.items():
        text = text.replace(sign, command)
    return re.sub(r"\s+", " ", text).strip()


def _word(found: re.Match[str]) -> str:
    name = found[0]
    if name in FUNCTIONS:
        return rf"\{name}"
    return rf"{{\mathrm{{{name}}}}}" if name not in ("sqrt", "lVert", "rVert") else name


def set_formulas(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Replace the literals of a docstring that are formulas."""
    lines[:] = LITERAL.sub(_formula, "\n".join(lines)).split("\n")


def _formula(found: re.Match[str]) -> str:
    text = found[1]
    return f":math:`{latex(text)}`" if MATHEMATICAL.search(text) else found[0]


def setup(app: Any) -> dict[str, bool]:
    """Connect to autodoc, after numpydoc."""
    app.connect("autodoc-process-docstring", set_formulas, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
