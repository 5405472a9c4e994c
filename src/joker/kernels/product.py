"""Products with a kernel matrix that is never held whole."""

from __future__ import annotations

from bisect import bisect_right
from itertools import product

from torch import Tensor

from joker.errors import BudgetTooSmall
from joker.kernels.base import Kernel
from joker.runtime import DEFAULT_BUDGET, format_bytes


def matvec(
    kernel: Kernel,
    x: Tensor,  # (n, d)
    z: Tensor,  # (k, d)
    v: Tensor,  # (k, t)
    budget: int = DEFAULT_BUDGET,
    *,
    out: Tensor | None = None,  # (n, t)
) -> Tensor:  # (n, t)
    """Return k(x, z) v, tile by tile, or add it to ``out`` and return that.

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    x, z : Tensor
        The rows and the columns of the kernel matrix.
    v : Tensor
        What the matrix is multiplied by.
    budget : int
        Bytes of work space; the result and the arguments are not counted.
    out : Tensor, optional
        Where the product is added: ``out += k(x, z) v``.

    Raises
    ------
    BudgetTooSmall
        If the budget does not hold a tile of one row and one column.
    """
    if out is None:
        out = v.new_zeros(x.shape[0], v.shape[1])
    rows, columns = tile_shape(kernel, x, z, budget)
    for i, j in product(range(0, len(x), rows), range(0, len(z), columns)):
        tile = kernel(x[i : i + rows], z[j : j + columns])
        out[i : i + rows].addmm_(tile, v[j : j + columns])
        del tile  # else it lives on while the next one is made
    return out


def tile_shape(
    kernel: Kernel,
    x: Tensor,  # (n, d)
    z: Tensor,  # (k, d)
    budget: int,
) -> tuple[int, int]:
    """Return the rows and columns of the largest tile of k(x, z) inside ``budget`` bytes.

    The tile is square, or as long as the matrix where the other side is at its end: a
    square tile makes the most entries for each row it reads.
    """
    n, k, d, itemsize = len(x), len(z), x.shape[1], x.element_size()

    def work(side: int) -> int:
        return kernel.work_bytes(min(side, n), min(side, k), d, itemsize)

    side = bisect_right(range(1, max(n, k, 1) + 1), budget, key=work)
    if side < 1:
        raise BudgetTooSmall(
            f"memory must hold at least one entry of the {kernel.name} kernel matrix with {d} inputs; "
            f"{format_bytes(budget)} is given. Use memory={work(1)} (bytes) or more."
        )
    return max(min(side, n), 1), max(min(side, k), 1)
