"""The selection of inputs and target among named arrays."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from joker.data.schema import MAX_LISTED, listed
from joker.data.sources.read_options import ReadOptions
from joker.errors import InvalidData, UnknownName

INPUT_NAMES = ("X", "x", "data")
TARGET_NAMES = ("y", "Y", "target", "label", "labels")
Shapes = Mapping[str, tuple[int, ...]]


def pick(options: ReadOptions, shapes: Shapes) -> tuple[str, str | None]:
    """Return the names of the arrays of inputs and target; None if the target is a column or absent."""
    y = _target(options, shapes)
    if options.inputs is not None:
        return _existing(options, "inputs", options.inputs, shapes), y
    usual = [name for name in INPUT_NAMES if name in shapes and name != y]
    tables = [name for name, shape in shapes.items() if name != y and len(shape) > 1]
    if len(usual) == 1 or len(tables) == 1:
        return (usual or tables)[0], y
    raise InvalidData(
        f"{options.name}: one array must be the inputs, called {', '.join(INPUT_NAMES)}; found {_described(shapes)}. "
        "Name it with inputs=."
    )


def _target(options: ReadOptions, shapes: Shapes) -> str | None:
    if isinstance(options.target, str) and not _is_place(options.target):
        return _existing(options, "target", options.target, shapes)
    if options.target is not None:
        return None  # a column of the inputs
    trained = [options.schema.target] if options.schema is not None and options.schema.target in shapes else []
    usual = trained or [name for name in TARGET_NAMES if name in shapes and name != options.inputs]
    return usual[0] if len(usual) == 1 else None


def _is_place(name: str) -> bool:
    """Return whether a name is that of a column of an array: its number, or x and its number."""
    return name.removeprefix("x").removeprefix("-").isdigit()


def _existing(options: ReadOptions, what: str, name: str, shapes: Shapes) -> str:
    if name in shapes:
        return name
    raise UnknownName(f"{options.name}: {what} must be one of its arrays, {_described(shapes)}; got {name!r}. Use one.")


def _described(shapes: Shapes) -> str:
    if not shapes:
        return "none"
    largest = sorted(shapes, key=lambda name: -prod(shapes[name]))
    if len(largest) > MAX_LISTED:
        return listed(largest)
    return ", ".join(f"{name!r} {shapes[name]}" for name in largest)
