"""Robust regression: a few outliers distort a fit with the squared loss, and hardly change one with the Huber loss.

python examples/robust_regression.py [--quick]     writes robust_regression.png where matplotlib is installed
"""

import sys
from importlib.util import find_spec

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

if find_spec("matplotlib"):
    from matplotlib.figure import Figure

    line = np.column_stack([np.linspace(-3, 3, 300), np.zeros(300)])
    near = np.abs(X[:, 1]) < 0.1
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.subplots()
    ax.plot(X[near, 0], y[near], ".", color="0.7", markersize=3)
    ax.plot(line[:, 0], truth(line), "k--", label="truth")
    for name, model in models.items():
        ax.plot(line[:, 0], model.predict(line), label=name)
    ax.set(ylim=(-2, 4), xlabel="x₁, where x₂ is 0")
    ax.legend()
    figure.savefig("robust_regression.png", dpi=150)
    print("plot: robust_regression.png")
