"""``python -m benchmarks.paper``: its table, its JSON document, and its errors."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from program import Done, environment
from repository import ROOT

from benchmarks.paper import __main__ as command

GENERATED = ("--generated", "--scale", "0.0004", "--quiet")


def run(*arguments: object) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = command.main([str(argument) for argument in arguments])
    return Done(status, out.getvalue(), err.getvalue())


def well(*arguments: object) -> Done:
    done = run(*arguments)
    assert done.status == 0, done.err
    return done


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOKER_DATA", raising=False)


def test_the_table_shows_both_results_and_that_rows_are_generated() -> None:
    out = well("higgs", "--model", "svm", *GENERATED).out
    lines = {line[:26].strip(): line[26:].split() for line in out.splitlines()}
    assert out.startswith("higgs (generated rows), svm, protocol paper: 3,520 rows, 40 features")
    assert lines["steps"] == ["20", "50,000"]
    assert lines["auc (more is better)"][1] == "–"  # no score of the paper beside one of generated rows
    assert lines["seconds"][1] == "3,360"
    assert "1.9 GB" in out
    assert "the scores do not" in out


def test_json_has_all_results() -> None:
    found = well("susy", "--model", "krr", "--protocol", "joker", "--json", *GENERATED).document
    assert found["generated"] is True
    assert found["comparable"] is False
    assert found["difference"] is None
    assert found["paper"]["scores"]["auc"] == pytest.approx(0.8763)
    assert {"seconds", "peak_bytes", "steps", "ms_per_step", "gap", "scores"} <= found.keys()
    assert found["averaging"] is True


def test_a_dry_run_shows_the_settings_and_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "read", lambda *_, **__: pytest.fail("rows were read"))
    found = well("cifar5m", "--model", "klr", "--halving", "--dry-run", "--json").document
    assert (found["steps"], found["n_features"], found["block_size"]) == (50_000, 200_000, 1_024)
    assert (found["order"], found["averaging"], found["halve_every"]) == ("random", False, 1_000)


def test_missing_files_are_reported_before_the_run(tmp_path) -> None:
    done = run("susy", "--model", "huber", "--scale", "0.0005")
    assert done.status == 0
    assert done.err.startswith("The rows are generated in the shape of susy")


def test_real_rows_from_a_small_file(tmp_path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rng.normal(size=(2_000, 28)).astype(np.float32)
    np.savez(tmp_path / "higgs33k.npz", X=x, y=(x[:, 0] > 0).astype(np.int64))
    arguments = ("--model", "krr", "--scale", "0.9", "--folder", tmp_path, "--json", "--quiet", "--memory", "100MB")
    monkeypatch.setattr("benchmarks.paper.tables._SHARED", {"higgs": (0.125, 50, "laplacian", 512, 2_000)})
    found = well("higgs33k", *arguments).document
    assert found["generated"] is False
    assert found["scores"]["auc"] > 0.6


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("bogus", "--model", "krr"), 2, "must be one of cifar5m, hepc"),
        (("hepc", "--model", "klr"), 2, "Use one of krr, huber, svr"),
        (("hepc", "--model", "krr", "--scale", "7"), 2, "scale must be a number above 0"),
        (("hepc", "--model", "krr", "--halving", "--protocol", "joker"), 2, "Leave it out"),
        (("hepc", "--model", "krr", "--real"), 2, "Use --folder"),
        (("hepc", "--model", "krr", "--folder", "nowhere"), 1, "nowhere"),
        (("hepc", "--model", "krr", "--generated", "--scale", "0.0001"), 2, "more than one block"),
        (("hepc", "--model", "krr", "--precision", "half"), 2, "precision"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], status: int, said: str) -> None:
    done = run(*arguments, "--quiet")
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith("joker: ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["hepc", "--model", "krr", "--protocol", "mine"])
    assert ended.value.code == 2


def test_it_runs_from_the_root_of_the_repository() -> None:
    arguments = [sys.executable, "-m", "benchmarks.paper", "hepc", "--model", "krr", "--dry-run"]
    done = subprocess.run(arguments, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    assert "25,000" in done.stdout
