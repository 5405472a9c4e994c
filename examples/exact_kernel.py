"""
The exact kernel at scale
=========================

The terrain around Jacksboro, Tennessee: heights at 138,632 points. The exact kernel needs no approximation, but its
cost grows with the square of the number of rows. Here some thousand rows on a CPU, where
detail that random features cannot follow with so narrow a bandwidth; on a CUDA GPU the same call with
``device="cuda"`` is for millions, because the kernel matrix is computed in tiles and never stored.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.cbook import get_sample_data

from joker import KernelRidge

terrain = np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False))
height = terrain["elevation"].astype(float)
rows, columns = np.indices(height.shape)
points = pd.DataFrame({"north": -rows.ravel(), "east": columns.ravel(), "height": height.ravel()})
points = points.sample(frac=1, random_state=0)
test = points.tail(20_000)

found = []
for n, features in [(2_000, None), (8_000, None), (8_000, 1_000)]:
    train = points.head(n)
    start = time.perf_counter()
    model = KernelRidge(lam=0.01, bandwidth=6, n_features=features, random_state=0)
    model.fit(train[["north", "east"]], train["height"])
    seconds = time.perf_counter() - start
    kernel = "exact" if features is None else f"{features} features"
    score = model.score(test[["north", "east"]], test["height"])
    found.append((kernel, n, score, model.gap_, seconds))
    if features is None:
        best = model
found = pd.DataFrame(found, columns=["kernel", "rows", "R2", "gap", "seconds"])
print(found.to_string(index=False, float_format=lambda value: f"{value:.3g}"))

# %%
# The true terrain, and the prediction of the exact kernel from 8,000 of its points.

plt.style.use("seaborn-v0_8-colorblind")
figure, panels = plt.subplots(
    1, 2, figsize=(9, 4.2), sharex=True, sharey=True, layout="constrained"
)
grid = pd.DataFrame({"north": -rows[::2, ::2].ravel(), "east": columns[::2, ::2].ravel()})
surfaces = {
    "138,632 measured points": height[::2, ::2],
    "exact kernel, 8,000 points": best.predict(grid),
}
for ax, (title, values) in zip(panels, surfaces.items(), strict=True):
    image = ax.imshow(
        values.reshape(rows[::2, ::2].shape), cmap="terrain", vmin=height.min(), vmax=height.max()
    )
    ax.set(title=title, xlabel="east, pixels / 2")
panels[0].set(ylabel="south, pixels / 2")
figure.colorbar(image, ax=panels, label="height, m", shrink=0.8)
plt.show()
