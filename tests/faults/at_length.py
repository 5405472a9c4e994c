"""The parts of the campaign that take many minutes: kills, fits and saves side by side, ranks and memory shapes.

    python tests/faults/at_length.py kills fits saves ranks shapes [--results tests/faults/results.json] [--quick]

Each part prints its counts and its violations, and adds them to the results file. It fails if there is a violation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import differing_ranks
import group_processes
import numpy as np
import torch
from faults import results
from faults.campaign import REFUSED, VERIFIED, Counts
from program import environment, installed, write_table
from random_shapes import random_case

import joker
from joker.cli import main as program

ROWS = np.random.default_rng(0).normal(size=(60, 2))
SMALL = joker.KernelRidge(random_state=0).fit(ROWS, ROWS[:, 0])
INPUTS = ("-t", "size", "--columns", "a,b")
FEATURES = ("-m", "20", "--block-size", "50", "--max-epochs", "30", "--tol", "0")
WAIT = 300.0  # seconds after which a process hangs


@dataclass
class Record:
    """The counts of a part, and what was wrong."""

    counts: Counts = field(default_factory=Counts)
    wrong: list[str] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    def case(self, name: str, work: Callable[[], str]) -> None:
        """Count a case, which returns REFUSED or VERIFIED; anything else that happens is a violation."""
        try:
            outcome = work()
            assert outcome in (REFUSED, VERIFIED), outcome
            setattr(self.counts, outcome, getattr(self.counts, outcome) + 1)
        except Exception as error:
            self.counts.violations += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.wrong.append(f"{name}: {type(error).__name__} in line {place.lineno}: {error}")
            print(self.wrong[-1], flush=True)

    def end(self) -> dict[str, Any]:
        """Return the counts for the results file."""
        self.counts.seconds = round(time.monotonic() - self.since, 1)
        return {"tried": self.counts.tried, **asdict(self.counts), "wrong": self.wrong}


def forked(work: Callable[[], object], kill_after: float | None = None) -> tuple[int, float]:
    """Do some work in a fork, which may be killed after some seconds; return its status and how long it took."""
    start = time.monotonic()
    if (child := os.fork()) == 0:
        try:
            silence = os.open(os.devnull, os.O_RDWR)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            status = work()
        except BaseException:
            os._exit(99)
        os._exit(status if isinstance(status, int) else 0)
    end = start + (WAIT if kill_after is None else kill_after)
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), time.monotonic() - start
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert kill_after is not None, f"it hangs: nothing has ended after {WAIT:g} s"
    return status, time.monotonic() - start


@dataclass(frozen=True)
class Killed:
    """A command that is killed, and the same command afterwards, which must do what one does that was never killed."""

    name: str
    work: Callable[[Path], object]  # in a folder
    out: str
    again: Callable[[Path], object] | None = None  # after the kill, if it is another command


def run(folder: Path, *arguments: object) -> int:
    """Run the program on files of a folder."""
    return program([str(folder / one) if isinstance(one, Path) else str(one) for one in arguments])


def save_often(folder: Path) -> None:
    for _ in range(40):
        SMALL.save(folder / "m.joker")


TABLE, MODEL, OUT = Path("train.csv"), Path("fitted.joker"), Path("m.joker")
TABLE_FIT = ("fit", TABLE, "-t", "size", "-q", "--effort", 1, "--out", OUT)
KERNEL_FIT = ("fit", TABLE, *INPUTS, *FEATURES, "--out", OUT, "--quiet")
KILLS = (
    Killed(
        "fit of a raw table",
        lambda to: run(to, "fit", TABLE, "-t", "size", "-q", "--effort", 1, "--out", OUT),
        "m.joker",
    ),
    Killed(
        "fit of a kernel machine",
        lambda to: run(to, *KERNEL_FIT),
        "m.joker",
        lambda to: run(to, *KERNEL_FIT, "--resume"),
    ),
    Killed(
        "tune",
        lambda to: run(to, "tune", TABLE, *INPUTS, "-m", 20, "--trials", 3, "-q", "--max-epochs", 3, "--out", OUT),
        "m.joker",
    ),
    Killed("predict", lambda to: run(to, "predict", MODEL, TABLE, "-q", "--out", Path("p.csv")), "p.csv"),
    Killed("convert", lambda to: run(to, "convert", TABLE, Path("t.rows"), *INPUTS, "-q"), "t.rows"),
    Killed("save", save_often, "m.joker"),
)


def prepared(folder: Path) -> Path:
    """Write a table, and a model of it, into a folder."""
    folder.mkdir()
    write_table(folder / TABLE, rows=300, colour=True)
    return folder


def content(path: Path) -> Any:
    """Return what a file holds: the predictions of a model, or else its bytes."""
    if path.suffix != ".joker":
        return path.read_bytes()
    model = joker.load(path)
    rows = np.random.default_rng(1).normal(size=(20, 2))
    if model.n_features_in_ == 2:
        return model.predict(rows).tobytes()
    table = [{"a": a, "b": b, "c": 0.0, "colour": "red", "place": "in"} for a, b in rows.tolist()]
    return model.predict(table).tobytes()


def kills(record: Record, times: int, folder: Path) -> None:
    """Kill each command at random moments; its file is whole or absent, and the command can be repeated."""
    rng = random.Random(0)
    template = prepared(folder / "template")
    warm = {one.name: undisturbed(one, template, folder) for one in KILLS}
    for number in range(times):
        one = KILLS[number % len(KILLS)]
        whole, seconds = warm[one.name]
        place = shutil.copytree(template, folder / "case")  # a store holds the path of its table
        after = rng.uniform(0, 1.05) * seconds

        def case(one: Killed = one, place: Path = place, whole: Any = whole, after: float = after) -> str:
            before = {path.name for path in place.iterdir()}
            forked(lambda: one.work(place), after)
            if (place / one.out).exists():
                assert content(place / one.out) == whole, "the file of the killed command is not that of a whole one"
            for path in place.glob(".joker-*.tmp"):  # an empty file that is new may be that of a living process
                if path.stat().st_size == 0:
                    os.utime(path, (time.time() - 3600,) * 2)
            status, _ = forked(lambda: (one.again or one.work)(place))
            assert status == 0, f"the command ends with {status} after a kill"
            assert content(place / one.out) == whole, "the repeated command makes another file"
            left = {path.name for path in place.iterdir()} - before - {one.out}
            assert not left, f"{left} are left"
            return VERIFIED

        record.case(f"{one.name}, killed after {after:.3f} of {seconds:.3f} s", case)
        shutil.rmtree(place)


def undisturbed(one: Killed, template: Path, folder: Path) -> tuple[Any, float]:
    """Return what a command makes, and its seconds."""
    if not (template / MODEL).exists():
        status, _ = forked(lambda: run(template, "fit", TABLE, *INPUTS, *FEATURES, "--out", MODEL, "-q"))
        assert status == 0
    place = shutil.copytree(template, folder / "case")
    status, seconds = forked(lambda: one.work(place))
    assert status == 0, (one.name, status)
    found = content(place / one.out)
    shutil.rmtree(place)
    return found, seconds


def fits(record: Record, times: int, folder: Path) -> None:
    """Run `joker fit` four times at once in one folder, with different files; then twice with the same file."""
    place = prepared(folder / "fits")
    command = [*installed(), "fit", str(place / TABLE), "-t", "size", "-q", "--effort", "1", "--out"]
    alone = subprocess.run([*command, str(place / "alone.joker")], env=environment(), timeout=WAIT, check=False)
    assert alone.returncode == 0
    whole = content(place / "alone.joker")
    names = {TABLE.name, "alone.joker"}

    def start(name: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*command, str(place / name)], env=environment(), stderr=subprocess.PIPE, text=True)

    for first in range(0, times, 4):
        running = {f"{first + k}.joker": start(f"{first + k}.joker") for k in range(4)}
        for name, process in running.items():

            def case(name: str = name, process: subprocess.Popen[str] = process) -> str:
                _, said = process.communicate(timeout=WAIT)
                assert process.returncode == 0, said
                assert content(place / name) == whole, "the model is not that of a fit alone"
                return VERIFIED

            record.case(f"fit {name}", case)
        names |= {*running}
    for number in range(max(1, times // 16)):
        pair = [start(f"same {number}.joker") for _ in range(2)]
        said = [process.communicate(timeout=WAIT)[1] for process in pair]

        def one_is_refused(pair: Any = pair, said: Any = said, number: int = number) -> str:
            # The second may also begin when the first has ended.
            ended = sorted(process.returncode for process in pair)
            assert ended == [0, 1], ended
            assert any("another one writes it now" in one for one in said), said
            assert content(place / f"same {number}.joker") == whole
            return REFUSED

        record.case(f"two fits of the same file {number}", one_is_refused)
        names.add(f"same {number}.joker")
    record.case("nothing is left", lambda: check_names(place, names))


def check_names(folder: Path, names: set[str]) -> str:
    found = {path.name for path in folder.iterdir()}
    assert found == names, found ^ names
    return VERIFIED


def save_many(folder: Path, saves: int, number: int) -> None:
    for save in range(saves):
        SMALL.save(folder / f"{number}.{save}.joker")


def saves(record: Record, times: int, folder: Path) -> None:
    """Save models in four processes at once in one folder."""
    place = folder / "saves"
    place.mkdir()
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map_async(partial(save_many, place, times // 4), range(4)).get(WAIT)
    expected = SMALL.predict(ROWS)
    wanted = {f"{number}.{save}.joker" for number in range(4) for save in range(times // 4)}
    for name in sorted(wanted):

        def case(name: str = name) -> str:
            np.testing.assert_array_equal(joker.load(place / name).predict(ROWS), expected)
            return VERIFIED

        record.case(name, case)
    record.case("nothing is left", lambda: check_names(place, wanted))


def ranks(record: Record, times: int, folder: Path) -> None:
    """Start two processes that fit together and differ in a setting, in the data or in the version."""
    ended = group_processes.run(2, "differ", folder / "said.json", "all" if times >= 40 else "quick", seconds=900)
    assert [status for status, _ in ended] == [0, 0], ended
    first, last = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    for name, said in first.items():

        def case(name: str = name, said: str = said) -> str:
            assert said == last[name]
            if name not in differing_ranks.MODES:
                assert not said
                return VERIFIED
            named = "ProcessesDiffer: all processes of a group must have the same " + differing_ranks.MODES[name][1]
            assert said.startswith(named), said
            return REFUSED

        record.case(name, case)


def shapes(record: Record, times: int, folder: Path) -> None:
    """Fit and predict random shapes with budgets; the memory may not grow beyond them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "estimators"))
    import test_memory_budget

    rng = np.random.default_rng(36)
    cases = {f"shape {k}": random_case(rng) for k in range(times)}
    found = test_memory_budget.run(cases)
    for name, shape in cases.items():

        def case(name: str = name, shape: Any = shape) -> str:
            assert name in found, "it has not ended"
            for what, measured in zip(("fit", "predict"), found[name], strict=True):
                assert measured["growth"] <= measured["budget"], (what, measured, shape)
            return VERIFIED

        record.case(name, case)


PARTS: dict[str, tuple[Callable[[Record, int, Path], None], int, int]] = {  # with the times, and those of a quick run
    "kills": (kills, 300, 12),
    "fits": (fits, 32, 4),
    "saves": (saves, 200, 8),
    "ranks": (ranks, 40, 8),
    "shapes": (shapes, 100, 3),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=[*PARTS])
    parser.add_argument("--results", type=Path, help="the file to which the counts are added")
    parser.add_argument("--quick", action="store_true", help="try a few cases only")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wrong = 0
    for part in given.parts:
        work, times, few = PARTS[part]
        record = Record()
        with tempfile.TemporaryDirectory() as name:
            work(record, few if given.quick else times, Path(name))
        found = record.end()
        print(part, {key: value for key, value in found.items() if key != "wrong"}, flush=True)
        if given.results is not None:
            results.add(given.results, part, found)
        wrong += found["violations"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
