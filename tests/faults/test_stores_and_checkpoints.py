"""Row stores and checkpoints with right checksums and wrong content are refused with an error of joker."""

import copy
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults.campaign import REFUSED, VERIFIED, count

import joker
from joker.callbacks import Checkpoint
from joker.data import convert, open_store
from joker.data.store.format import PREAMBLE
from joker.errors import InvalidFile, JokerError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 10.0, 100.0]
LABELS = np.where(X[:, 0] > 0, "a", "b")
VALUES = [float("nan"), float("inf"), -1, 0, 10**400, 2**62, "x", None, [], {}, True, [1.0, 2.0]]


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values that are neither lists nor dictionaries."""
    if isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place


def changed(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at a place; tuples become lists on the way."""
    if not place:
        return value
    part = list(whole) if isinstance(whole, tuple) else copy.copy(whole)
    part[place[0]] = changed(part[place[0]], place[1:], value)
    return part


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    np.savez(folder / "t.npz", X=X, y=LABELS)
    convert(folder / "t.npz", folder / "t.rows")
    return folder / "t.rows"


@pytest.mark.parametrize("trials", [250, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_header_with_any_wrong_value_is_refused_or_read(store: Path, tmp_path: Path, trials: int) -> None:
    whole = store.read_bytes()
    magic, version, length, _ = PREAMBLE.unpack(whole[: PREAMBLE.size])
    document = json.loads(whole[PREAMBLE.size : PREAMBLE.size + length])
    rest, refused = whole[PREAMBLE.size + length :], 0
    tried = [(place, value) for place in leaves(document) for value in VALUES]
    for number in RNG.choice(len(tried), size=min(trials, len(tried)), replace=False):
        text = json.dumps(changed(document, *tried[number])).encode()
        head = PREAMBLE.pack(magic, version, len(text), hashlib.sha256(text).digest())
        (tmp_path / "t.rows").write_bytes(head + text + rest)
        try:
            found = open_store(tmp_path / "t.rows")
            model = joker.KernelSVC(n_features=10, max_epochs=1).fit(found)
            assert np.isfinite(model.decision_function(X)).all(), tried[number]
            count(VERIFIED)
        except JokerError:
            count(REFUSED)
            refused += 1
    assert refused > min(trials, len(tried)) // 2


def fit(path: Path, epochs: int = 2) -> joker.KernelHuber:
    callbacks = [Checkpoint(path)]
    settings: dict[str, Any] = {"block_size": 20, "random_state": 0, "tol": 0.0, "callbacks": callbacks}
    return joker.KernelHuber(max_epochs=epochs, momentum=True, **settings).fit(X, X[:, 0])


@pytest.mark.parametrize("trials", [150, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_checkpoint_with_any_wrong_value_is_refused_or_continued(tmp_path: Path, trials: int) -> None:
    path = tmp_path / "c"
    fit(path)
    saved = torch.load(path, weights_only=True)
    places = [place for place in leaves(saved) if not {"records", "kept"} & set(place)]  # which only describe the past
    refused = 0
    values = [*VALUES[:4], 2**62, "x", None, [], {}, True, torch.zeros(3), torch.full((60, 1), float("nan"))]
    trials = min(trials, len(places) * len(values))
    for number in RNG.choice(len(places) * len(values), size=trials, replace=False):
        torch.save(changed(saved, places[number // len(values)], values[number % len(values)]), path)
        try:
            assert np.isfinite(fit(path, 3).predict(X)).all(), places[number // len(values)]
            count(VERIFIED)
        except JokerError:
            count(REFUSED)
            refused += 1
    assert refused > trials // 3


@pytest.mark.parametrize("steps", [float("inf"), float("nan"), -1, 2.0, True])
def test_a_number_of_steps_that_no_fit_has_is_refused(tmp_path: Path, steps: float) -> None:
    path = tmp_path / "c"
    fit(path)
    saved = torch.load(path, weights_only=True)
    saved["run"]["descent"]["steps"] = steps
    torch.save(saved, path)
    with pytest.raises(JokerError):
        fit(path, 3)
    count(REFUSED)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c"
    fit(path)
    whole = path.read_bytes()
    for _ in range(30):
        data = bytearray(whole)
        data[RNG.integers(len(data))] ^= 1 << int(RNG.integers(8))
        parts = {"cut": whole[: RNG.integers(len(whole))], "flip": bytes(data), "empty": b"", "text": b"hello\n" * 99}
        path.write_bytes(parts[damage])
        try:
            fit(path, 3)
        except JokerError as error:
            assert "c" in str(error)  # noqa: PT017
            count(REFUSED)
        else:
            assert damage == "flip"  # in bytes that hold no numbers
            count(VERIFIED)


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "hacked",))

    torch.save({"format": "joker checkpoint 1", "run": Evil()}, tmp_path / "c")
    with pytest.raises(InvalidFile, match="damaged or of another kind"):
        fit(tmp_path / "c")
    assert not (tmp_path / "hacked").exists()
    count(REFUSED)
