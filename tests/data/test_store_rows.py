"""Rows are read from a store by slice and by number, and a changed store is refused."""

import copy
import hashlib
import os
import pickle
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from store_sources import Table, numbered

from joker.data import Store, StoreRows, convert, open_store
from joker.data.arrays import input_statistics
from joker.data.store.format import PREAMBLE, Header, RowFile
from joker.errors import InvalidFile, InvalidParameter, MissingFile


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return convert(Table(numbered(3000, 5), np.arange(3000) % 4), tmp_path_factory.mktemp("store") / "a.rows")


@pytest.fixture(scope="module")
def whole(store: Store) -> torch.Tensor:
    return store.x[:]


@given(data=st.data())
def test_slices_and_numbers_return_the_rows_of_the_file(store: Store, whole: torch.Tensor, data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 3000), st.integers(0, 3000))))
    assert torch.equal(store.x[start:stop], whole[start:stop])
    numbers = torch.tensor(data.draw(st.lists(st.integers(0, 2999), max_size=40)), dtype=torch.int64)
    assert torch.equal(store.x[numbers], whole[numbers])
    part = store.x.run(start, stop)
    assert part.shape == (stop - start, 5)
    assert torch.equal(part[:], whole[start:stop])
    if stop > start:
        inner = numbers % (stop - start)
        assert torch.equal(part[inner], whole[start:stop][inner])
        assert torch.equal(part.some(inner)[:], whole[start:stop][inner])


@given(cuts=st.tuples(*[st.integers(0, 3000)] * 4))
def test_a_run_of_a_run_has_the_rows_of_both(store: Store, whole: torch.Tensor, cuts: tuple[int, ...]) -> None:
    start, stop = sorted(cuts[:2])
    first, last = sorted(cut % (stop - start + 1) for cut in cuts[2:])
    inner = store.x.run(start, stop).run(first, last)
    expected = whole[start + first : start + last]
    assert torch.equal(inner[:], expected)
    numbers = torch.arange(len(expected)).flip(0)
    assert torch.equal(inner[numbers], expected.flip(0))
    assert torch.equal(store.x.run(start, stop).part(slice(first, last))[numbers], expected.flip(0))


def test_a_run_has_no_statistics_of_all_rows(store: Store, whole: torch.Tensor) -> None:
    assert torch.allclose(input_statistics(store.x, None).mean, whole.double().mean(0))
    part = input_statistics(store.x.run(10, 70), None)
    assert torch.allclose(part.mean, whole[10:70].double().mean(0))
    assert torch.allclose(part.deviation, whole[10:70].double().std(0, correction=0))


def test_targets_of_consecutive_rows(store: Store, whole: torch.Tensor) -> None:
    """The target of a row is its number modulo 4, and its first input is its number."""
    for rows in (slice(0, 3000), slice(7, 31), slice(2990, 3000)):
        assert np.array_equal(store.target_rows(rows)[:, 0], whole[rows, 0].numpy().astype(int) % 4)


def test_a_class_without_a_name_is_refused(store: Store) -> None:
    """Codes are counted from 0: with three names, 3 is the first code that has none."""
    assert store.classes is not None
    assert len(store.labels) == 3000
    with pytest.raises(InvalidFile, match="must have a name for each class"):
        replace(store, header=replace(store.header, classes=store.classes[:3])).labels  # noqa: B018


@pytest.mark.parametrize("offset", ["start", "inside", "before the end"])
def test_targets_that_overlap_the_inputs_are_refused(store: Store, offset: str) -> None:
    document = store.header.to_json()
    x = store.header.x
    document["y"]["offset"] = {"start": x.offset, "inside": x.offset + 4096, "before the end": x.end - 1}[offset]
    with pytest.raises(InvalidFile, match="a target for each of 3000 rows"):
        Header.from_json(document)
    document["y"]["offset"] = x.end
    assert Header.from_json(document).y is not None


def test_a_slice_is_one_read_and_close_rows_are_few_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    fill = RowFile.fill
    monkeypatch.setattr(RowFile, "fill", lambda self, view, at: (calls.append(len(view)), fill(self, view, at))[1])
    store.x[100:612]
    store.x[torch.arange(100, 612).flip(0)]
    assert calls == [512 * 20, 512 * 20]
    calls.clear()
    store.x[torch.tensor([2900, 0, 1, 2, 2901])]
    assert sorted(calls) == [40, 60]


def test_types_and_bytes(tmp_path: Path) -> None:
    rows = convert(Table(numbered(50, 4, np.uint8)), tmp_path / "u.rows").x
    assert (rows.stored, rows.dtype, rows.row_bytes) == (torch.uint8, torch.float32, 4 * (1 + 4))
    double = rows.like(torch.float64, torch.device("cpu"))
    assert double[0:3].dtype == torch.float64
    assert torch.equal(double[0:3].float(), rows[0:3])
    assert double.row_bytes == 4 * (1 + 8)
    assert convert(Table(numbered(50)), tmp_path / "f.rows").x.row_bytes == 3 * 4
    assert rows.shuffled
    rows.check("X")
    rows.expect(slice(3, 9))


def test_several_threads_can_read(store: Store, whole: torch.Tensor) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: torch.equal(store.x[k : k + 50], whole[k : k + 50]), range(0, 2900, 10)))
    assert all(found)


def test_a_file_that_replaces_a_store_does_not_change_the_open_one(tmp_path: Path) -> None:
    first = convert(Table(numbered(40)), tmp_path / "a.rows")
    rows = first.x[:]
    convert(Table(2 * numbered(40)), tmp_path / "a.rows")
    assert torch.equal(first.x[:], rows)
    (tmp_path / "a.rows").unlink()
    assert torch.equal(first.x[:], rows)


def test_rows_are_copied_and_pickled_by_their_path(store: Store, whole: torch.Tensor) -> None:
    for again in (copy.deepcopy(store.x), pickle.loads(pickle.dumps(store.x))):
        assert isinstance(again, StoreRows)
        assert torch.equal(again[7:11], whole[7:11])


def test_targets_of_a_store_without_targets_are_an_error(tmp_path: Path) -> None:
    store = convert(Table(numbered(40)), tmp_path / "a.rows")
    assert store.task is None
    with pytest.raises(InvalidFile, match="must have targets"):
        store.y  # noqa: B018


def altered(source: Path, tmp_path: Path, change: Any) -> Path:
    data = bytearray(source.read_bytes())
    change(data)
    path = tmp_path / "altered.rows"
    path.write_bytes(data)
    return path


def flip(place: int) -> Any:
    def change(data: bytearray) -> None:
        data[place] ^= 1

    return change


def test_a_changed_byte_is_found(store: Store, tmp_path: Path) -> None:
    header = store.header
    assert header.y is not None
    places = [header.x.offset, header.x.end - 1, header.y.offset, header.y.end - 1, PREAMBLE.size + 5]
    for place in places:
        path = altered(store.path, tmp_path, flip(place))
        with pytest.raises(InvalidFile, match=r"must match (its|their) checksum"):
            open_store(path)
    open_store(altered(store.path, tmp_path, flip(header.x.offset)), verify=False)  # read when it is needed
    damaged = open_store(altered(store.path, tmp_path, flip(header.y.offset)), verify=False)
    with pytest.raises(InvalidFile, match=r"those from [\d,]+ to [\d,]+ do not"):
        damaged.verify()


def resealed(old: bytes, new: bytes) -> Any:
    """Change the document and its checksum, as another program could do."""

    def change(data: bytearray) -> None:
        magic, version, length, _ = PREAMBLE.unpack(data[: PREAMBLE.size])
        text = bytes(data[PREAMBLE.size : PREAMBLE.size + length])
        assert old in text
        assert len(old) == len(new)
        text = text.replace(old, new, 1)
        data[: PREAMBLE.size + length] = PREAMBLE.pack(magic, version, length, hashlib.sha256(text).digest()) + text

    return change


DAMAGE = [
    (lambda data: data.clear(), "is not one. Make one"),
    (lambda data: data.__setitem__(slice(0, 5), b"PK345"), "is not one. Make one"),
    (lambda data: data.__delitem__(slice(len(data) - 9, None)), "9 B too short"),
    (lambda data: data.extend(b"more"), "4 B too long"),
    (lambda data: data.__setitem__(slice(8, 16), struct.pack("<Q", 2)), "newer joker .format 2.*Upgrade"),
    (lambda data: data.__setitem__(slice(16, 24), struct.pack("<Q", 2**60)), "header of .* is damaged"),
    (lambda data: data.__delitem__(slice(300, None)), "header of .* must match its checksum"),
    (resealed(b'"<f4"', b'"<i4"'), "must describe rows that can be read"),
    (resealed(b'"shape": [3000, 5]', b'"shape": [3000, 4]'), "must describe rows that can be read"),
    (resealed(b'"shape": [3000, 5]', b'"shape": [-300, 5]'), "must describe rows that can be read"),
    (resealed(b'"kind"', b'"kinb"'), "must describe rows that can be read"),
    (resealed(b'"task": "cl', b'"task": "cL'), "must describe rows that can be read"),
    (resealed(b'"c0"', b'"c1"'), "must describe rows that can be read"),
]


@pytest.mark.parametrize(("change", "sentence"), DAMAGE)
def test_a_damaged_store_is_refused(store: Store, tmp_path: Path, change: Any, sentence: str) -> None:
    with pytest.raises(InvalidFile, match=sentence):
        open_store(altered(store.path, tmp_path, change))


def test_wrong_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="does not exist"):
        open_store(tmp_path / "none.rows")
    with pytest.raises(InvalidFile, match="is not a file"):
        open_store(tmp_path)
    with pytest.raises(InvalidParameter, match="must be a str or a Path"):
        open_store(3)  # type: ignore[arg-type]


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path) -> None:
    store = convert(Table(numbered(4000)), tmp_path / "a.rows")
    os.truncate(store.path, store.header.x.offset + 100)
    with pytest.raises(InvalidFile, match="is shorter now"):
        store.x[:]


@pytest.mark.parametrize("missing", [["preadv"], ["posix_fadvise"], ["preadv", "posix_fadvise"]], ids=",".join)
def test_reads_on_systems_that_lack_a_function(
    store: Store, whole: torch.Tensor, missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has neither of them, macOS has no advice, and old systems have no reads at a position."""
    for name in missing:
        monkeypatch.delattr(os, name, raising=False)
    store.x.expect(slice(0, 100))
    assert torch.equal(store.x[100:900], whole[100:900])
    test_several_threads_can_read(store, whole)


def test_large_reads_are_split(store: Store, whole: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS refuses reads of 2 GiB."""
    monkeypatch.setattr("joker.data.store.format.MAX_CALL_BYTES", 1000)
    assert torch.equal(store.x[:], whole)


def test_a_file_can_be_closed_before_its_last_reference_is_gone(tmp_path: Path) -> None:
    """Windows removes no file that is open. A second close must not close a file that has got the same number."""
    store = convert(Table(numbered(50, 2), np.arange(50) % 2), tmp_path / "a.rows")
    store.file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        store.file.read(1, 0)
    with (tmp_path / "other").open("wb") as other:
        store.file.close()
        del store
        assert other.write(b"still open") == 10
