"""What an operation asks of rows that it reads a run at a time."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Rows(Protocol):
    """Rows that are handed out as dense tensors; a tensor is such a thing itself."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and inputs."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The type of the inputs."""
        ...

    def __getitem__(self, rows: slice, /) -> Tensor:  # (b, d)
        """Return a run of rows."""
        ...
