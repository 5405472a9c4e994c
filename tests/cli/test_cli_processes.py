"""The program in several processes."""

import pytest

from joker.cli import main


def test_other_commands_are_those_of_the_first_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No group is made for them: a process would wait for the first one, at most for the time limit."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert main(["info", "nowhere.joker"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("RANK", "0")
    assert main(["info", "nowhere.joker"]) == 1
    assert "nowhere.joker" in capsys.readouterr().err
