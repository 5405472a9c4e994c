"""A command of the program: the function it calls, and its help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer

from joker.cli.errors import reporting_errors

KEYWORD = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Command:
    """A command, such as ``fit`` in ``joker fit``.

    Attributes
    ----------
    name : str
        The name after ``joker``.
    run : callable
        The function that the command calls; its docstring is the help. A parameter whose type is a dataclass stands
        for all fields of the dataclass, each with an ``Annotated`` option.
    examples : tuple of str
        Command lines that the help shows.
    """

    name: str
    run: Callable[..., None]
    examples: tuple[str, ...]

    def add_to(self, app: typer.Typer) -> None:
        """Add the command to the program."""
        epilog = "\n\n".join(["Examples:" if len(self.examples) > 1 else "Example:", *self.examples, " "])
        app.command(self.name, epilog=epilog, no_args_is_help=False)(reporting_errors(with_single_options(self.run)))


def with_single_options(run: Callable[..., None]) -> Callable[..., None]:
    """Return a function that takes single options, for a function that takes groups of them."""
    groups: dict[str, Any] = {p.name: p.annotation for p in _parameters(run) if is_dataclass(p.annotation)}

    @wraps(run)
    def run_with_options(**options: Any) -> None:
        grouped = {name: kind(**{f.name: options.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        run(**options, **grouped)

    parameters = [option for parameter in _parameters(run) for option in _options(parameter)]
    run_with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_with_options.__annotations__ = {option.name: option.annotation for option in parameters}
    return run_with_options


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
