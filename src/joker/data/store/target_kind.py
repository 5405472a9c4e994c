"""What the targets of a table are: classes or numbers, found while they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData, UnknownName

TASKS = ("classification", "regression")
FEW = 100  # whole numbers with more distinct values than this are targets of a regression, where nobody says
MOST = 10_000  # classes
EXACT = 2**53  # whole numbers from which on float64 has gaps


@dataclass(frozen=True, eq=False)
class Goal:
    """What targets are for, and how they are kept."""

    task: str
    classes: NDArray[Any] | None
    dtype: np.dtype[Any]
    rows: NDArray[np.int64] | None = None  # of each class
    first: NDArray[np.int64] | None = None  # of text: the place among the classes of each label, as it came up

    def kept(self, y: NDArray[Any]) -> NDArray[Any]:  # (k, t)
        """Targets as :class:`Finder` wrote them down, in the form in which they are kept."""
        if self.classes is None:
            return y.astype(self.dtype)
        codes = np.searchsorted(self.classes, y) if self.first is None else self.first[y.astype(np.int64)]
        return codes.astype(self.dtype)


class Finder:
    """Reads targets batch by batch, and then tells what they are."""

    def __init__(self, task: str | None, source: str, name: str) -> None:
        if task not in (None, *TASKS):
            raise UnknownName.among("task", task, TASKS)
        self.task, self.source, self.name = task, source, name
        self.kinds: set[np.dtype[Any]] = set()
        self.texts: dict[str, int] = {}
        self.values: NDArray[Any] | None = np.empty(0)  # distinct numbers, as long as they may be classes
        self.rows = np.zeros(0, np.int64)  # of each label or distinct number
        self.width = 0

    def write_down(self, y: NDArray[Any], first: int) -> NDArray[np.float64]:  # (k, t)
        """Return numbers that stand for some targets."""
        y = np.asarray(y)
        columns = y.reshape(len(y), -1)
        self.width = self.width or columns.shape[1]
        if columns.shape[1] != self.width:
            self._refuse(f"must have {self.width} columns throughout; from row {first} on it has {columns.shape[1]}")
        self.kinds.add(np.dtype(str) if y.dtype.kind in "OUS" else y.dtype)
        if np.dtype(str) in self.kinds:
            return self._codes(columns, first)
        self._look(columns)
        return columns.astype(np.float64)

    def found(self) -> Goal:
        """Return what the targets are."""
        task = self.task or self._guess()
        if task == "regression":
            return Goal(task, None, np.dtype("<f4" if self.kinds <= {np.dtype("f4"), np.dtype("f2")} else "<f8"))
        if self.width > 1:
            self._refuse(f"must be one column for classification; it has {self.width}")
        classes, rows, first = self._classes()
        if len(classes) < 2:
            self._refuse(f"must have at least two classes; all rows have {classes[0]!r}")
        small = np.min_scalar_type(len(classes) - 1).newbyteorder("<")
        return Goal(task, classes, np.dtype(small), rows, first)

    def _guess(self) -> str:
        whole = self.values is not None and self.width == 1 and bool((self.values == np.round(self.values)).all())
        return "classification" if self.texts or (whole and self.values is not None) else "regression"

    def _classes(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None]:
        if self.texts:
            labels = np.array(list(self.texts))
            order = np.argsort(labels, kind="stable")
            return labels[order], self.rows[order], np.argsort(order)
        assert self.values is not None
        kind = np.result_type(*self.kinds)
        return self.values.astype(kind if kind.kind in "biu" else np.float64), self.rows, None

    def _look(self, columns: NDArray[Any]) -> None:
        """Keep the distinct values while there are few."""
        if columns.dtype.kind in "iu" and columns.size and max(abs(int(columns.min())), int(columns.max())) > EXACT:
            self._refuse(f"must have whole numbers of at most {EXACT}; it reaches {int(columns.max())}")
        if self.values is None or self.task == "regression" or self.width > 1:
            return
        found, rows = np.unique(columns.astype(np.float64), return_counts=True)
        self.values, known = np.union1d(self.values, found), self.values
        self.rows, before = np.zeros(len(self.values), np.int64), self.rows
        self.rows[np.searchsorted(self.values, known)] = before
        self.rows[np.searchsorted(self.values, found)] += rows
        if len(self.values) <= (MOST if self.task else FEW):
            return
        if self.task:
            self._refuse(f"must have at most {MOST:,} classes; it has more. For numbers use task='regression'")
        self.values = None

    def _codes(self, columns: NDArray[Any], first: int) -> NDArray[np.float64]:
        """The number of each label, in the order in which they came up."""
        if self.task == "regression" or columns.shape[1] > 1 or len(self.kinds) > 1:
            self._refuse("must be one column of text for classification, or numbers")
        words = self._words(columns[:, 0], first)
        labels, places, rows = np.unique(words, return_inverse=True, return_counts=True)
        numbers = np.array([self.texts.setdefault(str(label), len(self.texts)) for label in labels])
        if len(self.texts) > MOST:
            self._refuse(f"must have at most {MOST:,} classes; it has more")
        self.rows = np.concatenate([self.rows, np.zeros(len(self.texts) - len(self.rows), np.int64)])
        self.rows[numbers] += rows
        return numbers[places][:, None].astype(np.float64)

    def _words(self, labels: NDArray[Any], first: int) -> NDArray[Any]:
        odd = [i for i, label in enumerate(labels) if not isinstance(label, str)] if labels.dtype.kind == "O" else []
        if odd:
            self._refuse(f"must name a class in every row; found {labels[odd[0]]!r} in row {first + odd[0]}")
        return labels.astype(str)

    def _refuse(self, what: str) -> None:
        raise InvalidData(f"{self.source}: the target {self.name!r} {what}. Choose another target, or correct it.")
