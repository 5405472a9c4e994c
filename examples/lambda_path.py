"""
A path of λ in one fit
======================

Fifteen values of λ are fifteen columns of one fit: they share the features and the passes over the rows. The one with
the best score on a validation split is chosen, and all models are kept.

``python examples/lambda_path.py [--quick]``
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelRidge, PathDisplay

n = 1_500 if "--quick" in sys.argv else 6_000
rng = np.random.default_rng(0)


def sample(n):
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.sin(3 * X[:, 0] + 2 * X[:, 1] * X[:, 2]) + rng.normal(size=n)


def fit(lam):
    start = time.perf_counter()
    model = KernelRidge(lam=lam, bandwidth=0.4, n_features=400, random_state=0).fit(X, y)
    return model, time.perf_counter() - start


X, y = sample(n)
X_test, y_test = sample(20_000)

_, alone = fit(1.0)
model, together = fit(2.0 ** np.arange(-7, 8))

print("      λ   held-out score   R² on new rows")
for lam, score, one in zip(model.path_.lam, model.path_.scores, model.path_.models, strict=True):
    chosen = "  <- chosen" if one.lam_ == model.lam_ else ""
    print(f"{lam:7.3g}   {score:14.5f}   {one.score(X_test, y_test):14.4f}{chosen}")
print(f"one λ took {alone:.1f} s, all {len(model.path_.lam)} took {together:.1f} s")

# %%
# The ring marks the λ that was chosen.

plt.style.use("seaborn-v0_8-colorblind")
display = PathDisplay.from_estimator(model)
display.ax_.set(ylabel="held-out score: minus the mean loss")
plt.show()
