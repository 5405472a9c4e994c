"""
Prediction intervals that cover
===============================

A flexible model overfits its training rows, so that its quantiles are too narrow for new rows. ``calibrate`` shifts
each level by its errors on rows that the fit has not seen, and the interval then covers the share that it promises.

``python examples/prediction_intervals.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelQuantile

n = 250 if "--quick" in sys.argv else 600
rng = np.random.default_rng(0)


def sample(n):
    X = rng.uniform(-2, 2, (n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)


X, y = sample(n)
X_new, y_new = sample(n)  # for the calibration
X_test, y_test = sample(20_000)

wanted = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
levels = np.concatenate([(1 - wanted) / 2, (1 + wanted) / 2])


def coverage(model):
    """The share of new rows inside the interval of each width."""
    low, high = np.split(model.predict(X_test).T, 2)
    return ((low <= y_test) & (y_test <= high)).mean(axis=1)


model = KernelQuantile(quantile=levels, lam=0.3, bandwidth=1.5, random_state=0).fit(X, y)
before = coverage(model)
after = coverage(model.calibrate(X_new, y_new))
for share, b, a in zip(wanted, before, after, strict=True):
    print(f"promised {share:.0%}   before {b:.1%}   calibrated {a:.1%}")

# %%
# On the diagonal an interval covers exactly the share that it promises.

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
ax.plot([45, 100], [45, 100], "--", color="0.5", label="as promised")
ax.plot(100 * wanted, 100 * before, "s-", color="C2", label="before calibration")
ax.plot(100 * wanted, 100 * after, "o-", color="C0", label="after calibration")
ax.set(xlabel="promised share of new rows, %", ylabel="share of new rows inside, %", xlim=(45, 100), ylim=(25, 100))
ax.legend(loc="lower right")
plt.show()
