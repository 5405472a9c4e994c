"""
Saving a model to one file
==========================

A file contains no code. A loaded model has the same predictions, bit for bit, and a damaged file is found.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import joker

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
folder = TemporaryDirectory()
path = Path(folder.name) / "digits.joker"

model = joker.KernelSVC(lam=0.1, n_features=1_000, random_state=0).fit(X_train, y_train)
print(f"fitted:  accuracy {model.score(X_test, y_test):.4f}, gap {model.gap_:.1e}")
model.save(path)
loaded = joker.load(path)
same = np.array_equal(loaded.decision_function(X_test), model.decision_function(X_test))
print(f"loaded:  accuracy {loaded.score(X_test, y_test):.4f}")
print(f"         predictions {'are the same' if same else 'differ'}, bit for bit")

damaged = bytearray(path.read_bytes())
damaged[len(damaged) // 2] ^= 1
(Path(folder.name) / "damaged.joker").write_bytes(damaged)
try:
    joker.load(Path(folder.name) / "damaged.joker")
except joker.errors.InvalidFile as error:
    print(f"damaged: {str(error).replace(folder.name, '…')}")

# %%
# The size of a file. A model with random features stores their seed, unless it is asked for the numbers; an exact
# model stores its training rows.

sizes = {"features, as a seed": path.stat().st_size}
model.save(path, store_features=True)
sizes["features, as numbers"] = path.stat().st_size
joker.KernelSVC(lam=0.1).fit(X_train, y_train).save(path)
sizes[f"exact, {len(X_train):,} rows"] = path.stat().st_size

plt.style.use("seaborn-v0_8-colorblind")
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = ax.barh(list(sizes), [size / 1e3 for size in sizes.values()], color="C0")
ax.bar_label(bars, fmt="%.0f kB", padding=4)
ax.set(xlabel="size of the file, kB")
ax.margins(x=0.15)
ax.invert_yaxis()
plt.show()
folder.cleanup()
