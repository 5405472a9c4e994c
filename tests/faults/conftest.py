"""Counts the cases of each test of the campaign, and prints their table at the end of a run.

The environment variable JOKER_FAULTS names a results file to which the counts of the parts are added.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from faults import campaign
from faults.campaign import MEMORY, PARTS, SECONDS, VERIFIED, Counts

PROPERTY, VARIABLE = "faults", "JOKER_FAULTS"
found: dict[str, Counts] = {}


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Count the cases of a test; one that counts none itself is one verified case."""
    part = PARTS.get(request.path.stem)
    if part is None:
        yield
        return
    campaign.running.start()
    campaign.forget_peak()
    before = campaign.resident("VmRSS")
    yield
    failed = getattr(request.node, "failed", False)
    if not failed and not campaign.running.counts.tried:
        campaign.count(VERIFIED)
    counts = campaign.running.counts
    counts.memory = max(0, campaign.resident("VmHWM") - before)
    request.node.user_properties.append((PROPERTY, asdict(counts)))
    if part.limited and not failed:
        assert counts.slowest < SECONDS, f"a case took {counts.slowest:.1f} s"
        assert counts.memory < MEMORY, f"the test took {counts.memory / 1e6:.0f} MB"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Tell the fixture whether the test has failed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call":
        item.failed = report.failed  # type: ignore[attr-defined]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the counts of a test to those of its part."""
    part = Path(report.location[0]).stem
    if part not in PARTS or "faults" not in Path(report.location[0]).parts:
        return
    counts = found.setdefault(part, Counts())
    counts.seconds += report.duration
    counts.violations += report.failed
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == PROPERTY:
                counts.add(Counts(**value))  # type: ignore[arg-type]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    if found:
        terminalreporter.section("the campaign of faults")
        for line in campaign.table({part: found[part] for part in PARTS if part in found}):
            terminalreporter.line(line)
    if named := os.environ.get(VARIABLE):
        from faults import results

        for part, counts in found.items():
            results.add(Path(named), part, {"tried": counts.tried, **asdict(counts)})
