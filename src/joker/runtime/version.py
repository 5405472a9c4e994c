"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("joker")
except PackageNotFoundError:  # the source tree is used without installation
    VERSION = "0+unknown"
