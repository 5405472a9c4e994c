"""The command line: ``joker fit``, ``predict``, ``evaluate``, ``tune``, ``convert``, ``export`` and ``info``."""

from joker.cli.app import main

__all__ = ["main"]
