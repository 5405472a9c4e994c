"""Callbacks of a fit: progress, early stopping, checkpoints, a time limit, a log, and your own."""

from joker.callbacks.base import Callback, descend
from joker.callbacks.checkpoint import Checkpoint
from joker.callbacks.json_log import JsonLog
from joker.callbacks.progress import Progress
from joker.callbacks.run import Result, Run
from joker.callbacks.stopping import EarlyStopping, TimeLimit

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "JsonLog", "Progress", "Result", "Run", "TimeLimit", "descend"]
