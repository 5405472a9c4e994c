"""A kernel of your own, with random features for free.

The rational quadratic kernel mixes Gaussians of many widths. With k degrees of freedom it is

    k(x, z) = (1 + r²/k)^(−k/2) = E exp(−τ² r²/2)    with r = ‖x − z‖/σ and τ² = χ²ₖ / k

so all it takes is the profile as a function of r², and a draw of τ. Many widths in one kernel forgive a bandwidth
that is not right.

python examples/custom_kernel.py [--quick]
"""

import sys
from dataclasses import dataclass

import numpy as np
import torch

from joker import KernelRidge, features, kernels

n = 1_500 if "--quick" in sys.argv else 5_000
rng = np.random.default_rng(0)


@dataclass(frozen=True)
class RationalQuadratic(kernels.Radial):
    """A mixture of Gaussian kernels; the fewer degrees of freedom, the more widths."""

    dof: int = 1

    def profile(self, r2):
        return (1 + r2 / self.dof) ** (-self.dof / 2)

    def mixture(self, m, generator):
        return torch.randn(self.dof, m, dtype=torch.float64, generator=generator).square().mean(0).sqrt()


kernel = RationalQuadratic(dof=1)

# Do the draw and the profile belong together? The mean over many features is the kernel.
x = torch.rand(50, 2)
psi = features.draw(kernel, "fourier", d=2, m=20_000, seed=0)(x)
print(f"kernel against 20,000 features: off by {(psi @ psi.T - kernel(x, x)).abs().max():.3f} at most")


def sample(n):
    """Six inputs: smooth in some, with a corner in the third."""
    X = rng.uniform(0, 1, (n, 6))
    y = np.sin(6 * X[:, 0] * X[:, 1]) + 3 * np.abs(X[:, 2] - 0.5) + X[:, 3]
    return X, y + 0.1 * rng.normal(size=n)


def error(kernel, bandwidth):
    model = KernelRidge(kernel=kernel, bandwidth=bandwidth, lam=0.02, n_features=800, random_state=0).fit(X, y)
    return np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))


X, y = sample(n)
X_test, y_test = sample(5_000)
widths = [0.1, 0.2, 0.4, 0.8]
print(f"RMSE (the noise is 0.1) with bandwidth{''.join(f'{width:8}' for width in widths)}   worst / best")
for one in (kernels.Gaussian(), kernel):
    errors = [error(one, width) for width in widths]
    spread = max(errors) / min(errors)
    print(f"  {type(one).__name__:35} {''.join(f'{e:8.3f}' for e in errors)}   {spread:12.1f}")
