"""Rules that choose the bandwidth of a kernel from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from joker.errors import DegenerateBandwidth, UnknownName
from joker.kernels.base import Kernel, check_bandwidth
from joker.ops.rows import RowsLike
from joker.runtime import generator

MAX_SAMPLED_ROWS = 10_000  # as in the paper's published code
# A sample has at most this number of entries, but at least this number of rows: rows of more than 1,700 inputs are
# sampled less.
MAX_SAMPLED_ENTRIES, MIN_SAMPLED_ROWS = 2**24, 1_000
GROUP_ENTRIES = 2**19  # entries that are read at a time, so that rows with many inputs need little memory
MIN_GROUP_ROWS = 16  # for any number of inputs: smaller groups would have too few pairs
MAX_PAIRS = 2**19  # counting (i, j) and (j, i): enough for the median, which more pairs hardly change


def choose(rule: str | float, kernel: Kernel, x: RowsLike, seed: int) -> float:  # x (n, d)
    """Return the bandwidth σ that ``rule`` gives for ``kernel`` on the rows ``x``.

    Parameters
    ----------
    rule : {"median", "paper"} or float
        ``"median"`` is the median over pairs of rows of the distance that the kernel uses: ‖·‖₁
        for the Laplacian, ‖·‖₂ for the others. ``"paper"`` computes γ = 1 / mean‖x − x′‖₂², and
        from it σ = 1/√(2γ) for the Gaussian exp(−γ‖r‖²), 1/γ for the Laplacian exp(−γ‖r‖₁), as
        in the paper's published code, and 1/√γ, the root mean square distance, for the others.
        A positive number is the bandwidth itself.
    kernel : Kernel
        The kernel; its present bandwidth is not used. The result is 1 for a kernel without a bandwidth.
    x : Tensor or Rows
        The rows; a rule reads at most 10,000 of them, and fewer if they have many inputs.
    seed : int
        Seed of the sample of rows.

    Raises
    ------
    DegenerateBandwidth
        If all rows, or half of the pairs of rows, are equal.
    """
    check_rule(rule)
    if not kernel.has_bandwidth:
        return 1.0
    return _RULES[rule](kernel, x, seed) if isinstance(rule, str) else float(rule)


def check_rule(rule: object) -> None:
    """Raise an error if ``rule`` is neither the name of a rule nor a positive finite number."""
    if not isinstance(rule, str):
        check_bandwidth(rule)
    elif rule not in _RULES:
        raise UnknownName.among("bandwidth (where it is not a positive number)", rule, _RULES)


def _median(kernel: Kernel, x: RowsLike, seed: int) -> float:
    """Return the median distance within groups of rows: every row is used, but only a few pairs."""
    rows = sample(x.shape[0], x.shape[1], seed)
    group_rows = max(MIN_GROUP_ROWS, GROUP_ENTRIES // x.shape[1])
    groups = rows.tensor_split(max(1, math.ceil(len(rows) ** 2 / MAX_PAIRS), math.ceil(len(rows) / group_rows)))
    median = torch.quantile(distances, 0.5).item() if len(distances := _distances(kernel, x, groups)) else 0.0
    return _check_spread("median", "median", median, len(rows))


def _paper(kernel: Kernel, x: RowsLike, seed: int) -> float:
    """Return the σ of γ = 1 / mean‖x − x′‖², where the mean over pairs is 2 Σ var(x_j)."""
    rows = sample(x.shape[0], x.shape[1], seed)
    mean = 2 * _variance(x, rows).sum().item() if len(rows) > 1 else 0.0
    return kernel.bandwidth_from(1 / _check_spread("paper", "mean squared", mean, len(rows)))


def _variance(x: RowsLike, rows: Tensor) -> Tensor:  # (n, d), (k,) -> (d,)
    """Return the variance of each input over some rows, read in groups; exactly 0 for a constant input."""
    count, mean, squares = 0, torch.zeros(()), torch.zeros(())
    for group in rows.split(max(1, GROUP_ENTRIES // x.shape[1])):
        # torch uses Welford's algorithm within a group; this is the same update from group to group.
        variance, centre = torch.var_mean(x[group].double(), dim=0, correction=0)
        shift, share = centre - mean, len(group) / (count + len(group))
        squares = squares + len(group) * variance + count * share * shift.square()
        mean = mean + share * shift
        count += len(group)
    return squares / (count - 1)


_RULES = {"median": _median, "paper": _paper}


def sample(n: int, d: int, seed: int) -> Tensor:  # (at most MAX_SAMPLED_ROWS,)
    """Return the numbers of the sampled rows, of n with d inputs, in random order. Nothing of size n is allocated."""
    source = generator(seed, "bandwidth")
    most = min(MAX_SAMPLED_ROWS, max(MIN_SAMPLED_ROWS, MAX_SAMPLED_ENTRIES // max(d, 1)))
    if n <= most:
        return torch.randperm(n, generator=source)
    rows: Tensor = torch.unique(torch.randint(n, (most,), generator=source))
    return rows[torch.randperm(len(rows), generator=source)]


def _distances(kernel: Kernel, x: RowsLike, groups: Sequence[Tensor]) -> Tensor:  # (pairs,)
    """Return the distances within each group, in one tensor: many small tensors would fragment memory."""
    sizes = [len(group) * (len(group) - 1) // 2 for group in groups]
    distances = torch.empty(sum(sizes), dtype=torch.float64)
    for group, out in zip(groups, distances.split(sizes), strict=True):
        rows = x[group].double()
        i, j = torch.triu_indices(len(rows), len(rows), offset=1, device=rows.device)
        out.copy_(kernel.distance(rows, rows)[i, j])
    return distances


def _check_spread(rule: str, what: str, value: float, rows: int) -> float:
    if not 0 < value < math.inf:
        raise DegenerateBandwidth(
            f"bandwidth={rule!r} needs rows that differ; the {what} distance over {rows} rows is {value}. "
            "Give the bandwidth as a number, such as bandwidth=1.0, or check the inputs for constant columns."
        )
    return value
