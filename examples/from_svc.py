"""Coming from sklearn.svm.SVC: the same machine with other parameter names, and then more rows.

    SVC(C=10, gamma=2)   is   KernelSVC(loss="hinge", lam=1 / 10, bandwidth=(2 * 2) ** -0.5, standardize=False)

python examples/from_svc.py [--quick]
"""

import sys
import time

import numpy as np
from sklearn.svm import SVC

from joker import KernelSVC

few, many = (800, 2_000) if "--quick" in sys.argv else (2_000, 20_000)
C, gamma = 1.0, 0.5
lam, bandwidth = 1 / C, (2 * gamma) ** -0.5  # exp(−γ‖r‖²) = exp(−‖r‖²/2σ²)

rng = np.random.default_rng(0)


def sample(n):
    X = rng.normal(size=(n, 5))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] * X[:, 3] + 0.4 * rng.normal(size=n) > 0


X, y = sample(many)
X_test, y_test = sample(5_000)


def timed(model, n):
    start = time.perf_counter()
    model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - start
    name = type(model).__name__
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
