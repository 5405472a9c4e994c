"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("joker")
except PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0+unknown"
