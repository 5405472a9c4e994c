"""What the parameters of a constructor mean for the data at hand: each is checked and resolved here, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker import kernels
from joker.callbacks import Callback, EarlyStopping, Progress
from joker.data import Blocks, Rows, Scaling, distinct
from joker.data.array_rows import cast_row_bytes, is_sparse
from joker.data.one_scale import on_one_scale
from joker.errors import InvalidParameter, UnknownName
from joker.kernels import Kernel, bandwidth
from joker.planning import FitSpec
from joker.runtime import DEFAULT_BUDGET, chunks, parse_bytes, parse_dtype, physical_bytes
from joker.solvers import Settings, resolved
from joker.solvers.settings import AUTO, CONJUGATE_GRADIENTS, GREEDY, RANDOM

ONE_BLOCK = 2_048  # rows: block_size="auto" solves at most so many as one block, to the tolerance
BLOCK = 512  # rows of a block where there are more
# The same with the kernel itself on a CPU: fewer kernel evaluations, and each block costs little. Where blocks can be
# chosen, two of them take less time than one block of twice as many rows.
EXACT_BLOCK = 1_024
LEAST_BLOCK = 32  # rows: a memory budget makes no smaller block
EXACT_ROWS = 50_000  # rows: n_features="auto" uses the kernel itself for at most so many
# A kernel that is no function of a matrix product costs time for each input: it is used itself for at most so many
# numbers of X, or so many rows.
EXACT_NUMBERS, FEW_ROWS = 1_000_000, 10_000
FEATURES = 4_000  # random features where the kernel itself is too slow
GPU_BUDGET = 2**30  # bytes of scratch space on a GPU, where a block has more features than on a CPU
EPOCHS, MOST_EPOCHS = 5, 1_000  # of max_epochs="auto"
GRAM_EPOCHS = 50  # the same with the Gram matrix of features, after which a few passes are usually enough
KERNEL_WORK = 5 * 10**10  # kernel evaluations that max_epochs="auto" allows: 500 epochs of 10,000 rows, 20 of 50,000
KERNEL_ROOM = 2 * 2**30  # bytes of kept kernel rows where no budget is named, at most
PRECISIONS = {"auto": None, "mixed": torch.float32, "float32": torch.float32, "float64": torch.float64}


def fit_specs(
    given: Any,
    x: Any,  # (n, d)
    targets: int,
    n_lams: int,
    device: torch.device,
    seed: int,
    scaling: Scaling | None,
    scored: bool,
    callbacks: Sequence[Callback],
) -> Iterator[FitSpec]:
    """Yield the specs that a fit may have, the best first: several where a memory budget may ask for less.

    ``given`` is the estimator; the other arguments are those of `FitSpec`. On a GPU rows stay in host memory before
    blocks become smaller.
    """
    (n, d), limited = x.shape, budget(given.memory) is not None
    kernel = kernels.get(given.kernel)
    movable = limited and device.type == "cuda" and not is_sparse(x) and not isinstance(x, Rows)
    m = n_features(given.n_features, given.features, kernel, n, d)
    room = 0 if limited else cast_row_bytes(x)  # a plan with a budget counts what rows take
    exact = m is None and device.type == "cpu"
    usual, one_block = EXACT_BLOCK if exact else BLOCK, EXACT_BLOCK if exact and chooses_blocks(given) else ONE_BLOCK
    for size in block_sizes(given.block_size, n, room, memory(given.memory, device), limited, usual, one_block):
        Blocks(n, size)  # raises where the size is no number of rows
        dtype, mixed = precision(given.precision, given.dtype, size >= n or rounding_matters(given, n, m), device)
        choices = settings(given, size, m, n, targets, n_lams, seed, device, dtype)
        for host, chosen in product((False, True) if movable else (False,), choices):
            yield FitSpec(
                rows=n,
                inputs=d,
                targets=targets,
                device=device,
                dtype=dtype,
                kernel=kernel,
                settings=chosen,
                mixed=mixed,
                n_features=m,
                features=given.features,
                intercept=flag("fit_intercept", given.fit_intercept),
                scaling=scaling,
                rows_on_host=host,
                n_lams=n_lams,
                scored=scored,
                saved_states=sum(callback.copies for callback in callbacks),
                saved_machines=sum(callback.needs_score for callback in callbacks),
                keeps_state=flag("warm_start", given.warm_start),
            )


def settings(
    given: Any,
    size: int,
    m: int | None,
    n: int,
    targets: int,
    n_lams: int,
    seed: int,
    place: torch.device,
    dtype: torch.dtype,
) -> list[Settings]:
    """Return the settings of a solve of n rows in blocks of ``size`` rows, with its method and its epochs.

    There are two where a memory budget may have no room for the Gram matrix that the first one needs.
    """
    asked = Settings(
        block_size=size,
        tol=given.tol,
        max_time=given.max_time,
        method=given.method,
        averaging=given.averaging,
        momentum=given.momentum,
        seed=seed,
    )
    limited = budget(given.memory) is not None
    chosen = resolved(
        asked,
        given._loss(),
        n,
        m,
        columns=targets * n_lams,
        one_penalty=n_lams == 1,
        gram_room=inf if limited else gram_room(place),
        on_gpu=place.type == "cuda",
        itemsize=dtype.itemsize,
    )
    less = m is not None and limited and (given.method, chosen.method) == (AUTO, CONJUGATE_GRADIENTS)
    methods = [chosen, *([replace(chosen, method=RANDOM)] if less else [])]
    return [replace(s, max_epochs=max_epochs(given.max_epochs, s.method, n, m)) for s in methods]


def max_epochs(given: float | str, method: str, n: int, m: int | None = None) -> float:
    """Return the epochs allowed for n rows: with the kernel itself, as many as a fixed amount of work holds."""
    if not isinstance(given, str):
        return given
    _only_auto("max_epochs", given, 5)
    if m is not None and method == CONJUGATE_GRADIENTS:
        return GRAM_EPOCHS
    return EPOCHS if method == RANDOM else max(EPOCHS, min(MOST_EPOCHS, KERNEL_WORK // n**2))


def chooses_blocks(given: Any) -> bool:
    """Return whether an estimator with the kernel itself uses greedy blocks."""
    return given.method in (AUTO, GREEDY) and not given.momentum and not is_linear_system(given)


def is_linear_system(given: Any) -> bool:
    """Return whether the loss of an estimator makes its problem a linear system."""
    loss = given._loss()
    return bool(loss.quadratic and loss.unbounded)


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


def block_size(
    given: int | str,
    n: int,
    row_bytes: int = 0,
    memory: int | str = DEFAULT_BUDGET,
    usual: int = BLOCK,
    one_block: int = ONE_BLOCK,
) -> int:
    """Return the rows of a block among n rows; where rows are made dense, a block takes at most half the memory."""
    if not isinstance(given, str):
        return given
    _only_auto("block_size", given, 512)
    room = max(1, parse_bytes(memory) // 2 // row_bytes) if row_bytes else n
    return n if n <= min(one_block, room) else min(usual, room)


def block_sizes(
    given: int | str, n: int, row_bytes: int, memory: int, shrink: bool, usual: int = BLOCK, one_block: int = ONE_BLOCK
) -> list[int]:
    """Return the possible block sizes, the best first; one where it is given or need not shrink."""
    size = block_size(given, n, row_bytes, memory, usual, one_block)
    if not (shrink and isinstance(given, str)):
        return [size]
    smaller = [usual >> halvings for halvings in range(usual.bit_length()) if usual >> halvings >= LEAST_BLOCK]
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


def rounding_matters(given: Any, n: int, m: int | None) -> bool:
    """Return whether a linear system with the kernel matrix has a λ below the rounding errors of its eigenvalues."""
    return m is None and is_linear_system(given) and min(penalties(given.lam)) < smallest_penalty(n)


def smallest_penalty(n: int) -> float:
    """Return the smallest λ of a linear system of n rows that float32 can resolve."""
    return torch.finfo(torch.float32).eps * n


def precision(given: str, dtype: str | torch.dtype, full: bool, place: torch.device) -> tuple[torch.dtype, bool]:
    """Return the floating-point type of the computation, and whether the kernel of a block may be less precise."""
    if given not in PRECISIONS:
        raise UnknownName.among("precision", given, PRECISIONS)
    auto = isinstance(dtype, str) and dtype == AUTO
    stated = None if auto else parse_dtype(dtype)
    meant = PRECISIONS[given] or stated or (torch.float64 if full else torch.float32)
    if stated not in (None, meant):
        raise InvalidParameter(
            f"precision and dtype must agree; got precision={given!r} and dtype={dtype!r}. Leave out one of the two."
        )
    low = given == "mixed" or (given == AUTO and place.type == "cuda")
    return meant, low and meant == torch.float32


def budget(given: int | str) -> int | None:
    """Return the bytes that are allowed in total; None without a budget."""
    return None if isinstance(given, str) and given == AUTO else parse_bytes(given)


def memory(given: int | str, place: torch.device) -> int:
    """Return the bytes of scratch space of a computation without a plan."""
    if isinstance(given, str) and given == AUTO:
        return GPU_BUDGET if place.type == "cuda" else DEFAULT_BUDGET
    return parse_bytes(given)


def kernel_room(place: torch.device) -> int:
    """Return the bytes in which a fit without a budget keeps the kernel matrix or a part of it."""
    return GPU_BUDGET if place.type == "cuda" else min(KERNEL_ROOM, physical_bytes() // 4)


def gram_room(place: torch.device) -> int:
    """Return the bytes that the Gram matrix of features may take in a fit without a budget."""
    return physical_bytes(place) // 4 if place.type == "cuda" else kernel_room(place)


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


def standardizes(standardize: object, bandwidth: Any, x: Any, w: NDArray[np.float64] | None) -> bool:  # (n, d), (n,)
    """Whether checked rows are z-scored; "auto" does so unless they are on one scale, or each has its own bandwidth."""
    if check_standardize(standardize) != AUTO:
        return bool(standardize)
    return isinstance(bandwidth, str | Real) and not on_one_scale(x, w)


def check_standardize(standardize: object) -> bool | str:
    """Return the setting, which is a switch or "auto"."""
    if isinstance(standardize, str) and standardize == AUTO:
        return AUTO
    if not isinstance(standardize, bool | np.bool_):
        raise InvalidParameter(f"standardize must be True, False or 'auto'; got {standardize!r}. Use 'auto'.")
    return bool(standardize)


def callbacks(given: object, verbose: object, early_stopping: object) -> list[Callback]:
    """Return the callbacks of a fit: those given, and those that ``verbose`` and ``early_stopping`` add."""
    chosen = _checked_callbacks(given)
    if not isinstance(verbose, int) or verbose not in (0, 1):
        raise InvalidParameter(f"verbose must be 0 (silent) or 1 (a progress line); got {verbose!r}. Use verbose=1.")
    if early_stopping and not any(callback.needs_score for callback in chosen):
        chosen.append(EarlyStopping())
    return [*chosen, Progress()] if verbose else chosen


def needs_held_out_rows(lam: Any, callbacks: Sequence[Callback]) -> bool:
    """Whether rows are held out: to choose among several λ, or the epoch."""
    return bool(np.ndim(lam)) or any(callback.needs_score for callback in callbacks)


def sigma(
    rule: Any,
    given: str | Kernel,
    kernel: Kernel,
    x: Rows,  # (n, d)
    w: Tensor | None,  # (n,)
    seed: int,
) -> float:
    """Return the bandwidth that ``rule`` gives on the distinct rows of positive weight.

    So a row of weight 2 is the same as the row twice, and a row of weight 0 as none. Where all rows are equal, or
    inputs are divided by bandwidths of their own, the bandwidth is 1.
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
    rows = x.some(chosen if w is None else _positions(w, chosen))
    rows = rows.some(distinct(rows))
    return share * bandwidth.choose(rule, kernel, rows, seed) if len(rows) > 1 else 1.0


def _positions(
    w: Tensor,  # (n,)
    chosen: Tensor,  # (k,)
) -> Tensor:  # (k,)
    """Return the row numbers of the chosen ones among the rows of positive weight."""
    order = chosen.argsort()
    positions, seen = torch.empty_like(chosen), 0
    for rows in chunks(len(w)):
        positive = (w[rows] > 0).nonzero()[:, 0].cpu()
        ends = torch.tensor([seen, seen + len(positive)])
        here = order[slice(*torch.searchsorted(chosen[order], ends).tolist())]
        positions[here] = rows.start + positive[chosen[here] - seen]
        seen += len(positive)
    return positions


def _only_auto(name: str, given: object, number: int) -> None:
    if given != AUTO:
        raise InvalidParameter(f"{name} must be a whole number or 'auto'; got {given!r}. Use {name}={number}.")


def _checked_callbacks(given: Any) -> list[Callback]:
    if given is None:
        return []
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidParameter(
            f"callbacks must be None or a sequence of callbacks; got {given!r}. Use callbacks=[...], with brackets."
        )
    for callback in given:
        if not isinstance(callback, Callback):
            raise InvalidParameter(
                f"callbacks must be instances of joker.callbacks.Callback; got {callback!r}. {_remedy(callback)}"
            )
    return list(given)


def _remedy(callback: Any) -> str:
    if isinstance(callback, type):
        return f"Use {callback.__name__}(...), with parentheses."
    if hasattr(callback, "on_fit_task_end"):
        return "Give a callback of scikit-learn to set_callbacks instead."
    return "Derive yours from it, and override what you need."
