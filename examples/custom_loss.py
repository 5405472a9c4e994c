"""A loss of your own: an error below the target costs four times as much as an error above it.

A shop that orders one unit too few loses a customer; one unit too many costs a day of storage. The loss is

    w(u) u²/2    with u = y − f, and w(u) = 4 where u > 0, else 1

and its convex conjugate, which joker needs, is a²/2w(a). docs/adding-a-loss.md explains the methods.

python examples/custom_loss.py [--quick]
"""

import sys
from dataclasses import dataclass

import numpy as np
import torch

from joker import KernelRegressor, KernelRidge
from joker.losses import RegressionLoss

n = 1_500 if "--quick" in sys.argv else 10_000
rng = np.random.default_rng(0)


@dataclass(frozen=True)
class Lopsided(RegressionLoss):
    """u²/2, times ``short`` where the target is above the prediction."""

    short: float = 4.0

    def primal(self, u):
        return self.weight(u) * u.square() / 2

    def dual(self, a):
        return a.square() / (2 * self.weight(a))

    def slope(self, a):
        return a / self.weight(a)

    def curvature(self, a):
        return 1 / self.weight(a)

    def weight(self, a):
        return torch.where(a > 0, self.short, 1.0).to(a.dtype)


def demand(n):
    """Draw sales over a week of seven days; their deviation grows towards its end."""
    day = rng.uniform(0, 7, (n, 1))
    return day, 20 + 5 * np.sin(day[:, 0]) + (1 + 0.3 * day[:, 0]) * rng.normal(size=n)


def cost(y, order):
    return np.mean(np.where(y > order, 4.0, 1.0) * (y - order) ** 2 / 2)


X, y = demand(n)
X_test, y_test = demand(n)
settings = dict(lam=0.1, bandwidth=1.0, n_features=200, random_state=0)
for name, model in [
    ("squared loss", KernelRidge(**settings)),
    ("your own", KernelRegressor(loss=Lopsided(short=4.0), **settings)),
]:
    order = model.fit(X, y).predict(X_test)
    print(
        f"{name:14} cost {cost(y_test, order):.3f}   sold out {np.mean(y_test > order):.1%} of the time   "
        f"(at most {model.gap_:.1e} of the objective above the optimum)"
    )
