"""From rows to a fitted estimator whose kernel, bandwidth and λ were chosen on growing sub-samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array

from joker import kernels as kernel_names
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.estimators import parameters
from joker.estimators.base import FLOATS, KernelEstimator, as_array, check_weights, place_of
from joker.estimators.classification import KernelClassifier
from joker.estimators.recall import recall
from joker.estimators.regression import KernelRidge
from joker.estimators.search import OCTAVES, Candidate, Family, Search, Trial, sizes
from joker.estimators.splits import Split, make_splits
from joker.estimators.trials import Tuned
from joker.kernels import Kernel

TASKS: dict[str, type[KernelEstimator]] = {"classification": KernelClassifier, "regression": KernelRidge}
MOST_CLASSES = 100  # numbers with more distinct values than this are targets of a regression
LEAST_ROWS = 10
EPOCHS, BLOCK = 3, 256  # of a trial, at most: enough to rank candidates, and cheap
BLOCKS = 4  # of a trial, at least: one block would be solved to the tolerance, at any price
SCREENED = 300  # held-out rows that the first stage is content with
SAMPLE = 256  # rows on which the size of a kernel is looked at


def tune(
    X: Any,
    y: Any,
    *,
    estimator: KernelEstimator | None = None,
    task: str | None = None,
    kernels: str | Kernel | Sequence[str | Kernel] = ("gaussian", "laplacian"),
    bandwidths: Sequence[str | float] | None = None,
    lam: float | Sequence[float] | None = None,
    rows: int | Sequence[int] | None = None,
    sample_weight: Any = None,
    scoring: str | Callable[..., float] | None = None,
    max_time: float = math.inf,
    memory: int | str | None = None,
    device: str | torch.device | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Tuned:
    started = time.perf_counter()
    clock = _deadline(max_time, started)
    x = check_array(as_array(X), dtype=FLOATS, input_name="X", estimator="tune")
    labels = np.asarray(as_array(y))
    check_consistent_length(x, labels)
    model = _estimator(estimator, task, labels)
    given = {"memory": memory, "device": device, "random_state": random_state}
    model.set_params(**{name: value for name, value in given.items() if value is not None})
    model.set_params(device=place_of(X, model.device))
    bench = _bench(model, x, labels, check_weights(sample_weight, len(x)), scoring)
    penalties = _penalties(lam, model)
    families = [bench.family(kernel, bandwidths, penalties) for kernel in _kernels(kernels)]
    search = Search(bench.run, clock)
    best = search.best(families, _sizes(rows, len(bench.splits[0].train)))
    searched = time.perf_counter() - started
    table = [bench.entry(trial) for trial in search.trials]
    winner = table[search.trials.index(best)]
    model.set_params(**{name: winner[name] for name in ("kernel", "bandwidth", "lam")})
    model.fit(X, y, sample_weight=sample_weight)
    return Tuned(model, table, winner, searched, time.perf_counter() - started - searched)


@dataclass(frozen=True, eq=False)
class Bench:
    """What all trials have in common."""

    estimator: KernelEstimator
    score: Callable[..., float]
    x: NDArray[Any]  # (n, d)
    y: NDArray[Any]  # (n,) or (n, t)
    w: NDArray[np.float64] | None  # (n,)
    splits: list[Split]
    unit: float  # of λ, for a kernel with k(x, x) = 1

    def run(self, stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        """Fit a candidate on the beginning of each split and score each λ on the rows held out."""
        started = time.perf_counter()
        every = [self._scores(candidate, np.sort(split.train[:rows]), split.held) for split in self._splits(stage)]
        scores = np.nan_to_num(np.mean(every, axis=0), nan=-np.inf)
        seconds = (time.perf_counter() - started) / len(scores)
        found = zip(candidate.lam, scores.tolist(), strict=True)
        return [Trial(stage, rows, candidate, lam, score, seconds) for lam, score in found]

    def _splits(self, stage: int) -> list[Split]:
        """All; the first stage makes do with as many as hold out some hundred rows."""
        enough = math.ceil(SCREENED / len(self.splits[0].held))
        return self.splits[:enough] if stage == 0 else self.splits

    def _scores(self, candidate: Candidate, rows: NDArray[np.intp], held: NDArray[np.intp]) -> list[float]:
        unit, kernel = self._unit(candidate), kernel_names.get(candidate.family.kernel)
        given = self.estimator
        model = clone(given).set_params(
            kernel=candidate.family.kernel,
            bandwidth=candidate.bandwidth,
            lam=[unit * lam for lam in candidate.lam],
            # As many as the fit on all rows will have: what features blur is part of what is compared.
            n_features=parameters.n_features(given.n_features, given.features, kernel, *self.x.shape),
            block_size=_at_most(max(1, min(BLOCK, len(rows) // BLOCKS)), given.block_size),
        )
        few = rows[:1]  # with an eval_set nothing else is held out; the λ are scored below
        model.fit(self.x[rows], self.y[rows], **self._weights(rows), eval_set=(self.x[few], self.y[few]))
        models = recall(model.path_.models, self.x[held])
        return [float(self.score(one, self.x[held], self.y[held], **self._weights(held))) for one in models]

    def _weights(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        return {} if self.w is None else {"sample_weight": self.w[rows]}

    def _unit(self, candidate: Candidate) -> float:
        """The λ that a candidate calls 1: 1 itself where the user gave them."""
        if candidate.family.lam is not None:
            return 1.0
        kernel = kernel_names.get(candidate.family.kernel, candidate.bandwidth)
        few = self.x[self.splits[0].train[:SAMPLE]]
        return self.unit * float(kernel.diag(torch.as_tensor(few).double()).mean())

    def family(self, kernel: str | Kernel, bandwidths: Any, lam: tuple[float, ...] | None) -> Family:
        """The first candidates with a kernel."""
        shape = kernel_names.get(kernel)
        if not shape.has_bandwidth:
            return Family(kernel, (1.0,), False, lam)
        x, w = torch.as_tensor(self.x), None if self.w is None else torch.as_tensor(self.w)
        seed = self.estimator.random_state
        rules = ("median",) if bandwidths is None else bandwidths
        found = [parameters.sigma(rule, shape, shape, x, w, seed) for rule in rules]
        if bandwidths is None:
            return Family(kernel, tuple(found[0] * multiple for multiple in OCTAVES), True, lam)
        return Family(kernel, tuple(found), False, lam)

    def entry(self, trial: Trial) -> dict[str, Any]:
        """A trial as a row of the table."""
        candidate = trial.candidate
        return {
            "stage": trial.stage,
            "rows": trial.rows,
            "kernel": candidate.family.kernel,
            "bandwidth": candidate.bandwidth,
            "lam": self._unit(candidate) * trial.lam,
            "score": trial.score,
            "seconds": trial.seconds,
        }


def _bench(
    model: KernelEstimator, x: NDArray[Any], y: NDArray[Any], w: NDArray[np.float64] | None, scoring: Any
) -> Bench:
    random = check_random_state(model.random_state)
    trial = clone(model).set_params(
        max_epochs=_at_most(EPOCHS, model.max_epochs),
        random_state=int(random.randint(2**31 - 1)),
    )
    counted = np.arange(len(x)) if w is None else np.flatnonzero(w)
    if len(counted) < LEAST_ROWS:
        raise InvalidData(
            f"tune needs at least {LEAST_ROWS} rows of positive weight; got {len(counted)}. "
            "Add rows, or fit an estimator."
        )
    codes = np.unique(y, return_inverse=True)[1].ravel() if is_classifier(model) else np.zeros(len(x), np.intp)
    splits = make_splits(counted, codes, random)
    return Bench(trial, _scorer(model, scoring), x, y, w, splits, _unit_of_penalty(model, y, w))


def _unit_of_penalty(model: KernelEstimator, y: NDArray[Any], w: NDArray[np.float64] | None) -> float:
    """The λ at which penalty and loss balance, as λ = 1 does for the squared loss.

    That is the loss of predicting 0 over half the mean square of the targets. So λ = 1 means the same whatever
    the loss, the units of y and those of the weights.
    """
    t = np.ones(1) if is_classifier(model) else y - np.average(y, axis=0, weights=w)
    targets = torch.as_tensor(t.reshape(len(t), -1), dtype=torch.float64)
    loss = float(model._loss().value(targets, torch.zeros_like(targets)).mean())
    square = float(targets.square().mean()) / 2
    unit = loss / square * (1.0 if w is None else float(w[w > 0].mean())) if square > 0 else 0.0
    return unit if 0 < unit < math.inf else 1.0


def _estimator(given: KernelEstimator | None, task: str | None, y: NDArray[Any]) -> KernelEstimator:
    """A fresh copy of the estimator given, or the one for the task."""
    if task is not None and task not in TASKS:
        raise UnknownName.among("task", task, TASKS)
    if given is None:
        return TASKS[task or _task_of(y)]()
    if not isinstance(given, KernelEstimator):
        raise InvalidParameter(
            f"estimator must be an estimator of joker, such as KernelRidge(); got {given!r}. "
            "Scale the inputs first and tune what comes after."
        )
    own = "classification" if is_classifier(given) else "regression"
    if task not in (None, own):
        raise InvalidParameter(f"task must be that of the estimator, {own!r}; got {task!r}. Leave task out.")
    return clone(given)  # type: ignore[no-any-return]


def _task_of(y: NDArray[Any]) -> str:
    """Classification for words, truth values and few whole numbers in one column; regression for other numbers."""
    if y.dtype.kind in "iuf" and (np.squeeze(y).ndim > 1 or len(np.unique(y)) > MOST_CLASSES):
        return "regression"
    kind = type_of_target(y, input_name="y")
    if kind.startswith("continuous"):
        return "regression"
    if kind in ("binary", "multiclass"):
        return "classification"
    raise InvalidData(
        f"y must be numbers, or one column of classes; got targets of the kind {kind!r}. Give one column at a time."
    )


def _scorer(model: KernelEstimator, scoring: Any) -> Callable[..., float]:
    try:
        return check_scoring(model, scoring)  # type: ignore[no-any-return]
    except (ValueError, TypeError) as error:
        raise InvalidParameter(
            f"scoring must be a name of scikit-learn's, such as 'accuracy', a callable or None; got {scoring!r}. "
            "sklearn.metrics.get_scorer_names() lists the names."
        ) from error


def _kernels(given: Any) -> list[str | Kernel]:
    several = [given] if isinstance(given, str | Kernel) else list(given)
    if not several:
        raise InvalidParameter(f"kernels must name at least one kernel; got {given!r}. Use kernels=['gaussian'].")
    return several


def _penalties(lam: Any, model: KernelEstimator) -> tuple[float, ...] | None:
    """The λ to try: those given, else the estimator's own where it has several; None leaves them to the search."""
    if lam is None and np.ndim(model.lam) == 0:
        return None
    return tuple(dict.fromkeys(parameters.penalties(model.lam if lam is None else lam)))


def _sizes(rows: Any, pool: int) -> list[int]:
    """The rows of each stage: a number is that of all stages, and a second stage is finer."""
    if rows is None:
        return sizes(pool)
    several = [rows, rows] if isinstance(rows, Integral) else list(rows) if isinstance(rows, Sequence) else []
    whole = all(isinstance(r, Integral) and not isinstance(r, bool) and r >= LEAST_ROWS for r in several)
    if not several or not whole:
        raise InvalidParameter(
            f"rows must be a whole number of at least {LEAST_ROWS}, or a sequence of them; got {rows!r}. "
            "Use rows=[1000, 4000], for one."
        )
    return [min(int(r), pool) for r in several]


def _deadline(max_time: float, started: float) -> Callable[[], bool]:
    if not isinstance(max_time, Real) or isinstance(max_time, bool) or not max_time >= 0:
        raise InvalidParameter(
            f"max_time must be a number of seconds of at least 0; got {max_time!r}. Use 60, for one."
        )
    return lambda: time.perf_counter() - started >= max_time


def _at_most(limit: int, given: Any) -> Any:
    """The setting given where it is a smaller number, or is none at all; else the limit."""
    if isinstance(given, Real):
        return min(given, limit)
    return limit if given == parameters.AUTO else given
