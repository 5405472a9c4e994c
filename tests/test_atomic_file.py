"""A file is replaced in one step or not at all, on every system."""

import errno
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from joker.errors import InvalidFile, InvalidParameter, MissingFile
from joker.runtime import files
from joker.runtime.files import RESULT, replace_file, work_folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_text("old")
    return path


def write(path: Any, error: BaseException | None = None) -> None:
    with replace_file(path, "a.txt") as file:
        file.write(b"new")
        if error is not None:
            raise error


def write_in_folder(path: Any, error: BaseException | None = None) -> None:
    with work_folder(path, "a.txt") as folder:
        (folder / "scratch").write_text("something else")
        (folder / RESULT).write_text("new")
        if error is not None:
            raise error


both = pytest.mark.parametrize("put", [write, write_in_folder])


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@both
def test_a_file_is_replaced_and_keeps_its_permissions(path: Path, put: Any) -> None:
    path.chmod(0o640)
    put(path)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    other, plain = path.with_name("other"), path.with_name("plain")
    put(str(other))
    plain.touch()
    assert other.stat().st_mode == plain.stat().st_mode
    assert names(path) == ["model", "other", "plain"]


@both
def test_a_link_is_followed(path: Path, put: Any) -> None:
    link = path.with_name("link")
    link.symlink_to("model")
    put(link)
    assert link.is_symlink()
    assert path.read_text() == "new"


@both
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "from elsewhere"), MissingFile("a source")])
def test_an_error_passes_and_leaves_the_old_file(path: Path, put: Any, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        put(path, error)
    assert caught.value is error
    assert (path.read_text(), names(path)) == ("old", ["model"])


@both
def test_a_full_disk_is_explained(path: Path, put: Any) -> None:
    with pytest.raises(InvalidFile, match=r"model must be in a place with room.*No space left.*Free some space"):
        put(path, OSError(errno.ENOSPC, "No space left on device"))
    assert (path.read_text(), names(path)) == ("old", ["model"])


@both
def test_paths_that_cannot_be_written_are_refused(path: Path, put: Any) -> None:
    with pytest.raises(MissingFile, match=r"folder that exists; .*none does not\. Create it first"):
        put(path.with_name("none") / "a")
    with pytest.raises(InvalidFile, match=r"is a folder\. Add a name, such as .*a\.txt"):
        put(path.parent)
    with pytest.raises(InvalidParameter, match=r"a str or a Path; got 3\. Use for example 'a\.txt'"):
        put(3)
    assert names(path) == ["model"]


@both
def test_both_the_file_and_its_name_reach_the_disk(path: Path, put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    put(path)
    assert synced == [False, True]


# What other systems do, on this one.


@both
def test_a_folder_that_cannot_be_opened_is_not_synced(path: Path, put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    real = os.open

    def no_folders(place: Any, *arguments: Any, **options: Any) -> int:
        if Path(place).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(place, *arguments, **options)

    monkeypatch.setattr(os, "open", no_folders)
    put(path)
    assert path.read_text() == "new"


@both
def test_a_file_that_is_open_elsewhere(path: Path, put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, which does not replace it."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Access is denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InvalidFile, match=r"model must be a file that can be replaced; Access is denied.*Close it"):
        put(path)
    assert (path.read_text(), names(path)) == ("old", ["model"])


@pytest.mark.parametrize("locked", [True, False], ids=["lock file", "no lock file"])
@pytest.mark.parametrize("system", ["posix", "windows"])
@pytest.mark.parametrize("name", ["a", "a[1]"])
def test_a_folder_of_a_killed_process_is_removed(
    tmp_path: Path, name: str, locked: bool, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system == "windows":
        monkeypatch.setattr(files, "fcntl", None)
    folder = tmp_path / f".{name}.abc.part"
    folder.mkdir()
    (folder / "scratch").write_text("much")
    if locked:
        (folder / "lock").touch()
    write_in_folder(tmp_path / "other")
    assert folder.exists()
    write_in_folder(tmp_path / name)
    assert names(folder) == [name, "other"]


@both
def test_a_file_system_without_permissions(path: Path, put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    put(path)
    assert path.read_text() == "new"


@pytest.mark.parametrize("system", ["posix", "windows", "no locks"])
def test_a_folder_in_use_is_left_alone(path: Path, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        if system == "windows":  # where an open file cannot be removed
            stack.enter_context(monkeypatch.context()).setattr(files, "fcntl", None)
        if system == "no locks":
            stack.enter_context(monkeypatch.context()).setattr(files, "_lock", no_locks)
        first = stack.enter_context(work_folder(path, "a"))
        (first / RESULT).write_text("first")
        with monkeypatch.context() as patched:
            if system == "windows":
                patched.setattr(Path, "unlink", keep_locks(Path.unlink))
            write_in_folder(path)
        assert path.read_text() == "new"
        assert (first / RESULT).read_text() == "first"
    assert (path.read_text(), names(path)) == ("first", ["model"])


def no_locks(handle: int, *, wait: bool = False) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def keep_locks(unlink: Any) -> Any:
    def refuse(path: Path, *arguments: Any, **options: Any) -> None:
        if path.name == "lock":
            raise PermissionError(errno.EACCES, "The file is in use")
        unlink(path, *arguments, **options)

    return refuse
