"""A command of the program: what it runs, and what its help shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer

from joker.cli.errors import telling

KEYWORD = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Command:
    """One word after ``joker``.

    Attributes
    ----------
    name : str
        The word.
    run : callable
        What it does; its docstring is the help. A parameter whose type is a dataclass stands for all of
        its fields, each with an ``Annotated`` option.
    examples : tuple of str
        Command lines that the help shows.
    """

    name: str
    run: Callable[..., None]
    examples: tuple[str, ...]

    def add_to(self, app: typer.Typer) -> None:
        """Let the program know the command."""
        epilog = "\n\n".join(["Examples:" if len(self.examples) > 1 else "Example:", *self.examples, " "])
        app.command(self.name, epilog=epilog, no_args_is_help=False)(telling(flat(self.run)))


def flat(run: Callable[..., None]) -> Callable[..., None]:
    """Let a function that takes groups of options take the options themselves."""
    groups: dict[str, Any] = {p.name: p.annotation for p in _parameters(run) if is_dataclass(p.annotation)}

    @wraps(run)
    def flattened(**options: Any) -> None:
        made = {name: kind(**{f.name: options.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        run(**options, **made)

    every = [option for parameter in _parameters(run) for option in _options(parameter)]
    flattened.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    flattened.__annotations__ = {option.name: option.annotation for option in every}
    return flattened


def _parameters(run: Callable[..., None]) -> list[inspect.Parameter]:
    return list(inspect.signature(run, eval_str=True).parameters.values())


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    kind = parameter.annotation
    if not is_dataclass(kind):
        yield parameter.replace(kind=KEYWORD)
        return
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(field.name, KEYWORD, default=default, annotation=hints[field.name])
