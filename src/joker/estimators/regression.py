"""Regressors: any loss of the residual, and a class for each of the common ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_pinball_score, r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from joker import losses
from joker.data.arrays import FLOATS, as_array, copied_bytes, device_of
from joker.errors import InvalidData, InvalidParameter
from joker.estimators import resolve
from joker.estimators.docstrings import documented
from joker.estimators.estimator import KernelEstimator
from joker.estimators.inputs import (
    LabelledRows,
    TrainingSet,
    check_numbers,
    check_target_size,
    check_weights,
    numbers_of,
)
from joker.estimators.nu import check_with_nu, result_of
from joker.estimators.resolve import Request, get_loss
from joker.estimators.scoring import HeldOutScorer, unit_of_squares
from joker.losses import LogLinkLoss, Loss
from joker.prepare import Training
from joker.runtime import chunks
from joker.solvers.nu import NuTube, solve

LARGEST_TARGET = 1e250  # in size: a prediction, which may be many times as large, is a finite number
LARGEST_LOG_MEAN = 60.0  # of the logarithm of the mean of y, for predictions in float32
LOG_LINKS = [name for name, kind in losses.NAMES.items() if issubclass(kind, LogLinkLoss)]


@dataclass(kw_only=True, eq=False, repr=False)
class BaseRegressor(RegressorMixin, KernelEstimator):
    """The fit and the predictions of every regressor."""

    scale_target: bool = True

    _link: LogLinkLoss | None = field(init=False)  # of a fit
    _task, _other_estimator, _targets_of = "regression", "KernelClassifier", staticmethod(numbers_of)

    def _fit(self, request: Request, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        X, y, sample_weight = train
        device = device_of(X, self.device)
        check_numbers(y)
        self._link = request.loss if isinstance(request.loss, LogLinkLoss) else None
        columns = {"multi_output": self._link is None, "y_numeric": True}
        if self._link is not None:
            self._check_one_output(self._link, y)
        x, y = self._check_rows(X, y, **columns)
        w = check_weights(sample_weight, len(y))
        self._ravel = y.ndim == 1
        coded = self._coded(y)
        scored = None
        if held is not None:
            Xv, yv = self._check_rows(*held[:2], **columns, reset=False)
            scored = TrainingSet(Xv, self._coded(yv), check_weights(held[2], len(yv)))
            if scored.y.shape[1] != coded.shape[1]:
                raise InvalidData("y of eval_set must have as many outputs as y. Give it the same columns.")
        sample = TrainingSet(x, coded, w, copied_bytes(X, x))
        self._solve(request, sample, scored, None, device, hold_out=hold_out)
        self._remember(X)
        return self

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² on rows, or D² for a loss of the log of the mean; y may be omitted where X is a row store."""
        y, loss = numbers_of(X, y), self._log_link
        if loss is None:
            unit = unit_of_squares(y)
            if (unit != 1).any():
                return float(r2_score(y / unit, self.predict(X) / unit, sample_weight=sample_weight))
            return float(super().score(X, y, sample_weight))
        return deviance_explained(loss, y, self.predict(X), check_weights(sample_weight, len(y)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the prediction for each row of X, of the shape of y; of a log mean, the mean."""
        if self._log_link is None:
            return self._shaped(self._decide(X))
        return self._shaped(self._results(X, exponential))

    @property
    def _log_link(self) -> LogLinkLoss | None:
        """The loss of the fit, or of the parameters before, if its prediction function is the logarithm of the mean."""
        if "_link" not in vars(self):
            loss = self._named_loss()
            return loss if isinstance(loss, LogLinkLoss) else None
        return self._link

    def _restored(self) -> None:
        self._link = self._log_link

    @staticmethod
    def _check_one_output(loss: LogLinkLoss, y: Any) -> None:
        """Refuse several outputs of a loss of the log of the mean, as scikit-learn's estimators of this kind do."""
        shape = np.asarray(as_array(y)).shape
        if len(shape) == 2 and shape[1] > 1:
            raise InvalidData(
                f"y must have one column for the {type(loss).__name__} loss; got {shape[1]}. Fit one output at a time."
            )

    def _coded(self, y: NDArray[Any]) -> NDArray[Any]:  # (n, t)
        y = y.reshape(len(y), -1)
        y = y if y.dtype in FLOATS else y.astype(np.float64)
        check_target_size(y, LARGEST_TARGET)
        if (loss := self._log_link) is not None:
            for rows in chunks(*y.shape):
                loss.check_targets(torch.tensor(y[rows]))  # a copy: y may be read-only
        return y

    def _encoded(self, y: NDArray[Any]) -> NDArray[Any]:
        return super()._encoded(y) if self._log_link is None else np.asarray(y / np.exp(self._offset))

    def _sample(self, X: Any, y: NDArray[Any], w: NDArray[np.float64] | None) -> TrainingSet:
        return TrainingSet(X, self._coded(y), w)

    def _blank_targets(self, y: Any, device: torch.device) -> tuple[NDArray[Any], int]:
        width = self._named_loss().box(torch.zeros(1, 1, device=device))[0].shape[1]
        given = np.zeros((1, 1)) if y is None else np.asarray(as_array(y))
        columns = 1 if given.ndim == 1 else given.shape[1]
        return np.zeros((1, max(columns, width)), dtype=given.dtype if given.dtype in FLOATS else np.float64), 0

    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]:
        return self._shaped(y)

    def _target_scaling(self, sample: TrainingSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        mean, ones = super()._target_scaling(sample)
        if self._log_link is not None:  # the deviance of y / mean is that of y, times a constant
            level = sample.mean() if self.scale_target else ones
            return np.log(np.where(level > 0, level, 1.0)), ones
        if self._constant:  # The intercept is penalised. Targets with mean 0 need only a small one.
            mean = sample.mean()
        spread = sample.spread(mean) if self.scale_target else ones
        return mean, np.where(spread > 0, spread, 1.0)

    @property
    def target_scale_(self) -> NDArray[Any]:
        """What each target is divided by before the fit: its deviation, or 1 with ``scale_target=False``.

        For a loss of the log of the mean it is the mean in place of the deviation.
        """
        check_is_fitted(self)
        by = self._target_scale if self._log_link is None else np.exp(self._offset)
        scale: NDArray[Any] = self._shaped(by[None])[0]
        return scale

    @property
    def _result_dtype(self) -> np.dtype[Any]:
        if self._log_link is not None and np.abs(self._offset).max() > LARGEST_LOG_MEAN:
            return np.dtype(np.float64)
        return super()._result_dtype

    def _resolve(self) -> Request:
        resolve.flag("scale_target", self.scale_target)
        return super()._resolve()

    def _shaped(self, columns: NDArray[Any]) -> NDArray[Any]:
        return columns[:, 0] if self._ravel else columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelRegressor(BaseRegressor):
    """Kernel regression with any loss of the residual.

    Minimises ``λ/2 ‖θ‖² + Σ w_i ℓ(y_i, f(x_i))`` with ``f(x) = ⟨θ, φ(x)⟩`` and
    ``⟨φ(x), φ(z)⟩ = k(x, z)``.

    Parameters
    ----------
    loss : str or Loss
        ``"squared"``, ``"huber"``, ``"absolute"``, ``"epsilon_insensitive"``,
        ``"squared_epsilon_insensitive"``, ``"quantile"``, ``"expectile"``, ``"lp"``, ``"poisson"``,
        ``"gamma"``, ``"tweedie"``, or a loss of :mod:`joker.losses` or of your own.
    delta, epsilon, p, quantile, expectile, power : float, optional
        The parameter of the loss, if it is not the default: ``delta`` of huber, ``epsilon`` of the ε-insensitive
        ones, ``p`` of lp, ``quantile`` of quantile, ``expectile`` of expectile, ``power`` of tweedie.
        ``delta`` and ``epsilon`` are in units of the scaled targets; in units of y with ``scale_target=False``.
    %(scale_target)s
    %(shared)s

    Notes
    -----
    λ is ``alpha`` of scikit-learn's KernelRidge; with ``scale_target=False`` it is ``1/C`` of its SVR.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelRegressor
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelRegressor(loss="huber", delta=0.5, lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> print(f"{model.score(X, np.sin(X[:, 0])):.2f}")
    1.00
    """

    loss: str | Loss = "squared"
    delta: float | None = None
    epsilon: float | None = None
    p: float | None = None
    quantile: float | None = None
    expectile: float | None = None
    power: float | None = None

    def _named_loss(self) -> Loss:
        given = {name: getattr(self, name) for name in ("delta", "epsilon", "p", "quantile", "expectile", "power")}
        return get_loss(self.loss, self._task, **{name: value for name, value in given.items() if value is not None})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if (self.loss in LOG_LINKS) if isinstance(self.loss, str) else isinstance(self.loss, LogLinkLoss):
            tags.target_tags.positive_only, tags.target_tags.multi_output = True, False
        return tags


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidge(BaseRegressor):
    """Kernel ridge regression.

    Minimises ``λ/2 ‖θ‖² + Σ w_i (y_i − f(x_i))²/2``.

    Parameters
    ----------
    %(scale_target)s
    %(shared)s

    Notes
    -----
    λ is ``alpha`` of scikit-learn's KernelRidge, which has no intercept; and n times Falkon's penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelRidge
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelRidge(lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> print(f"{model.score(X, np.sin(X[:, 0])):.2f}")
    1.00
    """

    def _named_loss(self) -> Loss:
        return losses.Squared()


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelHuber(BaseRegressor):
    """Robust kernel regression with Huber's loss.

    Minimises ``λ/2 ‖θ‖² + Σ w_i h(y_i − f(x_i))`` where ``h(u)`` is ``u²/2`` up to ``|u| = δ``
    and the line ``δ|u| − δ²/2`` for larger residuals, so that the gradient of an outlier is at most ``δ``.

    Parameters
    ----------
    delta : float
        The residual δ at which the loss becomes linear, in units of the scaled targets; in units of y with
        ``scale_target=False``.
    %(scale_target)s
    %(shared)s

    Notes
    -----
    scikit-learn's HuberRegressor estimates a scale s of the residuals. For that s it is this
    machine with the linear kernel, ``scale_target=False``, ``delta = epsilon · s`` and ``lam = alpha · s``.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelHuber
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[::10] += 5  # outliers
    >>> model = KernelHuber(delta=0.1, lam=0.01, bandwidth=1.0).fit(X, y)
    >>> bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.2)
    True
    """

    delta: float = 1.0

    def _named_loss(self) -> Loss:
        return losses.Huber(delta=self.delta)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelSVR(BaseRegressor):
    """Support vector regression.

    Minimises ``λ/2 ‖θ‖² + Σ w_i max(|y_i − f(x_i)| − ε, 0)``.

    Parameters
    ----------
    epsilon : float
        The half-width ε of the tube inside which a residual costs nothing, in units of the scaled targets; in units
        of y with ``scale_target=False``.
    nu : float, optional
        The share ν of the ν-SVR, in (0, 1], in place of ``epsilon``: an upper bound on the weight of the rows outside
        the tube, and a lower bound on that of the support vectors. The fit finds the ε that has this share,
        ``epsilon_``; it is 0 where even then fewer rows count. ν needs y of one column.
    %(scale_target)s
    %(shared)s
    epsilon_ : float
        The half-width ε of the tube, in the units of ``epsilon``.

    Notes
    -----
    With ``scale_target=False``, λ is ``1/C`` of scikit-learn's SVR and LinearSVR; else it is ``target_scale_ / C``.
    SVR does not penalise its intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelSVR
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelSVR(epsilon=0.05, lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> bool(np.mean(model.dual_coef_ != 0) < 0.5)  # few support vectors
    True
    """

    epsilon: float = 0.1
    nu: float | None = None

    def _resolve(self) -> Request:
        request = super()._resolve()
        if self.nu is not None:
            check_with_nu(self, request)
        return request

    def _fit(self, request: Request, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        if self.nu is not None and getattr(train[1], "ndim", 1) == 2 and train[1].shape[1] == 1:
            train = (train[0], column_or_1d(train[1], warn=True), train[2])  # the regressor has one output
        return super()._fit(request, train, held, hold_out=hold_out)

    def _named_loss(self) -> Loss:
        return losses.EpsilonInsensitive(epsilon=self.epsilon)

    def _descend(self, request: Request, training: Training, sample: TrainingSet, judge: HeldOutScorer | None) -> None:
        self.epsilon_ = float(self.epsilon)
        if self.nu is None:
            super()._descend(request, training, sample, judge)
            return
        if sample.y.shape[1] > 1:
            raise InvalidData(
                f"y must have one column where nu is set; got {sample.y.shape[1]}. Fit one output at a time."
            )
        found = solve(training.descent, NuTube(training.descent.problem.targets, self.nu))
        self.epsilon_ = -float(found.rho)
        self._set_best(result_of(training, found), request.lams, 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.nu is None
        return tags


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelLp(BaseRegressor):
    """Kernel regression with a power of the residual.

    Minimises ``λ/2 ‖θ‖² + Σ w_i |y_i − f(x_i)|^p / p``: between the median (p near 1), the mean
    (p = 2) and the middle of the range (p large).

    Parameters
    ----------
    p : float
        The power, greater than 1.
    %(scale_target)s
    %(shared)s

    Notes
    -----
    With p = 2 this is KernelRidge, and λ is ``alpha`` of scikit-learn's.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelLp
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelLp(p=1.5, lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> print(f"{model.score(X, np.sin(X[:, 0])):.2f}")
    1.00
    """

    p: float = 1.5

    def _named_loss(self) -> Loss:
        return losses.Lp(p=self.p)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelQuantile(BaseRegressor):
    """Quantile regression, one level or several in one pass.

    Minimises ``λ/2 ‖θ‖² + Σ w_i max(τ u_i, (τ − 1) u_i)`` with ``u_i = y_i − f(x_i)`` for each level τ.
    Predictions of several levels are sorted in each row, so that a higher quantile is never below a
    lower one; sorting never makes them worse (Chernozhukov, Fernández-Val and Galichon, 2010).

    Parameters
    ----------
    quantile : float or sequence of float
        The levels τ, between 0 and 1. A sequence needs y of one column, and gives one column a level.
    %(scale_target)s
    %(shared)s

    Notes
    -----
    For one level λ is ``1/C``, as in scikit-learn's SVR. Its QuantileRegressor penalises ``‖θ‖₁``, and is
    the same problem only without a penalty. ``score`` is the mean of D², the share of the pinball loss
    of a constant that is explained.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelQuantile
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = np.sin(X[:, 0]) + rng.normal(size=300)
    >>> low, high = KernelQuantile(quantile=[0.1, 0.9], lam=1.0).fit(X, y).predict(X).T
    >>> print(f"{np.mean((low <= y) & (y <= high)):.1f}")
    0.8
    """

    quantile: float | Sequence[float] = 0.5

    def _resolve(self) -> Request:
        if np.ndim(self.quantile) > 1 or not np.size(self.quantile):
            raise InvalidParameter(
                f"quantile must be a number or a sequence of numbers; got {self.quantile!r}. Use for example 0.5."
            )
        return super()._resolve()

    def _fit(self, request: Request, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        self._several = np.ndim(self.quantile) > 0
        self._levels = np.atleast_1d(self.quantile)
        return super()._fit(request, train, held, hold_out=hold_out)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the prediction for each row of X, with a column for each level of a sequence."""
        f = self._decide(X)
        if not self._several:
            return self._shaped(f)
        rank = np.argsort(np.argsort(self._levels, kind="stable"))
        return np.sort(f, axis=1)[:, rank]

    def calibrate(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Shift each level until its share of these rows lies below it; the rows must not be training rows.

        A fit that overfits has bands that are too narrow for new rows. `joker.tune` calibrates
        its result with the rows that it holds out. A row store has its own y.
        """
        y = column_or_1d(numbers_of(X, y))
        shift_levels(self, level_residuals(self, X, y), check_weights(sample_weight, len(y)))
        return self

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean of D² over the levels; 1 is perfect and 0 is as good as a constant."""
        y, f = numbers_of(X, y), self.predict(X)
        columns = zip(self._levels, f.T if self._several else [f], strict=True)
        return float(np.mean([d2_pinball_score(y, f, alpha=tau, sample_weight=sample_weight) for tau, f in columns]))

    def _named_loss(self) -> Loss:
        if np.ndim(self.quantile) == 0:
            return losses.Quantile(quantile=self.quantile)  # type: ignore[arg-type]
        levels = [losses.Quantile(level).quantile for level in np.ravel(self.quantile)]  # each is checked
        return losses.Quantile(torch.tensor(levels, dtype=torch.float64))

    def _loss_of_columns(self, loss: Loss, repeats: int, place: torch.device) -> Loss:
        assert isinstance(loss, losses.Quantile)
        levels = loss.quantile
        return losses.Quantile(levels.repeat(repeats).to(place)) if isinstance(levels, torch.Tensor) else loss

    def _coded(self, y: NDArray[Any]) -> NDArray[Any]:
        coded = super()._coded(y)
        if not self._several:
            return coded
        if coded.shape[1] > 1:
            raise InvalidData(
                f"y must have one column where quantile is a sequence; got {coded.shape[1]}. Fit one output at a time."
            )
        self._ravel = False
        return np.tile(coded, (1, len(self._levels)))

    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]:
        return y[:, 0] if self._several else super()._decoded(y)


def level_residuals(model: KernelQuantile, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:  # (n,) -> (n, levels)
    """Return the targets minus the prediction of each level."""
    residuals: NDArray[np.float64] = np.asarray(y, dtype=np.float64)[:, None] - model._decide(X)
    return residuals


def shift_levels(model: KernelQuantile, residuals: NDArray[np.float64], w: NDArray[np.float64] | None = None) -> None:
    """Add to each level the quantile of its residuals, (n, levels), on rows that the model was not trained on.

    This is split conformal prediction of each level (Romano, Patterson and Candès, 2019).
    """
    levels = np.broadcast_to(model._levels, residuals.shape[1:])
    shift = np.array([_quantile(r, float(tau), w) for r, tau in zip(residuals.T, levels, strict=True)])
    model._offset = model._offset + shift
    model.intercept_ = model.intercept_ + model._shaped(shift[None])[0]


def conformal_level(level: float, rows: int) -> float:
    """Return the level of a quantile of residuals: one more row, the new one, may be anywhere among the others."""
    return level * (1 + 1 / rows) - (0.0 if level >= 0.5 else 1 / rows)


def _quantile(values: NDArray[np.float64], level: float, w: NDArray[np.float64] | None) -> float:
    """Return the quantile; at a level above a half the next larger value, else the next smaller, as coverage needs."""
    order = np.argsort(values)
    weights = np.ones(len(values)) if w is None else w[order]
    total = float(weights.sum())
    wanted = total * conformal_level(level, len(values))
    place = int(np.searchsorted(np.cumsum(weights), wanted - 1e-9 * total))
    return float(values[order][min(place, len(values) - 1)])


def exponential(f: NDArray[Any]) -> NDArray[Any]:
    """Return exp(f), or the nearest positive number that is finite in the type of f."""
    limits = np.finfo(f.dtype)
    result: NDArray[Any] = np.exp(np.clip(f, np.ceil(np.log(limits.tiny)), np.floor(np.log(limits.max))))
    return result


def deviance_explained(
    loss: LogLinkLoss, y: NDArray[Any], predicted: NDArray[Any], w: NDArray[np.float64] | None
) -> float:
    """Return D²: the share of the deviance of a constant that is explained; of several outputs, its mean."""
    y, f = (np.asarray(v, dtype=np.float64).reshape(len(v), -1) for v in (y, np.log(predicted)))
    loss.check_targets(torch.tensor(y))

    def deviance(f: NDArray[Any]) -> NDArray[Any]:  # (n, t) -> (t,)
        terms = loss.value(torch.tensor(y), torch.tensor(np.broadcast_to(f, y.shape)))
        return np.asarray(np.average(terms.numpy(), axis=0, weights=w))

    mean = np.average(y, axis=0, weights=w)
    return explained(deviance(f), deviance(np.log(np.where(mean > 0, mean, np.finfo(float).tiny))))


def mean_deviance(loss: LogLinkLoss, y: NDArray[Any], mean: NDArray[Any], w: NDArray[np.float64] | None) -> float:
    """Return the weighted mean of half the deviance of positive predictions."""
    terms = loss.value(
        torch.from_numpy(np.asarray(y, dtype=np.float64)), torch.from_numpy(np.log(mean, dtype=np.float64))
    )
    return float(np.average(terms.numpy(), weights=w))


def explained(found: NDArray[Any], of_constant: NDArray[Any]) -> float:
    """Return one minus the mean ratio of losses; where the constant is perfect, 1 for a perfect prediction, else 0."""
    ratio = np.where(of_constant > 0, found / np.where(of_constant > 0, of_constant, 1.0), (found > 0).astype(float))
    return float(np.mean(1 - ratio))
