"""The former name of :mod:`joker.prepare`, for one release."""

from joker.runtime.moved import moved

__getattr__ = moved(__name__, "joker.prepare", "DEFAULTS", "Training", "prepare")
