"""The columns of a table: the inputs in order, and the target."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import GuessedTask, InvalidData, InvalidFile, UnknownName

MAX_LISTED = 8  # names in a message


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers, or a category that becomes one 0/1 column for each of its levels.

    Parameters
    ----------
    name : str
        The name of the column.
    levels : tuple of str, optional
        The levels of a category; None for numbers.

    Examples
    --------
    >>> from joker.data import Column
    >>> Column("colour", ("blue", "red")).names
    ('colour=blue', 'colour=red')
    """

    name: str
    levels: tuple[str, ...] | None = None  # of a category; None for numbers

    @property
    def kind(self) -> str:
        """``"number"`` or ``"category"``."""
        return "number" if self.levels is None else "category"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of inputs that it becomes."""
        return (self.name,) if self.levels is None else tuple(f"{self.name}={level}" for level in self.levels)

    def to_json(self) -> str | dict[str, Any]:
        """Return the name, with the levels of a category, as JSON can represent it."""
        return self.name if self.levels is None else {"name": self.name, "levels": list(self.levels)}

    @classmethod
    def from_json(cls, document: str | dict[str, Any]) -> Column:
        """Return the column from the result of ``to_json``."""
        if isinstance(document, str):
            return cls(document)
        return cls(str(document["name"]), tuple(str(level) for level in document["levels"]))


@dataclass(frozen=True)
class Schema:
    """The inputs of a table in order, and its target.

    Parameters
    ----------
    inputs : tuple of Column
        The inputs in order.
    target : str, optional
        The name of the target.
    text_target : bool
        Whether the target is text, even if it reads as a number.

    Examples
    --------
    >>> from joker.data import Column, Schema
    >>> schema = Schema((Column("age"), Column("colour", ("blue", "red"))), target="price")
    >>> schema.names
    ('age', 'colour=blue', 'colour=red')
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    inputs: tuple[Column, ...]
    target: str | None = None
    text_target: bool = False  # the target is text, even if it reads as a number

    def __post_init__(self) -> None:
        if twice := repeated(column.name for column in self.inputs):
            raise InvalidData(f"names of columns must differ; {listed(twice)} occurs more than once. Rename it.")

    @classmethod
    def numbers(cls, names: Iterable[str], target: str | None = None, text_target: bool = False) -> Schema:
        """Return a schema whose inputs are all numbers."""
        return cls(tuple(Column(name) for name in names), target, text_target)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of inputs, with one column for each level of a category."""
        return tuple(name for column in self.inputs for name in column.names)

    @property
    def width(self) -> int:
        """The number of columns of inputs."""
        return len(self.names)

    @property
    def is_numeric(self) -> bool:
        """Whether no input is a category."""
        return all(column.levels is None for column in self.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON can represent it."""
        inputs = [column.to_json() for column in self.inputs]
        return {"inputs": inputs, "target": self.target, "text_target": self.text_target}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Schema:
        """Return the schema from the result of ``to_json``."""
        try:
            inputs = tuple(Column.from_json(column) for column in document["inputs"])
            return cls(inputs, document["target"], bool(document["text_target"]))
        except (KeyError, TypeError) as error:
            raise InvalidFile(
                f"a schema must have inputs, target and text_target; reading one failed with {error!r}. "
                "Write it with Schema.to_json."
            ) from error


def unnamed(width: int) -> tuple[str, ...]:
    """Return the names x0, x1, ... for columns without names."""
    return tuple(f"x{j}" for j in range(width))


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    every = list(names)
    if len(set(every)) == len(every):  # counting takes longer
        return []
    return [name for name, count in Counter(every).items() if count > 1]


def listed(names: Iterable[object]) -> str:
    """Return names as text for a message; of many only the first MAX_LISTED."""
    every = [repr(name) for name in names]
    more = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    return ", ".join(every[:MAX_LISTED]) + more


TASKS = CLASSIFICATION, REGRESSION = "classification", "regression"
FEW_VALUES = 20  # whole numbers with at most so many distinct values are classes
MIN_ROWS_OF_VALUE = 2  # on average; with fewer, values hardly repeat and are no classes
MAX_CODES = 100  # integers that number classes from 0 or 1 may have so many distinct values
MIN_ROWS_OF_CODE = 10  # on average, if they are more than FEW_VALUES
RULE = "y must be numbers, or one column of classes"


@dataclass(frozen=True)
class TargetValues:
    """What the guess depends on."""

    kind: str  # "text", "truth value", "integer" or "number", which is floating point
    values: NDArray[Any] | None  # the distinct numbers, sorted; None for text, or if there are more than MAX_CODES
    rows: int
    columns: int = 1


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
    k, rows, values = len(found.values), found.rows, found.values
    if not (values == np.round(values)).all():
        return TaskGuess(REGRESSION, f"{k} distinct numbers with fractions")
    if k < 2:
        return TaskGuess(CLASSIFICATION, "the same whole number in all rows")
    reason = f"{k} distinct whole numbers" + (" in floating point" if found.kind == "number" else "")
    numbered = values[0] in (0, 1) and bool((np.diff(values) == 1).all())  # without a gap, as numbers of classes are
    codes = numbered and found.kind == "integer" and k <= MAX_CODES and rows >= MIN_ROWS_OF_CODE * k
    if k == 2 or codes or (k <= FEW_VALUES and rows >= MIN_ROWS_OF_VALUE * k):
        return TaskGuess(CLASSIFICATION, reason, clear=k == 2 or (numbered and k <= FEW_VALUES))
    return TaskGuess(REGRESSION, reason, clear=False)


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Return targets of one plain type: objects become numbers, truth values or text."""
    if y.dtype.kind == "O":
        kinds = {type(value) for value in y.ravel()}
        if strange := [kind.__name__ for kind in kinds if not issubclass(kind, str | Real | np.bool_)]:
            raise InvalidData(f"{RULE}; found a value of type {strange[0]}. Leave such rows out, or convert them.")
        y = np.asarray(y.tolist())
    if y.dtype.kind not in "biufUS":
        raise InvalidData(f"{RULE}; got {y.dtype.name}. Convert it to numbers.")
    return y


MAX_CLASSES = 10_000
MAX_EXACT_INTEGER = 2**53  # float64 represents all whole numbers up to this one


@dataclass(frozen=True, eq=False)
class TargetKind:
    """The task of the targets, and how they are stored."""

    task: str
    classes: NDArray[Any] | None
    dtype: np.dtype[Any]
    rows: NDArray[np.int64] | None = None  # the number of rows of each class
    order: NDArray[np.int64] | None = None  # for text: the class of each label, in the order of TargetReader.texts

    def stored(self, y: NDArray[Any]) -> NDArray[Any]:  # (k, t)
        """Return the result of :meth:`TargetReader.read` as it is stored."""
        if self.classes is None:
            return y.astype(self.dtype)
        codes = np.searchsorted(self.classes, y) if self.order is None else self.order[y.astype(np.int64)]
        return codes.astype(self.dtype)


class TargetReader:
    """Reads targets batch by batch, and then determines their kind."""

    def __init__(self, task: str | None, source: str, name: str) -> None:
        if task not in (None, *TASKS):
            raise UnknownName.among("task", task, TASKS)
        self.task, self.source, self.name = task, source, name
        self.types: set[np.dtype[Any]] = set()
        self.texts: dict[str, int] = {}
        self.values: NDArray[Any] | None = np.empty(0)  # the distinct numbers; None if there are too many for classes
        self.rows = np.zeros(0, np.int64)  # the number of rows of each label or distinct number
        self.width = 0

    def read(self, y: NDArray[Any], first: int) -> NDArray[np.float64]:  # (k, t)
        """Return targets as numbers; text is numbered in the order in which labels occur."""
        y = np.asarray(y)
        columns = y.reshape(len(y), -1)
        self.width = self.width or columns.shape[1]
        if columns.shape[1] != self.width:
            self._refuse(f"must have {self.width} columns in all batches; from row {first} it has {columns.shape[1]}")
        self.types.add(np.dtype(str) if y.dtype.kind in "OUS" else y.dtype)
        if np.dtype(str) in self.types:
            return self._codes(columns, first)
        self._count(columns)
        return columns.astype(np.float64)

    def kind(self) -> TargetKind:
        """Return the kind of all targets that were read."""
        task = self.task or self._guess()
        if task == "regression":
            return TargetKind(task, None, np.dtype("<f4" if self.types <= {np.dtype("f4"), np.dtype("f2")} else "<f8"))
        if self.width > 1:
            self._refuse(f"must be one column for classification; it has {self.width}")
        order = None
        if self.texts:
            labels = np.array(list(self.texts))
            place = np.argsort(labels, kind="stable")
            classes, rows, order = labels[place], self.rows[place], np.argsort(place)
        else:
            assert self.values is not None
            found = np.result_type(*self.types)
            classes, rows = self.values.astype(found if found.kind in "biu" else np.float64), self.rows
        if len(classes) < 2:
            self._refuse(f"must have at least two classes; all rows have {classes.tolist()[0]!r}")
        dtype = np.min_scalar_type(len(classes) - 1).newbyteorder("<")
        return TargetKind(task, classes, np.dtype(dtype), rows, order)

    def _guess(self) -> str:
        kinds = {dtype.kind for dtype in self.types}
        names = {"U": "text", "b": "truth value", "i": "integer", "u": "integer"}
        kind = names.get(kinds.pop(), "number") if len(kinds) == 1 else "number"
        found = guess(TargetValues(kind, self.values, int(self.rows.sum()), self.width))
        found.say(f"the target {self.name!r}")
        return found.task

    def _count(self, columns: NDArray[Any]) -> None:
        """Count the rows of each distinct value while there are few values."""
        if columns.dtype.kind in "iu" and columns.size:
            largest = max(abs(int(columns.min())), int(columns.max()))
            if largest > MAX_EXACT_INTEGER:
                self._refuse(f"must have whole numbers of at most {MAX_EXACT_INTEGER}; it has {largest}")
        if self.values is None or self.task == "regression" or self.width > 1:
            return
        values, rows = np.unique(columns.astype(np.float64), return_counts=True)
        self.values, before = np.union1d(self.values, values), self.values
        self.rows, rows_before = np.zeros(len(self.values), np.int64), self.rows
        self.rows[np.searchsorted(self.values, before)] = rows_before
        self.rows[np.searchsorted(self.values, values)] += rows
        if len(self.values) <= (MAX_CLASSES if self.task else MAX_CODES):
            return
        if self.task:
            self._refuse(f"must have at most {MAX_CLASSES:,} classes; it has more. For numbers use task='regression'")
        self.values = None

    def _codes(self, columns: NDArray[Any], first: int) -> NDArray[np.float64]:
        """Return the number of each label, in the order in which labels occur."""
        if self.task == "regression" or columns.shape[1] > 1 or len(self.types) > 1:
            self._refuse("must be one column of text for classification, or numbers")
        texts = columns[:, 0]
        wrong = [i for i, label in enumerate(texts) if not isinstance(label, str)] if texts.dtype.kind == "O" else []
        if wrong:
            self._refuse(f"must name a class in every row; found {texts[wrong[0]]!r} in row {first + wrong[0]}")
        labels, places, rows = np.unique(texts.astype(str), return_inverse=True, return_counts=True)
        numbers = np.array([self.texts.setdefault(str(label), len(self.texts)) for label in labels])
        if len(self.texts) > MAX_CLASSES:
            self._refuse(f"must have at most {MAX_CLASSES:,} classes; it has more")
        self.rows = np.concatenate([self.rows, np.zeros(len(self.texts) - len(self.rows), np.int64)])
        self.rows[numbers] += rows
        return numbers[places][:, None].astype(np.float64)

    def _refuse(self, what: str) -> None:
        raise InvalidData(f"{self.source}: the target {self.name!r} {what}. Choose another target, or correct it.")
