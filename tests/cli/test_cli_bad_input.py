"""Bad input to the library and to the program: one sentence, an exit status, and no partial files."""

import errno
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from program import refused, well, write_table

import joker
from joker.data import convert, open_source, open_store
from joker.errors import JokerError
from joker.models import files as model_files

Maker = Callable[[Path], Path]


def text(name: str, *lines: str) -> Maker:
    def make(folder: Path) -> Path:
        (folder / name).write_text("\n".join(lines) + "\n" if lines else "", encoding="utf-8")
        return folder / name

    return make


def with_value(value: str) -> Maker:
    return text("d.csv", "a,b,y", "1,2,u", "3,4,v", f"5,{value},u")


def packed(damage: Callable[[bytes], bytes]) -> Maker:
    def make(folder: Path) -> Path:
        whole = gzip.compress(write_table(folder / "d.csv").read_bytes())
        (folder / "d.csv").unlink()
        (folder / "d.csv.gz").write_bytes(damage(whole))
        return folder / "d.csv.gz"

    return make


def half_a_parquet(folder: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / "d.parquet"
    parquet.write_table(pyarrow.table({"a": np.arange(999.0), "y": np.arange(999) % 2}), path)
    path.write_bytes(path.read_bytes()[:-200])
    return path


def array_with_nan(folder: Path) -> Path:
    np.save(folder / "d.npy", np.array([[1, 2, 0], [3, np.nan, 1.0]]))
    return folder / "d.npy"


TABLES: dict[str, tuple[Maker, str, str]] = {
    "NaN": (array_with_nan, "-1", r"found nan at row 1, column 'x1'"),
    "missing": (with_value("nan"), "y", r"no value may be missing; one is at row 2, column 'b'"),
    "infinite": (with_value("-inf"), "y", r"values must be finite; found -inf at row 2, column 'b'"),
    "word": (with_value("many"), "y", r"inputs must be numbers; found 'many' at row 2, column 'b'"),
    "text column": (text("d.csv", "a,b,y", "1,x,u", "2,z,v"), "y", r"inputs must be numbers; found 'x' at row 0"),
    "no such target": (with_value("6"), "z", r"target must be one of the columns 'a', 'b', 'y'; got 'z'"),
    "missing label": (
        text("d.csv", "a,y", "1,u", "2,v", "3,"),
        "y",
        r"missing; one is at row 2, .*'y'",
    ),
    "one class": (text("d.csv", "a,y", "1,u", "2,u"), "y", r"at least two classes; .*'u'"),
    "short row": (text("d.csv", "a,b,y", "1,2,u", "3,v"), "y", r"every row must have 3 fields; row 1 has 2"),
    "truncated gz": (packed(lambda whole: whole[:-500]), "place", r"must be complete; its compressed data end early"),
    "damaged gz": (packed(lambda whole: whole[:50] + b"xyz" + whole[53:]), "place", r"valid compressed file|end early"),
    "truncated Parquet": (half_a_parquet, "y", r"Parquet"),
    "empty": (text("d.csv"), "y", r"the file is empty"),
    "header only": (text("d.csv", "a,y"), "y", r"a header and no rows"),
    "not a table": (text("d.docx", "hello"), "y", r"the suffix of a file of data must be one of"),
    "no file": (lambda folder: folder / "d.csv", "y", r"a file of data must exist; .*d\.csv does not"),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_cannot_be_used(case: str, tmp_path: Path) -> None:
    make, target, said = TABLES[case]
    data = make(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    number = int(target) if target == "-1" else target
    with pytest.raises(JokerError, match=said):
        convert(data, tmp_path / "d.rows", target=number, task="classification")
    status = 2 if case == "no such target" else 1
    common = (data, "--target", target, "--task", "classify")
    fit = ("fit", *common, "--model", "kernel", "--out", tmp_path / "m.joker", "-q")
    for command in (fit, ("tune", *common, "-q")):
        assert re.search(said, refused(*command, status=status))
    assert re.search(said, refused("convert", data, tmp_path / "d.rows", *common[1:], status=status))
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.joker"
    table = write_table(tmp_path / "train.csv", rows=60)
    well("fit", table, "-t", "place", "--columns", "a,b,c", "-m", 10, "--out", path, "-q")
    return path


def test_a_table_with_other_columns(tmp_path: Path, model: Path) -> None:
    other = text("other.csv", "a,bb,c,place", "1,2,3,in", "1,2,3,out")(tmp_path)
    said = r"must be those of the training data; missing: 'b'; unknown: 'bb'"
    with pytest.raises(JokerError, match=said):
        open_source(other, schema=joker.load(model).schema_)
    assert re.search(said, refused("predict", model, other, "--out", tmp_path / "p.csv"))
    assert re.search(said, refused("evaluate", model, other, "--json"))
    assert not (tmp_path / "p.csv").exists()


def test_a_bad_value_in_the_middle_of_predicting(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joker.cli.predict.MAX_BATCH_ROWS", 7)
    test = write_table(tmp_path / "test.csv", rows=50)
    lines = test.read_text(encoding="utf-8").splitlines()
    lines[40] = "inf," + lines[40].split(",", 1)[1]
    test.write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "p.csv").write_text("before")
    said = refused("predict", model, test, "--out", tmp_path / "p.csv")
    assert "found inf at row 39, column 'a'" in said
    assert (tmp_path / "p.csv").read_text() == "before"
    assert not list(tmp_path.glob(".joker*"))


def test_no_input_file_is_overwritten(tmp_path: Path, model: Path) -> None:
    table = tmp_path / "train.csv"
    before = table.read_bytes(), model.read_bytes()
    said = "must not be an input file"
    assert said in refused("fit", table, "-t", "place", "--out", table, status=2)
    assert said in refused("tune", table, "-t", "place", "--out", table, status=2)
    assert said in refused("predict", model, table, "--out", table, status=2)
    assert (table.read_bytes(), model.read_bytes()) == before


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "train.rows"
    well("convert", write_table(tmp_path / "s.csv", rows=60), path, "-t", "place", "--columns", "a,b,c", "-q")
    return path


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda bytes_: bytes_[:-1] + bytes([bytes_[-1] ^ 1]), "must match their checksums"),
        (lambda bytes_: bytes_[:-100], "must have the length that its header says"),
        (lambda bytes_: bytes_[:100] + b"\0" + bytes_[101:], "the header of .* must match its checksum"),
        (
            lambda bytes_: bytes_[:8] + (99).to_bytes(8, "little") + bytes_[16:],
            r"written by a newer joker \(format 99\)",
        ),
        (lambda bytes_: b"PAR1" + bytes_[4:], "must name a row store"),
        (lambda bytes_: b"", "must name a row store"),
    ],
    ids=["a byte", "the end", "the header", "newer", "foreign", "empty"],
)
def test_a_damaged_store(store: Path, model: Path, damage: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    store.write_bytes(damage(store.read_bytes()))
    with pytest.raises(JokerError, match=said):
        open_store(store)
    for command in (("fit", store, "--out", tmp_path / "n.joker"), ("evaluate", model, store), ("info", store)):
        assert re.search(said, refused(*command))
    assert not (tmp_path / "n.joker").exists()


def test_a_model_of_a_newer_joker(model: Path, tmp_path: Path) -> None:
    document, tensors = model_files.read(model)
    del document["version"], document["sha256"]
    model_files.write(model, document, tensors, version=99)
    said = r"written by a newer joker \(format 99\).*Upgrade joker"
    with pytest.raises(JokerError, match=said):
        joker.load(model)
    data = tmp_path / "train.csv"
    for command in (("predict", model, data, "-o", tmp_path / "p.csv"), ("evaluate", model, data), ("info", model)):
        assert re.search(said, refused(*command))
    assert not (tmp_path / "p.csv").exists()


def test_a_damaged_model_and_a_missing_one(model: Path, tmp_path: Path) -> None:
    model.write_bytes(model.read_bytes()[:-1])
    assert "too short" in refused("predict", model, tmp_path / "train.csv", "-o", tmp_path / "p.csv")
    assert "does not exist" in refused("evaluate", tmp_path / "none.joker", tmp_path / "train.csv")
    assert "there is no" in refused("info", tmp_path / "none.joker")
    assert "save() wrote" in refused("info", tmp_path / "train.csv")


def test_a_schema_that_does_not_fit_its_model(model: Path) -> None:
    schema = json.loads(json.dumps(joker.load(model).schema_.to_json()))
    schema["inputs"].pop()
    document, tensors = model_files.read(model)
    fixed = ("format", "version", "sha256", "schema")
    rest = {name: value for name, value in document.items() if name not in fixed}
    model_files.write(model, {**rest, "schema": schema}, tensors)
    assert "the columns of the table must be the 3 inputs" in refused("info", model)


@pytest.mark.parametrize("room", [500, 5_000, 40_000])
def test_a_full_disk(tmp_path: Path, model: Path, small_files: Any, room: int) -> None:
    """Whether the store, a checkpoint, the model or the predictions do not fit: no partial file is left."""
    big = write_table(tmp_path / "big.csv", rows=4_000)
    before = {path.name for path in tmp_path.iterdir()}
    fit = ("fit", big, "-t", "place", "--columns", "a,b,c", "-m", 300, "--max-epochs", 1, "-q")
    with small_files(room):
        with pytest.raises(JokerError, match="room"):
            convert(big, tmp_path / "d.rows", target="place", columns=["a", "b", "c"])
        assert "room" in refused(*fit, "--out", tmp_path / "n.joker")
        assert "room" in refused("convert", big, tmp_path / "d.rows", "-t", "place", "--columns", "a,b,c")
        if room < 10_000:
            assert "room" in refused("predict", model, big, "--out", tmp_path / "p.csv")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_model_that_does_not_fit_the_disk_is_kept_as_a_checkpoint(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fit = ("fit", store, "-m", 10, "--block-size", 20, "--max-epochs", 2, "-q", "--out", tmp_path / "m.joker")
    with monkeypatch.context() as patched:
        patched.setattr(model_files, "_write", full)
        said = refused(*fit)
    assert "No space left on device" in said
    assert "m.joker.checkpoint; the same command with --resume continues" in said
    assert not (tmp_path / "m.joker").exists()
    well(*fit, "--resume")
    assert joker.load(tmp_path / "m.joker").n_iter_ == 2


@pytest.mark.parametrize("as_json", [True, False])
def test_names_in_a_file_do_not_control_the_terminal(tmp_path: Path, as_json: bool) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    names = ["a\x1b[31mred", "b\x9b2J\u202e"]
    model = joker.KernelSVC(random_state=0).fit(
        pd.DataFrame(x, columns=names), np.where(x[:, 0] > 0, "\x1b]0;t\x07", "n")
    )
    model.save(tmp_path / "m.joker")
    done = well("info", tmp_path / "m.joker", *(["--json"] if as_json else []))
    assert set(done.out) & set("\x1b\x9b\x07\u202e") == set()
    assert "a\\u001b[31mred" in done.out
    if as_json:
        assert done.document["columns"] == names
    write_table(tmp_path / "t.csv")
    assert not set(refused("predict", tmp_path / "m.joker", tmp_path / "t.csv", "--out", tmp_path / "p.csv")) & {
        "\x1b",
        "\x9b",
    }


def test_classes_that_look_like_formulas_are_written_as_they_are_and_a_note_says_so(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    joker.KernelSVC(random_state=0).fit(frame, np.where(x[:, 0] > 0, "=1+1", "-")).save(tmp_path / "m.joker")
    done = well("predict", tmp_path / "m.joker", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert "begins like a formula of a spreadsheet" in done.err
    assert set((tmp_path / "p.csv").read_text().split()) == {"prediction", "=1+1", "-"}
    joker.KernelRidge().fit(frame, -(x[:, 0] ** 2)).save(tmp_path / "n.joker")
    done = well("predict", tmp_path / "n.joker", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert "formula" not in done.err
