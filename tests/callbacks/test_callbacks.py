"""Callbacks: when they are called, how they end a fit, and how a fit is continued."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
from pathlib import Path

import pytest
import torch

import joker
from joker.callbacks import Callback, Checkpoint, EarlyStopping, JsonLog, Run, TimeLimit, descend
from joker.errors import InvalidFile, InvalidParameter, StateMismatch
from joker.solvers import Settings

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(200, 3, generator=DRAW, dtype=torch.float64)
Y = X[:, 0].sin() + 0.1 * torch.randn(200, generator=DRAW, dtype=torch.float64)
features = pytest.mark.parametrize("n_features", [None, 30])


def make(n_features: int | None = 30, lam: float = 0.1, judge=None, **settings) -> Run:
    chosen = Settings(**{"method": "random_blocks", "block_size": 50, "max_epochs": 5, "tol": 0.0, **settings})
    return Run(joker.prepare(X, Y, lam=lam, n_features=n_features, settings=chosen), judge=judge)


class Diary(Callback):
    """Records all calls."""

    def __init__(self, name: str, pages: list, fails: str = "") -> None:
        self.name, self.pages, self.fails = name, pages, fails

    def note(self, event: str) -> None:
        self.pages.append((self.name, event))
        if event == self.fails:
            raise RuntimeError(event)

    def start(self, run: Run) -> None:
        self.note("start")

    def step(self, run: Run) -> None:
        self.note("step")

    def epoch(self, run: Run) -> None:
        self.note("epoch")

    def end(self, run: Run) -> None:
        self.note("end")


def test_the_order_of_events() -> None:
    pages: list = []
    run = make(max_epochs=2)
    descend(run, [Diary("a", pages)])
    assert [event for _, event in pages] == ["start", *["step"] * 4, "epoch", *["step"] * 4, "epoch", "end"]
    assert run.reason == "The epochs allowed were used up."


@pytest.mark.parametrize("event", ["start", "step", "epoch", "end"])
def test_an_error_is_raised_and_end_is_called_for_all_that_started(event: str) -> None:
    pages: list = []
    run = make(max_epochs=2)
    with pytest.raises(RuntimeError, match=event):
        descend(run, [Diary("a", pages), Diary("b", pages, fails=event), Diary("c", pages)])
    ended = [name for name, said in pages if said == "end"]
    assert ended == (["a"] if event == "start" else ["c", "b", "a"])
    if event != "end":
        assert run.reason == "The fit was ended by RuntimeError."


class Asks(Callback):
    def __init__(self, when: str, answer) -> None:
        self.when, self.answer = when, answer

    def epoch(self, run: Run):
        return self.answer if self.when == "epoch" else None

    def step(self, run: Run):
        return self.answer if self.when == "step" else None


@pytest.mark.parametrize(("when", "epoch"), [("epoch", 1), ("step", 0.25)])
@pytest.mark.parametrize(
    ("answer", "reason"), [(True, "The solve was asked to stop."), ("Enough of this.", "Enough of this.")]
)
def test_a_callback_can_stop_a_fit_with_a_reason(when: str, epoch: float, answer, reason: str) -> None:
    result = descend(make(), [Asks(when, answer), Diary("a", [])])
    assert (result.record.epoch, result.reason) == (epoch, reason)
    assert descend(make(), [Asks(when, False)]).record.epoch == 5


def test_the_attributes_of_a_run() -> None:
    class Looks(Callback):
        def start(self, run: Run) -> None:
            assert (run.record, run.score, run.epoch) == (None, None, 0)
            with pytest.raises(InvalidParameter, match="in a callback's epoch"):
                run.machine()

        def epoch(self, run: Run) -> None:
            assert run.record is run.records[-1]
            assert run.record.epoch == run.epoch == len(run.records)
            assert run.record.score == run.score == -float(len(run.records))
            assert run.record.peak_bytes > 50e6  # torch alone takes more
            machines.append(run.machine())

    machines: list = []
    count = iter(range(1, 9))
    run = make(averaging=False, max_epochs=3, judge=lambda machine: [-float(next(count)), -99.0])
    result = descend(run, [Looks()])
    assert (run.max_epochs, run.max_time, run.tol) == (3, torch.inf, 0)
    for epochs, machine in enumerate(machines, start=1):  # each is the one of its epoch: no later step changed it
        alone = descend(make(averaging=False, max_epochs=epochs)).machine
        assert torch.equal(machine.predict(X), alone.predict(X))
    assert torch.equal(machines[-1].predict(X), result.machine.predict(X))


# Early stopping.


def scripted(scores: list[float]):
    given = iter(scores)
    return lambda machine: [next(given)]


@features
@pytest.mark.parametrize(
    ("scores", "stopping", "last", "best"),
    [
        ([1, 2, 3, 2, 3, 1, 9, 9], EarlyStopping(patience=3), 6, 3),
        ([1, 2, 3, 2, 3, 1, 9, 9], EarlyStopping(patience=4), 8, 7),
        ([1, 1.5, 2.5, 3, 9, 9, 9, 9], EarlyStopping(patience=2, min_delta=1.0), 7, 5),
        ([1, 1.5, 1.6, 1.7, 9, 9, 9, 9], EarlyStopping(patience=3, min_delta=1.0), 4, 4),
        ([1, 2, 3, 4, 5, 6, 7, 8], EarlyStopping(patience=1), 8, 8),
        ([3, float("nan"), 2, 1, 9, 9, 9, 9], EarlyStopping(patience=3), 4, 1),
        ([float("nan")] * 8, EarlyStopping(patience=3), 3, 1),
    ],
)
def test_the_best_epoch_is_returned(scores, stopping: EarlyStopping, last: int, best: int, n_features) -> None:
    run = make(n_features, max_epochs=8, averaging=False, judge=scripted(scores))
    result = descend(run, [stopping])
    assert run.best is result.record
    assert (result.records[-1].epoch, result.record.epoch) == (last, best)
    assert (last < 8) == (f"has not risen for {stopping.patience} epochs" in result.reason)
    alone = descend(make(n_features, max_epochs=best, averaging=False))  # whose weights are the live ones
    assert torch.equal(result.machine.predict(X), alone.machine.predict(X))
    assert torch.equal(result.record.gap.sums, alone.record.gap.sums)


def test_early_stopping_without_scores_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="needs scores on held-out rows"):
        descend(make(), [EarlyStopping()])


@pytest.mark.parametrize("given", [{"patience": 0}, {"patience": 1.5}, {"min_delta": -1}, {"min_delta": "a"}])
def test_bad_settings_of_early_stopping(given) -> None:
    with pytest.raises(InvalidParameter, match=rf"{next(iter(given))} must be .*got .*Use"):
        EarlyStopping(**given)


# Time.


def test_the_time_limit_ends_within_an_epoch() -> None:
    result = descend(make(max_epochs=1e9, block_size=1), [TimeLimit(1e-6)])
    assert result.reason == "The time allowed was used up."
    assert result.record.epoch > 0
    with pytest.raises(InvalidParameter, match="seconds must be a positive number"):
        TimeLimit(0)


# Checkpoints.


class Killed(BaseException):
    """Not an Exception, so that no handler of errors catches it."""


class Kills(Callback):
    def __init__(self, epoch: float) -> None:
        self.at = epoch

    def step(self, run: Run) -> None:
        if run.epoch == self.at:
            raise Killed


@features
@pytest.mark.parametrize("method", [{}, {"averaging": False}, {"momentum": True}], ids=str)
@pytest.mark.parametrize("killed", [0.5, 2, 3.75])
def test_an_interrupted_fit_continues_bit_for_bit(tmp_path: Path, n_features, method, killed: float) -> None:
    def judge(machine) -> list[float]:
        return [-float((machine.predict(X)[:, 0] - Y.flip(0)).square().mean())]

    whole = descend(make(n_features, judge=judge, **method), [EarlyStopping()])
    path = tmp_path / "run.pt"
    with pytest.raises(Killed):
        descend(make(n_features, judge=judge, **method), [Checkpoint(path), EarlyStopping(), Kills(killed)])
    run = make(n_features, judge=judge, **method)
    seen: list = []
    result = descend(run, [Checkpoint(path), EarlyStopping(), Diary("a", seen)])
    assert seen.count(("a", "step")) == 4 * (whole.records[-1].epoch - killed)  # it did not begin anew
    assert torch.equal(result.machine.predict(X), whole.machine.predict(X))
    assert torch.equal(result.record.gap.sums, whole.record.gap.sums)
    assert [r.scores for r in result.records] == [r.scores for r in whole.records]
    assert result.reason == whole.reason
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_an_epoch_is_repeated_after_an_error_in_a_callback(tmp_path: Path) -> None:
    """``epoch`` is called again for all callbacks, also for those that have seen it."""
    scores = [1.0, 0.5, 0.4, 0.3, 0.2]
    callbacks = [Checkpoint(tmp_path / "a"), EarlyStopping(), Diary("a", [], fails="epoch")]
    with pytest.raises(RuntimeError):
        descend(make(judge=scripted(scores)), callbacks)
    result = descend(make(judge=scripted(scores)), [Checkpoint(tmp_path / "a"), EarlyStopping()])
    assert [r.scores for r in result.records] == [(score,) for score in scores[:4]]
    assert result.record.epoch == 1


def test_an_incomplete_step_is_not_saved(tmp_path: Path) -> None:
    run = make()
    state, changes = run.training.descent.state, iter(range(100))
    change = state.image_change

    def broken(block, move):
        if next(changes) == 6:
            raise MemoryError
        return change(block, move)

    state.image_change = broken
    with pytest.raises(MemoryError):
        descend(run, [Checkpoint(tmp_path / "a")])
    again = make()
    again.load_state_dict(torch.load(tmp_path / "a", weights_only=True)["run"])
    assert again.epoch == 1


def test_ctrl_c_leaves_a_checkpoint_and_raises(tmp_path: Path) -> None:
    class Interrupts(Callback):
        def step(self, run: Run) -> None:
            if run.epoch == 1.75:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    run = make()
    try:
        with pytest.raises(KeyboardInterrupt):
            descend(run, [Checkpoint(tmp_path / "a"), Interrupts()])
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.reason == "The fit was ended by KeyboardInterrupt."
    result = descend(make(), [Checkpoint(tmp_path / "a")])
    assert torch.equal(result.machine.predict(X), descend(make()).machine.predict(X))


def test_the_number_of_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = []
    save = torch.save

    def count(saved, file) -> None:
        epochs.append(saved["run"]["descent"]["steps"] / 4)
        save(saved, file)

    monkeypatch.setattr(torch, "save", count)
    descend(make(), [Checkpoint(tmp_path / "a", every=2)])
    assert epochs == [2, 4, 5]
    descend(make(), [Checkpoint(tmp_path / "a", every=2)])  # nothing is left to do, and nothing to save
    assert epochs == [2, 4, 5]
    descend(make(), [Checkpoint(tmp_path / "a", every=3, resume=False)])
    assert epochs == [2, 4, 5, 3, 5]
    with pytest.raises(InvalidParameter, match="every must be a whole number"):
        Checkpoint(tmp_path / "a", every=0)


def test_a_failed_write_keeps_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descend(make(max_epochs=2), [Checkpoint(tmp_path / "a")])
    before = (tmp_path / "a").read_bytes()

    def full(saved, file) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(InvalidFile, match="No space left on device"):
        descend(make(), [Checkpoint(tmp_path / "a")])
    assert (tmp_path / "a").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def largest(saved: object) -> torch.Tensor:
    """Return the largest tensor in nested dictionaries."""
    parts = saved.values() if isinstance(saved, dict) else ()
    tensors = [part if isinstance(part, torch.Tensor) else largest(part) for part in parts]
    return max(tensors, key=torch.Tensor.numel, default=torch.zeros(0))


def test_wrong_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    descend(make(max_epochs=1), [Checkpoint(path)])
    with pytest.raises(StateMismatch, match=r"lam differ.*remove the file"):
        descend(make(lam=0.2), [Checkpoint(path)])
    whole = path.read_bytes()
    flipped = bytearray(whole)
    saved = torch.load(path, weights_only=True)
    flipped[whole.index(largest(saved).numpy().tobytes()) + 500] ^= 4  # a bit of a number: torch alone would not notice
    for damaged in (b"", b"not a checkpoint", whole[:100], whole[: len(whole) // 2], flipped, pickle.dumps([1, 2])):
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile, match=r"must be a complete file.*Remove it"):
            descend(make(), [Checkpoint(path)])
    torch.save({"a": 1}, path)
    with pytest.raises(InvalidFile, match="of another kind"):
        descend(make(), [Checkpoint(path)])
    with pytest.raises(InvalidFile, match="folder that exists"):
        descend(make(), [Checkpoint(tmp_path / "none" / "a")])
    with pytest.raises(InvalidFile, match="is a folder"):
        descend(make(), [Checkpoint(tmp_path)])


def test_a_finished_fit_is_not_run_again(tmp_path: Path) -> None:
    """For every reason of its end: epochs, the tolerance, a callback."""
    judge = lambda machine: [-float(machine.predict(X).square().mean())]  # noqa: E731
    for k, settings in enumerate([{}, {"tol": 0.5}, {"max_epochs": 50}]):
        path, seen = tmp_path / str(k), []
        callbacks = [Checkpoint(path), EarlyStopping(), Diary("a", seen)]
        first = descend(make(judge=judge, **settings), callbacks)
        seen.clear()
        again = descend(make(judge=judge, **settings), callbacks)
        assert ("a", "step") not in seen
        assert again.reason == first.reason
        assert torch.equal(again.machine.predict(X), first.machine.predict(X))


# The log.


def test_a_line_for_each_event_is_written_immediately(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lengths = []

    class Reads(Callback):
        def epoch(self, run: Run) -> None:
            lengths.append(len(path.read_text().splitlines()))

    scores = iter([0.5, float("nan"), 0.75])
    run = make(max_epochs=3, judge=lambda machine: [next(scores)])
    result = descend(run, [JsonLog(path), Reads()])
    assert lengths == [2, 3, 4]
    start, *epochs, end = [json.loads(line) for line in path.read_text().splitlines()]
    assert (start["event"], start["max_epochs"], start["max_time"]) == ("start", 3, None)
    assert [line["validation_score"] for line in epochs] == [0.5, None, 0.75]
    for line, record in zip(epochs, result.records, strict=True):
        assert line["event"] == "epoch"
        assert {name: line[name] for name in ("epoch", "seconds", "gap", "peak_bytes")} == {
            "epoch": record.epoch,
            "seconds": record.seconds,
            "gap": record.relative_gap,
            "peak_bytes": record.peak_bytes,
        }
        assert line["dual"] <= line["primal"]
    assert (end["event"], end["reason"]) == ("end", "The epochs allowed were used up.")
    assert (end["epoch"], end["best_epoch"]) == (3, 3)
    with pytest.raises(RuntimeError):
        descend(make(), [JsonLog(path), Diary("a", [], fails="step")])
    assert json.loads(path.read_text().splitlines()[-1])["reason"] == "The fit was ended by RuntimeError."


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="must be a file that can be written"):
        descend(make(), [JsonLog(tmp_path)])


@pytest.mark.parametrize("callback", [EarlyStopping(), TimeLimit(3), Checkpoint("a"), JsonLog("a")], ids=repr)
def test_callbacks_are_copied_and_pickled(callback: Callback) -> None:
    assert copy.deepcopy(callback) == pickle.loads(pickle.dumps(callback)) == callback
