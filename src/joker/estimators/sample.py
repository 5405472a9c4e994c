"""Rows with their targets, as the estimators pass them on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from joker.errors import InvalidData
from joker.estimators.inputs import Part

AT_ONCE = 2**18  # rows of which a mean is taken in one go


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with their targets, coded as numbers."""

    x: Any  # (n, d): an array or a CSR matrix, or a part of one
    y: NDArray[Any]  # (n, t): float32 or float64, or int8 where they are signs
    w: NDArray[np.float64] | None = None  # (n,)

    def take(self, rows: NDArray[np.intp]) -> Sample:
        """Return some of the rows."""
        return Sample(self.x[rows], self.y[rows], None if self.w is None else self.w[rows])

    def hold_out(self, share: float, strata: NDArray[Any] | None, seed: int) -> tuple[Sample, Sample]:
        """Return the rows to train on, which are not copied, and a share of the rows to score on.

        The share is as large in every stratum.
        """
        rows = np.arange(len(self.y))
        kept, held = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
        if self.w is not None and not (self.w[kept].any() and self.w[held].any()):
            raise InvalidData(
                "the rows held out to choose lam or the epoch, and the others, must not all have zero weight. "
                "Use another validation_fraction or random_state, or give fit an eval_set."
            )
        kept = np.sort(kept)
        train = Sample(Part(self.x, kept), self.y[kept], None if self.w is None else self.w[kept])
        return train, self.take(np.sort(held))

    def weighty(self) -> Sample:
        """Return the rows that have a weight."""
        return self if self.w is None else self.take(np.flatnonzero(self.w))

    def mean(self) -> NDArray[np.float64]:  # (t,)
        """The weighted mean of the targets, in float64."""
        mean, weight = np.zeros(self.y.shape[1]), 0.0
        for start in range(0, len(self.y), AT_ONCE):
            y, w = self.y[start : start + AT_ONCE], None if self.w is None else self.w[start : start + AT_ONCE]
            if more := float(len(y) if w is None else w.sum()):
                weight += more
                mean += (np.average(y.astype(np.float64), axis=0, weights=w) - mean) * (more / weight)
        return mean
