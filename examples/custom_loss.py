"""
A loss of your own
==================

An error below the target costs four times as much as an error above it. A shop that orders one unit too few loses a
customer; one unit too many costs a day of storage. The loss is as follows.

.. code-block:: text

    w(u) u²/2    with u = y − f, and w(u) = 4 where u > 0, else 1

Its convex conjugate, which joker needs, is a²/2w(a). docs/adding-a-loss.md explains the methods.

``python examples/custom_loss.py [--quick]``
"""

import sys
from dataclasses import dataclass

import matplotlib.pyplot as plt
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
models = {}
settings = dict(lam=0.1, bandwidth=1.0, n_features=200, random_state=0)
for name, model in [
    ("squared loss", KernelRidge(**settings)),
    ("your own", KernelRegressor(loss=Lopsided(short=4.0), **settings)),
]:
    order = model.fit(X, y).predict(X_test)
    models[name] = model
    print(
        f"{name:14} cost {cost(y_test, order):.3f}   sold out {np.mean(y_test > order):.1%} of the time   "
        f"(at most {model.gap_:.1e} of the objective above the optimum)"
    )

# %%
# The curve of the mean has half of the days above it. The loss of the shop moves the order up, most where sales vary
# most.

plt.style.use("seaborn-v0_8-colorblind")
grid = np.linspace(0, 7, 300)[:, None]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(X_test[:1500, 0], y_test[:1500], ".", color="0.75", markersize=3, label="new days", zorder=0)
for (name, model), style in zip(models.items(), ("C2--", "C0-"), strict=True):
    ax.plot(grid[:, 0], model.predict(grid), style, linewidth=2, label=f"order with {name}")
ax.set(xlabel="day of the week", ylabel="units sold", xlim=(0, 7), ylim=(8, 36))
ax.legend(loc="upper right", ncols=3, fontsize=9)
plt.show()
