"""Targets and weights of the rows, and the penalty λ of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.data.rows import check_finite, check_floating, check_tensor
from joker.errors import InvalidData, InvalidParameter


@dataclass(frozen=True)
class Targets:
    """Targets, weights and penalties of t columns over n rows.

    Targets or weights that all columns share are stored as one column.

    Parameters
    ----------
    y : Tensor of shape (n, t) or (n, 1)
        The targets.
    lam : Tensor of shape (t,)
        The penalties.
    weights : Tensor of shape (n, t) or (n, 1), optional
        The weights.

    Examples
    --------
    >>> import torch
    >>> from joker.data import make_targets
    >>> make_targets(torch.tensor([1.0, 2.0]), lam=[0.1, 1.0]).lam
    tensor([0.1000, 1.0000])
    """

    y: Tensor  # (n, 1) or (n, t), in the type of lam; signs may be int8
    lam: Tensor  # (1,) or (t,)
    weights: Tensor | None = None  # (n, 1) or (n, t)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.y.shape[0]

    @property
    def t(self) -> int:
        """The number of columns."""
        width = 1 if self.weights is None else self.weights.shape[1]
        return max(self.y.shape[1], self.lam.shape[0], width)

    def take(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the targets and the factors c = w / λ of some rows in the type of λ; shared columns are one column."""
        y = _some(self.y, rows).to(self.lam.dtype)
        if self.weights is None:
            return y, (1 / self.lam).expand(len(y), -1)
        return y, _some(self.weights, rows) / self.lam


def _some(values: Tensor, rows: Tensor | slice) -> Tensor:
    """Return some rows; ``index_select`` is fastest for a single column on a GPU."""
    return values[rows] if isinstance(rows, slice) else values.index_select(0, rows)


def make_targets(
    y: Tensor, lam: float | Sequence[float] | Tensor, weights: Tensor | None = None, dtype: torch.dtype | None = None
) -> Targets:
    """Check targets, λ and weights, and return them with matching columns.

    They are converted to ``dtype``, by default the type of y. Targets in int8, such as the signs −1 and 1 of many
    classes, are stored as int8 and converted when they are used.

    Parameters
    ----------
    y : Tensor of shape (n,) or (n, t)
        The targets.
    lam : float, sequence of float or Tensor
        The penalty of each column.
    weights : Tensor of shape (n,) or (n, t), optional
        The weights of the rows.
    dtype : torch.dtype, optional
        The type of the targets.

    Returns
    -------
    Targets
        The targets.

    Examples
    --------
    >>> import torch
    >>> from joker.data import make_targets
    >>> make_targets(torch.tensor([1.0, 2.0]), lam=[0.1, 1.0]).lam
    tensor([0.1000, 1.0000])
    """
    check_tensor(y, "y")
    if y.dtype != torch.int8:
        check_floating(y, "y")
        y = y.to(dtype or y.dtype)
    if y.dim() not in (1, 2) or y.numel() == 0:
        raise InvalidData(f"y must be (n,) or (n, t) with n and t at least 1; got shape {tuple(y.shape)}. Reshape it.")
    check_finite(y, "y")
    y = y.detach()[:, None] if y.dim() == 1 else y.detach()
    like = y.new_empty(0, dtype=dtype or (torch.float32 if y.dtype == torch.int8 else y.dtype))
    targets = Targets(y, _penalties(lam, like), None if weights is None else _weights(weights, like, len(y)))
    widths = {y.shape[1], len(targets.lam), 1 if targets.weights is None else targets.weights.shape[1]} - {1}
    if len(widths) > 1:
        raise InvalidData(
            f"y, lam and the weights must have one column or the same number of columns; got {sorted(widths)}. "
            "Give one column, or one for each λ."
        )
    if targets.weights is not None and not bool((targets.weights.max() / targets.lam.min()).isfinite()):
        raise InvalidData(
            f"weights / lam must be finite; the largest weight is {float(targets.weights.max()):g} and the smallest "
            f"lam {float(targets.lam.min()):g}. Divide all weights and lam by the same number."
        )
    return targets


def _penalties(lam: float | Sequence[float] | Tensor, like: Tensor) -> Tensor:
    try:
        values = torch.as_tensor(lam, dtype=torch.float64).detach().reshape(-1).to(like)
    except (TypeError, ValueError, OverflowError):  # not a number, or a sequence with other entries
        values = like.new_zeros(1)
    usable = (values > 0) & values.isfinite() & (1 / values).isfinite()
    if len(values) == 0 or not bool(usable.all()):
        kind = str(like.dtype).removeprefix("torch.")
        raise InvalidParameter(
            f"lam must be positive and finite, also when rounded to {kind}; got lam={lam!r}. "
            "Use a small positive value such as 1e-3."
        )
    return values


def _weights(weights: Tensor, like: Tensor, n: int) -> Tensor:
    check_tensor(weights, "weights")
    if weights.dim() not in (1, 2) or len(weights) != n:
        raise InvalidData(
            f"weights must have one entry for each of the {n} rows; got shape {tuple(weights.shape)}. "
            "Give one weight a row, or one a row and column."
        )
    weights = (weights[:, None] if weights.dim() == 1 else weights).detach().to(like)
    check_finite(weights, "weights")
    if bool((weights < 0).any()):
        raise InvalidData(f"weights must be at least 0; found {float(weights.min()):g}. Use 0 to leave a row out.")
    if not bool((weights > 0).any()):
        raise InvalidData("weights must not all be 0; every row is left out. Give at least one row a positive weight.")
    return weights
