"""
Robust regression against outliers
==================================

A few outliers distort a fit with the squared loss, and hardly change one with the Huber loss.

``python examples/robust_regression.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelHuber, KernelRidge

n = 1_500 if "--quick" in sys.argv else 20_000
rng = np.random.default_rng(0)


def truth(X):
    return np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


X = rng.uniform(-3, 3, (n, 2))
y = truth(X) + 0.1 * rng.normal(size=n)
outlier = rng.random(n) < 0.1  # one value in ten is far too high
y[outlier] += rng.uniform(5, 20, outlier.sum())

X_test = rng.uniform(-3, 3, (5_000, 2))
settings = dict(lam=0.1, bandwidth=1.0, n_features=300, random_state=0)
models = {
    "squared": KernelRidge(**settings),
    "huber": KernelHuber(delta=0.05, **settings),  # errors above a twentieth of the deviation of y count linearly
}
print(f"{n:,} rows, {outlier.mean():.0%} of them outliers")
for name, model in models.items():
    error = model.fit(X, y).predict(X_test) - truth(X_test)
    print(f"  {name:8} off the true surface by {np.sqrt(np.mean(error**2)):.3f}   (gap {model.gap_:.1e})")

# %%
# A slice through both models. The upper panel has the outliers, which pull the squared loss upwards.

plt.style.use("seaborn-v0_8-colorblind")
line = np.column_stack([np.linspace(-3, 3, 300), np.zeros(300)])
near = np.abs(X[:, 1]) < 0.1
figure, (above, ax) = plt.subplots(2, 1, sharex=True, height_ratios=[1, 2], figsize=(8, 5), layout="constrained")
for panel in (above, ax):
    panel.plot(X[near, 0], y[near], ".", color="0.6", markersize=4, label="rows with |x₂| < 0.1")
ax.plot(line[:, 0], truth(line), "k--", label="true function")
for name, label, style in (("squared", "squared loss", "C2-."), ("huber", "Huber loss", "C0-")):
    ax.plot(line[:, 0], models[name].predict(line), style, label=label)
above.set(ylim=(3.8, 22), ylabel="y, outliers")
ax.set(ylim=(-1.5, 3.8), xlim=(-3, 3), xlabel="first input x₁ (second input x₂ = 0)", ylabel="y")
ax.legend(loc="upper center", ncols=4, fontsize=9)
plt.show()
