"""The base class of all estimators: their parameters, the fit of arrays and its plan."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker import errors, kernels
from joker.callbacks import Callback, Result, Run, descend
from joker.data import Rows, Scaling, Store, make_targets
from joker.data.array_rows import copied_bytes, device_of, input_statistics, rows_of
from joker.errors import InvalidParameter
from joker.estimators import resolve
from joker.estimators.check_settings import check_settings
from joker.estimators.fitted_model import FittedModel
from joker.estimators.html_repr import NotebookView
from joker.estimators.input_bandwidths import bandwidth_of_inputs, scaling_by
from joker.estimators.lambda_path import Path
from joker.estimators.model_card import model_card
from joker.estimators.model_document import save
from joker.estimators.scoring import HeldOutScorer, Predicted, Scorer, scorer_of
from joker.estimators.sklearn_callbacks import CallbackSupportMixin, SklearnCallbackRelay, with_callbacks
from joker.estimators.sklearn_words import check_parameters
from joker.estimators.training_set import LabelledRows, Sample, check_pair
from joker.estimators.warm_start import ProblemHashes, WarmStart, seed_of
from joker.kernels import Kernel
from joker.losses import Loss
from joker.planning import FitSpec, Plan
from joker.planning.estimator_plan import plan_estimator_fit
from joker.prepare import Training, build
from joker.runtime import chunks, enough_memory, release_memory
from joker.solvers import Problem
from joker.solvers.report import ended_far


@dataclass(kw_only=True, eq=False, repr=False)
class KernelEstimator(CallbackSupportMixin, NotebookView, FittedModel):
    """The parameters and the fit that regressors and classifiers share."""

    lam: float | Sequence[float] = 1.0
    kernel: str | Kernel = "gaussian"
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
    _predicted: Predicted | None = field(default=None, init=False)  # set only in the copy that a scorer is given

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Refuse parameters that do not exist, with their names in joker."""
        check_parameters(cls.__name__, settings, signature(cls.__init__).parameters.keys() - {"self"})
        return super().__new__(cls)  # type: ignore[no-any-return]

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and return the estimator."""
        check_parameters(type(self).__name__, params, self.get_params(deep=False))
        super().set_params(**params)
        return self

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

        ``fit`` calls this first. What depends on the targets is checked later, such as the classes in ``class_weight``.

        Parameters
        ----------
        n_inputs : int, optional
            The number of inputs d. With it, the ``bandwidth`` of each input and ``n_features`` of the linear kernel
            are checked too.
        """
        task = self._loss().frame.task
        if task != self._task:
            raise InvalidParameter(
                f"loss must be one for {self._task}; got {self.loss!r}, which is for {task}. "
                f"Use {self._other_estimator}."
            )
        check_settings(self, n_inputs)

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
        self.check_settings()
        held = None if eval_set is None else (*check_pair(eval_set, self._targets_of), None)
        fitted = self._fit((X, self._targets_of(X, y), sample_weight), held, hold_out=True)
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
        self.check_settings()
        return self._fit(train, held, hold_out=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(self, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        """Check, encode and fit rows; with ``hold_out``, rows of ``train`` are held out where a score needs them."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """Return the loss of the parameters."""
        raise NotImplementedError

    def _loss_of_columns(self, repeats: int, place: torch.device) -> Loss:
        """Return the loss of all columns: those of one λ, ``repeats`` times."""
        return self._loss()

    def _centre(self, sample: Sample) -> NDArray[np.float64]:  # (t,)
        """Return what is subtracted from the targets before the fit and added to the predictions after it."""
        return np.zeros(sample.y.shape[1])

    def _unit(self, sample: Sample) -> NDArray[np.float64]:  # (t,)
        """Return what centred targets are divided by before the fit and predictions are multiplied by after it."""
        return np.ones(sample.y.shape[1])

    def _sample(self, X: Any, y: NDArray[Any], w: NDArray[np.float64] | None) -> Sample:
        """Return checked rows, targets and weights as a fitted estimator encodes and weights them."""
        raise NotImplementedError

    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]:  # (n, t)
        """Return encoded targets as the user passed them."""
        raise NotImplementedError

    def _remember(self, X: Any) -> None:
        """Store the column names of a row store: predictions check them."""
        if isinstance(X, Store):
            self.schema_ = X.schema

    def _solve(
        self,
        sample: Sample,
        held: Sample | None,
        strata: NDArray[Any] | None,
        place: torch.device,
        *,
        hold_out: bool,
    ) -> None:
        """Fit each column of y and each λ in one pass, and choose the λ."""
        before = self._forget()
        lams = resolve.penalties(self.lam)
        scorer = scorer_of(self.early_stopping)
        callbacks = resolve.callbacks(self.callbacks, self.verbose, self.early_stopping)
        seed = seed_of(self.random_state, before)
        if hold_out and held is None and self._holds_out(callbacks):
            share = resolve.fraction(self.validation_fraction)
            self._check_held_out(sample, strata, share)
            sample, held = sample.hold_out(share, strata, seed)
        with enough_memory(place):
            self._constant = resolve.flag("fit_intercept", self.fit_intercept)
            self._offset = self._centre(sample)
            self._target_scale = self._unit(sample)
            self._measure(sample)
            keeps_path = held is not None or np.ndim(self.lam) > 0
            spec, self.plan_ = self._specify(sample, len(lams), place, seed, self._scaling, keeps_path, callbacks)
            training = self._training(spec, sample, lams)
            if not hasattr(self, "bandwidth_"):
                self.bandwidth_: float | NDArray[np.float64] = training.kernel.bandwidth
            hashes = ProblemHashes.of(sample, lams, self._target_scale, training) if self.warm_start else None
            if before and hashes:
                before.continue_in(training, hashes)
            judge = None if held is None else HeldOutScorer(self, held, lams, scorer)
            self._descend(training, sample, lams, judge, callbacks)
            if hashes:
                self._warm = WarmStart(seed, hashes, training.descent.state_dict())
            del training, judge
            if held is not None:
                self._use_held_out(held)
        if hasattr(self, "path_"):
            self.path_.warn_at_the_edge()
        release_memory(torch.device("cpu"))  # else the C library keeps most of the freed memory

    def _holds_out(self, callbacks: list[Callback]) -> bool:
        """Return whether a fit holds out rows."""
        return resolve.needs_held_out_rows(self.lam, callbacks)

    def _check_held_out(self, sample: Sample, strata: NDArray[Any] | None, share: float) -> None:
        """Refuse rows of which a share cannot be held out."""

    def _use_held_out(self, held: Sample) -> None:
        """Take what a fitted estimator chooses on held-out rows."""

    def _descend(
        self,
        training: Training,
        sample: Sample,
        lams: list[float],
        judge: HeldOutScorer | None,
        callbacks: list[Callback],
    ) -> None:
        """Run a training with its callbacks, and take the attributes of the fitted model."""
        relay = SklearnCallbackRelay(self, sample)

        def fitted(result: Result) -> KernelEstimator:
            return relay.bare(self)._choose(result, lams, sample.y.shape[1])

        run = Run(training, title=type(self).__name__, judge=judge, model=fitted)
        for name, value in vars(fitted(descend(run, [*callbacks, relay]))).items():
            setattr(self, name, value)
        relay.close()

    def _forget(self) -> WarmStart | None:
        """Remove what an earlier fit has stored; return its end, if this fit is to continue from it."""
        before = getattr(self, "_warm", None)
        for name in ("path_", "mean_", "scale_", "bandwidth_", "schema_", "_predicted", "_warm"):
            if name in vars(self):
                delattr(self, name)
        return before if resolve.flag("warm_start", self.warm_start) else None

    def _choose(self, result: Result, lams: list[float], t: int) -> Self:
        """Take the attributes of the best λ; store the model of every λ where there are scores or several λ."""
        self.stop_reason_ = result.reason
        if not result.record.scores and not np.ndim(self.lam):
            return self._become(result, lams, 0, t)
        models = tuple(copy.copy(self)._become(result, lams, i, t) for i in range(len(lams)))
        path = Path(np.array(lams), np.array(result.record.scores or [math.nan] * len(lams)), models)
        self._become(result, lams, path.best, t)
        self.path_ = path
        return self

    def _specify(
        self,
        sample: Sample,
        n_lams: int,
        device: torch.device,
        seed: int,
        scaling: Scaling | None,
        scored: bool,
        callbacks: list[Callback],
    ) -> tuple[FitSpec, Plan]:
        """Return the decisions of a fit within ``memory``, and the plan of what it holds."""
        t = sample.y.shape[1]
        specs = resolve.fit_specs(self, sample.x, t, n_lams, device, seed, scaling, scored, callbacks)
        limits = resolve.budget(self.memory), resolve.memory(self.memory, device), resolve.kernel_room(device)
        return plan_estimator_fit(specs, sample, *limits)

    def _training(self, spec: FitSpec, sample: Sample, lams: list[float]) -> Training:
        """Build the problem; its columns are those of the first λ, of the second, and so on."""
        # The kernel itself needs a copy: the machine keeps it, and the user may change the array.
        exact, kernel = spec.n_features is None, spec.kernel
        x = rows_of(sample.x, spec.dtype, spec.device, copy=exact, scaling=spec.scaling, host=spec.rows_on_host)
        w = None if sample.w is None else torch.as_tensor(sample.w).to(x.device, x.dtype)
        sigma = resolve.sigma(self.bandwidth, self.kernel, kernel, x, w, spec.settings.seed)
        y = self._columns(sample.y, spec.n_lams, x)
        targets = make_targets(y, np.repeat(lams, spec.targets).tolist(), w, x.dtype)
        problem = Problem(self._loss_of_columns(spec.n_lams, spec.device), targets)
        return build(replace(spec, kernel=kernel.with_bandwidth(sigma)), x, problem, self.plan_)

    def _measure(self, sample: Sample) -> None:
        """Compute the statistics of the training rows in one pass, and check the bandwidth of each input."""
        bandwidths = bandwidth_of_inputs(self.bandwidth, kernels.get(self.kernel), sample.x.shape[1])
        if bandwidths is not None:
            self.bandwidth_ = bandwidths
        if resolve.standardizes(self.standardize, self.bandwidth, sample.x, sample.w):
            statistics = input_statistics(sample.x, sample.w)
            self.mean_, self.scale_ = statistics.mean.numpy(), statistics.deviation.numpy()

    def _columns(self, y: NDArray[Any], repeats: int, like: Tensor | Rows) -> Tensor:
        """Return the targets of all columns, or the one column that all share; signs stay in int8."""
        if y.dtype == np.int8:
            columns = torch.from_numpy(y).to(like.device)
        else:
            columns = torch.empty(y.shape, dtype=like.dtype)
            for rows in chunks(*y.shape):
                columns[rows] = torch.from_numpy((y[rows] - self._offset) / self._target_scale)
            columns = columns.to(like.device)
        return columns if columns.shape[1] == 1 else columns.repeat(1, repeats)

    def _become(self, result: Result, lams: list[float], i: int, t: int) -> Self:
        """Take the attributes of the i-th λ, with its t columns and its history."""
        columns = slice(i * t, (i + 1) * t)
        self.history_ = [r.entry(columns, r.scores[i] if r.scores else None) for r in result.records]
        self.history_[0]["plan"] = self.plan_.facts
        self.gap_ = result.record.entry(columns)["gap"]
        self.n_iter_ = max(1, math.ceil(result.record.epoch))
        return self._take(result.machine, lams, i, t)

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
        lams, device = resolve.penalties(self.lam), device_of(X, self.device)
        callbacks = resolve.callbacks(self.callbacks, self.verbose, self.early_stopping)
        x = copy.copy(self)._check_rows(X)
        scored = self._holds_out(callbacks)
        share = resolve.fraction(self.validation_fraction) if scored else 0.0
        targets, label_bytes = self._blank_targets(X.y if y is None and isinstance(X, Store) else y, device)
        sample = Sample.blank(x, targets, share, copied_bytes(X, x), label_bytes)
        bandwidths = bandwidth_of_inputs(self.bandwidth, kernels.get(self.kernel), x.shape[1])
        ones = np.ones(x.shape[1]) if resolve.standardizes(self.standardize, self.bandwidth, x, None) else None
        scaling = scaling_by(ones, ones, bandwidths)
        return self._specify(sample, len(lams), device, 0, scaling, scored, callbacks)[1]

    def _blank_targets(self, y: Any, device: torch.device) -> tuple[NDArray[Any], int]:  # (1, t)
        """Return a row of targets as y would be encoded, or one column, and the bytes of a class label."""
        raise NotImplementedError
