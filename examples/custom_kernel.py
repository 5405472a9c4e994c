"""
A kernel of your own, with random features
==========================================

The rational quadratic kernel is a mixture of Gaussian kernels with many bandwidths. With k degrees of freedom it is
as follows.

.. code-block:: text

    k(x, z) = (1 + r²/k)^(−k/2) = E exp(−τ² r²/2)    with r = ‖x − z‖/σ and τ² = χ²ₖ / k

So you write only the profile as a function of r², and a draw of τ. A mixture of many bandwidths is less sensitive to
the choice of the bandwidth.

``python examples/custom_kernel.py [--quick]``
"""

import sys
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch

from joker import KernelRidge, features, kernels

n = 1_500 if "--quick" in sys.argv else 5_000
rng = np.random.default_rng(0)


@dataclass(frozen=True)
class RationalQuadratic(kernels.Radial):
    """A mixture of Gaussian kernels; fewer degrees of freedom mix a wider range of bandwidths."""

    dof: int = 1

    def profile(self, r2):
        return (1 + r2 / self.dof) ** (-self.dof / 2)

    def mixture(self, m, generator):
        return torch.randn(self.dof, m, dtype=torch.float64, generator=generator).square().mean(0).sqrt()


kernel = RationalQuadratic(dof=1)

# Check that the draw matches the profile: with many features, ψ(x)·ψ(z) is close to the kernel.
x = torch.rand(50, 2)
psi = features.draw(kernel, "fourier", d=2, m=20_000, seed=0)(x)
print(f"kernel against 20,000 features: off by {(psi @ psi.T - kernel(x, x)).abs().max():.3f} at most")


def sample(n):
    """Draw rows of six inputs; the target is smooth in some of them and has a corner in the third."""
    X = rng.uniform(0, 1, (n, 6))
    y = np.sin(6 * X[:, 0] * X[:, 1]) + 3 * np.abs(X[:, 2] - 0.5) + X[:, 3]
    return X, y + 0.1 * rng.normal(size=n)


def error(kernel, bandwidth):
    model = KernelRidge(kernel=kernel, bandwidth=bandwidth, lam=0.02, n_features=800, random_state=0).fit(X, y)
    return np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))


X, y = sample(n)
X_test, y_test = sample(5_000)
bandwidths = [0.1, 0.2, 0.4, 0.8]
errors_of = {}
print(f"RMSE (the noise is 0.1) with bandwidth{''.join(f'{sigma:8}' for sigma in bandwidths)}   worst / best")
for one in (kernels.Gaussian(), kernel):
    errors = errors_of[type(one).__name__] = [error(one, sigma) for sigma in bandwidths]
    spread = max(errors) / min(errors)
    print(f"  {type(one).__name__:35} {''.join(f'{e:8.3f}' for e in errors)}   {spread:12.1f}")

# %%
# The profiles of both kernels, and the errors of both models. A heavy tail connects rows that are far apart.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
r = torch.linspace(0, 5, 200, dtype=torch.float64)
for one, style in ((kernels.Gaussian(), "C2--"), (kernel, "C0-")):
    name = type(one).__name__
    left.plot(r, one.profile(r.square()), style, label=name)
    right.loglog(bandwidths, errors_of[name], f"{style[:2]}o{style[2:]}", label=name)
left.set(xlabel="distance / bandwidth", ylabel="kernel", ylim=(0, 1.02), xlim=(0, 5))
left.legend()
right.axhline(0.1, color="0.5", linestyle=":", label="noise")
right.set(xlabel="bandwidth", ylabel="error on new rows (RMSE)")
right.set_xticks(bandwidths, [str(sigma) for sigma in bandwidths])
right.set_xticks([], minor=True)
right.set_yticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
right.set_yticks([], minor=True)
right.legend()
plt.show()
