"""The results file of the campaign: the counts of each part, with the commit, the machine and the date of its run.

    python tests/faults/results.py              # write the counts into docs/faults.md
    python tests/faults/results.py --check      # check that the page has those of the results file

The parts are written by the scripts that run them: `soak.py`, `at_length.py` and the tests in this folder.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.campaign import PARTS

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
MARKS = "<!-- counts: begin -->\n", "<!-- counts: end -->\n"
TITLES = {
    **{name: part.title for name, part in PARTS.items()},
    "kills": "kills at random moments of fits, `tune`, `predict`, `convert` and saves",
    "fits": "`joker fit` four times at once in one folder, and twice with the same file",
    "saves": "saves of four processes at once in one folder",
    "ranks": "processes that differ in a setting, the data or the version",
    "shapes": "random shapes with a memory budget",
}
FILES = ("test_data_files", "test_model_files", "test_table_model_files", "test_stores_and_checkpoints")
TABLE_FILES = "test_table_model_files"
COUNTED = ("tried", "refused", "verified", "violations", "seconds")


def commit() -> str:
    """Return the short name of the commit of this source tree, with a + if it has changes; "" without git."""
    options = {"cwd": PAGE.parent, "capture_output": True, "text": True}
    try:
        name, changes = (
            subprocess.run(["git", *words], check=True, **options).stdout.strip()  # type: ignore[call-overload]
            for words in (["rev-parse", "--short=9", "HEAD"], ["status", "--porcelain", "--", "src", "tests"])
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + "+" * bool(changes)


COMMIT = commit()  # when a part begins: the tree may change before it ends


def machine() -> dict[str, Any]:
    """Describe the machine and the versions of a run."""
    found = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        found = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return {
        "cpu": found,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "date": date.today().isoformat(),
        "commit": COMMIT,
    }


def add(path: Path, part: str, content: dict[str, Any]) -> None:
    """Write the counts of a part into a results file; those of other parts stay."""
    with path.open("a+", encoding="utf-8") as file:
        if fcntl is not None:  # one process at a time
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        found = json.loads(file.read() or "{}")
        found[part] = {**content, "machine": machine()}
        file.truncate(0)
        file.write(json.dumps(found, indent=1, sort_keys=True) + "\n")


def counts(found: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines of the page between its marks."""
    parts = {name: found[name] for name in TITLES if name in found}
    yield f"| what was tried | {' | '.join(COUNTED)} |"
    yield f"| --- |{' ---: |' * len(COUNTED)}"
    for name, part in parts.items():
        yield _row(TITLES[name], [part[what] for what in COUNTED])
    yield _row("all", [sum(part[what] for part in parts.values()) for what in COUNTED])
    yield ""
    files = {name: found[name]["tried"] for name in FILES if name in found}
    dates = sorted({part["machine"]["date"] for part in found.values()})
    machine = next(iter(found.values()))["machine"]
    yield (
        f"Of these, {sum(files.values()):,} are files, and {files.get(TABLE_FILES, 0):,} of them are table models. "
        f"Measured on {' and '.join(dates)} with {machine['cores']} cores ({machine['cpu']}) that other programs used "
        f"too, Python {machine['python']} and torch {machine['torch']}."
    )
    of_commits: dict[str, list[str]] = {}
    for name, part in found.items():
        of_commits.setdefault(part["machine"].get("commit", ""), []).append(name)
    of_commits.pop("", None)
    if len(of_commits) == 1:
        yield f"All parts ran on the commit {next(iter(of_commits))}."
    elif of_commits:
        most = max(of_commits, key=lambda one: len(of_commits[one]))
        others = (f"{', '.join(sorted(names))} on {one}" for one, names in of_commits.items() if one != most)
        yield f"The parts ran on the commit {most}, but {'; '.join(others)}."
    if "soak" in found:
        yield ""
        yield from _soak(found["soak"])


def _row(title: str, values: list[float]) -> str:
    return f"| {title} | {' | '.join(f'{value:,.0f}' for value in values)} |"


def _soak(soak: Mapping[str, Any]) -> Iterator[str]:
    early, late = (soak["usage"][f"{part} quarter"] for part in ("second", "last"))
    problems = ", ".join(f"{name} {number:,}" for name, number in sorted(soak["problems"].items()))
    yield f"A soak of {soak['minutes']:g} minutes did {sum(soak['problems'].values()):,} problems ({problems})."
    yield (
        f"From the second quarter of the time to the last, the median of the memory went from "
        f"{early['memory'] / 1e6:,.0f} MB to {late['memory'] / 1e6:,.0f} MB, that of open files from "
        f"{early['files']:g} to {late['files']:g}, of threads from {early['threads']:g} to {late['threads']:g}, and of "
        f"temporary files from {early['temporary']:g} to {late['temporary']:g}."
    )


def page() -> str:
    """Return the page with the counts of the results file."""
    text = PAGE.read_text(encoding="utf-8")
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    begin, end = map(re.escape, MARKS)
    inside = MARKS[0] + "\n".join(counts(found)) + "\n" + MARKS[1]
    return re.sub(f"{begin}.*{end}", lambda _: inside, text, flags=re.DOTALL)


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
