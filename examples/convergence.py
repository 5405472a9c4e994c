"""
Convergence and its certificate
===============================

After each epoch joker knows an upper and a lower bound on the smallest possible objective. Their difference, the
duality gap, proves how far the model can still be from the optimum, for every loss.

``python examples/convergence.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelRegressor

n, epochs = (1_500, 10) if "--quick" in sys.argv else (4_000, 25)
rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (n, 2))
y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)

settings = dict(lam=1.0, bandwidth=0.7, n_features=500, block_size=256, max_epochs=epochs, tol=1e-6, random_state=0)
losses = ["huber", "epsilon_insensitive", "absolute"]
models = {loss: KernelRegressor(loss=loss, **settings).fit(X, y) for loss in losses}
for loss, model in models.items():
    print(f"{loss:20} gap {model.gap_:.1e} after {model.n_iter_} epochs")

# %%
# On the left, the two bounds of one fit: the optimum lies in the coloured band. On the right, the width of the band
# as a share of the objective, for three losses. Losses with corners take more passes.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
history = models["huber"].history_
epoch, primal, dual = ([record[key] for record in history] for key in ("epoch", "primal", "dual"))
left.fill_between(epoch, dual, primal, color="C0", alpha=0.2, linewidth=0, label="the optimum is here")
left.plot(epoch, primal, "o-", color="C0", markersize=4, label="upper bound: the model")
left.plot(epoch, dual, "s-", color="C2", markersize=4, label="lower bound: the dual")
left.set(xlabel="epochs", ylabel="objective / λ", title="Huber loss")
left.xaxis.get_major_locator().set_params(integer=True)
left.legend(fontsize=9)
for (loss, model), marker in zip(models.items(), "osD", strict=True):
    epoch, gap = zip(*((record["epoch"], max(record["gap"], 1e-9)) for record in model.history_), strict=True)
    right.plot(epoch, gap, f"{marker}-", markersize=4, label=loss.replace("_", "-"))
right.set(xlabel="epochs", ylabel="relative duality gap", xscale="log", yscale="log", title="Three losses")
right.set_xticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
right.minorticks_off()
right.legend(fontsize=9)
plt.show()
