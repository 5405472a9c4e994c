"""The base class of all estimators: their parameters, the fit of arrays and its plan."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from joker import errors
from joker.callbacks import Callback, Result, Run, descend
from joker.data import Scaling, Store, make_targets
from joker.data.arrays import (
    copied_bytes,
    device_of,
    input_statistics,
    materialised,
    numbered_rows,
    pick,
    rows_of,
    wide_rows,
)
from joker.errors import InvalidParameter
from joker.estimators import resolve
from joker.estimators.card import NotebookView, model_card
from joker.estimators.compression import compressed
from joker.estimators.foreign_names import PARAMETERS, check_parameters
from joker.estimators.inputs import LabelledRows, TrainingSet, check_pair
from joker.estimators.model import (
    FittedModel,
    Path,
    ProblemHashes,
    WarmStart,
    check_held_out,
    check_processes,
    seed_of,
)
from joker.estimators.precision import sampled
from joker.estimators.resolve import Request, Scorer, check_inputs, scaling_by
from joker.estimators.scoring import HeldOutScorer
from joker.kernels import Kernel
from joker.kernels.precomputed import KernelOfArrays
from joker.models.files import save
from joker.planning import FitSpec, Plan
from joker.planning.fit import plan_estimator_fit
from joker.prepare import Training, build
from joker.runtime import enough_memory, release_memory
from joker.solvers import Problem
from joker.solvers.report import ended_far

FitT = TypeVar("FitT", bound=Callable[..., Any])

# scikit-learn's page for developers, "Implementing callback support in estimators", declares `_init_callback_context`
# public. With an older scikit-learn there is no `set_callbacks`, and the relay of its callbacks has no effect.
try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An empty base class: scikit-learn has no callbacks."""

    _with_callbacks = None


def with_callbacks(fit: FitT) -> FitT:
    """Decorate a method that fits: scikit-learn's callbacks are torn down after it, also after an error."""
    managed: FitT = fit if _with_callbacks is None else _with_callbacks(fit)
    return managed


@cache
def _parameters(cls: type) -> frozenset[str]:
    """Return the names of the parameters of a constructor."""
    return frozenset(signature(cls.__init__).parameters) - {"self"}  # type: ignore[misc]  # of a class


class CheckedParameters:
    """Refuses parameters that an estimator does not have, with what replaces them."""

    _foreign: ClassVar[Mapping[str, Callable[[Any], str]]] = PARAMETERS  # the remedy for each name

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Refuse parameters that do not exist, with their names in joker."""
        known = _parameters(cls)  # type: ignore[arg-type]  # a class has a hash
        if not settings.keys() <= known:
            check_parameters(cls.__name__, settings, known, cls._foreign)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and return the estimator."""
        known = self.get_params(deep=False)  # type: ignore[attr-defined]  # of scikit-learn's BaseEstimator
        if not params.keys() <= known.keys():
            check_parameters(type(self).__name__, params, known, self._foreign)
        super().set_params(**params)  # type: ignore[misc]
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class KernelEstimator(CheckedParameters, CallbackSupportMixin, NotebookView, FittedModel):
    """The parameters and the fit that regressors and classifiers share."""

    lam: float | Sequence[float] = 1.0
    kernel: str | Kernel | KernelOfArrays = "gaussian"
    bandwidth: str | float | Sequence[float] | NDArray[Any] = "auto"
    n_features: int | str | None = "auto"
    features: str = "auto"
    block_size: int | str = "auto"
    max_epochs: float | str = "auto"
    tol: float = 1e-3
    max_time: float = math.inf
    method: str = "auto"
    averaging: bool = True
    momentum: bool = False
    fit_intercept: bool = True
    standardize: bool | str = "auto"
    early_stopping: bool | str | Scorer = False
    validation_fraction: float = 0.1
    warm_start: bool = False
    device: str | torch.device | None = None
    dtype: str | torch.dtype = "auto"
    precision: str = "auto"
    memory: int | str = "auto"
    callbacks: Sequence[Callback] | None = None
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

    _task: ClassVar[str]  # of the loss
    _other_estimator: ClassVar[str]  # the class for the other task
    _targets_of: ClassVar[Any]  # a function: the targets of X and y, where X may be a store
    _predicted: tuple[Any, NDArray[Any]] | None = field(default=None, init=False)  # only in the copy of a scorer

    def save(self, path: str | os.PathLike[str], *, store_features: bool = False) -> None:
        """Write the fitted estimator to one file, which `joker.load` reads.

        The file is safetensors with a JSON document and holds no code. It is written in one step, and replaces a
        file of that name. Functions, ``callbacks`` and the state of a warm start are not saved.

        Parameters
        ----------
        path : str or PathLike
            The file, in a folder that exists.
        store_features : bool
            Whether to save the random features themselves. By default a file has the seed that gives them
            exactly, and is small; a release of torch with another random number generator could not read it.
        """
        save(self, path, store_features=store_features)

    def compress(self, n_rows: int | None = None, *, random_state: int = 0) -> Self:
        """Return a smaller model with nearly the same predictions, which has some of the rows of an exact kernel.

        The new model is faster, and its file is smaller. It is no solution of the training problem, so its ``gap_`` is
        infinite; ``compression_error_`` says how much its predictions differ, and ``stop_reason_`` in words.

        Parameters
        ----------
        n_rows : int, optional
            The number of rows. None keeps all whose weight is not 0, and the predictions stay the same.
        random_state : int
            The seed for the draw of the rows.

        Returns
        -------
        KernelEstimator
            A copy; this model stays as it is.

        Examples
        --------
        >>> import numpy as np
        >>> import joker
        >>> X = np.linspace(0, 9, 300)[:, None]
        >>> model = joker.KernelRidge(random_state=0).fit(X, np.sin(X[:, 0]))
        >>> small = model.compress(30)
        >>> small.dual_coef_.shape, bool(small.compression_error_ < 0.01)
        ((30,), True)
        """
        small: Self = compressed(self, n_rows, random_state)
        return small

    def card(self, scores: Mapping[str, float] | None = None) -> str:
        """Return a model card in Markdown: the data, the settings, the scores, the gap and the environment.

        Parameters
        ----------
        scores : mapping from str to float, optional
            Scores of your own, such as ``{"accuracy on new rows": 0.93}``, which the model card lists too.
        """
        return model_card(self, scores)

    def check_settings(self, n_inputs: int | None = None) -> None:
        """Raise the error that ``fit`` raises for a parameter that cannot be used, without any data.

        What depends on the targets is checked by ``fit`` only, such as the classes in ``class_weight``.

        Parameters
        ----------
        n_inputs : int, optional
            The number of inputs d. With it, the ``bandwidth`` of each input and ``n_features`` of the linear kernel
            are checked too.
        """
        check_inputs(self._resolve(), n_inputs)

    def _resolve(self) -> Request:
        """Return what the parameters mean; raise an error for one that cannot be used."""
        request = resolve.resolve(self)
        task = request.loss.frame.task
        if task != self._task:
            raise InvalidParameter(
                f"loss must be one for {self._task}; got {self.loss!r}, which is for {task}. "
                f"Use {self._other_estimator}."
            )
        return request

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, eval_set: Any = None) -> Self:
        """Fit every column of the targets and every λ in one pass.

        Parameters
        ----------
        X : array, sparse matrix, data frame or tensor of shape (n, d), or row store
            Rows of inputs. A sparse matrix is never made dense as a whole, and rows of a store stay on disk.
        y : array of shape (n,), or (n, outputs) for a regressor
            Classes, as numbers or strings, or numbers to predict. Several outputs share one λ; more than two classes
            have one column each. A class whose rows all have weight 0 is still a class. A row store has its own
            targets.
        sample_weight : array of shape (n,), optional
            The weight of each row: 2 is the row twice, 0 leaves it out.
        eval_set : pair (X, y) or row store, optional
            Rows to score on. Without it some rows of X are held out where ``lam`` is a sequence or with
            ``early_stopping``.
        """
        request = self._resolve()
        held = None if eval_set is None else (*check_pair(eval_set, self._targets_of), None)
        fitted = self._fit(request, (X, self._targets_of(X, y), sample_weight), held, hold_out=True)
        self._warn_if_far()
        return fitted

    @with_callbacks
    def fit_sample(self, train: LabelledRows, held: LabelledRows | None = None) -> Self:
        """Fit on the rows ``train``, and score on the rows ``held``; no row of ``train`` is held out.

        Without ``held`` there are no scores. A sequence for ``lam`` then keeps a model for each λ in ``path_``, with
        scores that are NaN, and the estimator is the model of the largest λ. `joker.tune` fits its trials this way.

        Parameters
        ----------
        train, held : tuple (X, y, sample_weight)
            Rows, targets and weights as for ``fit``. The weights may be None.
        """
        return self._fit(self._resolve(), train, held, hold_out=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        return tags

    def _fit(self, request: Request, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        """Check, encode and fit rows; with ``hold_out``, rows of ``train`` are held out where a score needs them."""
        raise NotImplementedError

    def _target_scaling(self, sample: TrainingSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # (t,), (t,)
        """Return what targets are shifted and then divided by before the fit; predictions are scaled back."""
        return np.zeros(sample.y.shape[1]), np.ones(sample.y.shape[1])

    def _remember(self, X: Any) -> None:
        """Store the column names of a row store: predictions check them."""
        if isinstance(X, Store):
            self.schema_ = X.schema

    def _solve(
        self,
        request: Request,
        sample: TrainingSet,
        held: TrainingSet | None,
        strata: NDArray[Any] | None,
        place: torch.device,
        *,
        hold_out: bool,
    ) -> None:
        """Fit each column of y and each λ in one pass, and choose the λ."""
        before, lams = self._forget(), request.lams
        check_processes(self, continued=before is not None)
        seed = seed_of(self.random_state, before)
        if hold_out and held is None and self._holds_out(request):
            self._check_held_out(sample, strata, request.validation_fraction)
            copy_rows = not request.kernel.precomputed  # else a part of the kernel matrix would be copied
            sample, held = sample.hold_out(request.validation_fraction, strata, seed, copy=copy_rows)
        with enough_memory(place):
            self._constant = bool(self.fit_intercept)
            self._offset, self._target_scale = self._target_scaling(sample)
            self._scale_inputs(request, sample)
            keeps_path = held is not None or np.ndim(self.lam) > 0
            request, rows = self._bound(request, sample)
            spec, self.plan_ = self._specify(request, rows, place, seed, self._scaling, keeps_path)
            training = self._training(request, spec, rows)
            if not hasattr(self, "bandwidth_"):
                self.bandwidth_ = training.kernel.bandwidth
            hashes = ProblemHashes.of(sample, lams, self._target_scale, training) if self.warm_start else None
            if before and hashes:
                before.continue_in(training, hashes)
            if held is not None:
                check_held_out(held)
            judge = None if held is None else HeldOutScorer(self, request.loss, held, lams, request.scorer)
            self._descend(request, training, sample, judge)
            if hashes:
                self._warm = WarmStart(seed, hashes, training.descent.state_dict())
            del training, judge
            if held is not None:
                self._use_held_out(held)
        if hasattr(self, "path_"):
            self.path_.warn_at_the_edge()
        if not self.plan_.is_small:
            release_memory(torch.device("cpu"))  # else the C library keeps most of the freed memory

    def _holds_out(self, request: Request) -> bool:
        """Return whether a fit holds out rows: to choose among several λ, or the epoch."""
        return bool(np.ndim(self.lam)) or any(callback.needs_score for callback in request.callbacks)

    def _check_held_out(self, sample: TrainingSet, strata: NDArray[Any] | None, share: float) -> None:
        """Refuse rows of which a share cannot be held out."""

    def _use_held_out(self, held: TrainingSet) -> None:
        """Take what a fitted estimator chooses on held-out rows."""

    def _descend(self, request: Request, training: Training, sample: TrainingSet, judge: HeldOutScorer | None) -> None:
        """Run a training with its callbacks, and take the attributes of the fitted model."""
        relay = SklearnCallbackRelay(self, sample)

        def fitted(result: Result) -> KernelEstimator:
            return relay.bare(self)._set_best(result, request.lams, sample.y.shape[1])

        run = Run(training, title=type(self).__name__, judge=judge, model=fitted)
        for name, value in vars(fitted(descend(run, [*request.callbacks, relay]))).items():
            setattr(self, name, value)
        relay.close()

    def _forget(self) -> WarmStart | None:
        """Remove what an earlier fit has stored; return its end, if this fit is to continue from it."""
        before = getattr(self, "_warm", None)
        for name in ("path_", "mean_", "scale_", "bandwidth_", "schema_", "_predicted", "_warm"):
            if name in vars(self):
                delattr(self, name)
        return before if self.warm_start else None

    def _set_best(self, result: Result, lams: list[float], t: int) -> Self:
        """Set the attributes of the best λ; store the model of every λ where there are scores or several λ."""
        self.stop_reason_ = result.reason
        result = replace(result, machine=result.machine.reading(None))  # a fitted machine keeps no kernel matrix
        if not result.record.scores and not np.ndim(self.lam):
            return self._set_results(result, lams, 0, t)
        models = tuple(copy.copy(self)._set_results(result, lams, i, t) for i in range(len(lams)))
        path = Path(np.array(lams), np.array(result.record.scores or [math.nan] * len(lams)), models)
        self._set_results(result, lams, path.best, t)
        self.path_ = path
        return self

    def _bound(self, request: Request, sample: TrainingSet) -> tuple[Request, TrainingSet]:
        """Return the kernel and the rows that are read: of a precomputed kernel, its matrix and the row numbers."""
        if not request.kernel.precomputed:
            return request, sample
        matrix, numbers = numbered_rows(sample.x)
        copied = sample.copied
        if request.scorer is not None:  # it is given the held-out rows in an array of their own
            copied += sample.held_out * matrix.shape[1] * matrix.element_size()
        kernel = request.kernel.reading(matrix, symmetric=True)
        return replace(request, kernel=kernel), replace(sample, x=numbers, copied=copied)

    def _specify(
        self,
        request: Request,
        sample: TrainingSet,
        device: torch.device,
        seed: int,
        scaling: Scaling | None,
        scored: bool,
    ) -> tuple[FitSpec, Plan]:
        """Return the decisions of a fit within ``memory``, and the plan of what it holds."""
        specs = request.specs(sample, device, seed, scaling, scored)
        limits = request.budget, resolve.memory(self.memory, device), resolve.kernel_room(device)
        return plan_estimator_fit(specs, sample, *limits)

    def _training(self, request: Request, spec: FitSpec, sample: TrainingSet) -> Training:
        """Build the problem; its columns are those of the first λ, of the second, and so on."""
        # The exact kernel needs a copy: the machine keeps it, and the user may change the array.
        exact, kernel = spec.n_features is None, spec.kernel
        x = rows_of(sample.x, spec.dtype, spec.device, copy=exact, scaling=spec.scaling, host=spec.rows_on_host)
        w = None if sample.w is None else torch.as_tensor(sample.w).to(x.device, x.dtype)
        sigma = resolve.sigma(self.bandwidth, self.kernel, kernel, x, w, spec.settings.seed)
        y = self._columns(sample.y, spec.n_lams, x)
        targets = make_targets(y, np.repeat(request.lams, spec.targets).tolist(), w, x.dtype)
        problem = Problem(self._loss_of_columns(spec.loss, spec.n_lams, spec.device), targets)
        wide = wide_rows(sample.x, spec.dtype, spec.device, spec.scaling)
        return build(replace(spec, kernel=kernel.with_bandwidth(sigma)), x, problem, self.plan_, wide)

    def _scale_inputs(self, request: Request, sample: TrainingSet) -> None:
        """Store what inputs are shifted and divided by: their mean and deviation, and the bandwidth of each input."""
        bandwidths = request.bandwidths(sample.x.shape[1])
        if bandwidths is not None:
            self.bandwidth_ = bandwidths
        if resolve.standardizes(self.standardize, request.kernel, self.bandwidth, sample.x, sample.w):
            statistics = input_statistics(sample.x, sample.w)
            self.mean_, self.scale_ = statistics.mean.numpy(), statistics.deviation.numpy()

    def _set_results(self, result: Result, lams: list[float], i: int, t: int) -> Self:
        """Set the attributes of the i-th λ: its machine of t columns and its history."""
        columns = slice(i * t, (i + 1) * t)
        self.history_ = [r.entry(columns, r.scores[i] if r.scores else None) for r in result.records]
        self.history_[0]["plan"] = self.plan_.facts
        self.gap_ = result.record.entry(columns)["gap"]
        self.n_iter_ = max(1, math.ceil(result.record.epoch))
        return self._set_machine(result.machine, lams, i, t)

    def _warn_if_far(self) -> None:
        """Warn if the fit has ended far from the optimum, unless it has no tolerance or is to end early."""
        if (
            self.tol > 0
            and not self.early_stopping
            and ended_far(self.gap_, self.tol, self._last_fall, self.stop_reason_)
        ):
            warnings.warn(errors.ConvergenceWarning(f"{type(self).__name__}: {self.conclusion_}"), stacklevel=4)

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Return what a fit to X and y would hold in memory, without fitting; ``print`` shows it as a table.

        Without targets one column is planned for, two classes or one output. Where no fit keeps ``memory``,
        BudgetTooSmall names the smallest sufficient budget.
        """
        request, device = self._resolve(), device_of(X, self.device)
        x = copy.copy(self)._check_rows(X)
        scored = self._holds_out(request)
        share = request.validation_fraction if scored else 0.0
        targets, label_bytes = self._blank_targets(X.y if y is None and isinstance(X, Store) else y, device)
        sample = TrainingSet.blank(x, targets, share, copied_bytes(X, x), label_bytes)
        bandwidths = request.bandwidths(x.shape[1])
        mean = deviation = None
        if resolve.standardizes(
            self.standardize, request.kernel, self.bandwidth, x, None
        ):  # some rows are enough for a plan
            some = input_statistics(pick(x, sampled(x.shape[0], 0)), None)
            mean, deviation = some.mean.numpy(), some.deviation.numpy()
        scaling = scaling_by(mean, deviation, bandwidths)
        seed = seed_of(self.random_state, None) if isinstance(self.random_state, Integral) else 0  # that of the fit
        return self._specify(*self._bound(request, sample), device, seed, scaling, scored)[1]

    def _blank_targets(self, y: Any, device: torch.device) -> tuple[NDArray[Any], int]:  # (1, t)
        """Return a row of targets as y would be encoded, or one column, and the bytes of a class label."""
        raise NotImplementedError


class SklearnCallbackRelay(Callback):
    """Calls scikit-learn's callbacks: one task for the whole fit, with a task for each epoch inside it."""

    def __init__(self, model: Any, sample: TrainingSet) -> None:
        self.model = model
        # With class weights, the weights of the sample are not those that the user gave.
        unweighted = sample.w is None or getattr(model, "class_weight", None) is not None
        self.data = {
            "X": lambda: materialised(sample.x),
            "y": lambda: model._decoded(sample.y),
            "metadata": None if unweighted else {"sample_weight": sample.w},
        }
        self.fit: Any = None  # the task of the whole fit
        self.task: Any = None  # the task of the current epoch
        self._added: set[str] = set()  # attributes that scikit-learn sets on the estimator during the fit

    def start(self, run: Run) -> None:
        if _with_callbacks is None:
            return
        before = set(vars(self.model))
        epochs = math.ceil(run.max_epochs) - math.floor(run.epoch) if math.isfinite(run.max_epochs) else None
        max_subtasks = None if run.one_block or not epochs else max(1, epochs)
        self.fit = self.model._init_callback_context(max_subtasks=max_subtasks)
        self._added = set(vars(self.model)) - before
        self.fit.call_on_fit_task_begin(estimator=self.model, **self.data)

    def step(self, run: Run) -> None:
        if self.fit and self.task is None:
            self.task = self.fit.subcontext(task_name="epoch")
            self.task.call_on_fit_task_begin(estimator=self.model, **self.data)

    def epoch(self, run: Run) -> bool:
        # Before the first step, the point is evaluated at which an earlier fit ended; within an epoch, the fit may end.
        return False if self.task is None or run.epoch % 1 else self._end(run.model)

    def close(self) -> None:
        """End the tasks of the last epoch and of the fit: the estimator is fitted."""
        if self.fit:
            if self.task is not None:
                self._end(lambda: self.model)
            fitted = {"reconstruction_attributes": lambda: self._attributes(self.model)}
            self.fit.call_on_fit_task_end(estimator=self.model, **self.data, **fitted)

    def bare(self, model: KernelEstimator) -> KernelEstimator:
        """Return a copy of the estimator without the attributes that scikit-learn sets during the fit."""
        copied = copy.copy(model)
        for name in self._added & vars(copied).keys():
            delattr(copied, name)
        return copied

    def _end(self, model: Callable[[], Any]) -> bool:
        """End the task of the epoch; return whether scikit-learn asks to stop."""
        task, self.task = self.task, None
        fitted = {"reconstruction_attributes": lambda: self._attributes(model())}
        return bool(task.call_on_fit_task_end(estimator=self.model, **self.data, **fitted))

    def _attributes(self, model: Any) -> dict[str, Any]:
        """The attributes that turn a copy of the estimator into the fitted model, for rows without names of inputs."""
        names = {"feature_names_in_": None} if hasattr(model, "feature_names_in_") else {}
        return {**vars(model), **names}
