"""Data sets of the literature, read from their official files, and generated rows of the same shape."""

from joker.paper.datasets.generate import generate
from joker.paper.datasets.load import load
from joker.paper.datasets.table import SETS, DataSet

__all__ = ["SETS", "DataSet", "generate", "load"]
