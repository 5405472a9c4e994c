"""The command line: ``joker predict``, ``evaluate``, ``convert`` and ``info``."""

from joker.cli.app import main

__all__ = ["main"]
