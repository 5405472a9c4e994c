"""
Coming from sklearn.svm.SVC
===========================

The same machine with other parameter names, and then more rows.

.. code-block:: text

    SVC(C=10, gamma=2)   is   KernelSVC(loss="hinge", lam=1 / 10, bandwidth=(2 * 2) ** -0.5, standardize=False)

``python examples/from_svc.py [--quick]``
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from joker import KernelSVC

few, many = (800, 2_000) if "--quick" in sys.argv else (2_000, 12_000)
C, gamma = 1.0, 0.5
lam, bandwidth = 1 / C, (2 * gamma) ** -0.5  # exp(−γ‖r‖²) = exp(−‖r‖²/2σ²)

rng = np.random.default_rng(0)


def sample(n):
    X = rng.normal(size=(n, 5))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] * X[:, 3] + 0.4 * rng.normal(size=n) > 0


X, y = sample(many)
X_test, y_test = sample(5_000)
runs = []


def timed(model, n):
    start = time.perf_counter()
    model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - start
    name = type(model).__name__
    runs.append((name, n, seconds, model.score(X_test, y_test)))
    print(f"  {name:10} {n:7,} rows   accuracy {model.score(X_test, y_test):.3f}   {seconds:6.2f} s")
    return model


print("The exact kernel, solved to the same optimum (with so few rows SVC is faster):")
svc = timed(SVC(C=C, gamma=gamma), few)
ours = timed(KernelSVC(loss="hinge", lam=lam, bandwidth=bandwidth, n_features=None, tol=1e-4), few)
difference = np.abs(svc.decision_function(X_test) - ours.decision_function(X_test))
same = np.mean(svc.predict(X_test) == ours.predict(X_test))
print(f"  the same prediction on {same:.2%} of new rows; decision functions differ by {difference.mean():.4f}")
print("  (they differ because joker penalises the intercept and SVC does not)")

print("Random features and the squared hinge loss, which is easier to solve:")
svc = timed(SVC(C=C, gamma=gamma), many)
ours = timed(KernelSVC(lam=lam, bandwidth=bandwidth, n_features=1_000, random_state=0), many)
print(f"  gap {ours.gap_:.1e}: no model has an objective that is lower by a larger share")

# %%
# On few rows the decision functions agree, up to the intercept. The time of SVC grows with the square of the number of
# rows, that of random features in proportion to it.

plt.style.use("seaborn-v0_8-colorblind")
exact = KernelSVC(loss="hinge", lam=lam, bandwidth=bandwidth, n_features=None, tol=1e-4).fit(X[:few], y[:few])
theirs = SVC(C=C, gamma=gamma).fit(X[:few], y[:few]).decision_function(X_test)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
limit = [-2.2, 2.2]
left.plot(limit, limit, color="0.6", linewidth=1)
left.plot(theirs[:1500], exact.decision_function(X_test[:1500]), ".", color="C0", markersize=3)
left.set(xlabel="decision function of SVC", ylabel="decision function of KernelSVC", xlim=limit, ylim=limit)
left.set_title(f"{few:,} training rows, 1,500 new rows", fontsize=10)
names = [f"{name}\n{rows:,} rows" for name, rows, *_ in runs]
right.bar(names, [seconds for _, _, seconds, _ in runs], color=["0.7", "C0", "0.7", "C0"])
for place, (_, _, seconds, accuracy) in enumerate(runs):
    right.text(place, seconds, f"{accuracy:.3f}", ha="center", va="bottom", fontsize=9)
right.set(xlabel="model and training rows", ylabel="time of the fit, s")
right.set_title("the number above a bar is the accuracy", fontsize=10)
right.tick_params(axis="x", labelsize=8)
right.margins(y=0.12)
plt.show()
