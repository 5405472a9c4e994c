"""The progress line: updated on a terminal, one line in a file, nothing by default."""

import io
import os
import pty
import re
import sys

import numpy as np
import pytest
from rich.console import Console

import joker
from joker.callbacks import Progress, progress

X = np.random.default_rng(0).normal(size=(300, 2))
Y = np.sin(X[:, 0])
SETTINGS = {"method": "random_blocks", "block_size": 60, "max_epochs": 3, "tol": 0.0, "random_state": 0}
LINE = (
    r"KernelRidge: epoch 3 of 3, \d+\.\d s, gap \d\.\de-\d\d, [\d.]+ .B at peak\. The epochs allowed were used up\. .*"
)


def test_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    joker.KernelRidge(**SETTINGS).fit(X, Y)
    assert capfd.readouterr() == ("", "")


def test_a_log_file_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    joker.KernelRidge(**SETTINGS, verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert not out
    assert re.fullmatch(LINE + "\n", err)
    joker.KernelRidge(**{**SETTINGS, "lam": [1.0, 2.0]}, verbose=True).fit(X, Y)
    assert ", score -" in capsys.readouterr().err


def test_the_line_describes_the_returned_model(capsys: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(1).normal(size=300)
    settings = {**SETTINGS, "max_epochs": 20, "lam": 1e-3, "early_stopping": True, "verbose": 1}
    model = joker.KernelRidge(**settings).fit(X, noise)
    err = capsys.readouterr().err
    assert f" best at {model.n_iter_}, gap {model.gap_:.1e}, score {max(model.path_.scores):.4g}, " in err
    assert f": epoch {len(model.history_)} of 20, " in err


def shown(monkeypatch: pytest.MonkeyPatch, pause: float, **settings) -> str:
    """The text that a fit writes to a terminal."""
    monkeypatch.setattr(progress, "UPDATE_SECONDS", pause)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=150, color_system=None)
    joker.KernelRidge(**{**SETTINGS, **settings}, callbacks=[Progress(console)]).fit(X, Y)
    return file.getvalue()


def test_the_line_moves_within_an_epoch_and_ends_with_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 0.0)
    epochs = [float(found) for found in re.findall(r" ([\d.]+)/3\b", text)]
    assert epochs == sorted(epochs)
    assert set(epochs) == {round(k / 5, 10) for k in range(16)}
    assert re.search(r" 2\.4/3  ≤ 0:00:\d\d left  gap \S+e-\d\d  \S+ .B at peak", text)
    assert re.search(LINE, text.splitlines()[-1])
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor is hidden and shown again


def test_the_line_is_not_updated_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 1e9).count("/3") <= 1 + 3 + 2  # the start, the epochs, the end


def test_the_score_is_on_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"gap \S+  score -\S+  ", shown(monkeypatch, 0.0, lam=[0.1, 1.0]))


def test_standard_output_is_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    class Prints(joker.callbacks.Callback):
        def epoch(self, run) -> None:
            sys.stdout.write(f"epoch {run.epoch}\n")

    file = io.StringIO()
    joker.KernelRidge(**SETTINGS, callbacks=[Progress(Console(file=file, force_terminal=True)), Prints()]).fit(X, Y)
    assert capsys.readouterr().out == "epoch 1.0\nepoch 2.0\nepoch 3.0\n"
    assert "epoch 1.0" not in file.getvalue()


def test_the_terminal_is_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails(joker.callbacks.Callback):
        def epoch(self, run) -> None:
            raise RuntimeError

    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=150)
    with pytest.raises(RuntimeError):
        joker.KernelRidge(**SETTINGS, callbacks=[Progress(console), Fails()]).fit(X, Y)
    assert file.getvalue().count("\x1b[?25l") == file.getvalue().count("\x1b[?25h") == 1
    assert "The fit was ended by RuntimeError." in file.getvalue()


def test_standard_error_may_be_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, terminal = pty.openpty()
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        joker.KernelRidge(**SETTINGS, verbose=1).fit(X, Y)
        stderr.flush()
        text = ""
        while not text.endswith("\n"):  # a read from a terminal may return a part of the text
            text += os.read(keeper, 100_000).decode()
    os.close(keeper)
    assert "━" in text
    assert re.search(LINE, text)


def test_a_time_limit_bounds_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 0.0, max_epochs=1e6, max_time=0.3)
    assert "≤ 0:00:00 left" in text
    assert set(re.findall(r"≤ (\S+) left", text)) == {"0:00:00"}
