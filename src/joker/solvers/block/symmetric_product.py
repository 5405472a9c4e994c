"""Products with a symmetric matrix on a CPU: BLAS reads one half of the matrix, which takes half the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Vector = NDArray[Any]  # (b,)
MOST_ROWS = 2_048  # a product with a larger matrix is left to torch, which shares it among its threads


class SymmetricProduct:
    """The product of a symmetric matrix with vectors; call it inside `joker.runtime.threads.one_blas_thread`.

    Parameters
    ----------
    K : Tensor
        The matrix (b, b), in host memory. Up to `MOST_ROWS` rows, its entries on one side of the diagonal are used for
        both sides.
    """

    def __init__(self, K: Tensor) -> None:
        from scipy.linalg import get_blas_funcs  # here, because `import joker` must not load scipy

        self.whole = K
        # The same memory in the order of Fortran, which BLAS does not copy.
        self.K = np.ascontiguousarray(K.numpy()).T if len(K) <= MOST_ROWS else None
        self.symv = get_blas_funcs("symv", dtype=K.numpy().dtype)

    def __call__(self, v: Vector) -> Vector:
        """Return K v."""
        found = torch.mv(self.whole, torch.from_numpy(v)).numpy() if self.K is None else self.symv(1.0, self.K, v)
        product: Vector = found
        return product
