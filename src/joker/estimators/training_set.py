"""Rows with their encoded targets and weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_array

from joker.data import Rows, Store, StoreRows
from joker.data.array_rows import RowSubset, as_array, pick
from joker.errors import InvalidData, InvalidParameter
from joker.runtime import chunks

LabelledRows = tuple[Any, Any, Any]  # X, y and sample_weight as a user gives them; the weights may be None


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with their targets, encoded as numbers."""

    x: Any  # (n, d): an array or a CSR matrix, or a part of one, or rows of a store
    y: NDArray[Any]  # (n, t): float32 or float64, or int8 where they are signs
    w: NDArray[np.float64] | None = None  # (n,)
    copied: int = 0  # bytes of the copy that validation has made
    held_out: int = 0  # rows of the same data that are held out
    label_bytes: int = 0  # bytes of a class label; 0 where targets are numbers

    @classmethod
    def blank(cls, x: Any, targets: NDArray[Any], share: float, copied: int, label_bytes: int) -> Sample:
        """Return a sample with the sizes of a fit to ``x``, of which a share is held out, and without its numbers."""
        n = x.shape[0]
        held_out = math.ceil(n * share)
        if held_out and not isinstance(x, Rows):
            x = RowSubset(x, np.broadcast_to(np.intp(0), (n - held_out,)))
        y = np.broadcast_to(targets, (n - held_out, targets.shape[1]))
        return cls(x, y, None, copied, held_out, label_bytes)

    def take(self, rows: NDArray[np.intp]) -> Sample:
        """Return some of the rows."""
        return Sample(pick(self.x, rows), self.y[rows], None if self.w is None else self.w[rows])

    def hold_out(self, share: float, strata: NDArray[Any] | None, seed: int) -> tuple[Sample, Sample]:
        """Return the training rows, which are not copied, and a share of the rows to score on.

        The share is the same in every stratum. A store holds out its last rows, which are in random order.
        """
        if isinstance(self.x, StoreRows):
            last = min(max(1, len(self.y) - math.ceil(share * len(self.y))), len(self.y) - 1)
            train, scored = self._run(0, last), self._run(last, len(self.y))
        else:
            kept, held = _split(len(self.y), share, strata, seed)
            kept = np.sort(kept)
            train = Sample(RowSubset(self.x, kept), self.y[kept], None if self.w is None else self.w[kept])
            scored = self.take(np.sort(held))
        train = replace(train, copied=self.copied, held_out=len(scored.y), label_bytes=self.label_bytes)
        if any(part.w is not None and not part.w.any() for part in (train, scored)):
            raise InvalidData(
                "the rows held out to choose lam or the epoch, and the others, must not all have zero weight. "
                "Use another validation_fraction or random_state, or give fit an eval_set."
            )
        return train, scored

    def _run(self, start: int, stop: int) -> Sample:
        return Sample(self.x.run(start, stop), self.y[start:stop], None if self.w is None else self.w[start:stop])

    def of_positive_weight(self) -> Sample:
        """Return the rows of positive weight."""
        return self if self.w is None else self.take(np.flatnonzero(self.w))

    def mean(self) -> NDArray[np.float64]:  # (t,)
        """The weighted mean of the targets, in float64."""
        mean, weight = np.zeros(self.y.shape[1]), 0.0
        for rows in chunks(*self.y.shape):
            y, w = self.y[rows], None if self.w is None else self.w[rows]
            if more := float(len(y) if w is None else w.sum()):
                weight += more
                mean += (np.average(y.astype(np.float64), axis=0, weights=w) - mean) * (more / weight)
        return mean

    def spread(
        self,
        centre: NDArray[np.float64],  # (t,)
    ) -> NDArray[np.float64]:  # (t,)
        """The weighted root mean square of the targets minus ``centre``; 0 for a target that is constant."""
        largest, low, high = np.zeros(self.y.shape[1]), np.inf, -np.inf
        for y, _ in self._weighted_targets():
            largest = np.maximum(largest, np.abs(y - centre).max(axis=0))
            low, high = np.minimum(low, y.min(axis=0)), np.maximum(high, y.max(axis=0))
        largest[(low == high) | (largest == 0)] = 0.0
        unit = np.where(largest > 0, largest, 1.0)  # squares of these multiples of it neither overflow nor vanish
        square, weight = np.zeros(self.y.shape[1]), 0.0
        for y, w in self._weighted_targets():
            square += w @ ((y - centre) / unit) ** 2
            weight += float(w.sum())
        return largest * np.sqrt(square / weight)

    def _weighted_targets(self) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:  # (k, t), (k,)
        """Yield the targets of positive weight, some rows at a time, with their weights."""
        for rows in chunks(*self.y.shape):
            y = self.y[rows]
            w = np.ones(len(y)) if self.w is None else self.w[rows]
            if w.any():
                yield (y, w) if self.w is None else (y[w > 0], w[w > 0])


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return the checked weights of n rows; None where there are none."""
    if sample_weight is None:
        return None
    given = as_array(sample_weight)
    w: NDArray[np.float64] = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if w.shape != (n,):
        raise InvalidData(f"sample_weight must have shape ({n},), one weight for each row; got {w.shape}. Reshape it.")
    if w.min() < 0:
        raise InvalidData(f"sample_weight must be at least 0; found {w.min():g}. Use 0 to leave a row out.")
    if not w.any():
        raise InvalidData("sample_weight must not be zero for every row. Give at least one row a positive weight.")
    return w


def check_pair(eval_set: Any, targets_of: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the rows and targets of ``eval_set``; a row store has both."""
    alone = eval_set[0] if isinstance(eval_set, tuple | list) and len(eval_set) == 1 else eval_set
    if isinstance(alone, Store):
        return alone, targets_of(alone, None)
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise InvalidParameter(
            f"eval_set must be a pair (X, y), or a row store; got {type(eval_set).__name__}. Use eval_set=(Xv, yv)."
        )
    return eval_set[0], targets_of(eval_set[0], eval_set[1])


def _split(n: int, share: float, strata: NDArray[Any] | None, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to train on and a share of the rows, in every stratum where there are enough rows."""
    rows = np.arange(n)
    if strata is not None:
        _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
        held = math.ceil(share * n)
        if counts.min() < 2 or held < len(counts) or n - held < len(counts):
            return _split_few(codes, counts, share, seed)
    kept, scored = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
    return kept, scored


def _split_few(
    codes: NDArray[np.intp], counts: NDArray[np.intp], share: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out rows at equal distances in the order of the strata; a row that is alone in its stratum stays."""
    order = np.lexsort((np.random.default_rng(seed).permutation(len(codes)), codes))
    order = order[counts[codes[order]] > 1]
    if not len(order):
        raise InvalidData(
            f"choosing lam or the epoch needs rows to hold out; got one row for each of {len(counts)} classes. "
            "Use one lam and early_stopping=False, or give fit an eval_set."
        )
    steps = np.floor(share * np.arange(len(order) + 1))
    held = order[steps[1:] > steps[:-1]]
    held = held if len(held) else order[-1:]
    return np.setdiff1d(np.arange(len(codes)), held), held
