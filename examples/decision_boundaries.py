"""
Decision boundaries of six kernels
==================================

The kernel decides which boundaries are cheap. All six models have the same loss and see the same rows: two spiral
arms in which one label in ten is wrong.

``python examples/decision_boundaries.py [--quick]``
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from joker import KernelSVC

n, side = (400, 60) if "--quick" in sys.argv else (2_000, 200)
rng = np.random.default_rng(0)


def sample(n):
    """Draw two spiral arms; one label in ten is wrong."""
    X = rng.uniform(-3, 3, (n, 2))
    angle, radius = np.arctan2(X[:, 1], X[:, 0]), np.hypot(X[:, 0], X[:, 1])
    return X, (np.sin(angle + 2.2 * radius) > 0) ^ (rng.random(n) < 0.1)


X, y = sample(n)
X_test, y_test = sample(5_000)
kernels = ["gaussian", "laplacian", "matern32", "cauchy", "polynomial", "linear"]
models = {kernel: KernelSVC(kernel=kernel, lam=0.3).fit(X, y) for kernel in kernels}

# %%
# Purple is a positive and orange a negative decision function, and the black line is where it is zero. Points are
# training rows in the colour of their label. A linear boundary
# cannot follow a spiral, and a polynomial of degree three hardly can. The best possible accuracy is 0.9.

plt.style.use("seaborn-v0_8-colorblind")
axis = np.linspace(-3, 3, side)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
figure, panels = plt.subplots(2, 3, figsize=(10, 6.2), sharex=True, sharey=True, layout="constrained")
for ax, (kernel, model) in zip(panels.flat, models.items(), strict=True):
    f = model.decision_function(grid).reshape(side, side)
    image = ax.imshow(f, extent=(-3, 3, -3, 3), origin="lower", cmap="PuOr", vmin=-1.5, vmax=1.5)
    ax.contour(axis, axis, f, levels=[0], colors="black", linewidths=1)
    few = slice(0, 300)
    ax.scatter(*X[few].T, c=np.where(y[few], "#3b1a5c", "#8a4500"), s=5, linewidths=0)
    ax.set_title(f"{kernel}, accuracy {model.score(X_test, y_test):.3f}", fontsize=10)
    print(f"{kernel:10} accuracy {model.score(X_test, y_test):.3f}   gap {model.gap_:.1e}")
figure.colorbar(image, ax=panels, label="decision function", shrink=0.7, extend="both")
figure.supxlabel("first input")
figure.supylabel("second input")
plt.show()
