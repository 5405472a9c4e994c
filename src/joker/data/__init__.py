"""Rows, targets, blocks, tables and row stores."""

from joker.data.as_rows import as_rows, check_rows
from joker.data.blocks import ORDERS, Blocks
from joker.data.distinct_rows import distinct
from joker.data.guess_task import TaskGuess, guess_task
from joker.data.moments import Moments, moments
from joker.data.rows import HostRows, Rows, TensorRows
from joker.data.scaling import ScaledRows, Scaling, scaled, scaling_of
from joker.data.schema import Column, Schema
from joker.data.sources import Batch, Source, as_source, open_source
from joker.data.sparse import SparseRows, sparse_rows
from joker.data.store import Labels, Store, StoreRows, convert, open_shared, open_store
from joker.data.targets import Targets, make_targets
from joker.data.validation import check_finite, check_floating, check_tensor

__all__ = [
    "ORDERS",
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
