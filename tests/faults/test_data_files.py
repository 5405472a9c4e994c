"""Damaged and hostile files of data are refused with a sentence, within seconds; nothing else is raised."""

import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from faults.campaign import REFUSED, SECONDS, VERIFIED, count
from program import refused
from pyarrow import parquet as pq

from joker.data import convert, open_source, open_store
from joker.data.readers.open import is_raw_table, read_raw_table
from joker.errors import InvalidData, InvalidFile, InvalidParameter, JokerError
from joker.tables.table import read_table

RNG = np.random.default_rng(0)


def read(path: Path, **options: Any) -> int:
    """Read a whole table; return the number of rows."""
    return sum(len(batch) for batch in open_source(path, **options).batches(1000))


def outcome(path: Path, **options: Any) -> int | str:
    """Return the number of rows, or "refused" for an error of joker that names the file; all others are raised.

    A file that may be a raw table is read as such, too.
    """
    if is_raw_table(path):
        try:
            read_raw_table(path)
            count(VERIFIED)
        except JokerError as error:
            assert path.name in str(error)  # noqa: PT017
            count(REFUSED)
    try:
        rows = read(path, **options)
    except JokerError as error:
        assert path.name in str(error)  # noqa: PT017  # the sentence names the file
        return count(REFUSED)
    count(VERIFIED)
    return rows


@pytest.mark.parametrize("index", [1_000_001, 10**7, 10**8, 2 * 10**9, 10**12])
def test_a_huge_index_is_refused(tmp_path: Path, index: int) -> None:
    path = tmp_path / "t.svm"
    path.write_text(f"1 1:2\n-1 3:1 {index}:1\n")
    started = time.process_time()
    with pytest.raises(InvalidData, match=r"at row 1|row 1 has|reading it failed"):
        read(path)
    count(REFUSED)
    assert time.process_time() - started < SECONDS


def test_the_limit_is_an_option(tmp_path: Path) -> None:
    path = tmp_path / "t.svm"
    path.write_text("1 1:2\n-1 50:1\n")
    with pytest.raises(InvalidData, match=r"an index must be at most 49; found 50 at row 1\. .* max_inputs="):
        open_source(path, max_inputs=49)
    assert open_source(path, max_inputs=50).schema.width == 50
    with pytest.raises(InvalidParameter, match="max_inputs must be a whole number of at least 1"):
        open_source(path, max_inputs=0)


@pytest.mark.parametrize("text", ["a", "1:1 ", " "])
def test_a_line_without_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.svm"
    path.write_bytes(b"1 1:2\n1 " + text.encode() * (40_000_000 // len(text)) + b"\n")
    started = time.process_time()
    with pytest.raises(InvalidFile, match="a line must be shorter than 24000000 bytes"):
        read(path)
    count(REFUSED)
    assert time.process_time() - started < SECONDS


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("suffix", [".csv", ".svm", ".npy", ".npz", ".h5", ".parquet", ".rows"])
def test_a_pipe_or_a_device_is_refused(tmp_path: Path, suffix: str) -> None:
    """Opening a pipe would wait for ever, and reading /dev/zero never ends."""
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    device = tmp_path / f"device{suffix}"
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        for use in (open_store,) if suffix == ".rows" else (open_source, read_raw_table):
            with pytest.raises(InvalidFile, match=r"is a pipe or a device|is not a file"):
                use(path)
            count(REFUSED)


@pytest.mark.parametrize("text", ["1,2,3", "1,2,3\n", "a,b,c\n", "a\n", '"', "\ufeff1,2", ",", ";;;", "\x00", "x", "1"])
def test_a_table_of_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    several: list[dict[str, Any]] = [{}, {"target": 0}, {"header": True}, {"header": False}, {"categories": "one-hot"}]
    for options in several:
        assert outcome(path, **options) in (1, REFUSED)


DAMAGED_HEADERS = [
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 2",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 2), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 2), } ''' ",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (5, 2), }",
    b"{'descr': '<f8', 'fortran_order': 3, 'shape': (5, 2), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': 99999999999999999999999999, }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999, 2), }",
    b"{'descr': 'nonsense', 'fortran_order': False, 'shape': (5, 2), }",
    b"(" * 5000,
    b"\xff\xfe",
    b"",
]


@pytest.mark.parametrize("number", range(len(DAMAGED_HEADERS)))
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_header_of_an_array(tmp_path: Path, number: int, packed: bool) -> None:
    header = DAMAGED_HEADERS[number].ljust(118)
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.zeros((5, 2)).tobytes()
    path = tmp_path / ("t.npz" if packed else "t.npy")
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises((InvalidFile, InvalidData)) as caught:
        read(path)
    assert str(path) in str(caught.value)
    count(REFUSED)


def write_table(path: Path, kind: str) -> None:
    x, y = RNG.normal(size=(40, 3)), RNG.normal(size=40)
    if kind == "npz":
        np.savez_compressed(path, X=x, y=y)
    elif kind == "npy":
        np.save(path, x)
    elif kind == "h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = x, y
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"a": x[:, 0], "b": x[:, 1]}), path)


def damaged_copy(whole: bytes, trial: int) -> bytes:
    """Change a few bytes, half of the time in the first and last ones, and sometimes cut the end off."""
    data = bytearray(whole)
    for _ in range(RNG.integers(1, 4)):
        place = RNG.integers(len(data)) if trial % 2 else RNG.choice([RNG.integers(200), -RNG.integers(1, 300)])
        data[place] = RNG.integers(256)
    return bytes(data[: RNG.integers(1, len(data))] if trial % 5 == 0 else data)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["npz", "h5", "parquet", "npy"])
@pytest.mark.parametrize("trials", [120, pytest.param(1_500, marks=pytest.mark.slow)])
def test_mutated_files_are_refused_or_read(tmp_path: Path, kind: str, trials: int) -> None:
    """Every damage ends in an error of joker that names the file, or leaves a table."""
    path, damaged = tmp_path / f"t.{kind}", tmp_path / f"damaged.{kind}"
    write_table(path, kind)
    whole, refused = path.read_bytes(), 0
    assert read(path) == 40
    for trial in range(trials):
        damaged.write_bytes(damaged_copy(whole, trial))
        refused += outcome(damaged) == REFUSED
    assert refused > trials // 6


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.Table.from_arrays([pyarrow.array([1.0, 2.0])] * 2, names=["a", "a"])
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,a\n1,2\n3,4\n")
    for name in ("t.parquet", "t.csv"):
        for use in (open_source, read_raw_table):
            said = "names of columns must differ; 'a' occurs more than once|duplicate field names"
            with pytest.raises((InvalidData, InvalidFile), match=said):
                use(tmp_path / name)
            count(REFUSED)


@pytest.mark.parametrize("use", [read, read_raw_table])
@pytest.mark.parametrize("end", [b"\xe9\n", b"\xbd-0", b"\xc3"])
def test_the_end_of_a_text_that_is_not_utf8(tmp_path: Path, end: bytes, use: Callable[[Path], object]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n3,4" + end)
    with pytest.raises(InvalidFile, match="must be text in UTF-8"):
        use(path)
    count(REFUSED)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize("use", [read, read_raw_table])
def test_a_name_of_a_column_that_is_not_utf8(tmp_path: Path, kind: str, use: Callable[[Path], object]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    path = tmp_path / f"t.{kind}"
    table = pyarrow.table({"firstname": [1.0, 2.0], "b": [2.0, 3.0]})
    parquet.write_table(table, path, store_schema=False) if kind == "parquet" else feather.write_feather(table, path)
    path.write_bytes(path.read_bytes().replace(b"firstname", b"\xb8irstname"))
    with pytest.raises(InvalidFile, match=r"must be a valid Parquet or Arrow file"):
        use(path)
    count(REFUSED)


@pytest.mark.parametrize("name", ["a" * 300 + ".csv", "a\0b.csv"])
def test_names_that_no_file_has(tmp_path: Path, name: str) -> None:
    for use in (open_source, open_store, read_raw_table, lambda path: convert(path, tmp_path / "t.rows")):
        with pytest.raises(InvalidParameter, match="path must be a name that files can have"):
            use(f"{tmp_path}/{name}")
        count(REFUSED)


@pytest.mark.parametrize("number", ["1_000", "1__0", "\uff11", "0x10", "1e5_0", "1,5"])
def test_numbers_are_read_strictly(tmp_path: Path, number: str) -> None:
    """Python's float reads some of these, and no other program does."""
    path = tmp_path / "t.svm"
    for line in (f"1 1:{number}", f"{number} 1:1"):
        path.write_text(f"1 1:2 # a_1\n{line}\n", encoding="utf-8")
        with pytest.raises(InvalidData, match=r"row 1 has|reading it failed"):
            read(path)
        count(REFUSED)
    table = tmp_path / "t.csv"
    table.write_text(f"a;b\n1;2\n{number};3\n", encoding="utf-8")
    with pytest.raises(JokerError, match=r"found '|must be"):
        read(table)
    count(REFUSED)


def test_a_comment_may_have_any_text(tmp_path: Path) -> None:
    path = tmp_path / "t.svm"
    path.write_text("1 1:2 # 1_000\n# 2_000\n-1 1:1e-3\n")
    assert read(path) == 2


def test_a_long_header_is_read(tmp_path: Path) -> None:
    """The csv module of Python takes no field of more characters than 131,072, and splits at each delimiter in turn."""
    names = [f"column{number:05}" for number in range(15_000)]
    path = tmp_path / "wide.csv"
    for delimiter in (",", ";"):
        line = delimiter.join("0.5" for _ in names)
        path.write_text("\n".join([delimiter.join(names), line, line]))
        assert open_source(path, target=names[0]).schema.names == tuple(names[1:])
        count(VERIFIED)
    path.write_text("a," + "b" * 200_000 + "\n1,2\n")
    assert outcome(path, target="a") == "refused"


def test_the_names_of_a_wide_frame_are_listed_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each column would take the square of their number."""
    listed = []
    names = nw.DataFrame.columns.fget
    monkeypatch.setattr(nw.DataFrame, "columns", property(lambda frame: listed.append(1) or names(frame)))
    frame = pd.DataFrame(RNG.normal(size=(3, 200)), columns=[f"c{j}" for j in range(200)])
    assert len(read_table(frame).columns) == 200
    assert 0 < len(listed) < 10


def test_the_rows_of_a_wide_table_are_found(tmp_path: Path) -> None:
    """The first line of a table of many columns may be longer than what is read of others."""
    names = [f"{number:0200}" + "x" for number in range(6_000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), *[",".join("0" for _ in names)] * 2]))
    assert len(open_source(path, target=names[0]).schema.names) == len(names) - 1
    count(VERIFIED)
    path.write_text(",".join(names) * 8 + "\n1,2\n")
    with pytest.raises(InvalidFile, match=r"first line takes at most 8\.389 MB"):
        open_source(path, target="a")
    count(REFUSED)


CELLS: dict[str, Any] = {
    "a list": [[1.0, 2.0]],
    "a record": [{"a": 1}],
    "bytes": [b"\xff\x00"],
    "a time": pa.array([1], pa.time32("s")),
    "a map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
}


@pytest.mark.parametrize("cell", CELLS)
def test_cells_that_are_no_values_are_refused_in_every_kind_of_fit(tmp_path: Path, cell: str) -> None:
    """They are those of databases and of nested tables."""
    values = pa.concat_arrays([pa.array(CELLS[cell])] * 40)
    y, path = RNG.normal(size=40), tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": y, "cell": values, "y": y}), path)
    for target in ("y", "cell"):
        for kind in (("-m", 10), ("--effort", 1)):
            said = refused("fit", path, "-t", target, *kind, "-q", "--out", tmp_path / "m.joker")
            assert "type" in said or "column 'cell' contains" in said, said
            count(REFUSED)


def test_a_table_without_rows_is_refused_in_every_kind_of_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}), path)
    for kind in (("-m", 10), ("--effort", 1)):
        said = refused("fit", path, "-t", "y", *kind, "-q", "--out", tmp_path / "m.joker")
        assert "a table must have at least one row" in said
        count(REFUSED)
