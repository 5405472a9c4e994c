"""Quantile bands: limits for new values, where the noise depends on the input.

python examples/quantile_bands.py [--quick]     writes quantile_bands.png where matplotlib is installed
"""

import sys
from importlib.util import find_spec

import numpy as np

from joker import KernelQuantile

n = 1_500 if "--quick" in sys.argv else 20_000
rng = np.random.default_rng(0)


def sample(n):
    """Draw a sine whose noise grows with x."""
    X = rng.uniform(0, 10, (n, 1))
    return X, np.sin(X[:, 0]) + (0.1 + 0.1 * X[:, 0]) * rng.normal(size=n)


X, y = sample(n)
X_test, y_test = sample(n)

# One fit for all levels: they share the features and the passes over the rows.
model = KernelQuantile(quantile=[0.05, 0.5, 0.95], lam=1.0, bandwidth=1.0, n_features=300, random_state=0)
model.fit(X, y)
low, middle, high = model.predict(X_test).T

inside = (low <= y_test) & (y_test <= high)
print(f"fitted on {n:,} rows: at most {model.gap_:.1%} above the best objective")
print(f"inside the 90 % band: {inside.mean():.1%} of new values")
for start in (0, 5):
    here = (X_test[:, 0] >= start) & (X_test[:, 0] < start + 5)
    width = (high - low)[here].mean()
    print(f"  x from {start} to {start + 5:2}:  {inside[here].mean():.1%} inside, the band is {width:.2f} wide")

if find_spec("matplotlib"):
    from matplotlib.figure import Figure

    grid = np.linspace(0, 10, 400)[:, None]
    low, middle, high = model.predict(grid).T
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.subplots()
    ax.plot(X_test[:1500, 0], y_test[:1500], ".", color="0.7", markersize=3)
    ax.fill_between(grid[:, 0], low, high, alpha=0.3, label="5 % to 95 %")
    ax.plot(grid[:, 0], middle, label="median")
    ax.legend(loc="upper left")
    figure.savefig("quantile_bands.png", dpi=150)
    print("plot: quantile_bands.png")
