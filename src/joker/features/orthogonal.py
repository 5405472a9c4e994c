"""Orthogonal random features, whose frequencies are spread more evenly than independent ones."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from joker.features.base import ScaleMixture, draw_phase, draw_radii
from joker.features.fourier import Fourier


def draw(kernel: ScaleMixture, d: int, m: int, generator: torch.Generator) -> Fourier:
    """Draw m frequencies that are orthogonal in blocks of d, with the lengths of independent ones.

    Each frequency has the distribution of an independent draw, so the features are unbiased;
    together they are spread more evenly, so the variance is smaller.
    """
    directions = _directions(d, m, generator)
    weights = directions.mul_(draw_radii(kernel, d, m, generator))
    return Fourier(weights, draw_phase(m, generator), math.sqrt(2 / m))


def _directions(d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
    """Draw unit columns, uniform on the sphere up to their signs, orthogonal in blocks of d."""
    width = min(d, m)
    normal = torch.randn(-(-m // width), d, width, dtype=torch.float64, generator=generator)
    # Q is uniform up to the signs of its columns, and k = E cos⟨w, x − z⟩ does not depend on the sign of w.
    q, _ = torch.linalg.qr(normal)  # (blocks, d, width)
    columns: Tensor = q.transpose(0, 1).reshape(d, -1)
    return columns[:, :m].contiguous()  # a matrix product may round a view of a wider matrix differently
