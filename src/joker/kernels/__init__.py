"""Kernels k(x, z), with their distances and spectra, and matrix-vector products in bounded memory."""

from __future__ import annotations

from joker.kernels.kernel import Kernel, Radial, Stationary, squared_distance
from joker.kernels.named import (
    KERNELS,
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Polynomial,
    get,
)

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
