"""The code of a page, and the output that the page shows below it."""

from __future__ import annotations

import io
import math
import re
from contextlib import redirect_stdout
from dataclasses import dataclass

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n?```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
RELATIVE, ABSOLUTE = 0.05, 0.02  # by which numbers of another computer may differ


@dataclass(frozen=True)
class Block:
    """A block of code, and the output that the page shows; None if it shows none."""

    code: str
    shown: str | None


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page."""
    return [Block(code, shown or None) for code, shown in BLOCK.findall(text)]


def run(block: Block, page: str, names: dict[str, object]) -> str:
    """Run a block with the names of the earlier ones, and return what it prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(block.code, page, "exec", dont_inherit=True), names)
    return out.getvalue()


def same(shown: str, printed: str) -> bool:
    """Return whether two outputs have the same words, and numbers that differ by rounding errors of a fit at most."""
    if NUMBER.sub("N", shown).split() != NUMBER.sub("N", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs)
