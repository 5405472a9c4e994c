"""Save a model to one file that contains no code, and read it back: the same predictions, bit for bit.

python examples/save_and_load.py [--quick]     writes model.joker
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

import joker

n = 1_000 if "--quick" in sys.argv else 20_000
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
