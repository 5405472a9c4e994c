"""
Learning curve against boosting
===============================

Which model gets more out of few rows depends on the data. Here the target is smooth and depends on the inputs
together, which suits a kernel; boosted trees need many rows to approximate it by steps.

``python examples/learning_curve.py [--quick]``
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from joker import KernelRidge

sizes = [200, 400] if "--quick" in sys.argv else [200, 500, 1_000, 2_000, 5_000]
rng = np.random.default_rng(0)


def sample(n):
    """Draw the position of a robot arm with three joints; the target is the distance of the hand from the base."""
    angles = rng.uniform(0, np.pi, (n, 3))
    total = np.cumsum(angles, axis=1)
    hand = np.column_stack([np.cos(total).sum(axis=1), np.sin(total).sum(axis=1)])
    return angles, np.hypot(*hand.T) + 0.02 * rng.normal(size=n)


X, y = sample(max(sizes))
X_test, y_test = sample(5_000)
makers = {
    "KernelRidge": lambda: KernelRidge(lam=0.01, random_state=0),
    "HistGradientBoostingRegressor": lambda: HistGradientBoostingRegressor(random_state=0),
}
errors, seconds = {}, {}
for name, make in makers.items():
    for n in sizes:
        start = time.perf_counter()
        model = make().fit(X[:n], y[:n])
        seconds.setdefault(name, []).append(time.perf_counter() - start)
        errors.setdefault(name, []).append(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    print(f"{name:30} RMSE {errors[name][-1]:.4f} with {sizes[-1]:,} rows, {seconds[name][-1]:.1f} s")

# %%
# Both axes are logarithmic. The noise is the smallest error that any model can have.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
for name, style in zip(makers, ("C0o-", "C2s-"), strict=True):
    ax.loglog(sizes, errors[name], style, label=name)
ax.axhline(0.02, color="0.5", linestyle=":", label="noise")
ax.set(xlabel="training rows", ylabel="error on new rows (RMSE)")
ax.set_xticks(sizes, [f"{n:,}" for n in sizes], minor=False)
ax.set_xticks([], minor=True)
ax.set_yticks([0.02, 0.03, 0.05, 0.1, 0.2], ["0.02", "0.03", "0.05", "0.1", "0.2"])
ax.set_yticks([], minor=True)
ax.legend()
plt.show()
