"""Choose kernel, bandwidth and λ on growing samples of the rows, and fit an estimator with them on all rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.validation import check_array, column_or_1d

from joker.data import Store, StoreRows, TaskGuess, guess_task
from joker.data.arrays import INPUT_DTYPES, as_array, device_of
from joker.distributed import current
from joker.errors import BudgetTooSmall, InvalidParameter, UnknownName
from joker.estimators import resolve
from joker.estimators.classification import KernelClassifier
from joker.estimators.estimator import KernelEstimator
from joker.estimators.inputs import check_weights, naming_columns
from joker.estimators.model import check_processes
from joker.estimators.regression import KernelQuantile, KernelRidge, shift_levels
from joker.estimators.resolve import get_kernel
from joker.estimators.scoring import check_scorer
from joker.kernels import Kernel, get
from joker.runtime import format_bytes, format_least, parse_device
from joker.solvers.problem import AUTO
from joker.tuning.ard import powers_to_try
from joker.tuning.halving import Search, TimeBudget, Trial, stage_rows
from joker.tuning.processes import workers_for
from joker.tuning.splits import Split, ranking_score, strata
from joker.tuning.trials import MIN_TUNING_ROWS, TrialRunner, make_trial_runner, trials_on
from joker.tuning.validation import make_validation

COLUMNS = ("stage", "rows", "kernel", "bandwidth", "relevance", "lam", "loss", "score", "seconds")


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """A fitted estimator, and the trials that chose its settings.

    ``model, table = joker.tune(X, y)`` unpacks the first two attributes.

    Attributes
    ----------
    estimator : estimator
        Fitted on all rows with the winning kernel, bandwidth and λ.
    table : list of dict
        One entry for each trial: ``stage``, ``rows`` trained on, ``kernel``, ``bandwidth``, ``relevance``, ``lam``,
        mean ``loss`` and ``score`` on held-out rows, and ``seconds``. One fit tries several λ, and ``seconds`` is the
        time of the fit divided by their number. ``relevance`` is the power of the feature weights that multiply the
        inputs; 0 gives equal weights. With weights, ``bandwidth`` is that of the most relevant input, and the others
        have wider ones (``estimator.bandwidth_``). Only entries of the same stage can be compared.
        ``pandas.DataFrame(table)`` turns the table into a data frame.
    best : dict
        The best entry, of the last stage.
    search_seconds, fit_seconds : float
        The time of the trials and of the fit on all rows.
    task : {"classification", "regression"}
        The task of the estimator.
    task_reason : str or None
        What was found in y if the task was guessed from it; else None.
    stopped_by_time : bool
        Whether ``max_time`` has ended the search.
    criterion : {"loss", "ranking", "scoring"}
        What decided between trials: the loss; the area under the ROC curve, because a class is rare (it is the
        ``score`` in the table); or the ``scoring`` that was given.

    Examples
    --------
    >>> import numpy as np
    >>> import joker
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> result = joker.tune(X, np.sin(X[:, 0]), kernels=["gaussian"], random_state=0)
    >>> result.best["kernel"]
    'gaussian'
    """

    estimator: Any
    table: list[dict[str, Any]]
    best: dict[str, Any]
    search_seconds: float
    fit_seconds: float
    task: str
    task_reason: str | None = None
    criterion: str = "loss"
    stopped_by_time: bool = False

    def __iter__(self) -> Iterator[Any]:
        return iter((self.estimator, self.table))

    def __repr__(self) -> str:
        best = self.best
        return (
            f"Tuned({type(self.estimator).__name__}: {_name(best['kernel'])} kernel, bandwidth {best['bandwidth']:.4g}"
            f"{_relevance(best)}, lam {best['lam']:.4g}; score {best['score']:.4f} on held-out rows; "
            f"{len(self.table)} trials in {self.search_seconds:.1f} s, fit in {self.fit_seconds:.1f} s"
            f"{self._guess()})"
        )

    def _guess(self) -> str:
        return f"; guessed task: {self.task}, y has {self.task_reason}" if self.task_reason else ""

    def __str__(self) -> str:
        lines = [COLUMNS, *(_line(entry) for entry in self.table)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        marks = ["", *("  <- best" if entry is self.best else "" for entry in self.table)]
        rows = ("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)
        return "\n".join([*(row + mark for row, mark in zip(rows, marks, strict=True)), repr(self)])


def _line(entry: dict[str, Any]) -> tuple[str, ...]:
    settings = (f"{entry['rows']:,}", _name(entry["kernel"]), f"{entry['bandwidth']:.4g}", f"{entry['relevance']:g}")
    results = (f"{entry['lam']:.3g}", f"{entry['loss']:.4g}", f"{entry['score']:.4f}", f"{entry['seconds']:.2f}")
    return (str(entry["stage"]), *settings, *results)


def _relevance(entry: dict[str, Any]) -> str:
    return f" (relevance {entry['relevance']:g})" if entry["relevance"] else ""


def _name(kernel: Any) -> str:
    return kernel if isinstance(kernel, str) else kernel.name


MOST_LAMBDAS = 5  # of a trial whose λ the search chooses, at most
DEFAULT_KERNELS = ("gaussian", "matern12", "laplacian")  # for smooth targets, rough ones, and rough in single inputs
TASKS: dict[str, type[KernelEstimator]] = {"classification": KernelClassifier, "regression": KernelRidge}


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
    cv: Any = None,
    groups: Any = None,
    time: Any = None,
    scoring: str | Callable[..., float] | None = None,
    n_trials: int | None = None,
    max_time: float | None = None,
    memory: int | str | None = None,
    device: str | torch.device | None = None,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    verbose: int | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Tuned:
    """Choose the kernel, its bandwidth and λ, and fit an estimator with them on all rows.

    Many candidates are tried on few rows, and few candidates on many rows. The first stage fits about 1,000 rows with
    each kernel and with bandwidths of ½ and ¼ of the median distance, four λ in one fit. The best candidates go on to
    about four times as many rows, and so on up to a quarter of the rows. Each stage tries narrower or wider bandwidths
    while that helps, first in steps of 2 and then of √2, with λ around the best so far, and changes the weights of
    inputs. A stage that ends with the kernel and the weights it began with, and with a bandwidth within a factor of √2,
    is the last. If no stage does, one more has half of the rows. With random features all stages are run, because their
    error shows only on many rows.

    Candidates are compared by the mean loss on rows that no trial is trained on: a fifth of the rows, at most 5,000, of
    which the first stage uses 512. With fewer than 2,000 rows the loss is averaged over three folds, with fewer than
    500 over five. With at least 10,000 rows, the final λ of a classifier without class weights is the one with the
    best accuracy. The winner is fitted on all rows. Unless ``kernels``, ``bandwidths`` or ``lam`` are given, the last
    stage also tries the estimator as it is, so that the winner is at least as good on the held-out rows.

    Held-out rows have the same share of every class as all rows. If more than 95% of the rows are of one class, the
    others are rare. Then the area under the ROC curve decides instead of the loss and the accuracy, every stage has
    all rows of the rare classes (at most 256 of each), and the scores are averaged over three folds if fewer than 50
    rows of a class would be held out.

    The levels of a KernelQuantile are calibrated with the held-out rows: see its method ``calibrate``.

    Parameters
    ----------
    X : array, sparse matrix, data frame or tensor of shape (n, d), or row store
        Rows of inputs. All inputs should be on one scale, since distances add them up: see ``standardize`` of the
        estimators. Of a row store, the rows of a trial are read into memory.
    y : array of shape (n,) or (n, outputs)
        Classes or numbers. A row store has its own.
    estimator : estimator of joker, optional
        An estimator whose other settings are kept; kernel, bandwidth and λ are replaced by the chosen ones. The default
        is ``KernelClassifier()``, with the squared hinge loss, or ``KernelRidge()``.
    task : {"classification", "regression"}, optional
        The default is the guess of :func:`joker.data.guess_task`: classification for text, truth values and whole
        numbers with at most 20 distinct values; regression for other numbers and for several columns. Integers that
        number classes from 0 or 1 may have 100 distinct values. The result says what was guessed, and a warning does
        if another reading is likely.
    kernels : kernel or sequence of kernels, optional
        Names or :class:`joker.kernels.Kernel` objects to try. The default is the Gaussian, the Matérn kernel of order ½
        and the Laplacian, without those that do not have the ``features`` of the estimator. If n_features="auto" uses
        some of them without random features, only those are tried.
    bandwidths : sequence of float or str, optional
        The only bandwidths to try, as numbers or rules (``"median"``, ``"paper"``).
    lam : float or sequence of float, optional
        The only λ to try. The default is the λ of the estimator if it has several, else λ near the value at which
        penalty and loss balance.
    relevance : {"auto", True, False}
        Whether to weight inputs by their relevance (ARD). Each input then has its own bandwidth: σ divided by its
        weight, or by the root of its weight. The weights have the smallest leave-one-out error of a kernel ridge
        regression on samples of the training rows of the search, never of rows that a trial is scored on. True tries
        only weighted inputs, and False only equal weights. ``"auto"`` tries both, if there are 2 to 128 inputs, at most
        16 classes or outputs, at least 500 rows to train on, and no ``bandwidths`` are given. Inputs have equal weights
        if time is up before weights are known.
    rows : int or sequence of int, optional
        The number of training rows in each stage; all stages are run. One number means two stages with that number.
    sample_weight : array of shape (n,), optional
        The weight of each row, in the fits and in the scores.
    cv : int, splitter or iterable, optional
        The splits of every stage, as in scikit-learn. By default held-out rows are drawn at random.
    groups : array of shape (n,), optional
        The group of each row, such as a person. Whole groups are then held out.
    time : array of shape (n,), optional
        A date or a number for each row. The latest fifth of the rows is then held out.
    scoring : str or callable, optional
        The score that replaces the loss: the name of a scikit-learn scorer, or a function ``scoring(estimator, X, y)``,
        which is also given ``sample_weight`` if rows have weights. Higher is better. By default the ``score`` in
        the table is that of the estimator: accuracy, R² or D².
    n_trials : int, optional
        The most fits of the search, each of one kernel, bandwidth and relevance with several λ. The fits of a search
        with a smaller number are the first ones of a longer search. By default the search ends where nothing improves.
    max_time : float, optional
        Seconds after which the search ends with the best trial so far: a brake, since what is tried does not depend
        on the clock otherwise, and a search without it has the same result on any day. The fit on all rows is not
        included; the ``max_time`` of the estimator limits it. A warning and ``stopped_by_time`` say that time was up.
    memory, device, random_state, verbose
        As in the estimator; they replace its own. ``verbose`` applies to the fit on all rows.
    n_jobs : int, optional
        The processes that run trials side by side, as in scikit-learn: -1 is one for each core that the process may
        use, and None is one, unless ``joblib.parallel_config`` says otherwise. The result is the same, bit for bit,
        unless ``max_time`` ends the search. A process takes some seconds to start, and some 300 MB. With ``memory``,
        on a GPU, in a group of processes and inside another parallel call, trials run one after the other.
    callback : callable, optional
        Called with each entry of the table as soon as it is known, for example ``print``.

    Returns
    -------
    Tuned
        The fitted ``estimator``, the ``table`` of all trials and the ``best`` of them.

    Notes
    -----
    λ multiplies ``‖θ‖²/2`` and is added to a *sum* of losses, so the best λ changes little with the number of rows: it
    stays the same with the exact kernel, and falls slowly with a fixed number of random features. Every trial has as
    many features as the fit on all rows, because the error of random features is part of the choice.

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
    budget = _time_budget(max_time)
    x, targets, model, guessed = _problem(X, y, estimator, task)
    given = {"memory": memory, "device": device, "random_state": random_state, "verbose": verbose}
    model.set_params(**{name: value for name, value in given.items() if value is not None})
    w = check_weights(sample_weight, x.shape[0])
    if callback is not None and not callable(callback):
        raise InvalidParameter(f"callback must be a function of an entry of the table; got {callback!r}. Use print.")
    asked = {"kernels": kernels, "bandwidths": bandwidths, "lam": lam, "relevance": relevance, "rows": rows}
    splits = {"cv": cv, "groups": groups, "time": time}
    limits = {"scoring": scoring, "n_trials": n_trials, "max_time": max_time}
    check_processes(model, y=targets, search={**asked, **splits, **limits})
    place = device_of(X, model.device)
    to_try = Candidates(kernels, bandwidths, lam, relevance, rows, _checked_trials(n_trials))
    with trials_on(workers_for(n_jobs, model.memory, place)), _naming_budget_of_all(model, x, targets, to_try):
        found = find_settings(
            x,
            targets,
            w,
            model,
            to_try,
            scoring=scoring,
            device=place,
            budget=budget,
            report=callback,
            splits=_asked_splits(model, targets, w, cv, groups, time),
        )
    if budget.stopped:
        warnings.warn(
            f"max_time={budget.limit:g} has ended the search after {len(found.table)} trials. Use a longer time, or "
            "n_trials, with which the search is repeatable.",
            UserWarning,
            stacklevel=2,
        )
    search_seconds = budget.spent
    with _naming_budget_of_all(model, x, targets, to_try):
        model.fit(X, y, sample_weight=sample_weight)
    if isinstance(model, KernelQuantile):
        shift_levels(model, *found.runner.held_out_levels(model, found.trial.candidate, found.trial.rows))
    fit_seconds = budget.spent - search_seconds
    actual = "classification" if is_classifier(model) else "regression"
    reason = guessed.reason if guessed else None
    seconds = search_seconds, fit_seconds
    return Tuned(model, found.table, found.best, *seconds, actual, reason, found.criterion, budget.stopped)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a search may try, as `tune` is given it."""

    kernels: Any = None
    bandwidths: Any = None
    lam: Any = None
    relevance: Any = AUTO
    rows: Any = None
    n_trials: float = math.inf

    @property
    def are_free(self) -> bool:
        """Whether the search chooses all settings."""
        return self.kernels is None and self.bandwidths is None and self.lam is None


@dataclass(frozen=True, eq=False)
class FoundSettings:
    """The end of a search: its trials, and the best one."""

    runner: TrialRunner
    table: list[dict[str, Any]]
    best: dict[str, Any]
    trial: Trial
    criterion: str


def find_settings(
    x: Any,  # (n, d)
    y: NDArray[Any],  # (n,) or (n, t)
    w: NDArray[np.float64] | None,
    model: KernelEstimator,
    candidates: Candidates,
    *,
    scoring: Any = None,
    device: torch.device | None = None,
    budget: TimeBudget | None = None,
    report: Callable[[dict[str, Any]], object] | None = None,
    splits: Sequence[Split] | None = None,
) -> FoundSettings:
    """Give an estimator the kernel, the bandwidth and λ of the best trial, without fitting it to all rows."""
    budget = budget or TimeBudget()
    device = parse_device(model.device) if device is None else device
    runner = make_trial_runner(model, check_scorer(model, scoring), x, y, w, device, report, budget, splits)
    ranking = scoring is None and runner.rare
    if ranking:
        runner = replace(runner, scorer=ranking_score)
    penalties = _penalties(candidates.lam, model)
    to_try = _kernels(candidates.kernels, model, runner)
    powers = _powers(candidates.relevance, to_try, runner, candidates.bandwidths is None)
    families = [runner.family(kernel, _bandwidths(candidates.bandwidths), penalties, powers) for kernel in to_try]
    search = Search(
        runner.run,
        max_candidates=candidates.n_trials,
        by_score=ranking or scoring is not None,
        final_lam_by_score=runner.accuracy_decides,
        stop_when_stable=candidates.rows is None and all(runner.n_features(kernel) is None for kernel in to_try),
        out_of_time=budget.is_over,
        reweight=runner.reweight,
    )
    default = runner.default(model, families) if candidates.are_free else None
    best = search.best(families, _stage_rows(candidates.rows, len(runner.splits[0].train)), default)
    table = [runner.entry(trial) for trial in search.trials]
    winner = table[search.trials.index(best)]
    model.set_params(kernel=winner["kernel"], bandwidth=runner.bandwidth(best.candidate), lam=winner["lam"])
    criterion = "ranking" if ranking else "loss" if scoring is None else "scoring"
    return FoundSettings(runner, table, winner, best, criterion)


@contextmanager
def _naming_budget_of_all(model: KernelEstimator, x: Any, y: NDArray[Any], candidates: Candidates) -> Iterator[None]:
    """In the error for a memory budget, name one that is enough for all fits of a search and the one on all rows."""
    try:
        yield
    except BudgetTooSmall as error:
        kernels = DEFAULT_KERNELS if candidates.kernels is None else candidates.kernels
        kernels = kernels if isinstance(kernels, Sequence) and not isinstance(kernels, str) else [kernels]
        lambdas = np.size(model.lam if candidates.lam is None else candidates.lam)
        least = max(error.least or 0, *(least_budget(model, x, y, kernel, lambdas) for kernel in kernels))
        raise BudgetTooSmall.naming(
            least,
            f"every fit of the search and the fit on all rows; {format_bytes(resolve.budget(model.memory) or 0)} is "
            f"given and the largest takes at least {format_least(least)}",
            ", or fewer rows",
        ) from error


def least_budget(model: KernelEstimator, x: Any, y: NDArray[Any], kernel: str | Kernel, lambdas: int = 1) -> int:
    """Return the bytes that are enough for each fit of a search with a kernel on some of the rows, or all."""
    least = 0
    for bandwidth in (1.0, [1.0] * x.shape[1])[: 1 + get(kernel).has_bandwidth]:
        lam = [1.0] * max(lambdas, MOST_LAMBDAS)
        one = clone(model).set_params(kernel=kernel, bandwidth=bandwidth, lam=lam, memory=1)
        try:
            one.plan(x, y)
        except BudgetTooSmall as error:
            least = max(least, error.least or 0)
    return least


def _problem(X: Any, y: Any, given: Any, task: str | None) -> tuple[Any, Any, KernelEstimator, TaskGuess | None]:
    """Rows, targets, an unfitted estimator, and the guess of its task if it is one."""
    if task is not None and task not in TASKS:
        raise UnknownName.among("task", task, TASKS)
    x, targets, task = _data(X, as_array(y), task, given)
    guessed = _guess(targets) if given is None and task is None else None
    model = _estimator(given, guessed.task if guessed else task)
    _refuse_external(model.kernel)
    labels = _labels(targets, is_classifier(model))
    check_consistent_length(x, labels)
    return x, labels, model, guessed


def _asked_splits(
    model: KernelEstimator, y: NDArray[Any], w: NDArray[np.float64] | None, cv: Any, groups: Any, time: Any
) -> list[Split] | None:
    """The splits that the user asks for; None: rows are held out at random."""
    if cv is None and groups is None and time is None:
        return None
    classes = len(np.unique(y)) if is_classifier(model) else 0
    codes = np.unique(y, return_inverse=True)[1].ravel() if classes else strata(y.reshape(len(y), -1)[:, 0], 0)
    validation = make_validation(codes, classes, cv, groups, time)
    rows = np.arange(len(y)) if w is None else np.flatnonzero(w)
    seed = model.random_state if isinstance(model.random_state, Integral) else 0
    splits = validation.search_splits(rows, codes, current().decide(int(seed)))
    return None if splits is None else [Split(rows[split.train], rows[split.held]) for split in splits]


def _checked_trials(n_trials: Any) -> float:
    """The most candidates of a search; infinity if they are not limited."""
    if n_trials is None:
        return math.inf
    if not isinstance(n_trials, Integral) or isinstance(n_trials, bool) or n_trials < 1:
        raise InvalidParameter(f"n_trials must be a whole number of at least 1, or None; got {n_trials!r}. Use 20.")
    return int(n_trials)


def _data(X: Any, y: Any, task: str | None, given: Any) -> tuple[Any, Any, str | None]:
    """Rows, targets and task; a store has targets and a task of its own."""
    if isinstance(X, Store):
        task = task if given is not None or y is not None else task or X.task
        return X.x, X.y if y is None else y, task
    if isinstance(X, StoreRows):
        return X, y, task
    with naming_columns(X):
        x = check_array(as_array(X), accept_sparse="csr", dtype=INPUT_DTYPES, input_name="X", estimator="tune")
    return x, y, task


def _estimator(given: Any, task: str | None) -> KernelEstimator:
    """An unfitted copy of the given estimator, or the default one for the task."""
    if given is None:
        return TASKS[str(task)]()
    if isinstance(given, type) and issubclass(given, KernelEstimator):
        raise InvalidParameter(
            f"estimator must be an instance; got the class {given.__name__}. Use estimator={given.__name__}()."
        )
    if not isinstance(given, KernelEstimator):
        raise InvalidParameter(
            f"estimator must be an estimator of joker, such as KernelRidge(); got {given!r}. "
            "Of a pipeline, transform the inputs first and tune the last step."
        )
    actual = "classification" if is_classifier(given) else "regression"
    if task not in (None, actual):
        raise InvalidParameter(f"task must be that of the estimator, {actual!r}; got {task!r}. Leave task out.")
    return clone(given)  # type: ignore[no-any-return]


def _guess(y: Any) -> TaskGuess:
    """The task that the targets mean; it is said if another reading is likely."""
    targets = np.asarray(y)
    assert_all_finite(targets, input_name="y")
    guessed = guess_task(targets)
    guessed.say()
    return guessed


def _labels(y: Any, classes: bool) -> NDArray[Any]:
    """The targets as an array: one column of classes, or numbers."""
    labels: NDArray[Any] = (
        column_or_1d(y) if classes else check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    )
    return labels


def _refuse_external(kernel: Any) -> None:
    """Refuse a kernel matrix or a function of the user's, which has no bandwidth to search."""
    if get_kernel(kernel).external:
        raise InvalidParameter(
            "the kernels of a search must be names or objects of joker.kernels, or classes derived from Kernel; got "
            f"{kernel!r}. Use GridSearchCV of scikit-learn over lam, or a sequence of values for lam in an estimator."
        )


def _kernels(given: Any, model: KernelEstimator, runner: TrialRunner) -> list[str | Kernel]:
    if given is None:
        suited = [name for name in DEFAULT_KERNELS if model.features in (AUTO, *get(name).feature_kinds)]
        # Trials on few rows rank random features too high: their error shows on many rows, where the kernel wins.
        exact = [name for name in suited if runner.n_features(name) is None]
        return [*(exact or suited or DEFAULT_KERNELS)]
    kernels = [given] if isinstance(given, str) or callable(given) else _as_list(given)
    if not kernels:
        raise InvalidParameter(f"kernels must be a kernel or a sequence of them; got {given!r}. Use ['gaussian'].")
    for kernel in kernels:
        _refuse_external(kernel)
    return kernels


def _powers(
    relevance: Any, kernels: list[str | Kernel], runner: TrialRunner, free_bandwidths: bool
) -> tuple[float, ...]:
    if relevance is True and not any(get(kernel).has_bandwidth for kernel in kernels):
        raise InvalidParameter(
            "relevance=True needs a kernel with a bandwidth, which weights the inputs; got none. "
            "Use relevance=False, or another kernel."
        )
    d, rows = runner.x.shape[1], len(runner.splits[0].train)
    return powers_to_try(relevance, d, rows, runner.columns, free_bandwidths)


def _bandwidths(given: Any) -> list[str | float] | None:
    if given is not None and not _as_list(given):
        raise InvalidParameter(f"bandwidths must be a sequence of numbers or rules; got {given!r}. Use [0.5, 1.0].")
    return None if given is None else _as_list(given)


def _as_list(given: Any) -> list[Any]:
    """The members of a sequence or an array; an empty list for anything else."""
    return list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else []


def _penalties(lam: Any, model: KernelEstimator) -> tuple[float, ...] | None:
    """The λ to try: the given ones, else those of the estimator if it has several; None lets the search choose."""
    if lam is None and np.ndim(model.lam) == 0:
        return None
    return tuple(dict.fromkeys(resolve.penalties(model.lam if lam is None else lam)))


def _stage_rows(rows: Any, pool: int) -> list[int]:
    """The number of rows of each stage. One number means two stages, of which the second has finer steps."""
    if rows is None:
        return stage_rows(pool)
    given = [rows, rows] if isinstance(rows, Integral) else _as_list(rows)
    if not given or not all(isinstance(r, int | np.integer) and r >= MIN_TUNING_ROWS for r in given):
        raise InvalidParameter(
            f"rows must be a whole number of at least {MIN_TUNING_ROWS}, or a sequence of them; got {rows!r}. "
            "Use for example rows=[1000, 4000]."
        )
    return [min(int(r), pool) for r in given]


def _time_budget(max_time: float | None) -> TimeBudget:
    if max_time is None:
        return TimeBudget()
    if not isinstance(max_time, Real) or isinstance(max_time, bool) or not max_time >= 0:
        raise InvalidParameter(
            f"max_time must be a number of seconds of at least 0, or None; got {max_time!r}. Use for example 60."
        )
    return TimeBudget(float(max_time))
