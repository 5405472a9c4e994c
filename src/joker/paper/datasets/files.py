"""Where the files of data sets are."""

from __future__ import annotations

import os
from pathlib import Path

from joker.errors import InvalidParameter, MissingFile

VARIABLE = "JOKER_DATA"


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder that is named here or by the variable JOKER_DATA."""
    named = os.environ.get(VARIABLE) if folder is None else folder
    if named is None:
        raise InvalidParameter(
            f"folder must name where the files of data sets are, and so may the variable {VARIABLE}; neither does. "
            "Use folder='...'."
        )
    place = Path(named)
    if not place.is_dir():
        raise MissingFile(f"the folder of data sets must exist; there is no {place}. Check folder or {VARIABLE}.")
    return place


def find(folder: Path, names: tuple[str, ...], where: str) -> Path:
    """Return the first of these files that is there."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise MissingFile(f"{folder} must hold {' or '.join(names)}; it does not. Get it from {where}.")
