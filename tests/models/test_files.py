"""A file is read as written, a changed byte is an error, and a failed write leaves no file."""

import json
import os
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from joker.errors import InvalidFile, InvalidParameter, MissingFile
from joker.models import files as model_files

DOCUMENT = {"word": "λ", "zeros": "0" * 64, "list": [1, 2.5, None, {"a": True}]}
TENSORS = {"x": torch.arange(6.0).reshape(2, 3), "i": torch.arange(3), "none": torch.zeros(0, 4, dtype=torch.float64)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.joker"
    model_files.write(path, DOCUMENT, TENSORS)
    return path


def test_document_and_tensors_are_read_as_written(path: Path) -> None:
    document, tensors = model_files.read(str(path))
    assert {name: document[name] for name in DOCUMENT} == DOCUMENT
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_any_reader_of_safetensors_reads_it(path: Path) -> None:
    with safe_open(path, framework="np") as file:
        assert file.get_tensor("x").tolist() == TENSORS["x"].tolist()
        assert json.loads(file.metadata()["joker"])["format"] == "joker"


def test_the_same_content_gives_the_same_bytes(path: Path) -> None:
    other = path.with_name("other")
    model_files.write(other, DOCUMENT, dict(reversed(TENSORS.items())))
    assert other.read_bytes() == path.read_bytes()


def test_tensors_do_not_change_with_the_file(path: Path) -> None:
    _, tensors = model_files.read(path)
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert torch.equal(tensors["x"], TENSORS["x"])


def test_every_truncation_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidFile, match=r"\. Copy the file again"):
            model_files.read(path)


def test_every_changed_byte_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(InvalidFile, match=r"\. Copy the file again"):
            model_files.read(path)


def test_changed_white_space_is_a_changed_byte(path: Path) -> None:
    """The JSON value is the same, but the checksum is that of the bytes."""
    path.write_bytes(path.read_bytes().replace(b", ", b",\t", 1))
    with pytest.raises(InvalidFile):
        model_files.read(path)


@pytest.mark.parametrize("more", [b"\0", b"PNG" * 1000])
def test_bytes_after_the_end_are_refused(path: Path, more: bytes) -> None:
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(InvalidFile, match="too long"):
        model_files.read(path)


def test_a_huge_header_allocates_nothing(path: Path) -> None:
    path.write_bytes((10 * 2**30).to_bytes(8, "little") + path.read_bytes()[8:])
    tracemalloc.start()
    with pytest.raises(InvalidFile):
        model_files.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def header(text: str) -> bytes:
    return len(text.encode()).to_bytes(8, "little") + text.encode()


def joker_header(text: str) -> bytes:
    return header(json.dumps({"__metadata__": {"joker": text}}))


FOREIGN = {
    "empty": b"",
    "short": b"\x01",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "pickle": b"\x80\x04\x95" + bytes(100),
    "no json": header("{" * 50),
    "deep json": header("[" * 100_000),
    "list": header("[1, 2]"),
    "no metadata": header("{}"),
    "metadata of another": header('{"__metadata__": {"format": "pt"}}'),
    "metadata is text": header('{"__metadata__": "joker"}'),
    "no document": joker_header("joker"),
    "document is a list": joker_header("[]"),
    "document of another": joker_header('{"format": "jester", "version": 1}'),
    "document without a checksum": joker_header('{"format": "joker", "version": 1}'),
    "checksum is a number": joker_header('{"format": "joker", "version": 1, "sha256": 3}'),
    "tensor without a place": header('{"__metadata__": {"joker": "{\\"format\\": \\"joker\\"}"}, "x": 3}'),
    "tensor of infinite length": header(
        '{"__metadata__": {"joker": "{\\"format\\": \\"joker\\"}"}, "x": {"data_offsets": [0, Infinity]}}'
    ),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_program_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match="damaged"):
        model_files.read(path)


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    with pytest.raises(InvalidFile):
        model_files.read(path)


def test_another_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "other.safetensors", metadata={"format": "pt"})
    with pytest.raises(InvalidFile, match="no document of joker"):
        model_files.read(tmp_path / "other.safetensors")


def test_a_newer_format_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_files.write(path, DOCUMENT, TENSORS, version=5)
    with monkeypatch.context() as newer:
        newer.setattr(model_files, "VERSION", 5)
        model_files.read(path)
    with pytest.raises(
        InvalidFile, match=r"newer joker \(format 5\); this joker reads formats up to 4\. Upgrade joker\."
    ):
        model_files.read(path)


def test_a_version_that_is_not_a_number_is_refused(path: Path) -> None:
    model_files.write(path, DOCUMENT, TENSORS, version="one")
    with pytest.raises(InvalidFile, match="version of its format is not a number"):
        model_files.read(path)


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="is not a file"):
        model_files.read(tmp_path)
    with pytest.raises(MissingFile, match="does not exist"):
        model_files.read(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):  # as callers of any other reader would catch it
        model_files.read(tmp_path / "absent")
    with pytest.raises(InvalidParameter, match="str or a Path; got 3"):
        model_files.read(3)  # type: ignore[arg-type]


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"absent does not\. Create it first"):
        model_files.write(tmp_path / "absent" / "model", DOCUMENT, TENSORS)
    with pytest.raises(InvalidFile, match="is a folder"):
        model_files.write(tmp_path, DOCUMENT, TENSORS)
    with pytest.raises(InvalidParameter, match="str or a Path; got None"):
        model_files.write(None, DOCUMENT, TENSORS)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_failed_write_does_not_change_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    before = path.read_bytes()
    real = model_files._write

    def fail(*arguments: Any) -> None:
        real(*arguments)
        raise error

    monkeypatch.setattr(model_files, "_write", fail)
    with pytest.raises(error):
        model_files.write(path, {}, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_reader_of_the_old_file_is_not_disturbed(path: Path) -> None:
    before = path.read_bytes()
    with path.open("rb") as reader:
        model_files.write(path, {"other": 1}, {})
        assert reader.read() == before
    assert model_files.read(path)[0]["other"] == 1


@pytest.mark.parametrize("step", ["_parse", "_read_bytes"])
def test_a_file_that_is_replaced_while_it_is_read_is_read_to_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Never the document of one file with the tensors of another."""
    real = getattr(model_files, step)

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(model_files, step, real)
        model_files.write(path, {"other": 1}, {"x": torch.ones(2, 3)})
        return real(*arguments)

    monkeypatch.setattr(model_files, step, late)
    document, tensors = model_files.read(path)
    assert document["word"] == DOCUMENT["word"]
    assert torch.equal(tensors["x"], TENSORS["x"])
    assert model_files.read(path)[0]["other"] == 1


def test_a_file_that_is_shortened_while_it_is_read_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_files.write(path, DOCUMENT, {"x": torch.ones(100_000)})
    real = model_files._parse

    def late(*arguments: Any) -> Any:
        os.truncate(path, path.stat().st_size - 100)
        return real(*arguments)

    monkeypatch.setattr(model_files, "_parse", late)
    with pytest.raises(InvalidFile, match=r"the file is damaged\. Copy the file again"):
        model_files.read(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser reads every file")
def test_a_file_without_permission_is_refused(path: Path) -> None:
    path.chmod(0)
    with pytest.raises(InvalidFile, match="Permission denied"):
        model_files.read(path)


LAYOUTS: dict[str, dict[str, Any]] = {
    "a gap": {"data_offsets": [8, 24]},
    "backwards": {"data_offsets": [24, 0]},
    "negative": {"data_offsets": [-8, 24]},
    "no whole number": {"data_offsets": [0, 24.0]},
    "another type": {"dtype": "I16"},
    "an unknown type": {"dtype": "C64"},
    "another shape": {"shape": [7]},
    "no shape": {"shape": 6},
}


@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_that_contradicts_itself_is_refused(
    tmp_path: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a right checksum."""
    dumps = json.dumps

    def wrong(value: Any, **options: Any) -> str:
        if "x" in value:
            value["x"].update(change)
        return dumps(value, **options)

    with monkeypatch.context() as patch:
        patch.setattr(model_files.json, "dumps", wrong)
        model_files.write(tmp_path / "m", DOCUMENT, {"x": TENSORS["x"]})
    with pytest.raises(InvalidFile, match=r"\. Copy the file again"):
        model_files.read(tmp_path / "m")


def test_the_bytes_are_those_of_safetensors(path: Path) -> None:
    """The header has the same order and alignment, so that a file does not depend on who writes it."""
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path.with_name("other"), metadata=metadata)
    assert path.with_name("other").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", model_files.DTYPES.values(), ids=str)
def test_every_type_of_tensor_is_read_as_written(tmp_path: Path, dtype: torch.dtype) -> None:
    tensor = torch.arange(-3, 3).reshape(2, 3).to(dtype)
    model_files.write(
        tmp_path / "m", {}, {"t": tensor, "strided": tensor.T, "scalar": tensor[1, 1], "none": tensor[:0]}
    )
    found = model_files.read(tmp_path / "m")[1]
    for name, right in {"t": tensor, "strided": tensor.T, "scalar": tensor[1, 1], "none": tensor[:0]}.items():
        assert found[name].dtype == dtype
        assert torch.equal(found[name], right), name


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    model_files.write(link, {"other": 1}, {})
    assert link.is_symlink()
    assert model_files.read(path)[0]["other"] == 1


def test_a_new_file_has_the_usual_permissions(path: Path) -> None:
    plain = path.with_name("plain")
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_replaced_file_keeps_its_permissions(path: Path) -> None:
    path.chmod(0o640)
    model_files.write(path, {"other": 1}, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_document_that_is_too_long_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(InvalidFile, match="must take at most"):
        model_files.write(tmp_path / "model", {"names": ["a" * 10] * 100}, {})
    assert list(tmp_path.iterdir()) == []
