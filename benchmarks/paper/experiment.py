"""One run of an experiment: a fit by a plan, with its scores, time and memory beside those of the paper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker import kernels, losses
from joker.callbacks import Callback, EarlyStopping, Run, descend
from joker.data import Rows
from joker.estimators import resolve
from joker.kernels.kernel import choose_bandwidth
from joker.models import Machine
from joker.prepare import Training, prepare
from joker.runtime import generator, parse_device, peak_bytes

from .protocol import PATIENCE, Plan, plan
from .rows import Folder, PaperRows, Split, better, read, scores
from .tables import Published, published, set_named

SPARE_BYTES = 2**25  # of temporary memory on a GPU in addition to the features of a block
FEATURE_BYTES = 6.5  # for each feature of a row of a block: 4 in float32, 2 in bfloat16 and some room
DONE = "All steps of the protocol were made."


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes
    ----------
    plan : Plan
        The plan of the run.
    generated : bool
        Whether the rows are generated; their scores then say nothing about the real data.
    rows, test_rows : int
        The number of training rows and of test rows.
    device, precision : str
        The device and the precision.
    bandwidth : float
        σ of the kernel.
    steps : int
        The number of blocks that were visited.
    scores : dict
        The metrics on the test rows.
    gap : float
        The relative duality gap.
    seconds : float
        The time of the fit: bandwidth, features, steps and evaluations of the gap, without reading and testing.
    step_seconds : float
        The time of the steps; with the protocol "joker" it includes the evaluations between them.
    test_seconds, read_seconds : float
        The time to predict the test rows, and to read or generate all rows.
    peak_bytes : int or None
        The peak memory: of torch on a GPU, else of the process.
    reason : str
        Why the fit ended.
    """

    plan: Plan
    generated: bool
    rows: int
    test_rows: int
    device: str
    precision: str
    bandwidth: float
    steps: int
    scores: dict[str, float]
    gap: float
    seconds: float
    step_seconds: float
    test_seconds: float
    read_seconds: float
    peak_bytes: int | None
    reason: str

    @property
    def published(self) -> Published:
        """The results of the paper."""
        return published(self.plan.model, self.plan.data)

    @property
    def comparable(self) -> bool:
        """Whether the scores may be compared with the paper: all real rows, its number of features and of steps."""
        made, theirs = self.plan, self.plan.choice
        whole = made.scale == 1 and made.data.likeness is None and made.n_features == theirs.n_features
        return whole and not self.generated and (made.steps == theirs.steps or not made.as_printed)

    @property
    def ms_per_step(self) -> float:
        """The time of a step in milliseconds."""
        return 1000 * self.step_seconds / max(1, self.steps)

    @property
    def notes(self) -> list[str]:
        """Sentences that say how the rows differ from those of the paper."""
        return notes_on(self.plan, self.generated)

    @property
    def facts(self) -> dict[str, Any]:
        """The outcome as numbers and text, with the results of the paper."""
        theirs = self.published
        own = {name: value for name, value in vars(self).items() if name not in ("plan", "bandwidth", "step_seconds")}
        return {
            **self.plan.facts,
            **own,
            "sigma": self.bandwidth,
            "ms_per_step": self.ms_per_step,
            "comparable": self.comparable,
            "notes": self.notes,
            "paper": {
                "scores": {name: mean for name, (mean, _) in theirs.scores.items()},
                "deviations": {name: deviation for name, (_, deviation) in theirs.scores.items()},
                "seconds": theirs.seconds,
                "peak_bytes": theirs.peak_bytes,
                "steps": self.plan.choice.steps,
                "n_features": self.plan.choice.n_features,
            },
            "difference": {name: self.scores[name] - mean for name, (mean, _) in theirs.scores.items()}
            if self.comparable
            else None,
        }


def notes_on(plan: Plan, generated: bool) -> list[str]:
    """Return sentences that say how the rows of a run differ from those of the paper."""
    data, notes = plan.data, []
    if generated:
        notes.append(
            f"The rows are generated in the shape of {data.known_as}: time and memory count, the scores do not."
        )
    elif data.likeness:
        notes.append(
            f"{data.name} has {data.rows:,} real rows of {data.likeness}, of which the paper has "
            f"{round(data.rows / data.part):,}: the scores are of a smaller problem."
        )
    if plan.scale != 1:
        notes.append(
            f"Rows, steps and features are {plan.scale:g} of the paper's: the scores are of a smaller problem."
        )
    return notes


@dataclass(frozen=True)
class Place:
    """Device, precision and memory of a run.

    Attributes
    ----------
    device : str or torch.device, optional
        The device; by default the CPU.
    precision : str
        ``"auto"``, ``"mixed"``, ``"float32"`` or ``"float64"``, as for the estimators.
    memory : int or str
        Temporary memory, such as ``"500MB"``; ``"auto"`` on a GPU is the memory that a step needs.
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
        """The type to compute in, and whether the kernel matrix of a block may have a lower precision."""
        dtype = resolve.stated_dtype(self.precision, "auto") or torch.float32
        low = self.precision == "mixed" or (self.precision == "auto" and self.where.type == "cuda")
        return dtype, low and dtype == torch.float32

    def check(self) -> None:
        """Raise an error for wrong values before rows are read."""
        _ = self.types, self._memory()

    def scratch(self, made: Plan) -> int:
        """Return the bytes of temporary memory for a plan."""
        if self.memory == "auto" and self.where.type == "cuda" and made.n_features:
            each = max(FEATURE_BYTES, self.types[0].itemsize)
            return int(each * made.choice.block_size * made.n_features) + SPARE_BYTES
        return self._memory()

    def _memory(self) -> int:
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
    """Fit a model of the paper on one of its data sets, and return its scores with those of the paper.

    Parameters
    ----------
    data : {"msd", "hepc", "susy", "higgs", "cifar5m", "higgs33k"}
        The data set; higgs33k is a small sample of HIGGS that can replace it.
    model : {"krr", "huber", "svm", "klr", "svr"}
        The model. The SVM of the paper has the squared hinge loss for classes, and is SVR for regression.
    protocol : {"paper", "joker"}
        ``"paper"``: random blocks with replacement, no averaging, the paper's number of steps and its bandwidth.
        ``"joker"``: shuffled blocks, averaged iterates, momentum, an intercept and the median bandwidth (a third of it
        for HEPC with many features); the fit ends when the score on held-out rows no longer rises, and at the latest
        after the paper's number of steps, in whole epochs.
    scale : float
        The number of rows, steps and features, relative to the paper.
    halving : bool
        Whether to halve the radius of the trust region every 1,000 steps (times ``scale``), as the published code does.
    folder, generated
        The folder of the official files, and whether to use generated rows instead. By default rows are generated if no
        folder is given and the files are not in the folder that JOKER_DATA names.
    device, precision, memory
        As in :class:`Place`.
    seed : int
        The seed of the split, of the blocks and of the features.
    callbacks : sequence of Callback
        Callbacks of the fit.

    Examples
    --------
    >>> from benchmarks.paper import reproduce
    >>> outcome = reproduce("higgs", "svm", scale=0.0005, generated=True)
    >>> outcome.steps, outcome.generated, outcome.comparable
    (25, True, False)
    """
    made = plan(set_named(data), model, protocol, scale=scale, halving=halving, seed=seed)
    place = Place(device, precision, memory)
    place.check()
    rows = read(made.data, scale=scale, seed=seed, folder=folder, generated=generated)
    return run(made, rows, place, callbacks)


def run(made: Plan, rows: PaperRows, place: Place, callbacks: Sequence[Callback] = ()) -> Outcome:
    """Fit a model by a plan, and test it."""
    device, (dtype, mixed), memory = place.where, place.types, place.scratch(made)
    host = made.n_features is not None  # the exact kernel needs all rows in every step
    started = time.perf_counter()
    x = rows.rows_for(rows.train, dtype, device, host=host)
    kept, held = _hold_out(made, rows.train)
    training = _prepare(made, rows, x, kept, memory, mixed)
    judge = None if held is None else _HeldOutScore(rows, x.some(torch.from_numpy(held)), rows.train.y[held], memory)
    stopping = [] if judge is None else [EarlyStopping(patience=PATIENCE)]
    result = descend(Run(training, title=f"{made.data.name} {made.model}", judge=judge), [*stopping, *callbacks])
    fitted = time.perf_counter() - started
    f = result.machine.predict(rows.rows_for(rows.test, dtype, device, host=True), memory).double().cpu().numpy()
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
    """Prepare the training on the rows of the training split that are not held out."""
    choice, y = made.choice, rows.targets(rows.train)
    if kept is not None:
        x, y = x.some(torch.from_numpy(kept)), y[torch.from_numpy(kept)]
    settings = made.settings(len(x))
    kernel = kernels.get(choice.kernel)
    sigma = choose_bandwidth(made.bandwidth, kernel, x, made.seed) / made.divisor
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


def _hold_out(made: Plan, split: Split) -> tuple[NDArray[np.intp] | None, NDArray[np.intp] | None]:
    """Return the rows to train on and the held-out rows; None and None if no rows are held out."""
    n = len(split)
    if not (count := made.held_out(n)):
        return None, None
    order = torch.randperm(n, generator=generator(made.seed, "paper/held out")).numpy()
    return np.sort(order[count:]), np.sort(order[:count])


@dataclass(frozen=True, eq=False)
class _HeldOutScore:
    """The score of a machine on held-out rows, by the first metric of the data set."""

    rows: PaperRows
    x: Rows
    y: NDArray[np.float64]  # (k,)
    memory: int

    def __call__(self, machine: Machine) -> list[float]:
        f = machine.predict(self.x, self.memory).double().cpu().numpy()
        name = self.rows.data.metrics[0]
        return [better(name, scores(self.rows, self.y, f)[name])]
