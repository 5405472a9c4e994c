"""
A bandwidth for each input
==========================

A kernel adds up squared differences of all inputs, so that inputs without information hide the others. ``joker.tune``
finds a bandwidth for each input, as automatic relevance determination (ARD) does: a large one removes an input from
the distance.

``python examples/input_bandwidths.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import joker

n = 500 if "--quick" in sys.argv else 2_000
rng = np.random.default_rng(0)
d = 10  # inputs, of which three matter


def sample(n):
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(6 * X[:, 0]) + 2 * X[:, 1] ** 2 + 0.5 * X[:, 2] + 0.1 * rng.normal(size=n)


X, y = sample(n)
X_test, y_test = sample(5_000)

settings = dict(estimator=joker.KernelRidge(n_features=500), kernels=["gaussian"], random_state=0)
one = joker.tune(X, y, relevance=False, **settings).estimator
each = joker.tune(X, y, relevance=True, **settings).estimator
for name, model in (("one bandwidth", one), ("one for each input", each)):
    print(f"{name:20} R² {model.score(X_test, y_test):.3f}")

# %%
# The weight of an input is the inverse of its bandwidth. The three inputs that matter have the largest ones.

plt.style.use("seaborn-v0_8-colorblind")
weights = {name: 1 / np.broadcast_to(model.bandwidth_, d) for name, model in (("one", one), ("each", each))}
figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
places = np.arange(d)
colours = np.where(places < 3, "C0", "0.7")
ax.bar(places, weights["each"], color=colours)
ax.axhline(weights["one"][0], color="C2", linestyle="--", label="one bandwidth for all inputs")
ax.bar([0], [0], color="C0", label="inputs that matter")
ax.bar([0], [0], color="0.7", label="noise")
ax.set_xticks(places, [f"x{j}" for j in places])
ax.set(xlabel="input", ylabel="weight: 1 / bandwidth")
scores = one.score(X_test, y_test), each.score(X_test, y_test)
ax.set_title("R² on new rows: {:.3f} with one bandwidth, {:.3f} with one for each".format(*scores), fontsize=10)
ax.legend()
plt.show()
