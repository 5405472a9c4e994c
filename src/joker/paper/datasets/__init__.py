"""Data sets of the literature from their official files, and generated rows of their shape."""

from joker.paper.datasets.generate import generate
from joker.paper.datasets.load import load
from joker.paper.datasets.table import SETS, DataSet

__all__ = ["SETS", "DataSet", "generate", "load"]
