"""The kind of the targets of a table, classes or numbers, found while they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.guess_task import MAX_CODES, TargetValues, guess
from joker.errors import InvalidData, UnknownName

TASKS = ("classification", "regression")
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
        classes, rows, order = self._classes()
        if len(classes) < 2:
            self._refuse(f"must have at least two classes; all rows have {classes.tolist()[0]!r}")
        dtype = np.min_scalar_type(len(classes) - 1).newbyteorder("<")
        return TargetKind(task, classes, np.dtype(dtype), rows, order)

    def _guess(self) -> str:
        kinds = {"text" if t.kind == "U" else "truth value" if t.kind == "b" else t.kind for t in self.types}
        kind = kinds.pop() if len(kinds) == 1 else "number"
        kind = {"i": "integer", "u": "integer", "f": "number"}.get(kind, kind)
        found = guess(TargetValues(kind, self.values, int(self.rows.sum()), self.width))
        found.say(f"the target {self.name!r}")
        return found.task

    def _classes(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None]:
        if self.texts:
            labels = np.array(list(self.texts))
            order = np.argsort(labels, kind="stable")
            return labels[order], self.rows[order], np.argsort(order)
        assert self.values is not None
        dtype = np.result_type(*self.types)
        return self.values.astype(dtype if dtype.kind in "biu" else np.float64), self.rows, None

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
        texts = self._texts(columns[:, 0], first)
        labels, places, rows = np.unique(texts, return_inverse=True, return_counts=True)
        numbers = np.array([self.texts.setdefault(str(label), len(self.texts)) for label in labels])
        if len(self.texts) > MAX_CLASSES:
            self._refuse(f"must have at most {MAX_CLASSES:,} classes; it has more")
        self.rows = np.concatenate([self.rows, np.zeros(len(self.texts) - len(self.rows), np.int64)])
        self.rows[numbers] += rows
        return numbers[places][:, None].astype(np.float64)

    def _texts(self, labels: NDArray[Any], first: int) -> NDArray[Any]:
        wrong = [i for i, label in enumerate(labels) if not isinstance(label, str)] if labels.dtype.kind == "O" else []
        if wrong:
            self._refuse(f"must name a class in every row; found {labels[wrong[0]]!r} in row {first + wrong[0]}")
        return labels.astype(str)

    def _refuse(self, what: str) -> None:
        raise InvalidData(f"{self.source}: the target {self.name!r} {what}. Choose another target, or correct it.")
