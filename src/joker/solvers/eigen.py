"""The largest eigenvalues of a symmetric positive semidefinite matrix, from products with it, and their residuals.

Block Davidson iteration without a preconditioner: a basis grows by the residuals of the best Ritz vectors, and is
replaced by these where it is full. A small matrix is decomposed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from joker.runtime import generator

WHOLE = 1_024  # rows up to which a matrix is decomposed as a whole
SHARE = 5  # a matrix is also decomposed as a whole where more than the n/5 largest eigenvalues are wanted
SPARE = 8  # vectors beside those that are wanted: the last ones converge faster with them
BLOCKS = 8  # of vectors in a basis, at most
ITERATIONS = 300


class Eigenpairs(NamedTuple):
    """The largest eigenvalues, in falling order."""

    values: Tensor  # (k,)
    vectors: Tensor  # (n, k), of length 1
    residuals: Tensor  # (k,), ‖A v − λ v‖


def largest(multiply: Callable[[Tensor], Tensor], n: int, k: int, tol: float, seed: int, like: Tensor) -> Eigenpairs:
    """Return the k largest eigenvalues of an (n, n) matrix, to residuals of at most ``tol`` times the largest.

    ``multiply`` returns the product with an (n, b) matrix; ``like`` has the type and the device.

    Examples
    --------
    >>> A = torch.diag(torch.arange(2_000.0, dtype=torch.float64))
    >>> found = largest(A.matmul, 2_000, 2, 1e-8, 0, A)
    >>> [round(value, 3) for value in found.values.tolist()]
    [1999.0, 1998.0]
    """
    if n <= WHOLE or SHARE * k >= n:
        matrix = multiply(torch.eye(n, dtype=like.dtype, device=like.device))
        values, vectors = torch.linalg.eigh(0.5 * (matrix + matrix.T))
        values, vectors = values[-k:].flip(0), vectors[:, -k:].flip(1)
        return Eigenpairs(values, vectors, (multiply(vectors) - vectors * values).norm(dim=0))
    b = min(n, k + SPARE)
    start = torch.randn(n, b, dtype=torch.float64, generator=generator(seed, "eigenvectors")).to(like)
    basis = torch.linalg.qr(start).Q
    image = multiply(basis)
    for _ in range(ITERATIONS):
        values, small = torch.linalg.eigh(_symmetric(basis.T @ image))
        values, small = values[-b:].flip(0), small[:, -b:].flip(1)
        vectors, products = basis @ small, image @ small
        rest = products - vectors * values
        residuals = rest.norm(dim=0)
        if bool((residuals[:k] <= tol * values[0].clamp(min=torch.finfo(like.dtype).tiny)).all()):
            break
        if basis.shape[1] + b > BLOCKS * b:
            basis, image = vectors, products
        new = torch.linalg.qr(_orthogonal(rest, basis)).Q
        new = torch.linalg.qr(_orthogonal(new, basis)).Q  # the first one may have lost its digits
        basis, image = torch.cat([basis, new], dim=1), torch.cat([image, multiply(new)], dim=1)
    return Eigenpairs(values[:k], vectors[:, :k], residuals[:k])


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.T)


def _orthogonal(vectors: Tensor, basis: Tensor) -> Tensor:
    """Return vectors, scaled to length 1, without their part in the span of a basis."""
    vectors = vectors / vectors.norm(dim=0).clamp(min=torch.finfo(vectors.dtype).tiny)
    return vectors - basis @ (basis.T @ vectors)
