"""One run: rows and a plan in, scores, seconds and bytes out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from joker import kernels, losses
from joker.callbacks import Callback, EarlyStopping, Run, descend
from joker.data import Rows
from joker.kernels import bandwidth
from joker.models import Machine
from joker.paper.metrics import better, scores
from joker.paper.outcome import Outcome
from joker.paper.protocol import PATIENCE, Plan, plan
from joker.paper.rows import Folder, PaperRows, Part, read
from joker.paper.table import set_named
from joker.prepare import Training, prepare
from joker.runtime import generator, parse_device, peak_bytes

SPARE = 2**25  # bytes of scratch space on a card beside the features of a block
FEATURE_BYTES = 6.5  # of a feature of a row in a block, which lies there in float32 and in half of that
DONE = "All steps of the protocol were made."


@dataclass(frozen=True)
class Place:
    """Where a run computes.

    Attributes
    ----------
    device : str or torch.device, optional
        By default the CPU.
    precision : str
        ``"auto"``, ``"mixed"``, ``"float32"`` or ``"float64"``, as the estimators have it.
    memory : int or str
        Scratch space, such as ``"500MB"``; ``"auto"`` on a card is what a step needs.
    """

    device: str | torch.device | None = None
    precision: str = "auto"
    memory: int | str = "auto"

    @property
    def where(self) -> torch.device:
        """The device."""
        return parse_device(self.device)

    @property
    def types(self) -> tuple[torch.dtype, bool]:
        """The type to compute in, and whether the kernel of a block may be less precise."""
        from joker.estimators import resolve

        return resolve.precision(self.precision, "auto", False, self.where)

    def check(self) -> None:
        """Refuse a slip before rows are read."""
        _ = self.types, self._memory()

    def scratch(self, made: Plan) -> int:
        """Bytes of scratch space."""
        if self.memory == "auto" and self.where.type == "cuda" and made.n_features:
            each = max(FEATURE_BYTES, self.types[0].itemsize)
            return int(each * made.choice.block_size * made.n_features) + SPARE
        return self._memory()

    def _memory(self) -> int:
        from joker.estimators import resolve

        return resolve.memory(self.memory, self.where)


def reproduce(
    data: str,
    model: str,
    protocol: str = "paper",
    *,
    scale: float = 1.0,
    halving: bool = False,
    folder: Folder = None,
    generated: bool | None = None,
    device: str | torch.device | None = None,
    precision: str = "auto",
    memory: int | str = "auto",
    seed: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Fit a model of the paper on one of its data sets, and return what it reached beside what the paper reports.

    Parameters
    ----------
    data : {"msd", "hepc", "susy", "higgs", "cifar5m", "higgs33k"}
        The data set; higgs33k has real rows of HIGGS, and stands in for it.
    model : {"krr", "huber", "svm", "klr", "svr"}
        The model. The paper's SVM has the squared hinge for classes and is SVR for numbers.
    protocol : {"paper", "joker"}
        ``"paper"``: random blocks with replacement, no averaging, its number of steps and its bandwidth.
        ``"joker"``: shuffled blocks, averaged iterates, momentum, an intercept, the median bandwidth (a third of it for
        HEPC with many features), until the score on held-out rows rises no more; at most the paper's steps, in whole
        epochs.
    scale : float
        Rows, steps and features as a share of the paper's.
    halving : bool
        Whether to halve the radius of a step every 1,000 steps (times ``scale``), as the published code does.
    folder, generated
        Where the official files are, and whether to use generated rows in their place. By default rows are generated
        where no folder is given and JOKER_DATA does not lead to the files.
    device, precision, memory
        Where to compute, in which precision and with how much scratch space.
    seed : int
        Of the split, of the blocks and of the features.
    callbacks : sequence of Callback
        What watches the fit.

    Examples
    --------
    >>> from joker.paper import reproduce
    >>> found = reproduce("higgs", "svm", scale=0.0005, generated=True)
    >>> found.steps, found.generated, found.comparable
    (25, True, False)
    """
    made = plan(set_named(data), model, protocol, scale=scale, halving=halving, seed=seed)
    place = Place(device, precision, memory)
    place.check()
    rows = read(made.data, scale=scale, seed=seed, folder=folder, generated=generated)
    return run(made, rows, place, callbacks)


def run(made: Plan, rows: PaperRows, place: Place, callbacks: Sequence[Callback] = ()) -> Outcome:
    """Fit and test by a plan."""
    device, (dtype, mixed), memory = place.where, place.types, place.scratch(made)
    host = made.n_features is not None  # the kernel itself meets all rows in every step
    started = time.perf_counter()
    x = rows.handed_out(rows.train, dtype, device, host=host)
    kept, held = _hold_out(made, rows.train)
    training = _prepare(made, rows, x, kept, memory, mixed)
    judge = None if held is None else _Judge(rows, x.some(torch.from_numpy(held)), rows.train.y[held], memory)
    stopping = [] if judge is None else [EarlyStopping(patience=PATIENCE)]
    result = descend(Run(training, title=f"{made.data.name} {made.model}", judge=judge), [*stopping, *callbacks])
    fitted = time.perf_counter() - started
    f = result.machine.predict(rows.handed_out(rows.test, dtype, device, host=True), memory).double().cpu().numpy()
    return Outcome(
        plan=made,
        generated=rows.generated,
        rows=len(training.descent.state.x),
        test_rows=len(rows.test),
        device=str(device),
        precision="mixed" if mixed else str(dtype).removeprefix("torch."),
        bandwidth=training.kernel.bandwidth,
        steps=training.descent.steps,
        scores=scores(rows, rows.test.y, f),
        gap=result.record.relative_gap,
        seconds=fitted,
        step_seconds=training.descent.seconds,
        test_seconds=time.perf_counter() - started - fitted,
        read_seconds=rows.seconds,
        peak_bytes=peak_bytes(device),
        reason=DONE if made.as_printed and training.descent.steps == made.steps else result.reason,
    )


def _prepare(made: Plan, rows: PaperRows, x: Rows, kept: NDArray[np.intp] | None, memory: int, mixed: bool) -> Training:
    """Lay out the problem on the rows that are trained on."""
    choice, y = made.choice, rows.targets(rows.train)
    if kept is not None:
        x, y = x.some(torch.from_numpy(kept)), y[torch.from_numpy(kept)]
    settings = made.settings(len(x))
    kernel = kernels.get(choice.kernel)
    sigma = bandwidth.choose(made.bandwidth, kernel, x, made.seed) / made.divisor
    return prepare(
        x,
        y if y.dtype == torch.int8 else y.to(x.dtype),
        loss=losses.get(choice.loss, **choice.parameters),
        lam=choice.lam,
        kernel=kernel,
        bandwidth=sigma,
        n_features=made.n_features,
        intercept=not made.as_printed,
        memory=memory,
        mixed=mixed,
        settings=settings,
    )


def _hold_out(made: Plan, part: Part) -> tuple[NDArray[np.intp] | None, NDArray[np.intp] | None]:
    """Which rows are trained on, and which decide when to stop; None are all, and none."""
    n = len(part)
    if not (count := made.held_out(n)):
        return None, None
    order = torch.randperm(n, generator=generator(made.seed, "paper/held out")).numpy()
    return np.sort(order[count:]), np.sort(order[:count])


@dataclass(frozen=True, eq=False)
class _Judge:
    """Scores a machine on held-out rows by the first metric of the data set."""

    rows: PaperRows
    x: Rows
    y: NDArray[np.float64]  # (k,)
    memory: int

    def __call__(self, machine: Machine) -> list[float]:
        f = machine.predict(self.x, self.memory).double().cpu().numpy()
        name = self.rows.data.metrics[0]
        return [better(name, scores(self.rows, self.y, f)[name])]
