"""The version of the installed distribution, which is called joker-kernels."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("joker-kernels")
except PackageNotFoundError:  # the source tree is used without installation
    VERSION = "0+unknown"
