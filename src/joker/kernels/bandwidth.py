"""Rules that read a kernel's bandwidth off the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from joker.errors import DegenerateBandwidth, UnknownName
from joker.kernels.base import Kernel, check_bandwidth
from joker.runtime import generator

MOST_ROWS = 10_000  # as many as the paper's code looks at
MOST_ENTRIES = 2**19  # looked at in one go, so that wide rows need little memory
FEWEST = 16  # rows in a group, however wide: fewer would make too few pairs
WIDE_ROWS, WIDE_ENTRIES = 1_000, 2**24  # of rows wider than 1,700 inputs fewer are looked at, not below a thousand
MOST_PAIRS = 2**19  # (i, j) and (j, i) both counted; moves the median of 10,000 rows by a part in a thousand


class Rows(Protocol):
    """Rows of which some are handed out, by their numbers; a tensor is such a thing itself."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and inputs."""
        ...

    def __getitem__(self, rows: Tensor, /) -> Tensor:  # (b,) -> (b, d)
        """Return some rows."""
        ...


def choose(
    rule: str | float,
    kernel: Kernel,
    x: Rows,  # (n, d)
    seed: int,
) -> float:
    """Return the bandwidth σ that ``rule`` gives for ``kernel`` on the rows ``x``.

    Parameters
    ----------
    rule : {"median", "paper"} or float
        ``"median"`` is the median over pairs of rows of the kernel's own distance: ‖·‖₁
        for the Laplacian, ‖·‖₂ for the others. ``"paper"`` is γ = 1 / mean‖x − x′‖₂², with
        the σ that the kernel finds in γ: 1/√(2γ) for the Gaussian exp(−γ‖r‖²), 1/γ for
        the Laplacian exp(−γ‖r‖₁) as in the paper's own code, and 1/√γ, the root mean
        square distance, for the others. A positive number is the bandwidth itself.
    kernel : Kernel
        The kernel, whose present bandwidth does not matter. One that has none gets 1.
    x : Tensor or Rows
        The rows; a rule looks at no more than 10,000 of them, and at fewer of wide ones.
    seed : int
        Which of them.

    Raises
    ------
    DegenerateBandwidth
        If the rows, or half of the pairs of them, do not differ.
    """
    if isinstance(rule, str):
        if rule not in _RULES:
            raise UnknownName.among("bandwidth (where it is not a positive number)", rule, _RULES)
        return _RULES[rule](kernel, x, seed) if kernel.has_bandwidth else 1.0
    sigma = check_bandwidth(rule)
    return sigma if kernel.has_bandwidth else 1.0


def _median(kernel: Kernel, x: Rows, seed: int) -> float:
    """Return the median distance within groups of rows: every row counts, few pairs are made."""
    rows = sample(x.shape[0], x.shape[1], seed)
    few = max(FEWEST, MOST_ENTRIES // x.shape[1])
    groups = rows.tensor_split(max(1, math.ceil(len(rows) ** 2 / MOST_PAIRS), math.ceil(len(rows) / few)))
    median = torch.quantile(distances, 0.5).item() if len(distances := _distances(kernel, x, groups)) else 0.0
    return _check_spread("median", "median", median, len(rows))


def _paper(kernel: Kernel, x: Rows, seed: int) -> float:
    """Return the σ of γ = 1 / mean‖x − x′‖², where the mean over pairs is 2 Σ var(x_j)."""
    rows = sample(x.shape[0], x.shape[1], seed)
    mean = 2 * _variance(x, rows).sum().item() if len(rows) > 1 else 0.0
    return kernel.bandwidth_from(1 / _check_spread("paper", "mean squared", mean, len(rows)))


def _variance(
    x: Rows,  # (n, d)
    rows: Tensor,  # (k,)
) -> Tensor:  # (d,)
    """Return the variance of each input over some rows, a few at a time; zero, without rounding, where constant."""
    count, mean, squares = 0, torch.zeros(()), torch.zeros(())
    for group in rows.split(max(1, MOST_ENTRIES // x.shape[1])):
        # torch goes Welford's way within a group, and so do we from group to group.
        variance, centre = torch.var_mean(x[group].double(), dim=0, correction=0)
        shift, share = centre - mean, len(group) / (count + len(group))
        squares = squares + len(group) * variance + count * share * shift.square()
        mean = mean + share * shift
        count += len(group)
    return squares / (count - 1)


_RULES = {"median": _median, "paper": _paper}


def sample(n: int, d: int, seed: int) -> Tensor:  # (at most MOST_ROWS,)
    """Return which of n rows of d inputs to look at, in random order. For a large n it costs nothing of size n."""
    source = generator(seed, "bandwidth")
    most = min(MOST_ROWS, max(WIDE_ROWS, WIDE_ENTRIES // max(d, 1)))
    if n <= most:
        return torch.randperm(n, generator=source)
    rows: Tensor = torch.unique(torch.randint(n, (most,), generator=source))
    return rows[torch.randperm(len(rows), generator=source)]


def _distances(kernel: Kernel, x: Rows, groups: Sequence[Tensor]) -> Tensor:  # (pairs,)
    """Return the distances within each group, in one piece: pieces between larger ones would tear memory apart."""
    sizes = [len(group) * (len(group) - 1) // 2 for group in groups]
    found = torch.empty(sum(sizes), dtype=torch.float64)
    for group, place in zip(groups, found.split(sizes), strict=True):
        place.copy_(_pairs(kernel, x[group].double()))
    return found


def _pairs(
    kernel: Kernel,
    x: Tensor,  # (g, d)
) -> Tensor:  # (g(g − 1)/2,)
    i, j = torch.triu_indices(len(x), len(x), offset=1, device=x.device)
    return kernel.distance(x, x)[i, j]


def _check_spread(rule: str, what: str, value: float, rows: int) -> float:
    if not 0 < value < math.inf:
        raise DegenerateBandwidth(
            f"bandwidth={rule!r} needs rows that differ; the {what} distance over {rows} rows is {value}. "
            "Give the bandwidth as a number, such as bandwidth=1.0, or check the inputs for constant columns."
        )
    return value
