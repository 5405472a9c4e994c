"""Callbacks of a fit: progress, early stopping, checkpoints, a time limit, a log, and your own."""

from joker.callbacks.callback import Callback, Result, Run, descend
from joker.callbacks.checkpoint import Checkpoint
from joker.callbacks.progress import Progress
from joker.callbacks.stopping import EarlyStopping, JsonLog, TimeLimit

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "JsonLog", "Progress", "Result", "Run", "TimeLimit", "descend"]
