"""The installed program as a user runs it: from a CSV file to predictions and scores, also after a kill."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from program import Done, finish, start, write_table

import joker

# Enough epochs to kill a fit before its end.
FIT = ("fit", "train.csv", "-t", "place", "--columns", "a,b,c", "--loss", "logistic", "-m", "50", "--lam", "0.1,1")
EPOCHS = ("--max-epochs", "40", "--tol", "0")
LONG = 60  # seconds; a fit needs less time to its first checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a user has fitted a model on 2,500 rows."""
    folder = tmp_path_factory.mktemp("program")
    write_table(folder / "train.csv", rows=2_500)
    write_table(folder / "test.csv", rows=500, seed=1)
    done = program(folder, *FIT, *EPOCHS, "--out", "model.joker")
    assert done.status == 0, done.err
    assert "gap" in done.out
    assert "KernelClassifier: epoch 40 of 40" in done.err
    return folder


def program(folder: Path, *arguments: object) -> Done:
    return finish(start(folder, *arguments))


def test_from_a_csv_to_predictions_and_scores(folder: Path) -> None:
    done = program(folder, "predict", "model.joker", "test.csv", "--out", "predictions.csv", "--proba")
    assert (done.status, done.err) == (0, "")
    header, *rows = (folder / "predictions.csv").read_text(encoding="utf-8").splitlines()
    assert header == "prediction,probability=in,probability=out"
    assert len(rows) == 500
    done = program(folder, "evaluate", "model.joker", "test.csv", "--target", "place", "--json")
    assert (done.status, done.err) == (0, "")
    assert done.document["accuracy"] > 0.9
    assert done.document["auc"] > 0.95
    truth = np.loadtxt(folder / "test.csv", delimiter=",", skiprows=1, usecols=3, dtype=str)
    right = np.mean([row.split(",")[0] == label for row, label in zip(rows, truth, strict=True)])
    assert right == pytest.approx(done.document["accuracy"])


@pytest.mark.skipif(sys.platform == "win32", reason="a signal is sent")
def test_a_killed_fit_continues_to_the_same_model(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "train.csv", tmp_path / "train.csv")
    kept = tmp_path / "m.joker.checkpoint"
    assert killed(tmp_path, kept).status == -signal.SIGKILL
    locks = {path.name for path in tmp_path.glob(".joker-*.lock")}
    assert {path.name for path in tmp_path.iterdir()} - {"train.csv", kept.name} <= half_written(tmp_path) | locks
    done = program(tmp_path, *FIT, *EPOCHS, "--out", "m.joker", "--resume", "--json", "--quiet")
    assert (done.status, done.err) == (0, "")
    assert done.document["epochs"] == 40
    assert {path.name for path in tmp_path.iterdir()} == {"train.csv", "m.joker"}
    whole, resumed = joker.load(folder / "model.joker"), joker.load(tmp_path / "m.joker")
    assert np.array_equal(whole.coef_, resumed.coef_)
    assert np.array_equal(whole.path_.scores, resumed.path_.scores)
    assert [entry["gap"] for entry in whole.history_] == [entry["gap"] for entry in resumed.history_]


def killed(folder: Path, kept: Path) -> Done:
    """Start a fit, and kill it as soon as its first checkpoint exists."""
    process = start(folder, *FIT, *EPOCHS, "--out", "m.joker")
    until = time.monotonic() + LONG
    while not kept.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    process.kill()
    return finish(process)


def half_written(folder: Path) -> set[str]:
    """Return the checkpoint that was being written when the process was killed."""
    return {path.name for path in folder.glob("m.joker.checkpoint.*.part")}
