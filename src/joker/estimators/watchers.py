"""Who watches a fit, by the words of the constructor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from joker.callbacks import Callback, EarlyStopping, Progress
from joker.errors import InvalidParameter


def watchers(callbacks: object, verbose: object, early_stopping: object) -> list[Callback]:
    """Return the callbacks of a fit: those given, and those that the other words stand for."""
    found = _given(callbacks)
    if not isinstance(verbose, int) or verbose not in (0, 1):
        raise InvalidParameter(f"verbose must be 0 (silent) or 1 (a progress line); got {verbose!r}. Use verbose=1.")
    if early_stopping and not any(callback.needs_score for callback in found):
        found.append(EarlyStopping())
    return [*found, Progress()] if verbose else found


def _given(callbacks: Any) -> list[Callback]:
    if callbacks is None:
        return []
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise InvalidParameter(
            f"callbacks must be None or a sequence of callbacks; got {callbacks!r}. Use callbacks=[...], with brackets."
        )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InvalidParameter(
                f"callbacks must be instances of joker.callbacks.Callback; got {callback!r}. {_remedy(callback)}"
            )
    return list(callbacks)


def _remedy(callback: Any) -> str:
    if isinstance(callback, type):
        return f"Use {callback.__name__}(...), with parentheses."
    if hasattr(callback, "on_fit_task_end"):
        return "Give a callback of scikit-learn to set_callbacks instead."
    return "Derive yours from it, and override what you need."
