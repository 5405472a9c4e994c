"""
Saving a model to one file
==========================

A file contains no code. A loaded model has the same predictions, bit for bit, and a damaged file is found.

``python examples/save_and_load.py [--quick]``
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

import joker

n = 1_000 if "--quick" in sys.argv else 2_000
X, y = make_friedman1(n, n_features=10, noise=0.5, random_state=0)
X_test, y_test = make_friedman1(n, n_features=10, noise=0.5, random_state=1)

model = joker.KernelRidge(lam=[1e-6, 1e-5, 1e-4, 1e-3, 0.01], bandwidth=1.5, n_features=1_000, random_state=0).fit(X, y)
print(f"fitted:  R² {model.score(X_test, y_test):.4f} with λ = {model.lam_:g}, gap {model.gap_:.1e}")

path = Path("model.joker")
model.save(path)
numbers = model.coef_.size * len(model.path_.models)
print(f"saved:   {path.stat().st_size / 1e3:.0f} kB for {numbers:,} weights; random features are stored as a seed")

loaded = joker.load(path)
same = np.array_equal(loaded.predict(X_test), model.predict(X_test))
print(
    f"loaded:  R² {loaded.score(X_test, y_test):.4f}; predictions {'are the same' if same else 'differ'}, bit for bit"
)
print(f"         λ = {loaded.lam_:g}, {len(loaded.path_.models)} models of the path, {len(loaded.history_)} epochs")

damaged = bytearray(path.read_bytes())
damaged[len(damaged) // 2] ^= 1
Path("damaged.joker").write_bytes(damaged)
try:
    joker.load("damaged.joker")
except joker.errors.InvalidFile as error:
    print(f"damaged: {error}")
Path("damaged.joker").unlink()

# %%
# The size of a file. A model with random features stores their seed, unless it is asked for the numbers; an exact
# model stores its training rows.

sizes = {"features, as a seed": path.stat().st_size}
model.save("size.joker", store_features=True)
sizes["features, as numbers"] = Path("size.joker").stat().st_size
few = min(n, 4_000)
joker.KernelRidge(lam=0.01, bandwidth=1.5).fit(X[:few], y[:few]).save("size.joker")
sizes[f"exact, {few:,} rows"] = Path("size.joker").stat().st_size
for name in (path, Path("size.joker")):
    name.unlink()

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = ax.barh(list(sizes), [size / 1e3 for size in sizes.values()], color="C0")
ax.bar_label(bars, fmt="%.0f kB", padding=4)
ax.set(xlabel="size of the file, kB")
ax.margins(x=0.15)
ax.invert_yaxis()
plt.show()
