"""The page of the command line lists every option of a fit, with the default of the program."""

import re
from pathlib import Path
from typing import Any

import typer

from joker.cli import command
from joker.cli.app import COMMANDS, program
from joker.estimators import resolve

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def rows_after(header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    lines = PAGE[PAGE.index(header) :].splitlines()[2:]
    table = lines[: next(k for k, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def shown(default: Any) -> str:
    if default is None:
        return ""
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default)


def test_every_option_of_a_fit_is_listed_with_its_default() -> None:
    command: Any = typer.main.get_command(program())
    options = [p for p in command.commands["fit"].params if p.param_type_name == "option" and p.name != "help"]
    expected = {p.opts[0]: shown(p.default) for p in options}
    assert {option.strip("`"): default for option, default in rows_after("| option of `joker fit`")} == expected


def test_the_limits_of_the_kernel_itself_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"the exact kernel up to {resolve.EXACT_ROWS:,} rows" in text
    assert f"with the Laplacian up to {resolve.FEW_ROWS:,} rows, or up to a million numbers" in text
    assert resolve.EXACT_NUMBERS == 10**6
    assert f"and {resolve.FEATURES:,} features with more" in text


def test_every_command_is_listed() -> None:
    listed = [re.match(r"`joker (\w+)", row[0]) for row in rows_after("| command |")]
    assert {match[1] for match in listed if match} == {command.name for command in COMMANDS}


def test_exit_statuses_are_those_of_the_program() -> None:
    listed = {int(status) for status, _ in rows_after("| status |")}
    assert listed == {0, command.FAILED, command.USAGE, command.INTERRUPTED, command.TERMINATED}
