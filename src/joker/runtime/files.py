"""Files that are replaced in one step: the old file stays until the new one is complete and on the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from secrets import token_hex
from typing import IO

from joker.errors import InvalidFile, InvalidParameter, MissingFile, NotSynced
from joker.runtime.devices import format_bytes

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

AnyPath = str | os.PathLike[str]
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
LOCK, RESULT = "lock", "result"  # names of files in a work folder
PREFIX, SUFFIX, LOCK_SUFFIX = ".joker-", ".tmp", ".lock"  # of the names of temporary files and of locks
LOOKS, LOOK_SECONDS = 10, 0.05  # at a lock that is taken: another process may only look whether its owner lives
MIN_EMPTY_SECONDS = 60  # age of an empty temporary file that is taken for an abandoned one
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # nobody may let a lock lead to another file; Windows has none
SEPARATORS = tuple({os.sep, os.altsep or os.sep})


def parse_path(path: AnyPath, example: str) -> Path:
    """Return ``path`` as a Path; ``example`` is a file name for the error message."""
    try:
        parsed = Path(os.fsdecode(path))
    except TypeError as error:
        raise InvalidParameter(f"path must be a str or a Path; got {path!r}. Use for example {example!r}.") from error
    try:
        parsed.exists()
        fault = "a null character" if "\0" in str(parsed) else None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            return parsed
        fault = f"{len(parsed.name)} characters in its last part"
    if fault:
        raise InvalidParameter(f"path must be a name that files can have; it has {fault}. Use for example {example!r}.")
    return parsed


def real_path(path: Path) -> Path:
    """Return a path with symbolic links followed; `Path.resolve` raises a RuntimeError where they lead in a circle."""
    return Path(os.path.realpath(path))


def resolve_target(path: AnyPath, example: str) -> Path:
    """Return the file to write, with symbolic links followed; its folder must exist and it must not be a folder."""
    given = parse_path(path, example)
    if os.fsdecode(path).endswith(SEPARATORS):
        raise InvalidParameter(
            f"path must name a file; {os.fsdecode(path)!r} ends in a slash. Add a name, such as {given / example}."
        )
    target = real_path(given)
    if not target.parent.is_dir():
        raise MissingFile(f"path must be in a folder that exists; {target.parent} does not. Create it first.")
    if target.is_dir():
        raise InvalidFile(f"path must name a file; {target} is a folder. Add a name, such as {target / example}.")
    if target.exists() and not target.is_file():
        raise InvalidFile(f"path must name a file; {target} is a pipe or a device. Choose another name.")
    return target


@contextmanager
def replace_file(path: AnyPath, example: str) -> Iterator[IO[bytes]]:
    """Yield a new file, open for reading and writing, that replaces ``path`` at the end of the block, in one step.

    Everything must be written through this open file: a lock on it shows other processes that this one lives. A
    symbolic link is followed, and a file that is replaced keeps its permissions. After an error ``path`` is as it was,
    and the temporary file is removed. A temporary file that a killed process has left is removed by the next call for a
    file in the same folder. MissingFile or InvalidFile is raised if the file cannot be written, in particular when the
    disk is full.
    """
    target = resolve_target(path, example)
    _remove_abandoned_files(target.parent)
    temporary = target.with_name(f"{PREFIX}{token_hex(8)}{SUFFIX}")
    try:
        with explain_errors(target):
            file = temporary.open("x+b")
        with _closing(file):
            with suppress(OSError):  # a file system without locks
                _lock(file.fileno(), wait=True)  # another process may look at the file, for a moment
            with _replacing(target, temporary, file):
                yield file
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def work_folder(path: AnyPath, example: str) -> Iterator[Path]:
    """Yield a folder beside ``path`` for temporary files; the file RESULT in it replaces ``path`` at the end.

    It does so as in `replace_file`, and the folder is removed. A folder that a killed process has left is removed by
    the next call for the same path.
    """
    target = resolve_target(path, example)
    for folder in target.parent.glob(f".{escape(target.name)}.*.part"):
        _remove_abandoned(folder)
    folder = target.with_name(f".{target.name}.{token_hex(6)}.part")
    try:
        with explain_errors(target):
            folder.mkdir()
        with (folder / LOCK).open("wb") as lock:
            with suppress(OSError):  # a file system without locks: the folder is never taken for an abandoned one
                _lock(lock.fileno())
            with explain_errors(target):
                (folder / RESULT).touch(exist_ok=False)
            with _replacing(target, folder / RESULT):
                yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def explain_errors(path: Path, *numbers: int) -> Iterator[None]:
    """Raise InvalidFile for an error of the operating system while ``path`` is written, or only for these numbers."""
    try:
        yield
    except OSError as error:
        if numbers and error.errno not in numbers:
            raise
        raise InvalidFile(
            f"{path} must be in a place with room for it, where you may write files; writing it failed: "
            f"{error.strerror or error}. Nothing is left of the new file. Free some space, or choose another folder."
        ) from error


def check_free_space(path: Path, needed: int) -> None:
    """Raise InvalidFile if the disk of ``path`` has less than ``needed`` bytes free."""
    if (free := shutil.disk_usage(path.parent).free) < needed:
        raise InvalidFile(
            f"the disk must have room for a row store and its temporary files, {format_bytes(needed)}; {path.parent} "
            f"has {format_bytes(free)} free. Free some space or choose another folder."
        )


@contextmanager
def _replacing(target: Path, temporary: Path, file: IO[bytes] | None = None) -> Iterator[None]:
    """Let ``temporary`` replace ``target`` once the block has filled it, through ``file`` if that is given."""
    with explain_errors(target):
        permissions = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
    # An error of another number may come from what the block reads, and passes.
    with explain_errors(target, *DISK_FULL):
        yield
    with explain_errors(target):
        if file is not None:
            file.flush()
        if file is not None and fcntl is None:
            file.close()  # Windows replaces no file that is open
        _put_in_place(temporary, target, permissions)
    try:
        _sync(target.parent, os.O_RDONLY)
    except OSError as error:  # Windows opens no folders, and some network file systems sync none
        if error.errno in {errno.EIO, *DISK_FULL}:
            warnings.warn(
                f"{target} is complete and in its place, but the disk has not confirmed its name ({error.strerror}): "
                "after a power failure it may be missing. Check the disk, and write the file again.",
                NotSynced,
                stacklevel=2,
            )


@contextmanager
def _closing(file: IO[bytes]) -> Iterator[None]:
    """Close a file at the end of the block; after an error, bytes that were not written are forgotten."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the disk may be full
            file.close()
        raise
    file.close()


def _put_in_place(temporary: Path, target: Path, permissions: int) -> None:
    """Wait until a file is on the disk, and let it replace ``target``."""
    _sync(temporary, os.O_RDWR)  # Windows syncs only files that are open for writing
    with suppress(OSError):  # a file system without permissions
        temporary.chmod(permissions)
    try:
        os.replace(temporary, target)
    except PermissionError as error:
        raise InvalidFile(
            f"{target} must be a file that can be replaced; {error.strerror}. Windows replaces no file that is open. "
            "Close it, or choose another name."
        ) from error


def _sync(path: Path, access: int) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, access)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_plain(path: Path) -> bool:
    """Whether a path is a file itself: to open a pipe, which anyone may name so, could wait for ever."""
    return stat.S_ISREG(path.lstat().st_mode)


def _remove_abandoned(folder: Path) -> None:
    """Remove a work folder unless its process lives, which holds the lock file open."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode) or not _is_plain(folder / LOCK):
            return
        with (folder / LOCK).open("rb") as lock:
            _lock(lock.fileno())
        (folder / LOCK).unlink()  # Windows, which has no such locks, removes no file that is open
    except FileNotFoundError:  # the process was killed before it created the lock file
        pass
    except OSError:
        return
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Refuse to run a second time for the same ``path`` while the block runs, in this or another process.

    The lock is that of a file beside ``path``, which the system releases when a process ends in any way. What a killed
    process has left is removed by the next one that writes to the folder. On Windows and on file systems without locks
    nothing is refused.
    """
    target = real_path(path)
    _remove_abandoned_files(target.parent)
    # A digest has the same length for every name, and the name of the file may be as long as names can be.
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    place = target.with_name(f"{PREFIX}{digest}{LOCK_SUFFIX}")
    handle = _locked(place, path)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(handle)


def _locked(place: Path, path: Path) -> int:
    """Return the handle of a lock file that is locked, and that has not been removed meanwhile."""
    looks = 0
    while True:
        with explain_errors(path):
            handle = os.open(place, os.O_RDWR | os.O_CREAT | NO_LINK, 0o600)
        try:
            _lock(handle)
        except BlockingIOError as error:
            os.close(handle)
            looks += 1
            if looks < LOOKS:
                time.sleep(LOOK_SECONDS)
                continue
            raise InvalidFile(
                f"{path} must be written by one process at a time; another one writes it now. Wait until it has ended, "
                "or use another name."
            ) from error
        except OSError:  # a file system without locks
            return handle
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), place.stat()):
                return handle
        os.close(handle)


def _remove_abandoned_files(folder: Path) -> None:
    """Remove the temporary files and the locks of processes that were killed, which therefore hold no lock."""
    if fcntl is None:
        return
    for left in [*folder.glob(f"{PREFIX}*{SUFFIX}"), *folder.glob(f"{PREFIX}*{LOCK_SUFFIX}")]:
        with suppress(OSError):
            if _is_plain(left):
                _remove_if_abandoned(left)


def _remove_if_abandoned(left: Path) -> None:
    with left.open("rb") as file:
        _lock(file.fileno())
        found = os.fstat(file.fileno())
        # An empty temporary file may belong to a process that has not locked it yet.
        old = time.time() - found.st_mtime > MIN_EMPTY_SECONDS
        if found.st_size or old or left.suffix == LOCK_SUFFIX:
            left.unlink(missing_ok=True)


def _lock(handle: int, *, wait: bool = False) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
