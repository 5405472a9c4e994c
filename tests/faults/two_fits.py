"""Two fits, in a module of their own: a spawned process imports it by its name."""

import numpy as np

import joker


def model(seed: int) -> np.ndarray:
    """Return predictions of an exact machine and of one with features, for data that depend on the seed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1_500, 5)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X))
    exact = joker.KernelSVR(n_features=None, block_size=256, max_epochs=2, tol=0.05, random_state=0).fit(X, y)
    features = joker.KernelHuber(n_features=100, max_epochs=2, tol=0.1, random_state=0).fit(X, y)
    return np.stack([exact.predict(X[:50]), features.predict(X[:50])])
