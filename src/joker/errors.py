"""Every error and warning of joker, by name.

Each message states the rule, what was found and the remedy, in that order.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class JokerError(Exception):
    """Base of every error raised on purpose by joker."""


class InvalidParameter(JokerError, ValueError):
    """A setting is outside its domain."""


class UnknownName(InvalidParameter):
    """A name is not one of those the library knows."""

    @classmethod
    def among(cls, what: str, got: object, known: Iterable[str]) -> UnknownName:
        """Build the error for ``got`` where one of ``known`` was expected."""
        names = sorted(known)
        close = get_close_matches(str(got), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return cls(f"{what} must be one of {', '.join(names)}; got {got!r}.{hint}")


class InvalidData(JokerError, ValueError):
    """The rows, targets or weights cannot be used as they are."""


class DegenerateBandwidth(InvalidData):
    """A bandwidth rule found no spread in the rows."""


class BudgetTooSmall(JokerError, MemoryError):
    """The memory budget cannot hold even the smallest piece of work."""


class InvalidFile(JokerError, ValueError):
    """A file cannot be read as what it should be (damaged, foreign, of a newer joker), or not be written."""


class MissingFile(InvalidFile, FileNotFoundError):
    """There is no such file or folder."""


class InexactFeatures(JokerError, UserWarning):
    """Random features that were drawn again differ from those of a file in their last digits."""


class StateMismatch(JokerError, ValueError):
    """A saved state does not belong to the problem it is to continue."""


class MissingPackage(JokerError, ImportError):
    """An optional package is needed and not installed."""


class CaptureFailed(JokerError, UserWarning):
    """A CUDA graph could not be captured; the solve goes on without it."""


class SlowerWithoutTriton(JokerError, UserWarning):
    """Triton cannot compile kernels for the card here; plain torch runs in their place."""
