"""The results file of the campaign: the counts of each part, with the machine and the date of its run.

    python tests/faults/results.py              # write the counts into docs/faults.md
    python tests/faults/results.py --check      # check that the page has those of the results file

The parts are written by the scripts that run them: `soak.py`, `at_length.py` and the tests in this folder.
"""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import torch

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RESULTS = Path(__file__).with_name("results.json")


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
