"""Rows, targets and blocks."""

from joker.data.blocks import ORDERS, Blocks
from joker.data.rows import check_finite, check_floating, check_rows, check_tensor
from joker.data.targets import Targets, make_targets

__all__ = [
    "ORDERS",
    "Blocks",
    "Targets",
    "check_finite",
    "check_floating",
    "check_rows",
    "check_tensor",
    "make_targets",
]
