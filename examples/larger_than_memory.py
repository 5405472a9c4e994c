"""
Data larger than memory
=======================

A table on disk is converted once to a row store, and a fit reads its rows from there. The memory of the fit is
limited to a budget that is smaller than the data.

``python examples/larger_than_memory.py [--quick]``
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import joker
from joker.data import convert, open_source, open_store

n = 20_000 if "--quick" in sys.argv else 200_000
d, m = 100, 300
rng = np.random.default_rng(0)
folder = TemporaryDirectory()
table, store = Path(folder.name) / "table.npy", Path(folder.name) / "table.rows"

X = rng.normal(size=(n, d + 1)).astype(np.float32)
X[:, -1] = np.tanh(X[:, :-1] @ rng.normal(size=d) / np.sqrt(d)) + 0.2 * X[:, -1]  # the last column is the target
np.save(table, X)
X_test, y_test = X[:2_000, :-1].copy(), X[:2_000, -1].copy()

convert(open_source(table, target=-1), store, task="regression")
rows = open_store(store)
size = store.stat().st_size / 1e6

# %%
# The same fit in two budgets, of which one is smaller than the data. A smaller budget has smaller blocks and computes
# features in chunks; the result is about the same.

budgets = [60] if "--quick" in sys.argv else [120, 60]
plans, scores, times = [], [], []
for budget in budgets:
    model = joker.KernelRidge(
        lam=10.0, bandwidth=15.0, n_features=m, max_epochs=1, tol=0, memory=f"{budget}MB", random_state=0
    ).fit(rows)
    plans.append(model.plan_.total / 1e6)
    scores.append(model.score(X_test, y_test))
    times.append(model.history_[-1]["seconds"])
    print(f"budget {budget:4} MB: planned {plans[-1]:5.1f} MB, {times[-1]:5.1f} s, R² {scores[-1]:.3f}")
print(f"the store has {n:,} rows and {size:.0f} MB")

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
places = np.arange(len(budgets))
ax.bar(places - 0.2, budgets, width=0.4, color="0.8", label="budget")
ax.bar(places + 0.2, plans, width=0.4, color="C0", label="planned by the fit")
ax.axhline(size, color="C2", linestyle="--", label="rows on disk")
labels = [f"{budget} MB\n{t:.1f} s, R² {score:.3f}" for budget, t, score in zip(budgets, times, scores, strict=True)]
ax.set_xticks(places, labels)
ax.set(ylabel="memory, MB", xlabel="budget, time of the fit, and score")
ax.set_ylim(0, 1.35 * max(budgets))
ax.legend()
plt.show()
del rows
folder.cleanup()
