"""Checks of tensors that a user gives: dense, floating-point, finite."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.errors import InvalidData
from joker.runtime import chunks


def check_tensor(x: object, what: str) -> None:
    """Raise InvalidData if ``x`` is not a dense tensor.

    Parameters
    ----------
    x : Tensor
        The values.
    what : str
        The name of the values in messages.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_tensor
    >>> check_tensor(torch.zeros(3, 2), "X")  # nothing is wrong
    """
    if not isinstance(x, Tensor):
        raise InvalidData(f"{what} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor({what}).")
    if x.layout != torch.strided:
        kind = str(x.layout).removeprefix("torch.")
        raise InvalidData(f"{what} must be a dense tensor; got layout {kind}. Use {what}.to_dense().")


def check_floating(x: Tensor, what: str) -> None:
    """Raise InvalidData if ``x`` is neither float32 nor float64.

    Parameters
    ----------
    x : Tensor
        The values.
    what : str
        The name of the values in messages.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_floating
    >>> check_floating(torch.zeros(3, 2), "X")  # nothing is wrong
    """
    if x.dtype not in (torch.float32, torch.float64):
        kind = str(x.dtype).removeprefix("torch.")
        raise InvalidData(
            f"{what} must be float32 or float64; got {kind}. Convert it first, for example with "
            f"{what}.to(torch.float32)."
        )


def check_finite(x: Tensor, what: str, first: int = 0) -> None:
    """Raise InvalidData for the first NaN or infinite value; rows are counted from ``first``.

    Parameters
    ----------
    x : Tensor
        The values.
    what : str
        The name of the values in messages.
    first : int
        The number of the first row in messages.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_finite
    >>> check_finite(torch.zeros(3, 2), "X")  # nothing is wrong
    """
    for rows in chunks(len(x), x[:1].numel()):
        bad = ~x[rows].isfinite()
        if bool(bad.any()):
            place = bad.nonzero()[0].tolist()
            place[0] += rows.start
            refuse_value(what, float(x[tuple(place)]), [place[0] + first, *place[1:]])


def refuse_value(what: str, value: float, place: list[int]) -> None:
    """Raise InvalidData for a value that is not finite; ``place`` is its row, or its row and column."""
    where = ", ".join(f"{axis} {index}" for axis, index in zip(("row", "column"), place, strict=False))
    raise InvalidData(
        f"{what} must be finite; found {value} at {where}. Remove or impute such values, "
        "for example with sklearn.impute.SimpleImputer."
    )
