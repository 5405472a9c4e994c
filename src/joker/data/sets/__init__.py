"""Data sets of the literature from their official files, and generated rows of their shape."""

from joker.data.sets.generate import generate
from joker.data.sets.load import load
from joker.data.sets.table import SETS, DataSet

__all__ = ["SETS", "DataSet", "generate", "load"]
