"""Conversion to a row store: every row once, in a random order, in bounded memory; complete or not at all."""

import hashlib
import importlib
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from store_sources import Table, numbered

import joker
from joker.data import Schema, convert, open_store
from joker.data.store.convert import Buckets
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingFile, UnknownName


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.rows"


def left(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.float16, np.float32])
def test_every_row_is_stored_with_its_target(path: Path, kind: Any) -> None:
    x = numbered(240, kind=kind)
    y = np.array(["even", "odd"])[np.arange(240) % 2]
    store = convert(Table(x, y), path)
    got = store.x[:].numpy()
    order = np.argsort(got[:, 0], kind="stable")
    assert np.array_equal(got[order], x[np.argsort(x[:, 0], kind="stable")])
    assert not np.array_equal(got, x)
    assert ((got[:, 0].astype(int) % 2 == 1) == (store.y == "odd")).all()
    assert store.header.x.dtype == kind
    assert (store.task, store.classes.tolist(), store.header.statistics["rows"]) == (
        "classification", ["even", "odd"], [120, 120],
    )  # fmt: skip
    assert left(path) == ["table.rows"]


def test_statistics_are_those_of_the_table(path: Path, rng: np.random.Generator) -> None:
    x = rng.normal([1e4, 0, 7], [1e-1, 3, 0], size=(5000, 3)).astype(np.float32)
    store = convert(Table(x, x[:, 1]), path, memory="20kB")
    wide = x.astype(np.float64)
    assert_allclose(store.scaling.mean, wide.mean(0), rtol=1e-12)
    assert_allclose(store.scaling.deviation, wide.std(0), rtol=1e-7, atol=1e-12)
    assert store.header.statistics["low"] == wide.min(0).tolist()
    assert store.header.statistics["high"] == wide.max(0).tolist()
    assert store.scaling.deviation[2] == 0
    assert store.task == "regression"
    assert store.y.dtype == np.float32
    assert open_store(path).schema == Schema.numbers(["c0", "c1", "c2"], "goal")


def test_the_order_depends_on_the_seed_and_not_on_the_memory(path: Path) -> None:
    """Also if buckets are distributed several times, and with other batches."""
    x = numbered(20_000)
    orders = [convert(Table(x), path, seed=1, memory=memory).x[:].numpy() for memory in ("1GB", "300kB", "6kB")]
    assert np.array_equal(orders[0], orders[1])
    assert np.array_equal(orders[0], orders[2])
    assert not np.array_equal(orders[0], convert(Table(x), path, seed=2).x[:].numpy())
    assert left(path) == ["table.rows"]


def test_all_orders_are_equally_likely(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chi-square test over all 24 orders of four rows, with a limit of five standard deviations."""
    x = np.arange(4, dtype=np.float32)[:, None]
    draws = 720
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    found = Counter(tuple(convert(Table(x), path, seed=s).x[:].numpy()[:, 0]) for s in range(draws))
    expected = draws / 24
    statistic = sum((found[order] - expected) ** 2 / expected for order in permutations(range(4)))
    assert statistic < 23 + 5 * np.sqrt(2 * 23)


def test_neighbouring_rows_are_not_correlated(path: Path) -> None:
    got = convert(Table(numbered(20_000)), path, memory="100kB").x[:].numpy()[:, 0]
    assert abs(np.corrcoef(got[1:], got[:-1])[0, 1]) < 0.05
    assert abs(np.corrcoef(got, np.arange(20_000))[0, 1]) < 0.05


def test_memory_is_bounded(path: Path) -> None:
    """A table of 64 MB is converted in 8 MB, without the memory of Python itself."""
    script = f"""
import resource, sys
sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(joker.__file__).parents[1])]!r}
import numpy as np, torch
from joker.data import convert
from store_sources import Table
class Wide(Table):
    def batches(self, rows):
        from joker.data import Batch
        for first in range(0, self.rows, rows):
            k = min(rows, self.rows - first)
            yield Batch(np.full((k, 64), first, np.float32), np.arange(k) % 3, first)
convert(Table(np.zeros((10_000, 64), np.float32), np.arange(10_000) % 3), {str(path)!r}, memory="8MB")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
wide = Wide(np.zeros((1, 64), np.float32))
wide.rows = 250_000
convert(wide, {str(path)!r}, memory="8MB").verify()
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 8e6


def test_a_path_is_opened_as_a_source(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "colours.csv"
    table.write_text("size,colour,price\n" + "".join(f"{i},{'red' if i % 3 else 'blue'},{i / 4}\n" for i in range(200)))
    seen: list[tuple[int, int | None]] = []
    store = convert(table, path, target="price", categories="one-hot", progress=lambda *rows: seen.append(rows))
    assert store.schema.names == ("size", "colour=blue", "colour=red")
    assert_allclose(np.sort(store.y), np.arange(200) / 4)
    assert seen[-1][0] == 200
    with pytest.raises(InvalidParameter, match="a Source has its own"):
        convert(Table(numbered(5)), path, target="c0")
    assert "200 rows of 3 inputs in float32, 'price' for regression" in repr(store)


TARGETS = [
    (np.arange(90) % 3, None, "classification", [0, 1, 2]),
    (np.arange(90) % 2 == 0, None, "classification", [False, True]),
    (np.arange(90.0) % 3, None, "classification", [0.0, 1.0, 2.0]),
    (np.arange(90) / 7, None, "regression", None),
    (np.arange(202), None, "regression", None),
    (np.arange(90) % 3, "regression", "regression", None),
    (np.arange(90) % 3 / 2, "classification", "classification", [0.0, 0.5, 1.0]),
    (np.arange(400), "classification", "classification", list(range(400))),
    (np.array(["ü", "a", "b"] * 30, dtype=object), None, "classification", ["a", "b", "ü"]),
    (np.arange(90.0).reshape(45, 2), None, "regression", None),
]


@pytest.mark.parametrize(("y", "task", "found", "classes"), TARGETS)
def test_the_kind_of_targets_is_found(path: Path, y: Any, task: Any, found: str, classes: Any) -> None:
    x = numbered(len(y))
    store = convert(Table(x, y), path, task=task, memory="2kB")
    rows = store.x[:].numpy()[:, 0].astype(int)
    assert store.task == found
    assert (store.classes is None) if classes is None else store.classes.tolist() == classes
    assert np.array_equal(store.y, y[rows])
    again = open_store(path)
    assert np.array_equal(again.y, store.y)
    assert again.y.dtype.kind == (np.dtype(str) if y.dtype == object else y.dtype if classes else np.dtype(float)).kind


def test_sparse_rows_are_stored_dense_if_they_are_not_wide(path: Path, rng: np.random.Generator) -> None:
    x = sp.random_array((100, 6), density=0.3, rng=rng, format="csr", dtype=np.float32)
    got = convert(Table(x), path).x[:].numpy()
    assert_allclose(np.sort(got, axis=0), np.sort(x.toarray(), axis=0))
    with pytest.raises(InvalidData, match="at most 4096 inputs; got 5000"):
        convert(Table(sp.csr_array((3, 5000), dtype=np.float32)), path)


def wrong(value: float, kind: Any = np.float64) -> Any:
    x = numbered(50, kind=kind)
    x[33, 1] = value
    return x


WRONG = [
    (lambda path: convert(Table(wrong(np.nan)), path), InvalidData, "found nan at row 33, column 'c1'"),
    (lambda path: convert(Table(wrong(np.inf)), path, memory="500B"), InvalidData, "found inf at row 33, column 'c1'"),
    (
        lambda path: convert(Table(wrong(1e60)), path),
        InvalidData,
        r"they are stored, float32; found 1e\+60",
    ),
    (lambda path: convert(Table(wrong(0.5)), path, dtype="uint8"), InvalidData, "uint8; found 0.5 at row 33, column"),
    (lambda path: convert(Table(wrong(7e4)), path, dtype="float16"), InvalidData, "found 70000.0 at row 33"),
    (lambda path: convert(Table(numbered(9), np.arange(9) / 0), path), InvalidData, "column 'goal'"),
    (lambda path: convert(Table(numbered(0)), path), InvalidData, "at least one row"),
    (lambda path: convert(Table(numbered(9), np.ones(9), rows=None), path), InvalidData, "at least two classes"),
    (lambda path: convert(Table(numbered(3), np.array(["a", None, "b"])), path), InvalidData, "found None in row 1"),
    (lambda path: convert(Table(numbered(3), np.array(["a", "b", "b"])), path, task="regression"), InvalidData, "text"),
    (lambda path: convert(Table(numbered(4), np.ones((4, 2))), path, task="classification"), InvalidData, "one column"),
    (lambda path: convert(Table(numbered(3), np.array([1, 2, 2**60])), path), InvalidData, "whole numbers of at most"),
    (lambda path: convert(Table(numbered(3)), path, dtype="int64"), InvalidParameter, "dtype must be one of uint8"),
    (lambda path: convert(Table(numbered(3), np.ones(3)), path, task="guess"), UnknownName, "task must be one of"),
    (lambda path: convert(Table(numbered(3)), path / "x" / "y"), MissingFile, "a folder that exists"),
    (lambda path: convert(Table(numbered(3)), path.parent), InvalidFile, "is a folder"),
    (lambda path: convert(Table(numbered(3), rows=10**15), path), InvalidFile, "must have room for a row store"),
]


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("make", "error", "sentence"), WRONG)
def test_wrong_tables_are_refused_and_no_file_is_left(path: Path, make: Any, error: Any, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        make(path)
    assert left(path) == []


def test_a_batch_of_another_width_is_refused(path: Path) -> None:
    table = Table(numbered(5))
    table.schema = Schema.numbers(["a", "b"])
    with pytest.raises(InvalidData, match="the 2 columns of the schema; the one that starts at row 0 has 3"):
        convert(table, path)


def test_an_interrupt_does_not_change_an_existing_file(path: Path) -> None:
    convert(Table(numbered(10)), path)
    before = path.read_bytes()

    def interrupt(first: int) -> None:
        if first > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(Table(numbered(5000), after=interrupt), path, memory="3kB")
    assert left(path) == ["table.rows"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("when", ["buckets", "rows"])
def test_a_full_disk_is_explained_and_no_file_is_left(path: Path, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the system, which has a limit on the size of a file."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000 if when == "rows" else 100, hard))
    try:
        with pytest.raises(InvalidFile, match=r"must be in a place with room.*File too large. Nothing is left"):
            convert(Table(numbered(5000)), path, memory="1MB" if when == "rows" else "3kB")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left(path) == []


SLOW = """
import sys, time
sys.path[:0] = {paths!r}
from joker.data import convert
from store_sources import Table, numbered
convert(Table(numbered(5000), after=lambda first: (print(first, flush=True), time.sleep(0.2))), {path!r}, memory="20kB")
"""


def test_files_of_a_killed_conversion_are_removed_by_the_next(path: Path) -> None:
    paths = [str(Path(__file__).parents[1]), str(Path(joker.__file__).parents[1])]
    command = [sys.executable, "-c", SLOW.format(paths=paths, path=str(path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        assert len(left(path)) == 1
        convert(Table(numbered(10)), path)  # to the same name, while the other lives: its folder is not touched
        assert len(left(path)) == 2
        path.unlink()
        process.send_signal(signal.SIGKILL)
    assert [name.endswith(".part") for name in left(path)] == [True]
    with pytest.raises(MissingFile):
        open_store(path)
    convert(Table(numbered(10)), path.with_name("other.rows"))
    assert len(left(path)) == 2  # another name's is left alone
    convert(Table(numbered(10)), path)
    assert left(path) == ["other.rows", "table.rows"]


def test_no_temporary_file_is_written_if_the_memory_is_sufficient(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Buckets, "_write", lambda self: pytest.fail("a bucket was written"))
    assert len(convert(Table(numbered(1000)), path)) == 1000


def test_every_chunk_has_the_checksum_of_its_own_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("format", "convert", "store"):
        monkeypatch.setattr(importlib.import_module(f"joker.data.store.{module}"), "CHECKSUM_BYTES", 1000)
    store = convert(Table(numbered(700), np.linspace(0, 1, 700)), tmp_path / "a.rows", task="regression")
    data = store.path.read_bytes()
    for section in (store.header.x, store.header.y):
        assert section is not None
        chunks = [data[i : min(i + 1000, section.end)] for i in range(section.offset, section.end, 1000)]
        assert section.checksums == tuple(hashlib.sha256(chunk).hexdigest() for chunk in chunks)
    store.verify()


def test_targets_keep_all_digits_of_float64(tmp_path: Path) -> None:
    y = np.linspace(0, 1, 300) ** 3 + 1 / 3
    store = convert(Table(numbered(300), y), tmp_path / "a.rows", task="regression")
    assert np.array_equal(np.sort(store.y), np.sort(y))
