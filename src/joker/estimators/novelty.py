"""Novelty detection: the one-class support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from joker import losses
from joker.callbacks import Callback
from joker.data.arrays import copied_bytes, device_of
from joker.errors import InvalidData
from joker.estimators.docstrings import documented
from joker.estimators.estimator import KernelEstimator, with_callbacks
from joker.estimators.inputs import LabelledRows, TrainingSet, check_weights
from joker.estimators.nu import check_nu, result_of
from joker.estimators.resolve import Request, Scorer
from joker.estimators.scoring import HeldOutScorer
from joker.losses import Loss
from joker.prepare import Training
from joker.solvers.nu import OneClass, solve


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelOneClass(OutlierMixin, KernelEstimator):
    """Novelty detection with the one-class support vector machine.

    Minimises ``½ ‖θ‖² − ν ρ Σ w_i + Σ w_i max(ρ − f(x_i), 0)`` over θ and the threshold ρ, with
    ``f(x) = ⟨θ, φ(x)⟩``. Rows with ``f(x) ≥ ρ`` are inliers; at most the share ν of the training rows is below ρ.

    Parameters
    ----------
    nu : float
        The share ν of the training rows that may be outliers, in (0, 1]: an upper bound on the share of rows below ρ,
        and a lower bound on the share of support vectors.
    %(shared)s
    offset_ : float
        The threshold ρ; ``intercept_`` is −ρ.
    lam_ : float
        The factor of ``½ ‖θ‖²``, which is always 1.

    Notes
    -----
    It is the problem of scikit-learn's OneClassSVM, with the same ``nu``, ``dual_coef_``, ``offset_`` and scores; its
    ``gamma`` of the Gaussian kernel is ``1 / (2 bandwidth²)``. ``max_epochs`` limits the passes for each ρ that the fit
    tries. ``gap_`` is the duality gap of the whole problem, with exactly this ν, divided by ``½ ‖θ‖²``.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelOneClass
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = KernelOneClass(nu=0.1, bandwidth=1.0).fit(X)
    >>> model.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    >>> print(f"{np.mean(model.predict(X) == -1):.2f}")
    0.10
    """

    nu: float = 0.5
    # What does not apply: the threshold takes the place of λ and of the intercept, and nothing is held out.
    lam: float | Sequence[float] = field(default=1.0, init=False)
    fit_intercept: bool = field(default=False, init=False)
    early_stopping: bool | str | Scorer = field(default=False, init=False)
    validation_fraction: float = field(default=0.1, init=False)
    warm_start: bool = field(default=False, init=False)
    callbacks: Sequence[Callback] | None = field(default=None, init=False)
    verbose: int = field(default=0, init=False)

    _task, _other_estimator, _targets_of = "classification", "KernelSVC", staticmethod(lambda X, y: None)
    _one_class = True

    def _resolve(self) -> Request:
        check_nu(self.nu)
        return super()._resolve()

    def _named_loss(self) -> Loss:
        return losses.ThresholdHinge()

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Fit to rows, almost all of which are usual.

        Parameters
        ----------
        X : array, sparse matrix, data frame or tensor of shape (n, d), or row store
            Rows of inputs.
        y : ignored
            There are no targets.
        sample_weight : array of shape (n,), optional
            The weight of each row: 2 is the row twice, 0 leaves it out.
        """
        self._fit(self._resolve(), (X, None, sample_weight), None, hold_out=False)
        self._warn_if_far()
        return self

    def _fit(self, request: Request, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        X, _, sample_weight = train
        x = self._check_rows(X)
        w = check_weights(sample_weight, x.shape[0])
        self._ravel = True
        sample = TrainingSet(x, self._ones(x.shape[0]), w, copied_bytes(X, x))
        self._solve(request, sample, None, None, device_of(X, self.device), hold_out=False)
        self._remember(X)
        return self

    def _descend(self, request: Request, training: Training, sample: TrainingSet, judge: HeldOutScorer | None) -> None:
        found = solve(training.descent, OneClass(training.descent.problem.targets, check_nu(self.nu)))
        rho = float(found.rho)
        if not rho > 0:
            raise InvalidData(
                f"the rows must lie on one side of the origin of the feature space, up to the share nu={self.nu:g}; "
                f"they do not, and the threshold is {rho:.2g}. Use a kernel of positive values, such as 'gaussian', "
                "more features, or a larger nu."
            )
        self._offset = np.array([-rho])
        self._set_best(result_of(training, found), request.lams, 1)

    def score_samples(self, X: Any) -> NDArray[Any]:
        """Return f of each row: large for rows that are like many training rows."""
        return self._decide(X)[:, 0] + self.offset_

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return f minus the threshold: negative for outliers."""
        return self._decide(X)[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return 1 for each inlier and −1 for each outlier."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @property
    def offset_(self) -> float:
        """The threshold ρ: ``decision_function`` is ``score_samples`` minus this."""
        check_is_fitted(self)
        return -float(self._offset[0])

    def _ones(self, n: int) -> NDArray[np.int8]:  # (n, 1)
        return np.ones((n, 1), dtype=np.int8)

    def _sample(self, X: Any, y: NDArray[Any], w: NDArray[np.float64] | None) -> TrainingSet:
        return TrainingSet(X, self._ones(X.shape[0]), w)

    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]:
        return y[:, 0]

    def _shaped(self, columns: NDArray[Any]) -> NDArray[Any]:
        return columns[:, 0]

    def _blank_targets(self, y: Any, device: torch.device) -> tuple[NDArray[Any], int]:
        return self._ones(1), 0
