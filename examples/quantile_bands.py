"""
Quantile bands where the noise depends on the input
===================================================

One fit estimates several quantiles. They share the features and the passes over the rows, and never cross.

``python examples/quantile_bands.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelQuantile

n = 800 if "--quick" in sys.argv else 20_000
rng = np.random.default_rng(0)


def sample(n):
    """Draw a sine whose noise grows with x."""
    X = rng.uniform(0, 10, (n, 1))
    return X, np.sin(X[:, 0]) + (0.1 + 0.1 * X[:, 0]) * rng.normal(size=n)


X, y = sample(n)
X_test, y_test = sample(n)

model = KernelQuantile(quantile=[0.05, 0.25, 0.5, 0.75, 0.95], lam=1.0, bandwidth=1.0, n_features=300, random_state=0)
model.fit(X, y)
levels = model.predict(X_test).T
low, high = levels[0], levels[-1]

inside = (low <= y_test) & (y_test <= high)
print(f"fitted on {n:,} rows: the best objective is at most {model.gap_:.1%} lower")
print(f"inside the 90 % band: {inside.mean():.1%} of new values")
for start in (0, 5):
    here = (X_test[:, 0] >= start) & (X_test[:, 0] < start + 5)
    width = (high - low)[here].mean()
    print(f"  x from {start} to {start + 5:2}:  {inside[here].mean():.1%} inside, the band is {width:.2f} wide")

# %%
# The band is as wide as the noise is, at every x.

plt.style.use("seaborn-v0_8-colorblind")
grid = np.linspace(0, 10, 400)[:, None]
q05, q25, q50, q75, q95 = model.predict(grid).T
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(X_test[:1500, 0], y_test[:1500], ".", color="0.75", markersize=3, label="new rows", zorder=0)
ax.fill_between(grid[:, 0], q05, q95, color="C0", alpha=0.25, linewidth=0, label="5 % to 95 %")
ax.fill_between(grid[:, 0], q25, q75, color="C0", alpha=0.45, linewidth=0, label="25 % to 75 %")
ax.plot(grid[:, 0], q50, color="C0", label="median")
ax.set(xlabel="x", ylabel="y", xlim=(0, 10), ylim=(-4.5, 4.5))
ax.legend(loc="upper left", ncols=2)
plt.show()
