"""Files of predictions: the numbers are read back exactly, and no partial file is left."""

import csv
import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from joker.cli.data_files import check_table_output, write_table
from joker.errors import InvalidFile, InvalidParameter, MissingFile

BATCHES = [
    [np.array(["a", "b,c"]), np.array([0.1, 1e-30], np.float32), np.array([1 / 3, np.pi])],
    [np.array(['"quoted"']), np.array([7.0], np.float32), np.array([-0.0])],
]
NAMES = ["prediction", "p=a", "p=b"]


def test_numbers_in_csv_are_exact_and_short(tmp_path: Path) -> None:
    with write_table(tmp_path / "p.csv", NAMES) as write:
        for batch in BATCHES:
            write(batch)
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == NAMES
    assert rows[0][1] == "0.1"
    for j in range(3):
        written = np.concatenate([batch[j] for batch in BATCHES])
        assert np.array_equal(np.array([row[j] for row in rows]).astype(written.dtype), written)
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_parquet_keeps_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with write_table(tmp_path / "p.parquet", NAMES) as write:
        for batch in BATCHES:
            write(batch)
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == NAMES
    assert [str(field.type) for field in table.schema] == ["string", "float", "double"]
    assert table.column("prediction").to_pylist() == ["a", "b,c", '"quoted"']
    assert np.array_equal(table.column("p=b").to_numpy(), [1 / 3, np.pi, 0.0])


def write_twice(path: Path, column: Any, error: BaseException | None = None) -> None:
    with write_table(path, ["x"]) as write:
        write([column])
        write([column])
        if error is not None:
            raise error


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_an_interrupt_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("before")
    with pytest.raises(KeyboardInterrupt):
        write_twice(tmp_path / name, np.arange(9), KeyboardInterrupt())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "before")]


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("room", [10, 100_000])
def test_a_full_disk_is_reported_and_no_file_is_left(tmp_path: Path, name: str, room: int, small_files: Any) -> None:
    numbers = np.random.default_rng(0).normal(size=10_000)
    with small_files(room), pytest.raises(InvalidFile, match=f"{name} must be in a place with room.*File too large"):
        write_twice(tmp_path / name, numbers)
    assert not list(tmp_path.iterdir())


def test_errors_from_elsewhere_are_not_changed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="from elsewhere"), write_table(tmp_path / "p.csv", NAMES):
        raise OSError(errno.EIO, "from elsewhere")


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "p.csv").symlink_to("real.csv")
    with write_table(tmp_path / "p.csv", ["x"]) as write:
        write([np.arange(2)])
    assert (tmp_path / "p.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "x\n0\n1\n"


def test_paths_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"must end in \.csv or \.parquet.*got 'p\.xls'"):
        check_table_output(tmp_path / "p.xls")
    with pytest.raises(MissingFile, match="in a folder that exists"):
        check_table_output(tmp_path / "none" / "p.csv")
    (tmp_path / "p.csv").mkdir()
    with pytest.raises(InvalidFile, match="must name a file"):
        check_table_output(tmp_path / "p.csv")
