"""Runs of the paper's experiments on few rows: their number of steps, their protocol and their labels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, roc_auc_score

import benchmarks.paper.experiment as module
from benchmarks.paper import SETS, Place, plan, read, reproduce, run
from benchmarks.paper.rows import scores
from joker.callbacks import Callback
from joker.errors import InvalidData, InvalidParameter, MissingFile

SMALL = {"hepc": 0.002, "susy": 0.0005, "higgs": 0.0004}


class Watch(Callback):
    """Records the blocks that were visited, and the change of α in each step."""

    def start(self, run) -> None:
        self.descent, self.moves, self.visits = run.training.descent, [], []
        self.before = self.descent.state.alpha.clone()

    def step(self, run) -> None:
        alpha = self.descent.state.alpha
        self.moves.append(float((alpha - self.before).abs().max() * self.descent.problem.targets.lam))
        self.before = alpha.clone()
        self.visits.append(tuple(self.descent.method.blocks.rows(self.descent.steps - 1).tolist()))


@pytest.mark.parametrize(
    ("data", "model"),
    [("hepc", "krr"), ("hepc", "svr"), ("susy", "huber"), ("higgs", "svm"), ("susy", "klr")],
)
def test_the_number_of_steps_and_blocks_drawn_with_replacement(data: str, model: str) -> None:
    watch, scale = Watch(), 0.0006 if model == "svr" else SMALL[data]
    found = reproduce(data, model, scale=scale, generated=True, callbacks=[watch])
    assert found.steps == len(watch.visits) == round(found.plan.choice.steps * scale)
    assert found.rows == round(SETS[data].rows * SETS[data].share * scale)
    count = watch.descent.method.blocks.count
    first = watch.visits[:count]
    assert len(set(first)) < len(first) or count < 3  # a block comes twice before all have come
    assert watch.descent.method.mean is None
    assert watch.descent.method.momentum is None
    assert found.generated
    assert not found.comparable
    assert found.facts["difference"] is None
    assert all(np.isfinite(value) for value in found.scores.values())
    assert found.gap > 0


def test_halving_makes_late_steps_small() -> None:
    moves = []
    for halving in (False, True):
        watch = Watch()
        reproduce("higgs", "svm", scale=SMALL["higgs"], generated=True, halving=halving, callbacks=[watch])
        moves.append(watch.moves)
    plain, halved = moves
    assert len(plain) == len(halved) == 20
    assert max(halved[-4:]) <= 2.0**-10 < min(plain[-4:])
    assert plan(SETS["higgs"], "svm", halving=True).settings(8_800_000).method.halve_every == 1_000


def test_the_protocol_joker_has_held_out_rows_and_whole_epochs() -> None:
    watch = Watch()
    theirs = reproduce("hepc", "krr", scale=0.004, generated=True)
    ours = reproduce("hepc", "krr", "joker", scale=0.004, generated=True, callbacks=[watch])
    assert ours.rows == theirs.rows - round(0.1 * theirs.rows)
    assert ours.steps % watch.descent.method.blocks.count == 0
    first = watch.visits[: watch.descent.method.blocks.count]
    assert sorted(row for visited in first for row in visited) == list(range(ours.rows))
    assert ours.steps <= ours.plan.steps
    assert ours.scores["rmse"] < 1.0  # better than the mean
    assert watch.descent.method.mean is not None


def test_the_exact_kernel_with_the_block_size_of_the_paper() -> None:
    rows = read(SETS["msd"], scale=0.01, generated=True)
    found = run(plan(SETS["msd"], "krr", scale=0.01, steps=8), rows, Place())
    assert (found.steps, found.plan.n_features, found.plan.choice.block_size) == (8, None, 2048)
    assert found.scores["relative_error"] < 11 / 1998  # less than the spread of the years


def test_images_are_stored_as_bytes_and_have_ten_columns() -> None:
    made = plan(SETS["cifar5m"], "krr", scale=0.0003, steps=2)
    rows = read(SETS["cifar5m"], scale=0.0003, generated=True)
    assert rows.train.x.dtype == torch.uint8
    assert rows.targets(rows.train).shape == (len(rows.train), 10)
    x = rows.rows_for(rows.train, torch.float32, torch.device("cpu"), host=True)[slice(None)]
    torch.testing.assert_close(x.mean(0), torch.zeros(3072), atol=1e-3, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(3072), atol=1e-3, rtol=0)
    found = run(replace(made, n_features=50), rows, Place())
    assert 0 <= found.scores["accuracy"] <= 1


def test_inputs_and_numbers_are_z_scores_of_the_training_rows() -> None:
    rows = read(SETS["hepc"], scale=0.001, generated=True)
    x, y = rows.train.x, rows.targets(rows.train)
    torch.testing.assert_close(x.mean(0), torch.zeros(11), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(11), atol=1e-5, rtol=0)
    assert abs(float(y.mean())) < 1e-9
    assert float(y.std(correction=0)) == pytest.approx(1)
    assert abs(float(rows.test.x.mean())) < 0.1  # by the figures of the others: not exactly


def test_metrics_are_those_of_the_tables(rng: np.random.Generator) -> None:
    numbers, classes, images = (read(SETS[name], scale=0.0005, generated=True) for name in ("msd", "susy", "cifar5m"))
    y, f = numbers.test.y, rng.normal(size=(len(numbers.test), 1))
    years = f[:, 0] * numbers.spread + numbers.centre
    assert scores(numbers, y, f) == {"relative_error": pytest.approx(np.sqrt(np.mean(((years - y) / y) ** 2)))}
    power = replace(numbers, data=SETS["hepc"])
    exact = (y - numbers.centre) / numbers.spread
    assert scores(power, y, exact[:, None])["rmse"] == pytest.approx(0)
    assert scores(power, y, exact[:, None] + 0.5)["rmse"] == pytest.approx(0.5)
    y, f = classes.test.y, rng.normal(size=(len(classes.test), 1))
    assert scores(classes, y, f) == {"auc": roc_auc_score(y, f[:, 0]), "accuracy": accuracy_score(y, f[:, 0] > 0)}
    y = images.test.y
    assert scores(images, y, np.eye(10)[y.astype(int)]) == {"accuracy": 1.0}


def test_small_official_files_are_real_rows(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2500, 28)).astype(np.float32)
    np.savez(tmp_path / "higgs33k.npz", X=x, y=(x[:, 0] * x[:, 1] > 0).astype(np.int64))
    made = plan(SETS["higgs33k"], "krr", steps=12)
    rows = read(SETS["higgs33k"], folder=tmp_path)
    assert len(rows.train) + len(rows.test) == 2500
    found = run(replace(made, n_features=60), rows, Place())
    assert not found.generated
    assert not found.comparable  # a stand-in
    assert "33,461 real rows of higgs" in found.notes[0]
    half = read(SETS["higgs33k"], folder=tmp_path, scale=0.5)
    assert len(half.train) == pytest.approx(0.5 * len(rows.train), rel=0.1)
    again = read(SETS["higgs33k"], folder=tmp_path, scale=0.5)
    assert torch.equal(half.train.x, again.train.x)


def test_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOKER_DATA", raising=False)
    assert read(SETS["higgs33k"], scale=0.01).generated
    monkeypatch.setenv("JOKER_DATA", str(tmp_path))
    assert read(SETS["higgs33k"], scale=0.01).generated
    with pytest.raises(MissingFile, match="higgs33k"):
        read(SETS["higgs33k"], scale=0.01, generated=False)
    with pytest.raises(MissingFile, match="higgs33k"):
        read(SETS["higgs33k"], scale=0.01, folder=tmp_path)
    with pytest.raises(InvalidData, match="at least two"):
        read(SETS["higgs33k"], scale=1e-5)


def test_wrong_arguments_are_refused_before_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read", lambda *_, **__: pytest.fail("rows were read"))
    for slip in ({"precision": "double"}, {"memory": "much"}, {"device": "bogus"}, {"scale": -1}):
        with pytest.raises((InvalidParameter, ValueError)):
            reproduce("higgs", "svm", generated=True, **slip)


def test_a_run_on_all_real_rows_is_compared_with_the_paper() -> None:
    rows = replace(read(SETS["hepc"], scale=0.001, generated=True), generated=False)
    found = run(replace(plan(SETS["hepc"], "krr", steps=4), n_features=20), rows, Place())
    assert not found.comparable  # of fewer steps
    found = replace(found, plan=plan(SETS["hepc"], "krr"))
    assert found.comparable
    assert found.facts["difference"]["rmse"] == pytest.approx(found.scores["rmse"] - 0.04717)
    assert found.notes == []
    assert found.facts["paper"]["seconds"] == 31 * 60


def test_memory_on_a_gpu_is_that_of_a_step() -> None:
    made = plan(SETS["higgs"], "svm")
    assert Place().scratch(made) == 256 * 2**20
    assert Place(memory="500MB").scratch(made) == 500_000_000
