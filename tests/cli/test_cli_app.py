"""The whole program: its help, its exit statuses and its errors."""

import re
import signal
import subprocess
import sys
import threading
import tomllib
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
import typer
from program import environment, run, well

from joker import errors
from joker.cli.app import COMMANDS
from joker.cli.command import Command, as_option, reporting_errors

ROOT = Path(__file__).resolve().parents[2]


def test_the_program_is_what_is_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, name = scripts["joker"].partition(":")
    assert getattr(import_module(module), name)(["--version"]) == 0


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_shows_a_valid_example(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = well(command.name, "--help").out
    for example in command.examples:
        assert example in shown
        arguments = example.split()
        assert arguments[:2] == ["joker", command.name]
        if len(arguments) > 2:  # the options are valid, and the files do not exist
            assert run(*arguments[1:]).status == 1


def test_help_lists_all_commands() -> None:
    shown = run().out + run("--help").out
    assert all(shown.count(f" {command.name} ") >= 2 for command in COMMANDS)
    assert "2 wrong usage" in shown


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["info", "--bogus"], ["convert"], ["convert", "x.csv", "x.rows", "--seed", "x"]]
)
def test_wrong_usage_has_status_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert "Usage: joker" in done.err


def fails_with(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return reporting_errors(fail)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            errors.InvalidData("y must have two classes; got one. Add rows."),
            1,
            "joker: y must have two classes; got one. Add",
        ),
        (errors.InvalidParameter("lam must be positive; got lam=-1."), 2, "joker: lam must be positive; got --lam -1."),
        (errors.BudgetTooSmall("memory must hold a tile. Use memory=500 or more."), 1, "Use --memory 500 or more."),
        (
            OSError(28, "No space left on device", "x.csv"),
            1,
            "x.csv: No space left on device. Check the path",
        ),
        (MemoryError(), 1, "the memory of this machine is used up"),
        (ValueError("Input X contains NaN."), 1, "joker: Input X contains NaN."),
        (RuntimeError("odd"), 1, "joker: RuntimeError: odd. This is unexpected; set JOKER_TRACEBACK=1"),
        (KeyboardInterrupt(), 130, "Interrupted."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_errors_are_sentences(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOKER_TRACEBACK", raising=False)
    with pytest.raises(typer.Exit) as ended:
        fails_with(error)()
    assert ended.value.exit_code == status
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


def test_the_traceback_is_shown_on_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOKER_TRACEBACK", "1")
    with pytest.raises(typer.Exit):
        fails_with(errors.InvalidData("bad."))()
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_sigterm_is_an_interrupt_with_its_own_status(capsys: pytest.CaptureFixture[str]) -> None:
    cleared: list[bool] = []

    def wait() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleared.append(True)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(typer.Exit) as ended:
        reporting_errors(wait)()
    assert (ended.value.exit_code, cleared) == (143, [True])
    assert signal.getsignal(signal.SIGTERM) is before
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (AttributeError("partially initialized module 'pandas' has no attribute 'plotting'"), 130, "Interrupted.\n"),
        (errors.MissingPackage("pandas must be installed."), 130, "Interrupted.\n"),
        (errors.InvalidFile("m.joker must be in a place with room for it."), 1, "joker: m.joker must be in a place"),
    ],
    ids=["another error", "a package", "a sentence"],
)
def test_an_import_that_hides_an_interrupt(
    error: Exception, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packages catch every error of what they import if they can; what is missing then fails later."""

    def hides() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise error

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(typer.Exit) as ended:
            reporting_errors(hides)()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.exit_code == status
    assert capsys.readouterr().err.startswith(said)


def test_commands_run_in_any_thread() -> None:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(run("--version").status))
    thread.start()
    thread.join()
    assert statuses == [0]


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    reporting_errors(lambda: warnings.warn("the last digits differ", stacklevel=1))()
    assert capsys.readouterr().err == "joker: warning: the last digits differ\n"


def test_keywords_of_the_library_are_replaced_by_options() -> None:
    assert as_option("got lam=-1") == "got --lam -1"
    assert as_option("choose others with columns=, or") == "choose others with --columns, or"
    assert as_option("Use early_stopping=True.") == "Use --early-stopping."
    assert as_option("or a smaller block_size.") == "or a smaller --block-size."
    assert as_option("the alphabet=3, grid=4") == "the alphabet=3, grid=4"


def test_info_describes_this_machine() -> None:
    facts = well("info", "--json").document
    assert {"joker", "python", "torch", "cores", "gpus"} <= set(facts)
    shown = well("info").out
    assert "torch" in shown
    assert facts["gpus"] or re.search(r"^gpus +none$", shown, re.MULTILINE)


def test_help_does_not_import_scikit_learn() -> None:
    """The import takes as long as that of torch, and help does not need it."""
    code = "import sys, joker.cli; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 0
