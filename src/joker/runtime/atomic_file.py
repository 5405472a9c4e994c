"""A file that is there either whole or not at all, and a folder for what it is made of meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from joker.errors import InvalidFile, MissingFile
from joker.runtime import format_bytes

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
LOCK, WHOLE = "lock", "whole"


@contextmanager
def arriving_at(target: Path) -> Iterator[Path]:
    """Give a folder beside ``target``; the file ``whole`` in it takes the name of ``target`` at the end.

    However it ends, the folder is removed. One that is left by a process that was killed is removed by the next
    that writes to the same name.
    """
    _check(target)
    _clear(target)
    folder = target.with_name(f".{target.name}.{token_hex(6)}.part")
    try:
        folder.mkdir()
        with (folder / LOCK).open("wb") as lock:
            _lock(lock.fileno())
            yield folder
            os.replace(folder / WHOLE, target)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise InvalidFile(
            f"the disk must have room for a row store; {target.parent} is full ({error.strerror}). Nothing is left of "
            f"it. Free some space or choose another folder; {format_bytes(_free(target))} were free when it was gone."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_room(target: Path, needed: int) -> None:
    """Refuse to begin where the disk has less room than is needed."""
    if (free := _free(target)) < needed:
        raise InvalidFile(
            f"the disk must have room for a row store and what it is made of, {format_bytes(needed)}; "
            f"{target.parent} has {format_bytes(free)} free. Free some space or choose another folder."
        )


def _free(target: Path) -> int:
    return shutil.disk_usage(target.parent).free


def _check(target: Path) -> None:
    if not target.parent.is_dir():
        raise MissingFile(f"path must be in a folder that exists; {target.parent} does not. Create it first.")
    if target.is_dir():
        raise InvalidFile(f"path must name a file; {target} is a folder. Add a name, such as {target / 'train.rows'}.")


def _clear(target: Path) -> None:
    """Remove what killed processes have left; a folder whose process lives is locked."""
    for folder in target.parent.glob(f".{target.name}.*.part"):
        try:
            with (folder / LOCK).open("rb") as lock:
                _lock(lock.fileno())
        except FileNotFoundError:  # killed before it was locked, or removed meanwhile
            pass
        except OSError:
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _lock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
