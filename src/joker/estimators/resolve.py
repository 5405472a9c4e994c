"""What the constructor's words mean for the data at hand: "auto", a path of λ, a bandwidth rule."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from joker.data import Rows, distinct
from joker.errors import InvalidParameter, UnknownName
from joker.kernels import Kernel, bandwidth
from joker.runtime import DEFAULT_BUDGET, chunks, parse_bytes, parse_dtype

AUTO = "auto"
ONE_BLOCK = 2_048  # rows up to which block_size="auto" takes one block, solved to the tolerance
BLOCK = 512  # and the rows of a block beyond
LEAST_BLOCK = 32  # rows: a budget that needs fewer is too small
EXACT_ROWS = 50_000  # rows up to which n_features="auto" uses the kernel itself; a kernel that is no function of a
EXACT_NUMBERS, FEW_ROWS = 1_000_000, 10_000  # matrix product takes longer by the input: so many numbers, or these rows
PRECISIONS = {"auto": None, "mixed": torch.float32, "float32": torch.float32, "float64": torch.float64}
CARD_BUDGET = 2**30  # bytes of scratch space on a card: the features of a block are many there
FEATURES = 4_000  # and how many features it takes beyond


def penalties(lam: Any) -> list[float]:
    """Return the values of λ: one, or those of a path."""
    try:
        values = np.atleast_1d(np.asarray(lam, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.zeros(1)
    if values.ndim != 1 or not values.size or not np.all(values > 0) or not np.all(np.isfinite(values)):
        raise InvalidParameter(
            f"lam must be a positive finite number, or a sequence of them; got lam={lam!r}. "
            "Use a small positive value such as 1e-3."
        )
    return [float(value) for value in values]


def block_size(given: int | str, n: int, row_bytes: int = 0, memory: int | str = DEFAULT_BUDGET) -> int:
    """Return the rows of a block among n rows; where they are made dense, a block takes half the memory at most."""
    if not isinstance(given, str):
        return given
    _only_auto("block_size", given, 512)
    room = max(1, parse_bytes(memory) // 2 // row_bytes) if row_bytes else n
    return n if n <= min(ONE_BLOCK, room) else min(BLOCK, room)


def block_sizes(given: int | str, n: int, row_bytes: int, memory: int, shrink: bool) -> list[int]:
    """Return the rows of a block that may be taken, the best first; one size where it is given or need not shrink."""
    size = block_size(given, n, row_bytes, memory)
    if not (shrink and isinstance(given, str)):
        return [size]
    smaller = [BLOCK >> halvings for halvings in range(BLOCK.bit_length()) if BLOCK >> halvings >= LEAST_BLOCK]
    return [size, *(fewer for fewer in smaller if fewer < size)]


def n_features(given: int | str | None, features: str, kernel: Kernel, n: int, d: int) -> int | None:
    """Return the number of features for n rows of d inputs; None is the kernel itself."""
    if given is None or (isinstance(given, Integral) and not isinstance(given, bool)):
        return given
    _only_auto("n_features", given, 1000)
    if "identity" in kernel.feature_kinds:
        return d
    quick = kernel.by_product or n <= max(FEW_ROWS, EXACT_NUMBERS // d)
    exact = n <= EXACT_ROWS and quick and features == AUTO
    return None if exact or not kernel.feature_kinds else FEATURES


def precision(given: str, dtype: str | torch.dtype, one_block: bool, place: torch.device) -> tuple[torch.dtype, bool]:
    """Return the floating-point type to compute in, and whether the kernel of a block may be less precise."""
    if given not in PRECISIONS:
        raise UnknownName.among("precision", given, PRECISIONS)
    auto = isinstance(dtype, str) and dtype == AUTO
    stated = None if auto else parse_dtype(dtype)
    meant = PRECISIONS[given] or stated or (torch.float64 if one_block else torch.float32)
    if stated not in (None, meant):
        raise InvalidParameter(
            f"precision and dtype must agree; got precision={given!r} and dtype={dtype!r}. Leave out one of the two."
        )
    low = given == "mixed" or (given == AUTO and place.type == "cuda")
    return meant, low and meant == torch.float32


def budget(given: int | str) -> int | None:
    """Return the bytes that are allowed in all; None where none are named."""
    return None if isinstance(given, str) and given == AUTO else parse_bytes(given)


def memory(given: int | str, place: torch.device) -> int:
    """Return the bytes of scratch space, where a plan does not say."""
    if isinstance(given, str) and given == AUTO:
        return CARD_BUDGET if place.type == "cuda" else DEFAULT_BUDGET
    return parse_bytes(given)


def fraction(validation_fraction: float) -> float:
    """Return the share of rows to hold out."""
    number = isinstance(validation_fraction, Real) and not isinstance(validation_fraction, bool)
    if not number or not 0 < validation_fraction < 1:
        raise InvalidParameter(
            f"validation_fraction must be a number between 0 and 1, both excluded; got {validation_fraction!r}. "
            "Use a value such as 0.1."
        )
    return float(validation_fraction)


def flag(name: str, value: object) -> bool:
    """Return a switch."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(f"{name} must be True or False; got {value!r}. Use {name}=True.")
    return bool(value)


def sigma(
    rule: Any,
    given: str | Kernel,
    kernel: Kernel,
    x: Rows,  # (n, d)
    w: Tensor | None,  # (n,)
    seed: int,
) -> float:
    """Return the bandwidth that ``rule`` gives on the distinct rows that count.

    So a row of weight 2 is the same as the row twice, and a row of weight 0 as none. Rows
    that do not differ at all say nothing of a bandwidth; it is then 1. So it is where inputs are
    divided by bandwidths of their own.
    """
    if np.ndim(rule):
        return 1.0
    share = 1.0
    if isinstance(rule, str) and rule == AUTO:
        if isinstance(given, Kernel):
            return given.bandwidth
        rule, share = "median", kernel.usual_share
    if not isinstance(rule, str) or not kernel.has_bandwidth:
        return bandwidth.choose(rule, kernel, x, seed)
    count = len(x) if w is None else int((w > 0).sum())
    chosen = bandwidth.sample(count, x.shape[1], seed)
    rows = x.some(chosen if w is None else _places(w, chosen))
    rows = rows.some(distinct(rows))
    return share * bandwidth.choose(rule, kernel, rows, seed) if len(rows) > 1 else 1.0


def _places(
    w: Tensor,  # (n,)
    chosen: Tensor,  # (k,)
) -> Tensor:  # (k,)
    """The places of the positive weights of these numbers, where they are counted from the first on."""
    order = chosen.argsort()
    found, seen = torch.empty_like(chosen), 0
    for rows in chunks(len(w)):
        places = (w[rows] > 0).nonzero()[:, 0].cpu()
        ends = torch.tensor([seen, seen + len(places)])
        mine = order[slice(*torch.searchsorted(chosen[order], ends).tolist())]
        found[mine] = rows.start + places[chosen[mine] - seen]
        seen += len(places)
    return found


def _only_auto(name: str, given: object, number: int) -> None:
    if given != AUTO:
        raise InvalidParameter(f"{name} must be a whole number or 'auto'; got {given!r}. Use {name}={number}.")
