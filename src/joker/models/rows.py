"""The rows of an exact machine in a file."""

from __future__ import annotations

import torch

from joker.data import Rows, TensorRows
from joker.errors import InvalidFile
from joker.models.files import Document
from joker.models.stored import Stored, Tensors


def pack_rows(rows: Rows) -> tuple[Document, Tensors]:
    """Return the document and the tensors that `unpack_rows` makes the rows of."""
    return {}, {"rows": rows[0 : len(rows)]}


def unpack_rows(stored: Stored, device: torch.device) -> Rows:
    """Return the rows, on ``device``."""
    x = stored.take("rows")
    if x.dim() != 2:
        raise InvalidFile(f"rows must have two dimensions; they have the shape {tuple(x.shape)}")
    return TensorRows(x.to(device))
