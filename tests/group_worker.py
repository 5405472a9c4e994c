"""One of several processes, started by `group_processes.start`: it does what its first argument says."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import joker
from joker.callbacks import Callback, Checkpoint, Run
from joker.data.store.format import RowFile
from joker.errors import JokerError

N = 300
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)
CLASSES = np.digitize(y, [-1, 1])
BASE: dict[str, Any] = {"precision": "float64", "random_state": 0, "max_epochs": 3, "block_size": 64, "tol": 1e-12}
# A smooth loss takes the same steps, up to rounding. One that is not must be solved to the end: any rounding error may
# change which rows a block leaves at a bound.
SOLVED = {"block_size": 512, "tol": 1e-11}
CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "logistic, 3 classes, features": ("KernelLogistic", {"n_features": 50}, CLASSES),
    "logistic, 3 classes, exact": ("KernelLogistic", {"n_features": None}, CLASSES),
    "logistic, momentum": ("KernelLogistic", {"n_features": 50, "momentum": True}, CLASSES > 0),
    "squared, exact": ("KernelRidge", {"n_features": None}, y),
    "squared, features": ("KernelRidge", {"n_features": 51, "method": "random_blocks", **SOLVED}, y),
    "hinge, exact": ("KernelSVC", {"loss": "hinge", "n_features": None, **SOLVED}, CLASSES > 0),
    "hinge, features": ("KernelSVC", {"loss": "hinge", "n_features": 50, **SOLVED}, CLASSES > 0),
    "path, features": ("KernelLogistic", {"n_features": 50, "lam": [0.1, 1.0]}, CLASSES > 0),
    "path, exact": ("KernelLogistic", {"n_features": None, "lam": [0.1, 1.0]}, CLASSES > 0),
    "structured features": ("KernelLogistic", {"n_features": 51, "features": "structured"}, CLASSES > 0),
    "polynomial features": ("KernelLogistic", {"n_features": 60, "kernel": "polynomial"}, CLASSES > 0),
}


def fitted(name: str) -> tuple[np.ndarray, float]:
    """Return the values of the prediction function of a case, and the gap."""
    kind, settings, target = CASES[name]
    model = getattr(joker, kind)(**{**BASE, **settings}).fit(X, target)
    return getattr(model, "decision_function", model.predict)(X), model.gap_


def same(out: str) -> None:
    """Fit every case, also from a row store, with a checkpoint, and with settings that differ."""
    with joker.distributed.group() as processes:
        found: dict[str, Any] = {name: fitted(name) for name in CASES}
        np.savez(f"{out}.{processes.rank}.npz", X=X, y=y)
        store = joker.data.convert(f"{out}.{processes.rank}.npz", f"{out}.{processes.rank}.rows", target="y")
        model = joker.KernelHuber(**BASE, n_features=50).fit(store)
        found["from a store"] = model.predict(X)
        resumed_fit(out, 2).save(f"{out}.joker")
        assert Path(f"{out}.joker").exists()  # in every process: all wait for the first
    if processes.rank == 0:
        torch.save(found, out)


def differ(out: str, part: str) -> None:
    """Do what processes do together, once alike and then with each difference in the last process."""
    import differing_ranks

    with joker.distributed.group() as processes:
        last = processes.rank == processes.size - 1
        said = {name: differing_ranks.error_of(name, last) for name in differing_ranks.names(part)}
        together = processes.collect(said)
    if processes.rank == 0:
        Path(out).write_text(json.dumps(together), encoding="utf-8")


def resumed_fit(out: str, epochs: int, data: Any = X, target: Any = CLASSES) -> joker.KernelLogistic:
    """Return a fit with a checkpoint, which an earlier fit may have left."""
    settings = {**BASE, "max_epochs": epochs, "tol": 0.0}
    return joker.KernelLogistic(**settings, n_features=50, callbacks=[Checkpoint(f"{out}.check")]).fit(data, target)


class Slow(Callback):
    """Writes a file after the first epoch, and takes its time."""

    def __init__(self, path: str) -> None:
        self.path = path

    def epoch(self, run: Run) -> None:
        Path(f"{self.path}.{os.environ['RANK']}").touch()
        time.sleep(0.05)


def long(out: str, timeout: str) -> None:
    """Fit for a long time."""
    with joker.distributed.group(float(timeout)):
        settings = {**BASE, "max_epochs": 10_000, "tol": 0.0}
        joker.KernelLogistic(**settings, n_features=50, callbacks=[Slow(out), Checkpoint(f"{out}.check")]).fit(
            X, CLASSES
        )


def resumed(out: str, epochs: str) -> None:
    """Continue a fit, and store its predictions."""
    with joker.distributed.group() as processes:
        model = resumed_fit(out, int(epochs))
    if processes.rank == 0:
        np.save(f"{out}.npy", model.decision_function(X))


def fails(out: str) -> None:
    """Fit with an error in the last process."""

    class Broken(Callback):
        def epoch(self, run: Run) -> None:
            raise ArithmeticError("this process fails")

    with joker.distributed.group(5.0) as processes:
        callbacks = [Broken()] if processes.rank else []
        joker.KernelLogistic(**BASE, n_features=50, callbacks=callbacks).fit(X, CLASSES)


GPU_CASES = ("logistic, 3 classes, features", "squared, exact", "hinge, features", "path, exact")


def gpu_fit(name: str) -> np.ndarray:
    """Return the values of the prediction function of a case, which is fitted on the first GPU."""
    kind, settings, target = CASES[name]
    model = getattr(joker, kind)(**{**BASE, **settings}, device="cuda:0").fit(X, target)
    return np.asarray(getattr(model, "decision_function", model.predict)(X))


def one_gpu(out: str) -> None:
    """Fit on one GPU that all processes share, which send by gloo."""
    torch.distributed.init_process_group("gloo")
    with joker.distributed.group() as processes:
        found = {name: gpu_fit(name) for name in GPU_CASES}
    if processes.rank == 0:
        torch.save(found, out)


# Fits that a process does on its part of the rows. A row store has the rows of one process in the same order, so that
# the steps are the same; those of a folder are in another order, so that the problem is solved to the end.
SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "store": ("KernelLogistic", {"n_features": 50, "standardize": True}),
    "held out": ("KernelLogistic", {"n_features": 50, "early_stopping": True, "standardize": True}),
    "path": ("KernelLogistic", {"n_features": 50, "lam": [0.1, 1.0]}),
    "folder": ("KernelSVC", {"n_features": 50, "loss": "squared_hinge", "bandwidth": 2.0, **SOLVED}),
    "numbers folder": ("KernelRidge", {"n_features": 50, "method": "random_blocks", "bandwidth": 2.0, **SOLVED}),
}
SHARED_CLASSES = [name for name in SHARED if name != "numbers folder"]


def shared_fit(name: str, data: Any, target: Any = None) -> Any:
    kind, settings = SHARED[name]
    return getattr(joker, kind)(**{**BASE, **settings}).fit(data, target)


def shared(folder: str) -> None:
    """Fit on a row store and on a folder of files, of which each process reads its part, and try what is refused."""
    place, read = Path(folder), []
    whole = RowFile.fill

    def fill(self: RowFile, view: memoryview, offset: int) -> None:
        read.append((self.path.name, offset, len(view)))
        whole(self, view, offset)

    RowFile.fill = fill  # type: ignore[method-assign]
    with joker.distributed.group() as processes:
        store = joker.data.open_shared(place / "all.rows")
        files = joker.data.open_shared(place / "table", "y", dtype="float64", scratch=place)
        found: dict[str, Any] = {
            name: shared_fit(name, files if name == "folder" else store).decision_function(X) for name in SHARED_CLASSES
        }
        model = shared_fit("store", store)
        found["predicted"], found["again"] = model.predict(store), model.predict(store.x.array(slice(None)))
        found["sample"], found["y"] = files.x.array(np.arange(0, N, 7)), files.y
        for epochs in (2, 4):  # the second fit continues
            found["resumed"] = resumed_fit(folder + "/shared", epochs, store, None).decision_function(X)
        numbers = joker.data.open_shared(place / "numbers", "y", dtype="float64", scratch=place)
        found["numbers folder"] = shared_fit("numbers folder", numbers).predict(X)
        found["numbers"] = processes.collect(files.numbers.tolist())
        found["scaling"] = [files.scaling.mean.numpy(), files.scaling.deviation.numpy()]
        found["errors"] = [refused(*case) for case in shared_errors(place, store)]
        found["read"] = processes.collect(read)
        before = processes.sent
        store.x[torch.arange(64)]
        found["bytes"] = processes.sent - before
    if processes.rank == 0:
        torch.save(found, place / "found.pt")


def shared_errors(place: Path, store: Any) -> list[tuple[Any, ...]]:
    """Return calls that are refused in every process."""
    opened = joker.data.open_shared
    return [
        (joker.KernelSVC(n_features=None).fit, store),
        (opened, place / "few", "y", {"scratch": place}),
        (opened, place / "text", "y", {"scratch": place}),
        (opened, place / "table", "y", {}),
    ]


def other_rows(folder: str) -> None:
    """Read other rows of a shared store in the last process than in the others."""
    with joker.distributed.group(5.0) as processes:
        store = joker.data.open_shared(Path(folder) / "all.rows")
        last = processes.rank == processes.size - 1
        store.x[0 : 11 if last else 10]


def refused(call: Any, *arguments: Any) -> str:
    keywords = arguments[-1] if isinstance(arguments[-1], dict) else {}
    try:
        call(*arguments[: len(arguments) - isinstance(arguments[-1], dict)], **keywords)
    except JokerError as error:
        return str(error)
    return ""


class Fill(Callback):
    """Leaves no room on the disk after the first epoch: no file of the first process can be larger than 1 kB."""

    def epoch(self, run: Run) -> None:
        fill_disk()


def fill_disk() -> None:
    import resource

    if joker.distributed.current().rank == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def full_disk(out: str, file: str) -> None:
    """Write a checkpoint, and then a checkpoint or a model for which the first process has no room."""
    with joker.distributed.group(20.0):
        if file == "model":
            model = resumed_fit(out, 2)
            fill_disk()
            model.save(f"{out}.joker")
        else:
            settings = {**BASE, "max_epochs": 4, "tol": 0.0}
            callbacks = [Checkpoint(f"{out}.check"), Fill()]
            joker.KernelLogistic(**settings, n_features=50, callbacks=callbacks).fit(X, CLASSES)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        globals()[sys.argv[1]](*sys.argv[2:])
    except JokerError as error:
        sys.exit(f"{type(error).__name__}: {error}")
