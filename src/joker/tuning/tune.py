"""From rows to a fitted estimator whose kernel, bandwidth and λ were chosen on growing sub-samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from joker.data import Store, StoreRows
from joker.data.array_rows import INPUT_DTYPES, as_array, device_of
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.estimators import resolve
from joker.estimators.base import KernelEstimator, check_weights
from joker.estimators.classification import KernelClassifier
from joker.estimators.regression import KernelRidge
from joker.kernels import Kernel, get
from joker.tuning.halving import Search, sizes
from joker.tuning.input_importance import powers_of
from joker.tuning.result import Tuned
from joker.tuning.trial_runner import LEAST_ROWS, Bench, make_bench

KERNELS = ("gaussian", "matern12", "laplacian")  # for smooth targets, for rough ones, and for rough ones by inputs
TASKS: dict[str, type[KernelEstimator]] = {"classification": KernelClassifier, "regression": KernelRidge}
MOST_CLASSES = 100  # numbers with more distinct values than this are targets of a regression


def tune(
    X: Any,
    y: Any = None,
    *,
    estimator: KernelEstimator | None = None,
    task: str | None = None,
    kernels: str | Kernel | Sequence[str | Kernel] | None = None,
    bandwidths: Sequence[str | float] | None = None,
    lam: float | Sequence[float] | None = None,
    relevance: bool | str = "auto",
    rows: int | Sequence[int] | None = None,
    sample_weight: Any = None,
    scoring: str | Callable[..., float] | None = None,
    max_time: float = math.inf,
    memory: int | str | None = None,
    device: str | torch.device | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Tuned:
    """Choose the kernel, its bandwidth and λ, and fit an estimator with them on all rows.

    Many candidates are tried on few rows, and few on many. The first stage fits 1,000 rows or so with each kernel and
    bandwidths of ½ and ¼ of the median distance, four λ in one fit; the best go on to some four times as many rows, and
    so on up to a quarter of them. Each stage moves to narrower or wider bandwidths as long as that helps, by octaves
    and then by half an octave, with a path of λ that moves along, and lets the relevance of inputs count for more or
    less. A stage that ends with the kernel and the relevance that it began with, and within half an octave of the
    bandwidth, is the last; where none does, one with half of the rows is. With random features, whose
    blur shows on many rows only, all stages are run.

    What counts is the mean loss on rows that no trial is trained on: a fifth of them, at most 5,000, of which the first
    stage uses 512; three folds below 2,000 rows and five below 500. From 10,000 rows on the last λ of a classifier
    without class weights is the one with the best accuracy. The winner is fitted on all rows.

    Parameters
    ----------
    X : array, sparse matrix, data frame or tensor of shape (n, d), or row store
        Rows of inputs, on one scale so that their distances mean something: see ``standardize`` of the estimators.
        Of a store the rows of a trial are read into memory.
    y : array of shape (n,) or (n, outputs)
        Classes or numbers. A row store brings its own.
    estimator : estimator of joker, optional
        An estimator whose other settings are kept; its kernel, bandwidth and λ are those that are chosen. By
        default ``KernelClassifier()``, with the squared hinge, or ``KernelRidge()``.
    task : {"classification", "regression"}, optional
        Which of the two. By default classification for words, truth values and whole numbers with at most 100
        distinct values, and regression for other numbers and for several columns.
    kernels : kernel or sequence of kernels, optional
        Names or :class:`joker.kernels.Kernel` objects to try. By default the Gaussian, Matérn's of order ½ and the
        Laplacian, or those of them that have the ``features`` of the estimator. Those that n_features="auto" uses
        without random features go before the others, which are then not tried.
    bandwidths : sequence of float or str, optional
        The bandwidths to try, and no others, as numbers or rules (``"median"``, ``"paper"``).
    lam : float or sequence of float, optional
        The λ to try, and no others. By default those of the estimator where it has several, else λ around the
        size at which penalty and loss balance.
    relevance : {"auto", True, False}
        Whether to weigh inputs by how much they matter, which gives each its own bandwidth: σ over a power of its
        importance, ¼ or ½, of at least 0.05. The importance is the loss that shuffling an input costs scikit-learn's
        histogram gradient boosting, on training rows of the search, at most 20,000; rows that judge a trial are not
        among them. True tries weighted inputs only, False never; ``"auto"`` both, with 2 to 128 inputs, at most 16
        classes or outputs, 500 rows or more to train on, and ``bandwidths`` left to the search. Where time is up
        before the importance is known, or no input matters, all weigh alike.
    rows : int or sequence of int, optional
        The rows of the sub-sample in each stage, all of which are run; a number is that of two stages.
    sample_weight : array of shape (n,), optional
        How much each row counts, in the fits and in the scores.
    scoring : str or callable, optional
        What counts in place of the loss: a scorer of scikit-learn by name, or ``scoring(estimator, X, y)``, which is
        given a ``sample_weight`` where there is one; higher is better. By default the table's ``score`` is that
        of the estimator: accuracy, R² or D².
    max_time : float
        Seconds after which no further candidate is tried. The fit on all rows comes on top, and is
        bounded by the ``max_time`` of the estimator. A search that runs out of time may not repeat itself.
    memory, device, random_state, verbose
        As in the estimator, in place of its own. ``verbose`` is for the fit on all rows.
    callback : callable, optional
        Gets each entry of the table as soon as it is there; ``print`` will do.

    Returns
    -------
    Tuned
        The fitted ``estimator``, the ``table`` of all trials and the ``best`` of them.

    Notes
    -----
    λ multiplies ``‖θ‖²/2`` beside a *sum* of losses, so the best one changes little with the number of rows: it stays
    with the kernel itself and falls slowly with a fixed number of random features. Every trial has as many features
    as the fit on all rows will have, since what they blur is part of the choice.

    Examples
    --------
    >>> import numpy as np
    >>> import joker
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (400, 1))
    >>> y = np.sin(8 * X[:, 0]) + 0.1 * rng.normal(size=400)
    >>> model, table = joker.tune(X, y, kernels="gaussian", random_state=0)
    >>> print(f"R² {model.score(X, y):.2f}; by default {joker.KernelRidge().fit(X, y).score(X, y):.2f}")
    R² 0.98; by default 0.02
    """
    started = time.perf_counter()
    clock = _deadline(max_time, started)
    x, targets, task = _data(X, as_array(y), task, estimator)
    model = _estimator(estimator, task, targets)
    labels = _labels(targets, is_classifier(model))
    check_consistent_length(x, labels)
    given = {"memory": memory, "device": device, "random_state": random_state, "verbose": verbose}
    model.set_params(**{name: value for name, value in given.items() if value is not None})
    w = check_weights(sample_weight, x.shape[0])
    if callback is not None and not callable(callback):
        raise InvalidParameter(f"callback must be a function of an entry of the table; got {callback!r}. Use print.")
    bench = make_bench(model, _scorer(model, scoring), x, labels, w, device_of(X, model.device), callback, clock)
    penalties = _penalties(lam, model)
    several = _kernels(kernels, model, bench)
    powers = _powers(relevance, several, bench, bandwidths is None)
    families = [bench.family(kernel, _bandwidths(bandwidths), penalties, powers) for kernel in several]
    search = Search(
        bench.run,
        by_score=scoring is not None,
        settle_by_score=bench.accurate,
        settles=rows is None and all(bench.n_features(kernel) is None for kernel in several),
        out_of_time=clock,
        weigh=bench.weigh,
    )
    best = search.best(families, _sizes(rows, len(bench.splits[0].train)))
    searched = time.perf_counter() - started
    table = [bench.entry(trial) for trial in search.trials]
    winner = table[search.trials.index(best)]
    model.set_params(kernel=winner["kernel"], bandwidth=bench.bandwidth(best.candidate), lam=winner["lam"])
    model.fit(X, y, sample_weight=sample_weight)
    return Tuned(model, table, winner, searched, time.perf_counter() - started - searched)


def _data(X: Any, y: Any, task: str | None, given: Any) -> tuple[Any, Any, str | None]:
    """Rows and targets, of a store where it has them, and the task that they are for."""
    if isinstance(X, Store):
        stated = task if given is not None or y is not None else task or X.task
        return X.x, X.y if y is None else y, stated
    if isinstance(X, StoreRows):
        return X, y, task
    x = check_array(as_array(X), accept_sparse="csr", dtype=INPUT_DTYPES, input_name="X", estimator="tune")
    return x, y, task


def _estimator(given: KernelEstimator | None, task: str | None, y: Any) -> KernelEstimator:
    """A fresh copy of the estimator given, or the one for the task."""
    if task is not None and task not in TASKS:
        raise UnknownName.among("task", task, TASKS)
    if given is None:
        return TASKS[task or _task_of(np.asarray(y))]()
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
    assert_all_finite(y, input_name="y")
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


def _labels(y: Any, classes: bool) -> NDArray[Any]:
    """The targets as an array: one column of classes, or numbers."""
    labels: NDArray[Any] = (
        column_or_1d(y) if classes else check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    )
    return labels


def _scorer(model: KernelEstimator, scoring: Any) -> Callable[..., float]:
    try:
        return check_scoring(model, scoring)  # type: ignore[no-any-return]
    except (ValueError, TypeError) as error:
        raise InvalidParameter(
            f"scoring must be a name of scikit-learn's, such as 'accuracy', a callable or None; got {scoring!r}. "
            "sklearn.metrics.get_scorer_names() lists the names."
        ) from error


def _kernels(given: Any, model: KernelEstimator, bench: Bench) -> list[str | Kernel]:
    if given is None:
        suited = [name for name in KERNELS if model.features in (resolve.AUTO, *get(name).feature_kinds)]
        # Few rows flatter random features: what they blur shows on many, where the kernel itself then does better.
        exact = [name for name in suited if bench.n_features(name) is None]
        return [*(exact or suited or KERNELS)]
    several = [given] if isinstance(given, str | Kernel) else _listed(given)
    if not several:
        raise InvalidParameter(f"kernels must be a kernel or a sequence of them; got {given!r}. Use ['gaussian'].")
    return several


def _powers(given: Any, several: list[str | Kernel], bench: Bench, free: bool) -> tuple[float, ...]:
    if given is True and not any(get(kernel).has_bandwidth for kernel in several):
        raise InvalidParameter(
            "relevance=True needs a kernel with a bandwidth, since it is what inputs are weighted by; got none. "
            "Use relevance=False, or another kernel."
        )
    return powers_of(given, bench.x.shape[1], len(bench.splits[0].train), bench.columns, free)


def _bandwidths(given: Any) -> list[str | float] | None:
    if given is not None and not _listed(given):
        raise InvalidParameter(f"bandwidths must be a sequence of numbers or rules; got {given!r}. Use [0.5, 1.0].")
    return None if given is None else _listed(given)


def _listed(given: Any) -> list[Any]:
    """The members of a sequence or an array; none of anything else."""
    return list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else []


def _penalties(lam: Any, model: KernelEstimator) -> tuple[float, ...] | None:
    """The λ to try: those given, else the estimator's own where it has several; None leaves them to the search."""
    if lam is None and np.ndim(model.lam) == 0:
        return None
    return tuple(dict.fromkeys(resolve.penalties(model.lam if lam is None else lam)))


def _sizes(rows: Any, pool: int) -> list[int]:
    """The rows of the stages; a number is that of two, of which the second is finer."""
    if rows is None:
        return sizes(pool)
    several = [rows, rows] if isinstance(rows, Integral) else _listed(rows)
    if not several or not all(isinstance(r, int | np.integer) and r >= LEAST_ROWS for r in several):
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
