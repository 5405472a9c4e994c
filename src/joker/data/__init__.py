"""Rows, targets, blocks, tables and row stores."""

from joker.data.readers import Batch, Source, as_source, open_source
from joker.data.rows import Blocks, HostRows, Rows, TensorRows, check_finite, check_floating, check_tensor, distinct
from joker.data.scaling import Moments, ScaledRows, Scaling, moments, scaled, scaling_of
from joker.data.schema import Column, Schema, TaskGuess, guess_task
from joker.data.sparse import SparseRows, as_rows, check_rows, sparse_rows
from joker.data.store import Labels, Store, StoreRows, convert, open_shared, open_store
from joker.data.targets import Targets, make_targets

__all__ = [
    "Batch",
    "Blocks",
    "Column",
    "HostRows",
    "Labels",
    "Moments",
    "Rows",
    "ScaledRows",
    "Scaling",
    "Schema",
    "Source",
    "SparseRows",
    "Store",
    "StoreRows",
    "Targets",
    "TaskGuess",
    "TensorRows",
    "as_rows",
    "as_source",
    "check_finite",
    "check_floating",
    "check_rows",
    "check_tensor",
    "convert",
    "distinct",
    "guess_task",
    "make_targets",
    "moments",
    "open_shared",
    "open_source",
    "open_store",
    "scaled",
    "scaling_of",
    "sparse_rows",
]
