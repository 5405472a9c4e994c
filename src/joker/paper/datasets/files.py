"""The folder of the data sets, and the files in it."""

from __future__ import annotations

import os
from pathlib import Path

from joker.errors import InvalidParameter, MissingFile

FOLDER_VARIABLE = "JOKER_DATA"  # an environment variable


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return ``folder``, or without it the folder that the environment variable JOKER_DATA names."""
    named = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    if named is None:
        raise InvalidParameter(
            f"folder or the environment variable {FOLDER_VARIABLE} must name the folder of the data sets; neither is "
            "given. Use folder='...'."
        )
    place = Path(named)
    if not place.is_dir():
        raise MissingFile(f"the folder of data sets must exist; {place} does not. Check folder or {FOLDER_VARIABLE}.")
    return place


def find(folder: Path, names: tuple[str, ...], where: str) -> Path:
    """Return the first of these files that exists; ``where`` says where to get it."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise MissingFile(f"{folder} must contain {' or '.join(names)}; it does not. Get it from {where}.")
