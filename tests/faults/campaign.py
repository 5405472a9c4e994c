"""The counts of the campaign of faults: what each part tried, how it ended, and a table of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

REFUSED = "refused"  # an error of joker, which is a sentence
VERIFIED = "verified"  # the result was compared with the right one, or its numbers are finite where no right one exists
SECONDS = 10.0  # of the processor that one case of a hostile file may take
MEMORY = 500 * 10**6  # bytes that a test of hostile files may take


@dataclass(frozen=True)
class Part:
    """A part of the campaign: one file of tests."""

    title: str
    limited: bool = False  # whether SECONDS and MEMORY hold for its cases


PARTS = {
    "test_data_files": Part("files of data: damaged, hostile", limited=True),
    "test_model_files": Part("model files with a right checksum", limited=True),
    "test_table_model_files": Part("files of table models with a right checksum", limited=True),
    "test_stores_and_checkpoints": Part("row stores and checkpoints", limited=True),
    "test_written_files": Part("files that are written, disk errors"),
    "test_kills": Part("kills, signals, a full disk"),
    "test_allocations": Part("allocations that fail"),
    "test_gpu_memory": Part("memory of a GPU"),
    "test_clock": Part("clocks that jump"),
    "test_concurrency": Part("threads and processes side by side"),
    "test_numerical_extremes": Part("extreme numbers"),
}


@dataclass
class Counts:
    """What a test, or a part, has tried."""

    refused: int = 0
    verified: int = 0
    violations: int = 0
    seconds: float = 0.0
    slowest: float = 0.0  # seconds of the processor of the longest case
    memory: int = 0  # bytes by which the resident memory grew at its peak

    @property
    def tried(self) -> int:
        """The number of cases."""
        return self.refused + self.verified + self.violations

    def add(self, other: Counts) -> None:
        """Add the counts of a test."""
        self.refused += other.refused
        self.verified += other.verified
        self.violations += other.violations
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.memory = max(self.memory, other.memory)


class Running:
    """The counts of the test that is running."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin a test."""
        self.counts, self.since = Counts(), time.process_time()

    def case(self, outcome: str) -> None:
        """Count a case, which began where the one before it ended."""
        now = time.process_time()
        self.counts.slowest = max(self.counts.slowest, now - self.since)
        self.since = now
        setattr(self.counts, outcome, getattr(self.counts, outcome) + 1)


running = Running()


def count(outcome: str) -> str:
    """Count a case of the running test as REFUSED or VERIFIED, and return the word."""
    assert outcome in (REFUSED, VERIFIED), outcome
    running.case(outcome)
    return outcome


def resident(name: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes, or 0 where the system does not tell."""
    path = Path("/proc/self/status")
    found = re.search(rf"^{name}:\s+(\d+) kB", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) * 1024 if found else 0


def forget_peak() -> None:
    """Set VmHWM back to the present resident memory."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def table(parts: Mapping[str, Counts]) -> Iterable[str]:
    """Return the lines of the table, with a sum."""
    whole = Counts()
    rows = []
    for name, counts in parts.items():
        rows.append((PARTS[name].title, counts))
        whole.add(counts)
    head = f"{'part':44}{'tried':>7}{'refused':>9}{'verified':>10}{'violations':>12}{'seconds':>9}"
    yield head + f"{'slowest, s':>12}{'memory, MB':>12}"
    for title, one in [*rows, ("all", whole)]:
        counted = f"{title:44}{one.tried:7}{one.refused:9}{one.verified:10}{one.violations:12}{one.seconds:9.0f}"
        yield counted + f"{one.slowest:12.1f}{one.memory / 1e6:12.0f}"
