"""The counts of the campaign and their table."""

import time
from pathlib import Path

import pytest
from faults import results
from faults.campaign import PARTS, REFUSED, VERIFIED, Counts, Running, count, table


def test_every_file_is_a_part() -> None:
    assert {path.stem for path in Path(__file__).parent.glob("test_*.py")} == {*PARTS, Path(__file__).stem}


def test_a_case_lasts_from_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 5.0, 6.0])
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    running = Running()
    for outcome in (REFUSED, VERIFIED, REFUSED):
        running.case(outcome)
    assert (running.counts.refused, running.counts.verified, running.counts.slowest) == (2, 1, 4.0)


def test_another_outcome_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="hung"):
        count("hung")


def test_the_table_adds_up() -> None:
    parts = {"test_kills": Counts(3, 4, 1, 2.0, 0.5, 10**6), "test_clock": Counts(0, 2, 0, 1.0, 0.7, 3 * 10**6)}
    head, kills, clock, whole = table(parts)
    assert head.split()[:6] == ["part", "tried", "refused", "verified", "violations", "seconds"]
    assert kills.split()[-7:] == ["8", "3", "4", "1", "2", "0.5", "1"]
    assert clock.startswith(PARTS["test_clock"].title)
    assert whole.split() == ["all", "10", "3", "6", "1", "3", "0.7", "3"]


def test_the_page_has_the_counts_of_the_results_file() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page()
