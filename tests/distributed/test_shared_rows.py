"""Each process reads its part of the rows, and the model is that of one process with all rows."""

from pathlib import Path
from typing import Any

import group_worker as worker
import numpy as np
import pytest
import torch
from group_processes import run

import joker
from joker.data.store.shared import interleaved
from joker.errors import InvalidParameter, MissingFile, UnknownName

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
CLASSES = worker.CLASSES.astype(np.int64)


def write_files(place: Path, rows: list[np.ndarray], target: np.ndarray) -> None:
    place.mkdir()
    for number, some in enumerate(rows):
        columns = {f"x{j}": worker.X[some, j] for j in range(worker.X.shape[1])}
        pq.write_table(pa.table({**columns, "y": target[some]}), place / f"{number}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A row store, and folders of files: sorted by class and of different lengths, too few, with text as target."""
    np.savez(tmp_path / "all.npz", X=worker.X, y=CLASSES)
    joker.data.convert(tmp_path / "all.npz", tmp_path / "all.rows", target="y", dtype="float64")
    by_class = np.argsort(CLASSES, kind="stable")
    write_files(tmp_path / "table", np.split(by_class, [20, 90, 180, 260]), CLASSES)
    write_files(tmp_path / "numbers", np.array_split(by_class, 4), worker.y)
    write_files(tmp_path / "few", [by_class], CLASSES)
    write_files(tmp_path / "text", np.array_split(by_class, 4), np.array(["a", "b", "c"])[CLASSES])
    return tmp_path


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_model_is_that_of_one_process(folder: Path, count: int) -> None:
    ended = run(count, "shared", folder)
    assert [status for status, _ in ended] == [0] * count, ended
    found = torch.load(folder / "found.pt", weights_only=False)
    store = joker.data.open_store(folder / "all.rows")
    for name in worker.SHARED_CLASSES:
        data = (worker.X, CLASSES) if name == "folder" else (store,)
        expected = worker.shared_fit(name, *data).decision_function(worker.X)
        np.testing.assert_allclose(found[name], expected, atol=1e-5, err_msg=name)
    expected = worker.shared_fit("numbers folder", worker.X, worker.y).predict(worker.X)
    np.testing.assert_allclose(found["numbers folder"], expected, atol=1e-5)
    whole = worker.resumed_fit(str(folder / "whole"), 4, store, None)
    np.testing.assert_allclose(found["resumed"], whole.decision_function(worker.X), atol=1e-5)
    np.testing.assert_array_equal(found["predicted"], found["again"])
    check_rows_of_the_folder(found, count)
    check_that_no_process_reads_the_rows_of_another(found["read"], store, count)
    row_bytes = 8 * worker.X.shape[1]
    assert found["bytes"] == 64 * row_bytes + 16  # the rows, and which rows they are
    few = f"at least one file for each of {count} processes"
    for said, sentence in zip(found["errors"], ["Use random features", few, "is text", "scratch"], strict=True):
        assert sentence in said


def check_rows_of_the_folder(found: dict[str, Any], count: int) -> None:
    """Every row is there once, with its target, and any run of rows has rows of each process."""
    numbers = [np.array(own) for own in found["numbers"]]
    np.testing.assert_array_equal(np.sort(np.concatenate(numbers)), np.arange(worker.N))
    assert all((own < worker.N // 2).sum() == pytest.approx(len(own) / 2, abs=1) for own in numbers)
    assert len(numbers) == count
    mean, deviation = found["scaling"]
    np.testing.assert_allclose(mean, worker.X.mean(0), rtol=1e-10)
    np.testing.assert_allclose(deviation, worker.X.std(0), rtol=1e-10)
    place = {row.tobytes(): number for number, row in enumerate(worker.X)}
    original = [place[row.tobytes()] for row in found["sample"]]
    np.testing.assert_array_equal(found["y"][::7], CLASSES[original])
    assert found["y"].dtype == np.int64


def check_that_no_process_reads_the_rows_of_another(read: list[Any], store: joker.data.Store, count: int) -> None:
    inputs, targets = store.header.x, store.header.y
    assert targets is not None
    for rank, calls in enumerate(read):
        own = range(worker.N * rank // count, worker.N * (rank + 1) // count)
        places = [(offset, offset + size) for name, offset, size in calls if name == "all.rows"]
        for section in (inputs, targets):
            end = section.offset + worker.N * section.row_bytes
            inside = [(low, high) for low, high in places if section.offset <= low < end]
            assert inside
            assert min(low for low, _ in inside) >= section.offset + own.start * section.row_bytes
            assert max(high for _, high in inside) <= section.offset + own.stop * section.row_bytes
        assert {name for name, _, _ in calls} == {"all.rows", f"part-{rank}-of-{count}.rows"}


@pytest.mark.slow
def test_processes_that_read_different_rows_end_with_a_sentence(folder: Path) -> None:
    (_, first), (_, last) = ended = run(2, "other_rows", folder)
    assert [status for status, _ in ended] == [1, 1]
    assert "ProcessLost: all 2 processes of a group must take part in each step" in first
    assert "ProcessesDiffer: all processes of a group must read the same rows of a shared store" in last


@pytest.mark.parametrize("counts", [[1, 1], [5, 3], [100, 1, 7], [4, 4, 4, 4], [2, 1000]])
def test_the_rows_of_all_processes_are_interleaved(counts: list[int]) -> None:
    n, numbers = sum(counts), [interleaved(counts, rank) for rank in range(len(counts))]
    np.testing.assert_array_equal(np.sort(np.concatenate(numbers)), np.arange(n))
    for own in numbers:
        assert np.all(np.diff(own) > 0)
        expected = (np.arange(len(own)) + 0.5) * n / len(own)
        assert np.abs(own + 0.5 - expected).max() <= len(counts)


def test_one_process_has_all_rows(folder: Path) -> None:
    assert type(joker.data.open_shared(folder / "all.rows")) is joker.data.Store
    alone = joker.data.open_shared(folder / "table", "y", scratch=folder)
    assert (alone.shape, alone.task) == (worker.X.shape, "classification")


def test_bad_input(folder: Path) -> None:
    with pytest.raises(MissingFile, match="nowhere does not exist"):
        joker.data.open_shared("nowhere")
    with pytest.raises(InvalidParameter, match="scratch must be a folder that exists"):
        joker.data.open_shared(folder / "table", "y")
    with pytest.raises(InvalidParameter, match="is a row store, which has its own"):
        joker.data.open_shared(folder / "all.rows", "y")
    with pytest.raises(UnknownName, match="'both'"):
        joker.data.open_shared(folder / "table", "y", task="both", scratch=folder)
