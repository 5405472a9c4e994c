"""One rule that guesses from the targets whether to classify or to regress."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import GuessedTask, InvalidData

CLASSIFICATION, REGRESSION = "classification", "regression"
FEW_VALUES = 20  # whole numbers with at most so many distinct values are classes
MIN_ROWS_OF_VALUE = 2  # on average; with fewer, values hardly repeat and are no classes
MAX_CODES = 100  # integers that number classes from 0 or 1 may have so many distinct values
MIN_ROWS_OF_CODE = 10  # on average, if they are more than FEW_VALUES
RULE = "y must be numbers, or one column of classes"


@dataclass(frozen=True)
class TargetValues:
    """What the guess depends on.

    Parameters
    ----------
    kind : {"text", "truth value", "integer", "number"}
        The type of the targets; "number" is floating point.
    values : ndarray, optional
        The distinct numbers, sorted; None for text, or if there are more than MAX_CODES.
    rows, columns : int
        The shape of the targets.
    """

    kind: str
    values: NDArray[Any] | None
    rows: int
    columns: int = 1

    @property
    def whole(self) -> bool:
        """Whether the targets are whole numbers with at most MAX_CODES distinct values."""
        return self.values is not None and bool((self.values == np.round(self.values)).all())

    @property
    def numbered(self) -> bool:
        """Whether they are 0, 1, 2, … or 1, 2, 3, … without a gap, as numbers of classes are."""
        if self.values is None or not self.whole:
            return False
        return self.values[0] in (0, 1) and bool((np.diff(self.values) == 1).all())


@dataclass(frozen=True)
class TaskGuess:
    """The task that targets mean.

    Parameters
    ----------
    task : {"classification", "regression"}
        The task.
    reason : str
        What was found in the targets.
    clear : bool
        Whether no other reading is likely.

    Examples
    --------
    >>> from joker.data import guess_task
    >>> guess_task(["yes", "no", "yes"]).task
    'classification'
    """

    task: str
    reason: str
    clear: bool = True

    def say(self, name: str = "y") -> None:
        """Warn where another reading is likely."""
        if not self.clear:
            other = REGRESSION if self.task == CLASSIFICATION else CLASSIFICATION
            warnings.warn(
                f"{name} is a target for {self.task}, because it has {self.reason}; no task was given. Use "
                f"task={other!r} if that is wrong, or task={self.task!r} to confirm it.",
                GuessedTask,
                stacklevel=3,
            )


def guess_task(y: Any) -> TaskGuess:  # (n,) or (n, t)
    """Guess the task of targets in memory.

    Text and truth values are classes, several columns are numbers. Numbers with fractions are targets of a regression.
    Whole numbers are classes if they have at most FEW_VALUES distinct values, each in MIN_ROWS_OF_VALUE rows on
    average. Integers that number classes from 0 or 1 without a gap may have MAX_CODES distinct values, with
    MIN_ROWS_OF_CODE rows each.

    Parameters
    ----------
    y : array
        The targets.

    Returns
    -------
    TaskGuess
        The task, and the reason.

    Examples
    --------
    >>> from joker.data import guess_task
    >>> guess_task(["yes", "no", "yes"]).task
    'classification'
    """
    y = _plain(np.asarray(y))
    columns = y.reshape(len(y), -1)
    if y.dtype.kind not in "iuf":
        if columns.shape[1] > 1:
            raise InvalidData(f"{RULE}; got {columns.shape[1]} columns of {y.dtype.name}. Give one column at a time.")
        return guess(TargetValues("truth value" if y.dtype.kind == "b" else "text", None, len(y)))
    values = np.unique(columns) if columns.shape[1] == 1 else np.empty(0)
    kind = "number" if y.dtype.kind == "f" else "integer"
    return guess(TargetValues(kind, values if len(values) <= MAX_CODES else None, len(y), columns.shape[1]))


def guess(found: TargetValues) -> TaskGuess:
    """Guess the task from a summary of the targets."""
    if found.columns > 1:
        return TaskGuess(REGRESSION, f"{found.columns} columns")
    if found.kind in ("text", "truth value"):
        return TaskGuess(CLASSIFICATION, f"{found.kind}s" if found.kind == "truth value" else "text")
    if found.values is None:
        return TaskGuess(REGRESSION, f"more than {MAX_CODES} distinct {found.kind}s")
    k, rows = len(found.values), found.rows
    if not found.whole:
        return TaskGuess(REGRESSION, f"{k} distinct numbers with fractions")
    if k < 2:
        return TaskGuess(CLASSIFICATION, "the same whole number in all rows")
    reason = f"{k} distinct whole numbers" + (" in floating point" if found.kind == "number" else "")
    codes = found.numbered and found.kind == "integer" and k <= MAX_CODES and rows >= MIN_ROWS_OF_CODE * k
    if k == 2 or codes or (k <= FEW_VALUES and rows >= MIN_ROWS_OF_VALUE * k):
        return TaskGuess(CLASSIFICATION, reason, clear=k == 2 or (found.numbered and k <= FEW_VALUES))
    return TaskGuess(REGRESSION, reason, clear=False)


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Return targets of one plain type: objects become numbers, truth values or text."""
    if y.dtype.kind == "O":
        kinds = {type(value) for value in y.ravel()}
        if not all(issubclass(kind, str | Real | np.bool_) for kind in kinds):
            strange = next(kind for kind in kinds if not issubclass(kind, str | Real | np.bool_))
            raise InvalidData(
                f"{RULE}; found a value of type {strange.__name__}. Leave such rows out, or convert them."
            )
        y = np.asarray(y.tolist())
    if y.dtype.kind not in "biufUS":
        raise InvalidData(f"{RULE}; got {y.dtype.name}. Convert it to numbers.")
    return y
