"""A soak: random small problems are fitted, tuned, saved, converted and predicted for some minutes, in one process.

    python tests/faults/soak.py --minutes 10 [--seed 1] [--results tests/faults/results.json]

It prints the resident memory, open files, threads and temporary files as it goes. It fails if any of them has grown
from the second quarter of the time to the last one; the first quarter may load libraries and fill their caches.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import joker
from joker.callbacks import Checkpoint
from joker.cli import main as program
from joker.data import convert, open_store
from joker.errors import BudgetTooSmall, InvalidFile
from joker.runtime import release_memory

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults import results

MEMORY_GROWTH = 24 * 2**20  # bytes by which the resident memory may move: that of one problem
ESTIMATORS = ("KernelRidge", "KernelHuber", "KernelSVR", "KernelLp", "KernelQuantile", "KernelSVC", "KernelLogistic")
KERNELS = ("gaussian", "laplacian", "matern32", "polynomial")


@dataclass(frozen=True)
class Usage:
    """What the process holds at one time."""

    memory: int  # resident bytes
    files: int
    threads: int
    temporary: int  # files in the folder of the soak and in that of the system that are joker's

    @classmethod
    def now(cls, folder: Path) -> Usage:
        """Return the present usage, when all that is not in use has been given back."""
        gc.collect()
        release_memory(torch.device("cpu"))
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        left = [*folder.iterdir(), *Path(tempfile.gettempdir()).glob(".joker-*"), *folder.parent.glob("*.part")]
        files = len(os.listdir("/proc/self/fd"))
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), files, threading.active_count(), len(left))


class Soak:
    """Random problems, and what is done with them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.actions: list[Callable[[], None]] = [
            self.fit,
            self.save,
            self.store,
            self.tune,
            self.table,
            self.commands,
            self.refuse,
            self.threads,
        ]

    def step(self) -> str:
        """Do something with a random problem, remove its files, and return its name."""
        action = self.random.choice(self.actions)
        try:
            action()
        finally:
            for path in self.folder.iterdir():
                path.unlink()
        return action.__name__

    def problem(self, classes: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and targets."""
        rng = np.random.default_rng(self.random.randrange(2**32))
        n, d = self.random.choice([20, 100, 700, 2_000]), self.random.choice([1, 4, 30])
        X = rng.normal(size=(n, d))
        s = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
        return X, np.digitize(s, np.quantile(s, [0.3, 0.6])) if classes else s

    def fitted(self) -> tuple[joker.estimators.BaseEstimator, np.ndarray]:
        """Return a random model and its inputs."""
        name = self.random.choice(ESTIMATORS)
        X, y = self.problem(name in ("KernelSVC", "KernelLogistic"))
        model = getattr(joker, name)(
            kernel=self.random.choice(KERNELS),
            lam=self.random.choice([1e-3, 0.1, [0.1, 1.0]]),
            n_features=self.random.choice([None, 20, 100]),
            block_size=self.random.choice(["auto", 64]),
            momentum=self.random.random() < 0.2,
            memory=self.random.choice(["auto", "200MB"]),
            precision=self.random.choice(["auto", "float64"]),
            max_epochs=3,
        )
        return model.fit(X, y), X

    def fit(self) -> None:
        """Fit and predict."""
        model, X = self.fitted()
        assert np.isfinite(model.predict(X)).all()

    def save(self) -> None:
        """Save, load and compare."""
        model, X = self.fitted()
        model.save(self.folder / "model.joker")
        np.testing.assert_array_equal(joker.load(self.folder / "model.joker").predict(X), model.predict(X))

    def csv(self, classes: bool) -> Path:
        """Write a table with a word, a missing value and a target, and return its path."""
        X, y = self.problem(classes)
        path = self.folder / "table.csv"
        with path.open("w", encoding="utf-8") as file:
            file.write("word," + ",".join(f"x{j}" for j in range(X.shape[1])) + ",target\n")
            for row, target in zip(X, y, strict=True):
                values = ["" if self.random.random() < 0.01 else f"{value:.6g}" for value in row]
                label = f"class {target}" if classes else f"{target}"
                file.write(",".join([self.random.choice("abc"), *values, label]) + "\n")
        return path

    def store(self) -> None:
        """Convert rows to a store and fit from it."""
        X, y = self.problem(False)
        np.savez(self.folder / "rows.npz", X=X, y=y)
        convert(self.folder / "rows.npz", self.folder / "rows.store", target="y")
        rows = open_store(self.folder / "rows.store")
        joker.KernelRidge(n_features=20, max_epochs=2).fit(rows)

    def tune(self) -> None:
        """Search for settings."""
        joker.tune(*self.problem(self.random.random() < 0.5), n_trials=3)

    def table(self) -> None:
        """Fit a raw table in Python, save it and load it."""
        classes = self.random.random() < 0.5
        X, y = self.problem(classes)
        model = (joker.JokerClassifier if classes else joker.JokerRegressor)(effort=1, random_state=0).fit(X, y)
        model.save(self.folder / "table.joker")
        np.testing.assert_array_equal(joker.load(self.folder / "table.joker").predict(X), model.predict(X))

    def refuse(self) -> None:
        """Give what is refused: a budget that is too small, a checkpoint of another fit and damaged files."""
        X, y = self.problem(False)
        path = self.folder / "model.joker"
        for work in (
            lambda: joker.KernelRidge(memory=1).fit(X, y),
            lambda: joker.JokerRegressor(memory=1).fit(X, y),
        ):
            self.is_refused(BudgetTooSmall, work)
        model = joker.KernelRidge(n_features=20, max_epochs=3, block_size=10, callbacks=[Checkpoint(path)]).fit(X, y)
        other = joker.KernelHuber(n_features=20, max_epochs=3, callbacks=[Checkpoint(path, resume=True)])
        if path.exists():
            self.is_refused(InvalidFile, lambda: other.fit(X, y))
        model.save(path)
        content = bytearray(path.read_bytes())
        for _ in range(20):
            place = self.random.randrange(len(content))
            content[place] ^= 1
            path.write_bytes(content)
            self.is_refused(InvalidFile, lambda: joker.load(path))
            content[place] ^= 1

    @staticmethod
    def is_refused(kind: type[Exception], work: Callable[[], object]) -> None:
        """Check that something is refused."""
        try:
            work()
        except kind:
            return
        raise AssertionError(f"it must be refused with {kind.__name__}")

    def threads(self) -> None:
        """Fit in three threads at once."""
        parts = [self.problem(False) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda part: joker.KernelRidge(n_features=20, max_epochs=2).fit(*part), parts))

    def commands(self) -> None:
        """Fit and predict with the program."""
        table, model = str(self.csv(self.random.random() < 0.5)), str(self.folder / "m.joker")
        for line in (
            ["fit", table, "--target", "target", "--out", model, "--max-time", "1", "--quiet"],
            ["predict", model, table, "--out", str(self.folder / "out.csv"), "--quiet"],
        ):
            assert program(line) == 0, line


def grown(usages: list[Usage]) -> list[str]:
    """Return what has grown from the second quarter of the time to the last."""
    quarter = len(usages) // 4
    early, late = usages[quarter : 2 * quarter], usages[-quarter:]
    found = []
    for name, slack in zip((field.name for field in fields(Usage)), (MEMORY_GROWTH, 0, 0, 0), strict=True):
        before, after = (median(getattr(usage, name) for usage in part) for part in (early, late))
        if after > before + slack:
            found.append(f"{name}: {before:,.0f} -> {after:,.0f}")
    return found


def summary(usages: list[Usage], found: list[str]) -> dict[str, Any]:
    """Return the usage in the second quarter of the time and in the last, as numbers, and what has grown."""
    quarter = len(usages) // 4
    parts = {"second quarter": usages[quarter : 2 * quarter], "last quarter": usages[-quarter:]}
    names = [field.name for field in fields(Usage)]
    medians = {
        title: {name: median(getattr(usage, name) for usage in part) for name in names} for title, part in parts.items()
    }
    return {"usage": medians, "grown": found}


def main() -> int:
    """Run for the minutes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="the file to which the counts are added")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    usages: list[Usage] = []
    counts: dict[str, int] = {}
    ends, shown = time.monotonic() + 60 * given.minutes, 0.0
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name), given.seed)
        while time.monotonic() < ends:
            done = soak.step()
            counts[done] = counts.get(done, 0) + 1
            usages.append(Usage.now(Path(name)))
            if time.monotonic() > shown + 30:
                shown = time.monotonic()
                print(f"{sum(counts.values()):6d} problems; {usages[-1]}", flush=True)
    print(counts, usages[-1])
    found = grown(usages)
    if given.results is not None:
        results.add(given.results, "soak", {"minutes": given.minutes, "problems": counts, **summary(usages, found)})
    print("grown: " + "; ".join(found) if found else "nothing has grown")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
