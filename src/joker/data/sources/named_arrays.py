"""Which of several named arrays are the inputs and the target."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from joker.data.schema import listed
from joker.data.sources.read_options import Wish
from joker.errors import InvalidData, UnknownName

INPUTS = ("X", "x", "data")
TARGETS = ("y", "Y", "target", "label", "labels")
Shapes = Mapping[str, tuple[int, ...]]


def pick(wish: Wish, shapes: Shapes) -> tuple[str, str | None]:
    """Return the names of the arrays of inputs and targets; None where the target is a column or absent."""
    y = _target(wish, shapes)
    if wish.inputs is not None:
        return _known(wish, "inputs", wish.inputs, shapes), y
    usual = [name for name in INPUTS if name in shapes and name != y]
    tables = [name for name, shape in shapes.items() if name != y and len(shape) > 1]
    if len(usual) == 1 or len(tables) == 1:
        return (usual or tables)[0], y
    raise InvalidData(
        f"{wish.name}: one array must be the inputs, called {', '.join(INPUTS)}; found {_described(shapes)}. "
        "Name it with inputs=."
    )


def _target(wish: Wish, shapes: Shapes) -> str | None:
    if isinstance(wish.target, str) and not _is_place(wish.target):
        return _known(wish, "target", wish.target, shapes)
    if wish.target is not None:
        return None  # a column of the inputs
    learnt = [wish.schema.target] if wish.schema is not None and wish.schema.target in shapes else []
    usual = learnt or [name for name in TARGETS if name in shapes and name != wish.inputs]
    return usual[0] if len(usual) == 1 else None


def _is_place(name: str) -> bool:
    """Whether a name is that of a column of an array: its number, or x and its number."""
    return name.removeprefix("x").removeprefix("-").isdigit()


def _known(wish: Wish, what: str, name: str, shapes: Shapes) -> str:
    if name in shapes:
        return name
    raise UnknownName(f"{wish.name}: {what} must be one of its arrays, {_described(shapes)}; got {name!r}. Use one.")


def _described(shapes: Shapes) -> str:
    if not shapes:
        return "none"
    most = sorted(shapes, key=lambda name: -prod(shapes[name]))
    return listed(most) if len(most) > 8 else ", ".join(f"{name!r} {shapes[name]}" for name in most)
