"""Matrix-vector products with a kernel matrix that is never stored as a whole."""

from __future__ import annotations

from bisect import bisect_right

from torch import Tensor

from joker.errors import BudgetTooSmall
from joker.kernels.base import Kernel
from joker.ops.rows import RowsLike
from joker.runtime import DEFAULT_BUDGET, format_bytes
from joker.runtime.threads import share, thread_count

LONGEST = 1_024  # rows or columns of a tile on the CPU: larger tiles do not fit the cache
SHORTEST = 256  # rows of a tile that a thread computes: with fewer, threads wait for each other's Python calls


def matvec(
    kernel: Kernel,
    x: RowsLike,  # (n, d)
    z: RowsLike,  # (k, d)
    v: Tensor,  # (k, t)
    budget: int = DEFAULT_BUDGET,
    *,
    out: Tensor | None = None,  # (n, t)
    row_bytes: tuple[int, int] = (0, 0),
) -> Tensor:  # (n, t)
    """Return k(x, z) v, computed in tiles, or add it to ``out`` and return ``out``.

    On a GPU in float32 many kernels need no tiles: one kernel computes the entries and multiplies them.

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    x, z : Tensor or RowsLike
        The rows and the columns of the kernel matrix. A slice of each is read at a time.
    v : Tensor
        The vectors that the matrix is multiplied by.
    budget : int
        Bytes of scratch space, without the result and the arguments.
    out : Tensor, optional
        The tensor that the product is added to: ``out += k(x, z) v``.
    row_bytes : pair of int
        The bytes of the budget that reading a row of x, and of z, needs; 0 if a slice is a view.

    Raises
    ------
    BudgetTooSmall
        If a tile of one row and one column does not fit into the budget.
    """
    if out is None:
        out = v.new_zeros(x.shape[0], v.shape[1])
    if kernel.add_product(x, z, v, out, budget, row_bytes):
        return out
    (rows, columns), threads = tile_shape(kernel, x, z, budget, row_bytes), 1
    if not v.is_cuda:
        rows = min(rows, LONGEST, max(SHORTEST, -(-x.shape[0] // thread_count())))
        columns = min(columns, LONGEST)
        tile_bytes = kernel.work_bytes(rows, columns, x.shape[1], x.dtype.itemsize)
        threads = budget // max(1, tile_bytes + rows * row_bytes[0] + columns * row_bytes[1])

    def add(i: int) -> None:
        x_slice = x[i : i + rows]
        for j in range(0, z.shape[0], columns):
            tile = kernel(x_slice, z[j : j + columns])
            out[i : i + rows].addmm_(tile, v[j : j + columns])
            del tile  # else its memory would still be in use while the next tile is computed

    share(add, range(0, x.shape[0], rows), 1 if v.is_cuda else threads)
    return out


def tile_shape(
    kernel: Kernel, x: RowsLike, z: RowsLike, budget: int, row_bytes: tuple[int, int] = (0, 0)
) -> tuple[int, int]:  # x (n, d), z (k, d)
    """Return the rows and columns of the largest tile of k(x, z) that fits into ``budget`` bytes.

    The tile is square unless the matrix has fewer rows or columns: a square tile has the most entries
    for the rows of x and z that it reads.
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
