"""Products with a kernel matrix that is never held whole."""

from __future__ import annotations

from bisect import bisect_right

from torch import Tensor

from joker.errors import BudgetTooSmall
from joker.kernels.base import Kernel
from joker.ops.rows import SliceableRows
from joker.runtime import DEFAULT_BUDGET, format_bytes

LONGEST = 1_024  # side of a tile on the CPU: a longer one leaves the cache, and takes up to twice the time


def matvec(
    kernel: Kernel,
    x: SliceableRows,  # (n, d)
    z: SliceableRows,  # (k, d)
    v: Tensor,  # (k, t)
    budget: int = DEFAULT_BUDGET,
    *,
    out: Tensor | None = None,  # (n, t)
    row_bytes: tuple[int, int] = (0, 0),
) -> Tensor:  # (n, t)
    """Return k(x, z) v, tile by tile, or add it to ``out`` and return that.

    On a card, and in float32, many kernels need no tiles: the matrix is multiplied as it is made.

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    x, z : Tensor or SliceableRows
        The rows and the columns of the kernel matrix. A run of each is read at a time.
    v : Tensor
        What the matrix is multiplied by.
    budget : int
        Bytes of work space; the result and the arguments are not counted.
    out : Tensor, optional
        Where the product is added: ``out += k(x, z) v``.
    row_bytes : pair of int
        What reading a row of x, and of z, takes of the budget; nothing where it gives a view.

    Raises
    ------
    BudgetTooSmall
        If the budget does not hold a tile of one row and one column.
    """
    if out is None:
        out = v.new_zeros(x.shape[0], v.shape[1])
    if kernel.add_product(x, z, v, out, budget, row_bytes):
        return out
    rows, columns = tile_shape(kernel, x, z, budget, row_bytes)
    if not v.is_cuda:
        rows, columns = min(rows, LONGEST), min(columns, LONGEST)
    for i in range(0, x.shape[0], rows):
        run = x[i : i + rows]
        for j in range(0, z.shape[0], columns):
            tile = kernel(run, z[j : j + columns])
            out[i : i + rows].addmm_(tile, v[j : j + columns])
            del tile  # else it lives on while the next one is made
        del run
    return out


def tile_shape(
    kernel: Kernel,
    x: SliceableRows,  # (n, d)
    z: SliceableRows,  # (k, d)
    budget: int,
    row_bytes: tuple[int, int] = (0, 0),
) -> tuple[int, int]:
    """Return the rows and columns of the largest tile of k(x, z) inside ``budget`` bytes.

    The tile is square, or as long as the matrix where the other side is at its end: a
    square tile makes the most entries for each row it reads.
    """
    (n, d), k, itemsize = x.shape, z.shape[0], x.dtype.itemsize

    def work(side: int) -> int:
        b, c = min(side, n), min(side, k)
        return kernel.work_bytes(b, c, d, itemsize) + b * row_bytes[0] + c * row_bytes[1]

    side = bisect_right(range(1, max(n, k, 1) + 1), budget, key=work)
    if side < 1:
        raise BudgetTooSmall(
            f"memory must hold at least one entry of the {kernel.name} kernel matrix with {d} inputs; "
            f"{format_bytes(budget)} is given. Use memory={work(1)} (bytes) or more."
        )
    return max(min(side, n), 1), max(min(side, k), 1)
