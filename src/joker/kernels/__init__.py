"""Kernels k(x, z), with their distances and spectra, and matrix-vector products in bounded memory."""

from __future__ import annotations

from joker.errors import UnknownName
from joker.kernels.base import Kernel, Stationary
from joker.kernels.cauchy import Cauchy
from joker.kernels.distance import squared_distance
from joker.kernels.gaussian import Gaussian
from joker.kernels.laplacian import Laplacian
from joker.kernels.linear import Linear
from joker.kernels.matern import Matern12, Matern32, Matern52
from joker.kernels.polynomial import Polynomial
from joker.kernels.radial import Radial

__all__ = [
    "KERNELS",
    "Cauchy",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Polynomial",
    "Radial",
    "Stationary",
    "get",
    "squared_distance",
]

KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian, Matern12, Matern32, Matern52, Cauchy, Linear, Polynomial)
}


def get(kernel: str | Kernel, bandwidth: float | None = None) -> Kernel:
    """Return the kernel of that name, or the given kernel, with ``bandwidth`` if that is given.

    Parameters
    ----------
    kernel : str or Kernel
        A name of `joker.kernels.KERNELS`, or a kernel.
    bandwidth : float, optional
        The bandwidth of the result.

    Returns
    -------
    Kernel
        The kernel.

    Examples
    --------
    >>> from joker.kernels import get
    >>> get("gaussian", bandwidth=2.0)
    Gaussian(bandwidth=2.0)
    """
    if isinstance(kernel, str) and kernel in KERNELS:
        kernel = KERNELS[kernel]()
    if not isinstance(kernel, Kernel):
        raise UnknownName.among("kernel (where it is not a Kernel)", kernel, KERNELS)
    return kernel if bandwidth is None else kernel.with_bandwidth(bandwidth)
