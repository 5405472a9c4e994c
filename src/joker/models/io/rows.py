"""The rows of an exact machine in a file."""

from __future__ import annotations

import torch

from joker.data import Rows, SparseRows, TensorRows, sparse_rows
from joker.errors import InvalidFile
from joker.models.io.container import Document
from joker.models.io.reader import ModelReader, Tensors


def pack_rows(rows: Rows) -> tuple[Document, Tensors]:
    """Return the document and the tensors from which `unpack_rows` builds the rows; sparse rows stay sparse."""
    if not isinstance(rows, SparseRows):
        return {}, {"rows": rows[0 : len(rows)]}
    parts = {"rows.starts": rows.starts, "rows.columns": rows.columns, "rows.values": rows.values}
    return {"sparse_inputs": rows.inputs}, parts


def unpack_rows(reader: ModelReader, device: torch.device) -> Rows:
    """Return the rows on ``device``."""
    if "sparse_inputs" in reader.document:
        starts, columns = (reader.take(f"rows.{part}", index=True).to(device) for part in ("starts", "columns"))
        values = reader.take("rows.values").to(device)
        if not (columns.shape == values.shape == (int(starts[-1]),)):
            raise InvalidFile(
                f"there must be a column and a value for each of {int(starts[-1])} entries; got {tuple(columns.shape)} "
                f"and {tuple(values.shape)}"
            )
        return sparse_rows(starts, columns, values, reader.document["sparse_inputs"], "rows")
    x = reader.take("rows")
    if x.dim() != 2:
        raise InvalidFile(f"rows must have two dimensions; they have shape {tuple(x.shape)}")
    return TensorRows(x.to(device), checked=True)
