"""What every estimator shares: its settings, and the way from arrays to a machine and back."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from joker import kernels
from joker.errors import InvalidData, InvalidParameter
from joker.estimators import parameters
from joker.estimators.path import Path
from joker.kernels import Kernel
from joker.losses import Loss
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.runtime import parse_device
from joker.solvers import Record, Report, Settings
from joker.training import prepare

FLOATS = [np.float64, np.float32]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with their targets, coded as numbers."""

    x: NDArray[Any]  # (n, d)
    y: NDArray[np.float64]  # (n, t)
    w: NDArray[np.float64] | None = None  # (n,)

    def take(self, rows: NDArray[np.intp]) -> Sample:
        """Return some of the rows."""
        return Sample(self.x[rows], self.y[rows], None if self.w is None else self.w[rows])


@dataclass(kw_only=True, eq=False, repr=False)
class KernelEstimator(BaseEstimator):
    """The settings and the fit that regressors and classifiers share."""

    lam: float | Sequence[float] = 1.0
    kernel: str | Kernel = "gaussian"
    bandwidth: str | float = "auto"
    n_features: int | str | None = "auto"
    features: str = "auto"
    block_size: int | str = "auto"
    max_epochs: float = 5
    tol: float = 1e-3
    max_time: float = math.inf
    averaging: bool = True
    momentum: bool = False
    fit_intercept: bool = True
    validation_fraction: float = 0.1
    device: str | torch.device | None = None
    dtype: str | torch.dtype = "auto"
    memory: int | str = "256MiB"
    random_state: int | np.random.RandomState | None = None

    @property
    def dual_coef_(self) -> NDArray[Any]:
        """α, one weight for each training row."""
        check_is_fitted(self)
        if not isinstance(self._machine, ExactMachine):
            raise AttributeError("dual_coef_ is there with the kernel itself (n_features=None); see coef_.")
        return self._shaped(self._machine.alpha.cpu().numpy())

    @property
    def coef_(self) -> NDArray[Any]:
        """θ, one weight for each feature."""
        check_is_fitted(self)
        if not isinstance(self._machine, FeatureMachine):
            raise AttributeError("coef_ is there with features (n_features an int); see dual_coef_.")
        theta = self._machine.theta[:-1] if self._constant else self._machine.theta
        return self._shaped(theta.cpu().numpy()).T

    def save(self, path: str | os.PathLike[str], *, store_features: bool = False) -> None:
        """Write the fitted estimator to one file, which `joker.load` reads.

        The file is safetensors with a JSON document, holds no code, and is there either whole or not at all;
        one of that name is replaced. ``callbacks`` are not kept, nor a ``random_state`` that is no number.

        Parameters
        ----------
        path : str or PathLike
            Where to, in a folder that exists.
        store_features : bool
            Whether to keep random features themselves. By default a file keeps the seed that gives them
            exactly, and is small; a release of torch with another random number generator could not read it.
        """
        from joker.estimators import saving

        saving.save(self, path, store_features=store_features)

    def _loss(self) -> Loss:
        """The loss that the parameters name."""
        raise NotImplementedError

    def _loss_of_columns(self, repeats: int, place: torch.device) -> Loss:
        """The loss of all columns, which are those of one λ, ``repeats`` times."""
        return self._loss()

    def _shaped(self, columns: NDArray[Any]) -> NDArray[Any]:
        """The (n, t) columns in the shape that a user expects."""
        return columns

    def _centre(self, sample: Sample) -> NDArray[np.float64]:  # (t,)
        """What the targets are moved by before the fit and the predictions after it."""
        return np.zeros(sample.y.shape[1])

    def _checked_loss(self, task: str, elsewhere: str) -> Loss:
        loss = self._loss()
        if loss.frame.task != task:
            raise InvalidParameter(
                f"loss must be one for {task}; got {self.loss!r}, which is for {loss.frame.task}. Use {elsewhere}."
            )
        return loss

    def _check_rows(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """Check arrays, frames or tensors as scikit-learn does."""
        return validate_data(self, as_array(X), as_array(y), dtype=FLOATS, **checks)

    def _solve(self, sample: Sample, held: Sample | None, strata: NDArray[Any] | None, place: torch.device) -> None:
        """Fit each column of y and each λ in one pass, and choose the λ."""
        self.__dict__.pop("path_", None)  # of an earlier fit
        lams = parameters.penalties(self.lam)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if held is None and np.ndim(self.lam):
            sample, held = self._hold_out(sample, strata, seed)
        self._constant = parameters.flag("fit_intercept", self.fit_intercept)
        self._offset = self._centre(sample)
        t = sample.y.shape[1]
        training = self._training(sample, lams, seed, place)
        machine, report = training.run()
        self.bandwidth_ = training.kernel.bandwidth
        self.stop_reason_ = report.reason.value
        if held is None:
            self._take(machine, report, lams, 0, t)
            return
        scores = self._scores(machine, held, len(lams))
        models = tuple(copy.copy(self)._take(machine, report, lams, i, t) for i in range(len(lams)))
        path = Path(np.array(lams), scores, models)
        self._take(machine, report, lams, path.best, t)
        self.path_ = path

    def _hold_out(self, sample: Sample, strata: NDArray[Any] | None, seed: int) -> tuple[Sample, Sample]:
        rows = np.arange(len(sample.x))
        share = parameters.fraction(self.validation_fraction)
        kept, held = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
        if sample.w is not None and not (sample.w[kept].any() and sample.w[held].any()):
            raise InvalidData(
                "the rows held out to choose lam, and the others, must not all have zero weight. "
                "Use another validation_fraction or random_state, or give fit an eval_set."
            )
        return sample.take(np.sort(kept)), sample.take(np.sort(held))

    def _training(self, sample: Sample, lams: list[float], seed: int, place: torch.device) -> Any:
        """Lay out the problem; its columns are those of the first λ, of the second, and so on."""
        (n, d), t = sample.x.shape, sample.y.shape[1]
        block_size = parameters.block_size(self.block_size, n)
        one_block = isinstance(block_size, Integral) and block_size >= n
        # A copy: the machine keeps it, and what becomes of the user's array must not change the machine.
        x = torch.tensor(sample.x, dtype=parameters.dtype(self.dtype, one_block), device=place)
        w = None if sample.w is None else torch.as_tensor(sample.w).to(x)
        kernel = kernels.get(self.kernel)
        return prepare(
            x,
            self._columns(sample.y, len(lams), x),
            loss=self._loss_of_columns(len(lams), place),
            lam=np.repeat(lams, t).tolist(),
            weights=w,
            kernel=kernel,
            bandwidth=parameters.sigma(self.bandwidth, self.kernel, kernel, x, w, seed),
            n_features=parameters.n_features(self.n_features, self.features, kernel, n, d),
            features=self.features,
            intercept=self._constant,
            memory=self.memory,
            settings=Settings(
                block_size=block_size,
                max_epochs=self.max_epochs,
                tol=self.tol,
                max_time=self.max_time,
                averaging=self.averaging,
                momentum=self.momentum,
                seed=seed,
            ),
        )

    def _columns(self, y: NDArray[np.float64], repeats: int, like: Tensor) -> Tensor:
        """The targets of all columns, or the one column that all share."""
        columns = torch.as_tensor(y - self._offset).to(like)
        return columns if columns.shape[1] == 1 else columns.repeat(1, repeats)

    def _scores(self, machine: Machine, held: Sample, repeats: int) -> NDArray[np.float64]:  # (L,)
        """Minus the mean loss of each λ on held-out rows."""
        f = self._evaluate(machine, held.x).double().cpu()
        y = self._columns(held.y, repeats, f)
        losses = self._loss_of_columns(repeats, f.device).value(y.expand_as(f), f).numpy()
        mean: NDArray[np.float64] = np.average(losses, axis=0, weights=held.w)
        scores: NDArray[np.float64] = -mean.reshape(repeats, -1).mean(axis=1)
        return scores

    def _take(self, machine: Machine, report: Report, lams: list[float], i: int, t: int) -> Self:
        """Become the model of the i-th λ, of the t columns that belong to it."""
        start, stop = i * t, (i + 1) * t
        self._machine = machine.columns(start, stop)
        self.lam_ = lams[i]
        self.history_ = [_entry(record, slice(start, stop)) for record in report.records]
        self.gap_ = self.history_[-1]["gap"]
        self.n_iter_ = max(1, math.ceil(report.records[-1].epoch))
        constant = self._machine.constant.double().cpu().numpy() if self._constant else np.zeros(t)
        self.intercept_ = self._shaped((constant + self._offset)[None])[0]
        return self

    def _evaluate(self, machine: Machine, x: NDArray[Any]) -> Tensor:  # (n, t)
        weights = machine.constant
        rows = torch.from_numpy(np.require(x, requirements="W"))  # torch takes no read-only array
        return machine.predict(rows.to(weights), self.memory)

    def _decide(self, X: Any) -> NDArray[Any]:  # (n, t)
        """The prediction function of each column, for rows as a user gives them."""
        check_is_fitted(self)
        f: NDArray[Any] = self._evaluate(self._machine, self._check_rows(X, reset=False)).cpu().numpy()
        f += self._offset
        return f


def _entry(record: Record, columns: slice) -> dict[str, float]:
    """A record of one model as plain numbers."""
    gap = record.gap
    return {
        "epoch": record.epoch,
        "seconds": record.seconds,
        "primal": float(gap.primal[columns].sum()),
        "dual": -float(gap.dual[columns].sum()),
        "gap": float(gap.relative[columns].nan_to_num(nan=math.inf).max()),
    }


def as_array(data: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    return data.detach().cpu().numpy() if isinstance(data, Tensor) else data


def place_of(X: Any, device: str | torch.device | None) -> torch.device:
    """Where to compute: as told, else where a tensor lies, else on the CPU."""
    return X.device if device is None and isinstance(X, Tensor) else parse_device(device)


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """The weights of n rows, where there are any."""
    if sample_weight is None:
        return None
    given = as_array(sample_weight)
    w: NDArray[np.float64] = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if w.shape != (n,):
        raise InvalidData(f"sample_weight must have shape ({n},), one weight for each row; got {w.shape}. Reshape it.")
    if w.min() < 0:
        raise InvalidData(f"sample_weight must be at least 0; found {w.min():g}. Use 0 to leave a row out.")
    if not w.any():
        raise InvalidData("sample_weight must not be zero for every row. Give at least one row a positive weight.")
    return w


def check_pair(eval_set: Any) -> tuple[Any, Any]:
    """The rows and targets of ``eval_set``."""
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise InvalidParameter(f"eval_set must be a pair (X, y); got {type(eval_set).__name__}. Use eval_set=(Xv, yv).")
    return eval_set[0], eval_set[1]
