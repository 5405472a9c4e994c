"""Ctrl-C while the program starts: its imports take seconds."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import joker
from joker import interrupts
from joker.cli import app

SOURCE = Path(joker.__file__).parents[1]
INTERRUPTING = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10**9): pass\n"
LATE = """
import atexit, os, signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
"""
SCRIPT = "import sys\nfrom joker.cli import main\nsys.exit(main())\n"


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
@pytest.mark.parametrize("how", ["script", "module", "other program"])
def test_an_interrupt_during_the_imports(tmp_path: Path, how: str) -> None:
    """The first import that takes long is that of torch; here it is a file that interrupts its own process."""
    (tmp_path / "torch.py").write_text(INTERRUPTING, encoding="utf-8")
    script = tmp_path / ("joker" if how == "script" else "other")
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, *(["-m", "joker"] if how == "module" else [str(script)]), "--version"]
    place = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}
    done = subprocess.run(command, env=place, capture_output=True, text=True, timeout=60, check=False)
    if how == "other program":  # which decides itself
        assert "KeyboardInterrupt" in done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "Interrupted.\n")


def test_a_program_that_imports_joker_keeps_its_handler() -> None:
    assert not interrupts.is_program()
    before = signal.getsignal(signal.SIGINT)
    interrupts.end_quietly()
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_is_set_before_other_imports() -> None:
    """A module that is imported before takes its time with the usual handler, whose end is a traceback."""
    body = ast.parse((SOURCE / "joker" / "__init__.py").read_text(encoding="utf-8")).body
    assert [ast.unparse(one) for one in body[1:3]] == ["from joker import interrupts", "interrupts.end_quietly()"]


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
@pytest.mark.parametrize("how", ["joker", "module", "other"])
def test_an_interrupt_at_the_end(tmp_path: Path, how: str) -> None:
    """The work is done and its status is known; libraries clean up for a while."""
    (tmp_path / "sitecustomize.py").write_text(LATE, encoding="utf-8")
    script = tmp_path / how
    script.write_text(SCRIPT, encoding="utf-8")
    place = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}
    command = [sys.executable, *(["-m", "joker"] if how == "module" else [str(script)]), "--version"]
    done = subprocess.run(command, env=place, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("joker ")
    assert ("Traceback" in done.stderr) == (how == "other")
    assert done.returncode == 0


def test_an_interrupt_before_and_after_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(app, "program", interrupt)
        assert (app.main(["info"]), capsys.readouterr().err) == (130, "Interrupted.\n")
    monkeypatch.setattr(app, "_run", interrupt)
    assert (app.main(["info"]), capsys.readouterr().err) == (130, "")
