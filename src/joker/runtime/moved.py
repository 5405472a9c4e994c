"""Names that have moved to another module and stay importable for one release."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any


def moved(old: str, new: str, *names: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the module ``old`` that gets these names from ``new``, with a DeprecationWarning."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warnings.warn(f"{old}.{name} has moved. Use: from {new} import {name}.", DeprecationWarning, stacklevel=2)
        return getattr(import_module(new), name)

    return get
