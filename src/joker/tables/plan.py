"""The plan of a table fit: which encodings, trials and fits there are, on which rows and in which order.

A plan follows from the numbers of rows, inputs and classes, the device and the effort, and not from the clock: the same
data, seed and effort give the same model on a busy computer, too. The steps of a smaller effort are the first ones of a
larger effort.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from joker.errors import InvalidParameter
from joker.estimators.resolve import EXACT_ROWS, EXACT_SECONDS, FEATURES
from joker.kernels import Matern12
from joker.planning import Plan
from joker.tuning.ard import LAPLACIAN, MATERN12
from joker.tuning.validation import FOLDS, MANY_ROWS

EFFORTS = range(1, 6)
DEFAULT_EFFORT = 3
MIN_FOLD_ROWS = 30  # with fewer rows nothing is held out
SEARCH_ROWS = 10_000  # with more rows, the search has a sample of them
QUICK_ROWS = 2_048  # the same for the first step
HELD_OUT_ONE_IN = 10  # of many rows
MAX_HELD_OUT = 4_000
QUICK_TRIALS, TRIALS, TRIALS_OF_SAMPLE = 6, 20, 14  # candidates of a search, each with several λ
QUICK_ARD_ROWS, ARD_ROWS = 600, 1_200  # of a step of ARD: its cost is cubic in these
GPU_ARD_ROWS = 3_000  # as ARD_ROWS, on a GPU with many rows
# Kernel entries of a fit on many rows, by the effort: they limit its epochs. A core computes about 10⁸ a second.
REFIT_ENTRIES = {1: 1e9, 2: 3e9, 3: 6e9, 4: 1.5e10, 5: 4e10}
MIN_EPOCHS, MAX_EPOCHS = 3, 40  # of such a fit; with few rows it ends at its tolerance before
QUICK_REFIT_ROWS = 20_000
ALL_ROWS_EFFORT = 4  # from which on many rows are fitted once more with those that were held out, a tenth
GPU_FEATURES = 60_000  # random features on a GPU where the exact kernel takes too long
GPU_SEARCH_ROWS = 40_000  # as SEARCH_ROWS, on a GPU
GPU_SECONDS = {1: 8.0, 3: 70.0, 5: 240.0}  # of a fit with the exact kernel on a GPU: they limit its epochs
QUICK_GPU_ROWS = 200_000  # as QUICK_REFIT_ROWS, of such a fit
TRIALS_SECONDS = 15.0  # of the fits before it, that compare settings
GPU_STEP_SECONDS = 4e-7  # of its block solves, for each row: of a column, and as much for the step itself
CERTIFICATE_PASSES = 2.0  # over the kernel matrix, after the last epoch

# For the estimate of seconds on two cores: measured on tables of 1,600 to 45,000 rows.
ENTRIES_PER_SECOND, GPU_ENTRIES_PER_SECOND = 2e8, 3e11
TRIAL_SECONDS, ARD_SECONDS = 0.2, {QUICK_ARD_ROWS: 0.5, ARD_ROWS: 1.5, GPU_ARD_ROWS: 1.5}
EPOCHS_OF_FIT = 6.0  # of the solution of a problem with some thousand rows

AUTO, EQUAL = "auto", "equal"
SEARCH, REFIT = "search", "fit"


@dataclass(frozen=True)
class EncodingStep:
    """Which encoding a search has: its feature weights, and the samples and the scaling that they are for."""

    weights: str  # the kernel of ARD, EQUAL, or AUTO: those with the smaller leave-one-out error
    ard_rows: int = ARD_ROWS
    draw: int = 0  # the number of the draw of samples
    scaling: int = 0  # 0: the best one by the leave-one-out error; 1: the second
    goal: int = 0  # 0: with or without a linear trend, by the leave-one-out error; 1: the other one

    def __str__(self) -> str:
        weights = "equal feature weights" if self.weights == EQUAL else f"ARD for {self.weights}"
        weights = "ARD or equal feature weights" if self.weights == AUTO else weights
        other = ", the second scaling" if self.scaling else ""
        other += ", with a linear trend if the others have none, else without" if self.goal else ""
        return weights + (f", draw {self.draw + 1}" if self.draw else "") + other


@dataclass(frozen=True)
class Step:
    """One part of the work: a search with an encoding, or a fit of the best candidate so far on more rows."""

    effort: int  # the least one that has this step
    kind: str  # SEARCH or REFIT
    rows: int  # that the trials are drawn from, or that are fitted
    fits: int  # at most
    seconds: float  # estimate
    encoding: EncodingStep | None = None  # of a search
    epochs: int = 0  # of a fit on more rows, at most
    n_features: int | None = None  # of a fit on more rows; None: as asked

    def __str__(self) -> str:
        if self.kind == SEARCH:
            return f"search, {self.encoding}"
        kernel = "the exact kernel" if self.n_features is None else f"{self.n_features:,} features"
        return f"best candidate on more rows, {kernel}, at most {self.epochs} epochs"


@dataclass(frozen=True)
class SearchPlan:
    """All work of a fit, in its order; ``print`` shows it as a table."""

    effort: int
    rows: int
    inputs: int
    classes: int
    folds: int  # that are fitted and held out in turn; 0: no row is held out
    held_out: int  # rows in all
    sample: int  # rows that a search may have
    steps: tuple[Step, ...]
    all_rows: bool  # whether the members of the ensemble are fitted on all rows at the end
    memory: Plan | None = None  # of the fit of one kernel model

    @property
    def many_rows(self) -> bool:
        """Whether the search has a sample of the rows."""
        return self.rows > SEARCH_ROWS

    @property
    def parts(self) -> int:
        """The number of equal parts of the rows, of which one is held out at a time."""
        return FOLDS if self.folds != 1 or not self.many_rows else -(-self.rows // max(1, self.held_out))

    @property
    def seconds(self) -> float:
        """An estimate for two cores."""
        return sum(step.seconds for step in self.steps)

    @property
    def total(self) -> int:
        """The bytes that the fit of one kernel model holds, at most; 0 if that is not known."""
        return self.memory.total if self.memory else 0

    def __str__(self) -> str:
        kind = f"{self.classes} classes" if self.classes else "a number"
        held = {0: "no row is held out", 1: f"{self.held_out:,} rows are held out"}
        split = held.get(self.folds, f"cross-validation with {self.folds} folds")
        head = f"effort {self.effort}: {self.rows:,} rows, {self.inputs:,} inputs, target: {kind}; {split}"
        lines = [("step", "effort", "what", "rows", "fits", "seconds, about")]
        for number, step in enumerate(self.steps, start=1):
            facts = f"{step.rows:,}", str(step.fits), f"{step.seconds:.0f}"
            lines.append((str(number), str(step.effort), str(step), *facts))
        end = "weights by greedy selection" + (", members fitted on all rows" if self.all_rows else "")
        lines.append((str(len(lines)), "", end, f"{self.rows:,}", "", ""))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        total = f"about {self.seconds:.0f} s on two cores"
        return "\n".join([head, *table, total, *([str(self.memory)] if self.memory else [])])


def check_effort(effort: Any) -> int:
    """Return the effort, or say what it may be."""
    if not isinstance(effort, Integral) or isinstance(effort, bool) or effort not in EFFORTS:
        raise InvalidParameter(
            f"effort must be a whole number from {EFFORTS[0]} to {EFFORTS[-1]}; got {effort!r}. Use {DEFAULT_EFFORT}, "
            "the default, 1 for a quick model or 5 for the best one."
        )
    return int(effort)


def make_search_plan(
    effort: int,
    rows: int,
    inputs: int,
    classes: int,
    *,
    weightable: bool = True,  # whether feature weights may be fitted
    laplacian: bool = True,  # whether distances of the Laplacian are affordable
    scalings: bool = True,  # whether scalings of numbers differ
    trends: bool = False,  # whether there may be a linear trend beside the kernel
    one_encoding: bool = False,  # of a matrix, or with a memory budget
    gpu: bool = False,
    n_features: Any = AUTO,  # as the user gives it
    folds: int | None = None,  # of splits that the user asks for
    held_out: int | None = None,
) -> SearchPlan:
    """Return the work for a table of this shape."""
    many = rows > SEARCH_ROWS
    if folds is None:
        folds = 0 if rows < MIN_FOLD_ROWS else 1 if rows > MANY_ROWS else FOLDS
    if held_out is None:
        most = min(rows // HELD_OUT_ONE_IN, MAX_HELD_OUT) if many else rows // FOLDS
        held_out = {0: 0, 1: most}.get(folds, rows)
    train = rows - held_out if folds == 1 else rows
    sample = min(train, GPU_SEARCH_ROWS if gpu else SEARCH_ROWS)
    columns = max(1, classes if classes > 2 else 1)
    encodings: list[tuple[int, EncodingStep]]
    if one_encoding or not weightable:
        encodings = [(2, EncodingStep(EQUAL)), *([(3, EncodingStep(EQUAL, scaling=1))] if scalings else [])]
        first = EncodingStep(EQUAL)
    else:
        first = EncodingStep(AUTO, QUICK_ARD_ROWS)
        ard_rows = GPU_ARD_ROWS if gpu and many else ARD_ROWS
        encodings = [(2, EncodingStep(MATERN12, ard_rows)), (2, EncodingStep(EQUAL))]
        laplacian = laplacian and not many
        encodings += [(3, EncodingStep(LAPLACIAN))] if laplacian else []
        encodings += [(4, EncodingStep(MATERN12, ard_rows, draw=1))]
        encodings += [(4, EncodingStep(MATERN12, ard_rows, scaling=1))] if scalings else []
        encodings += [(5, EncodingStep(MATERN12, ard_rows, draw=2))]
        encodings += [(5, EncodingStep(LAPLACIAN, draw=1))] if laplacian else []
    encodings += [(3, EncodingStep(first.weights if first.weights == EQUAL else MATERN12, goal=1))] if trends else []
    if one_encoding:
        encodings = encodings[:1]
    fits = max(folds, 1)
    quick = min(sample, QUICK_ROWS)
    searches = [_search(1, first, quick, QUICK_TRIALS, sample, fits, columns)]
    trials = TRIALS_OF_SAMPLE if many else TRIALS
    searches += [_search(level, encoding, sample, trials, sample, fits, columns) for level, encoding in encodings]
    refits = _refits(train, inputs, gpu, n_features, columns) if many else []
    steps = sorted([*searches, *refits], key=lambda step: (step.effort, step.kind == REFIT))
    kept = tuple(step for step in steps if step.effort <= effort)
    all_rows = folds > 0 and (not many or effort >= ALL_ROWS_EFFORT)
    return SearchPlan(effort, rows, inputs, classes, folds, held_out, sample, kept, all_rows)


def _search(effort: int, encoding: EncodingStep, rows: int, trials: int, sample: int, fits: int, columns: int) -> Step:
    entries = EPOCHS_OF_FIT * fits * (sample if sample < SEARCH_ROWS else rows) ** 2 * columns**0.5
    ard = 0.0 if encoding.weights == EQUAL else ARD_SECONDS[encoding.ard_rows]
    seconds = TRIAL_SECONDS * trials * columns**0.5 + ard + entries / ENTRIES_PER_SECOND
    return Step(effort, SEARCH, rows, trials, seconds, encoding)


def _refits(train: int, inputs: int, gpu: bool, n_features: Any, columns: int) -> list[Step]:
    """The fits on more rows than a search has: of the best candidate first, and from effort 3 of the second one."""
    if gpu:
        return _gpu_refits(train, inputs, n_features, columns)
    exact = min(train, EXACT_ROWS)
    chosen = isinstance(n_features, Integral)
    rows = train if chosen else exact
    first = train if chosen else min(exact, QUICK_REFIT_ROWS)
    epochs = {effort: _epochs(rows if effort > 1 else first, REFIT_ENTRIES[effort]) for effort in EFFORTS}
    of_effort: list[tuple[int, int, int | None]] = [(1, first, None)]
    of_effort += [(effort, rows, None) for effort in EFFORTS[1:]]
    if train > EXACT_ROWS and n_features == AUTO:
        of_effort.append((4, train, FEATURES))

    def seconds(effort: int, n: int, m: int | None) -> float:
        width = m or (int(n_features) if chosen else n)
        return float(epochs[effort] * n * width * columns**0.5 / ENTRIES_PER_SECOND)

    return [
        Step(effort, REFIT, n, 1, seconds(effort, n, m), epochs=epochs[effort], n_features=m)
        for effort, n, m in sorted(of_effort, key=lambda one: one[0])
    ]


def _gpu_refits(train: int, inputs: int, n_features: Any, columns: int) -> list[Step]:
    """The same on a GPU: with the exact kernel where a pass over its matrix takes some seconds at most."""
    one_pass = Matern12().gpu_seconds(train, inputs)
    exact = one_pass <= EXACT_SECONDS and n_features in (AUTO, None)
    steps: list[Step] = []
    for effort, allowed in GPU_SECONDS.items():
        rows = min(train, QUICK_GPU_ROWS) if exact and effort == EFFORTS[0] else train
        if exact:
            products = one_pass * (rows / train) ** 2
            one_epoch = GPU_STEP_SECONDS * rows * (1 + columns) + products
            certificate = CERTIFICATE_PASSES * products
            epochs = int(min(max(MIN_EPOCHS, (allowed - certificate) // one_epoch), MAX_EPOCHS))
            seconds = epochs * one_epoch + certificate
            # Settings are compared by the fit of effort 1.
            seconds += min(steps[0].seconds, TRIALS_SECONDS) if steps and rows > steps[0].rows else 0.0
            steps.append(Step(effort, REFIT, rows, 1, seconds, epochs=epochs))
        else:
            features = GPU_FEATURES if n_features == AUTO else int(n_features or train)
            seconds = MAX_EPOCHS * train * features * columns**0.5 / GPU_ENTRIES_PER_SECOND
            m = GPU_FEATURES if n_features == AUTO else None
            steps.append(Step(effort, REFIT, train, 1, seconds, epochs=MAX_EPOCHS, n_features=m))
    return steps


def _epochs(rows: int, entries: float) -> int:
    return int(min(max(MIN_EPOCHS, entries // rows**2), MAX_EPOCHS))
