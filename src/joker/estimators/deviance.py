"""Regressors of a log mean, whose losses are deviances, and of expectiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker import losses
from joker.estimators.docstrings import documented
from joker.estimators.inputs import check_weights, numbers_of
from joker.estimators.regression import BaseRegressor, explained
from joker.losses import Loss

EXPECTILE_STEPS = 50  # of the expectile of a sample: each step is a weighted mean


@dataclass(kw_only=True, eq=False, repr=False)
class _LogMeanRegressor(BaseRegressor):
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only, tags.target_tags.multi_output = True, False
        return tags


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelPoisson(_LogMeanRegressor):
    """Poisson regression: counts, with the log link.

    Minimises ``λ/2 ‖θ‖² + Σ w_i (exp(f(x_i)) − y_i f(x_i))``, up to a constant half the Poisson deviance. ``predict``
    returns the mean ``exp(f(x))``.

    Parameters
    ----------
    scale_target : bool
        Whether to divide the targets by their mean before the fit. Predictions are in units of y. λ, the scores of
        ``path_`` and ``history_`` are those of the scaled targets.
    %(shared)s

    Notes
    -----
    For rates, y is the count divided by the exposure and ``sample_weight`` the exposure. ``score`` is D², the share of
    the deviance of the mean that is explained. λ is ``n · alpha`` of scikit-learn's PoissonRegressor, which is linear
    and does not penalise its intercept, with ``scale_target=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelPoisson
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = rng.poisson(np.exp(1 + np.sin(X[:, 0])))
    >>> model = KernelPoisson(lam=1.0).fit(X, y)
    >>> print(f"{model.predict([[1.5]])[0]:.1f}")  # the mean is exp(2), 7.4
    7.7
    """

    def _named_loss(self) -> Loss:
        return losses.Poisson()


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelGamma(_LogMeanRegressor):
    """Gamma regression: positive costs and durations, with the log link.

    Minimises ``λ/2 ‖θ‖² + Σ w_i (y_i exp(−f(x_i)) + f(x_i))``, up to a constant half the gamma deviance, which depends
    on relative errors only. ``predict`` returns the mean ``exp(f(x))``.

    Parameters
    ----------
    scale_target : bool
        Whether to divide the targets by their mean before the fit. Predictions are in units of y. λ means the same with
        and without.
    %(shared)s

    Notes
    -----
    ``score`` is D², the share of the deviance of the mean that is explained. Targets must be positive; `KernelTweedie`
    is for targets of which some are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelGamma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = rng.gamma(2, np.exp(np.sin(X[:, 0])) / 2)
    >>> model = KernelGamma(lam=1.0).fit(X, y)
    >>> bool((model.predict(X) > 0).all())
    True
    """

    def _named_loss(self) -> Loss:
        return losses.Gamma()


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelTweedie(_LogMeanRegressor):
    """Tweedie regression: costs of which many are 0, with the log link.

    Minimises ``λ/2 ‖θ‖² + Σ w_i (y_i exp(−r f(x_i)) / r + exp(s f(x_i)) / s)`` with ``r = power − 1`` and
    ``s = 2 − power``, up to a constant half the Tweedie deviance. ``predict`` returns the mean ``exp(f(x))``.

    Parameters
    ----------
    power : float
        The power of the mean to which the variance is proportional, between 1 (`KernelPoisson`) and 2 (`KernelGamma`).
    scale_target : bool
        Whether to divide the targets by their mean before the fit. Predictions are in units of y. λ, the scores of
        ``path_`` and ``history_`` are those of the scaled targets.
    %(shared)s

    Notes
    -----
    ``score`` is D², the share of the deviance of the mean that is explained.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelTweedie
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = rng.poisson(1, 300) * rng.gamma(2, np.exp(np.sin(X[:, 0])) / 2)  # claims times their size
    >>> model = KernelTweedie(power=1.5, lam=1.0).fit(X, y)
    >>> bool((model.predict(X) > 0).all())
    True
    """

    power: float = 1.5

    def _named_loss(self) -> Loss:
        return losses.Tweedie(power=self.power)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelExpectile(BaseRegressor):
    """Expectile regression: asymmetric least squares.

    Minimises ``λ/2 ‖θ‖² + Σ w_i e u_i²`` where ``u_i = y_i − f(x_i)`` is positive, and with ``1 − e`` in place of ``e``
    where it is negative. The level 1/2 is `KernelRidge`; a higher level predicts a higher mean, in which errors above
    count more.

    Parameters
    ----------
    expectile : float
        The level e, between 0 and 1.
    %(scale_target)s
    %(shared)s

    Notes
    -----
    ``score`` is D², the share of the loss of a constant that is explained.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelExpectile
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (300, 1))
    >>> y = np.sin(X[:, 0]) + rng.normal(size=300)
    >>> low, high = (KernelExpectile(expectile=e, lam=1.0).fit(X, y).predict(X) for e in (0.1, 0.9))
    >>> bool((low < high).all())
    True
    """

    expectile: float = 0.5

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return D²: the share of the loss of a constant that is explained."""
        y, f = (np.asarray(v, dtype=np.float64).reshape(len(v), -1) for v in (numbers_of(X, y), self.predict(X)))
        w = check_weights(sample_weight, len(y))

        def mean_loss(f: NDArray[Any]) -> NDArray[Any]:  # (n, t) -> (t,)
            return np.asarray(np.average(self._asymmetry(y - f) * (y - f) ** 2, axis=0, weights=w))

        centre = np.average(y, axis=0, weights=w)
        for _ in range(EXPECTILE_STEPS):
            weights = self._asymmetry(y - centre) * (1.0 if w is None else w[:, None])
            centre = (weights * y).sum(axis=0) / weights.sum(axis=0)
        return explained(mean_loss(f), mean_loss(centre))

    def _asymmetry(self, u: NDArray[Any]) -> NDArray[Any]:
        return np.where(u < 0, 1 - self.expectile, self.expectile)

    def _named_loss(self) -> Loss:
        return losses.Expectile(expectile=self.expectile)
