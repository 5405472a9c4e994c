"""Small problems that every solver test shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from joker import features, kernels, losses
from joker.data import Rows, TensorRows, make_targets
from joker.kernels.kernel import matvec
from joker.losses import Loss
from joker.solvers import Descent, ExactState, FeatureState, Problem, Settings, State

CASES: list[tuple[str, dict[str, float]]] = [
    ("squared", {}),
    ("huber", {"delta": 0.7}),
    ("absolute", {}),
    ("epsilon_insensitive", {"epsilon": 0.3}),
    ("squared_epsilon_insensitive", {"epsilon": 0.3}),
    ("quantile", {"quantile": 0.8}),
    ("lp", {"p": 1.5}),
    ("lp", {"p": 3.0}),
    ("hinge", {}),
    ("squared_hinge", {}),
    ("logistic", {}),
]
LAMBDAS = [2.0**-6, 2.0**-3, 1.0, 2.0**3, 2.0**6]


@dataclass(frozen=True)
class Small:
    """Rows, targets and weights of a problem, and a matrix root with rootᵀ root = K."""

    x: Tensor
    y: Tensor
    weights: Tensor | None
    loss: Loss
    mode: str
    root: Tensor

    @property
    def c(self) -> Tensor:
        return torch.ones_like(self.y) if self.weights is None else self.weights

    def state(self, dtype: torch.dtype, t: int) -> State:
        x = TensorRows(self.x.to(dtype))
        if self.mode == "features":
            return FeatureState(x, t, feature_map(self.x.shape[1], dtype))

        def add_product(x: Rows, z: Rows, v: Tensor, out: Tensor) -> None:
            matvec(KERNEL, x, z, v, 2**20, out=out)

        return ExactState(x, t, KERNEL, add_product, landmarks=100)

    def descent(self, lams: list[float], dtype: torch.dtype = torch.float64, **settings: object) -> Descent:
        weights = None if self.weights is None else self.weights.to(dtype)
        problem = Problem(self.loss, make_targets(self.y.to(dtype), lams, weights))
        return Descent(self.state(dtype, len(lams)), problem, Settings(**settings))  # type: ignore[arg-type]


KERNEL = kernels.get("laplacian", bandwidth=4.0)


def feature_map(d: int, dtype: torch.dtype) -> features.FeatureMap:
    return features.draw(KERNEL, "fourier", d, 150, 3, dtype=dtype)


def small(name: str, parameters: dict[str, float], mode: str, weighted: bool, n: int = 300) -> Small:
    """A problem with noise, duplicate rows and, where weighted, a fifth of the weights zero."""
    rng = np.random.default_rng([n, len(name), weighted])
    x = rng.standard_normal((n, 3))
    x[-10:] = x[:10]  # duplicates make the kernel matrix singular
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.4 * rng.standard_normal(n)
    loss = losses.get(name, **parameters)
    if loss.frame.task == "classification":
        y = np.where(y > 0.2, 1.0, -1.0)
    weights = rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.2) if weighted else None
    rows = torch.from_numpy(x)
    if mode == "features":
        root = feature_map(3, torch.float64)(rows).T
    else:
        values, vectors = torch.linalg.eigh(KERNEL(rows, rows))
        root = (vectors * values.clamp(min=0).sqrt()).T
    return Small(rows, torch.from_numpy(y), None if weights is None else torch.from_numpy(weights), loss, mode, root)
