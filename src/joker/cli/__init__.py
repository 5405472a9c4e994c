"""The command line: ``joker fit``, ``predict``, ``evaluate``, ``tune``, ``convert``, ``info`` and ``paper``."""

from joker.cli.app import main

__all__ = ["main"]
