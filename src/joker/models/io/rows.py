"""The rows of an exact machine in a file."""

from __future__ import annotations

import torch

from joker.data import Rows, SparseRows, TensorRows, sparse_rows
from joker.errors import InvalidFile
from joker.models.io.container import Document
from joker.models.io.reader import Stored, Tensors


def pack_rows(rows: Rows) -> tuple[Document, Tensors]:
    """Return the document and the tensors that `unpack_rows` makes the rows of; sparse rows stay sparse."""
    if not isinstance(rows, SparseRows):
        return {}, {"rows": rows[0 : len(rows)]}
    parts = {"rows.starts": rows.starts, "rows.columns": rows.columns, "rows.values": rows.values}
    return {"sparse_inputs": rows.inputs}, parts


def unpack_rows(stored: Stored, device: torch.device) -> Rows:
    """Return the rows, on ``device``."""
    if "sparse_inputs" in stored.document:
        starts, columns, values = (stored.take(f"rows.{part}").to(device) for part in ("starts", "columns", "values"))
        return sparse_rows(starts, columns, values, stored.document["sparse_inputs"], "rows")
    x = stored.take("rows")
    if x.dim() != 2:
        raise InvalidFile(f"rows must have two dimensions; they have the shape {tuple(x.shape)}")
    return TensorRows(x.to(device))
