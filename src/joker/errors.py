"""All errors and warnings of joker.

Each message states the rule, what was found and the remedy, in that order.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Any


class JokerError(Exception):
    """Base of all errors that joker raises."""


class InvalidParameter(JokerError, ValueError):
    """A parameter has a value that is not allowed."""


class UnknownName(InvalidParameter):
    """A name is not one of the names that are allowed."""

    @classmethod
    def among(cls, what: str, got: object, known: Iterable[str]) -> UnknownName:
        """Return the error for the value ``got`` of ``what``, which must be one of ``known``."""
        names = sorted(known)
        close = get_close_matches(str(got), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return cls(f"{what} must be one of {', '.join(names)}; got {got!r}.{hint}")


class UnknownSetting(InvalidParameter, TypeError):
    """An estimator has no parameter of that name."""


class InvalidData(JokerError, ValueError):
    """Rows, targets or weights have the wrong shape or type, or values that are not allowed."""


class InvalidCell(InvalidData, TypeError):
    """A cell of a table is no number, no text and no date."""


class DegenerateBandwidth(InvalidData):
    """A bandwidth cannot be computed because the rows do not differ."""


class BudgetTooSmall(JokerError, MemoryError):
    """The memory budget is too small for the smallest step of the computation.

    ``least`` is the number of bytes that is enough, where it is known.
    """

    least: int | None = None

    @classmethod
    def naming(cls, least: int, found: str, remedy: str = "") -> BudgetTooSmall:
        """Return the error that names a sufficient budget in bytes."""
        error = cls(f"memory must hold {found}. Use memory={least} (bytes) or more{remedy}.")
        error.least = least
        return error


class InvalidFile(JokerError, ValueError):
    """A file cannot be read (it is damaged, of another kind or of a newer joker), or it cannot be written."""


class MissingFile(InvalidFile, FileNotFoundError):
    """A file or folder does not exist."""


class InexactFeatures(JokerError, UserWarning):
    """Random features that are drawn again for a loaded model differ from the saved ones in their last digits."""


class StateMismatch(JokerError, ValueError):
    """A saved state belongs to another problem or to other settings."""


class ProcessesDiffer(JokerError, ValueError):
    """Processes that fit one model together have different data, settings or versions."""


class ProcessLost(JokerError, RuntimeError):
    """Another process of a fit has ended, or did not answer in time."""


class MissingPackage(JokerError, ImportError):
    """An optional package is needed, but it is not installed."""


class GuessedTask(JokerError, UserWarning):
    """Whole numbers were taken as classes, or as targets of a regression, and the other reading is possible."""


class EdgeOfPath(JokerError, UserWarning):
    """The best λ of a path is its smallest or its largest one, so that a better one may lie outside."""


class NotSynced(JokerError, UserWarning):
    """A file is complete and in its place, but the disk has not confirmed its name."""


class CaptureFailed(JokerError, UserWarning):
    """A CUDA graph could not be captured; the solver continues without it."""


class SlowerWithoutTriton(JokerError, UserWarning):
    """Triton cannot compile kernels for this GPU; plain torch is used instead."""


def __getattr__(name: str) -> Any:
    """Return ConvergenceWarning, whose base is that of scikit-learn, which is imported when it is needed only."""
    if name == "ConvergenceWarning":
        return _convergence_warning()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _convergence_warning() -> type[Warning]:
    from sklearn.exceptions import ConvergenceWarning as Base

    text = "A fit has ended far from the optimum, so that its model may differ from what was asked for."
    return type("ConvergenceWarning", (JokerError, Base), {"__doc__": text, "__module__": __name__})


class OutOfTime(JokerError, TimeoutError):
    """The time limit of a search has ended a part of it, which has no result. A fit catches it."""
