"""The former name of :mod:`joker.paper.datasets`, for one release."""

from joker.runtime.moved import moved

__getattr__ = moved(__name__, "joker.paper.datasets", "SETS", "DataSet", "generate", "load")
