"""What a fit leaves for the next one to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from joker.data.array_rows import arrays_of
from joker.estimators.training_set import Sample
from joker.kernels import Kernel
from joker.prepare import Training

BELONGS = {"rows", "kernel or features", "dtype"}  # to α: where these differ it says nothing


@dataclass(frozen=True, eq=False)
class Marks:
    """What tells one problem from another, to the last bit."""

    rows: str
    targets: str
    kernel: Kernel

    @classmethod
    def of(cls, sample: Sample, lams: list[float], training: Training) -> Marks:
        """Return the marks of a problem."""
        return cls(joblib.hash(arrays_of(sample.x)), joblib.hash((sample.y, sample.w, lams)), training.kernel)


@dataclass(frozen=True, eq=False)
class Warm:
    """Where a fit ended."""

    seed: int
    marks: Marks
    state: dict[str, Any]

    def lead(self, training: Training, marks: Marks) -> None:
        """Let a training go on from here, if its problem is the same; else from α, if rows and kernel are."""
        descent = training.descent
        if (marks.rows, marks.kernel) != (self.marks.rows, self.marks.kernel):
            return
        differing = set(descent.differing(self.state))
        if not differing and marks.targets == self.marks.targets:
            descent.load_state_dict(self.state)
            limits = descent.settings.max_epochs + descent.epoch, descent.settings.max_time + descent.seconds
            descent.settings = replace(descent.settings, max_epochs=limits[0], max_time=limits[1])
        elif not differing & BELONGS:
            descent.start_at(self.state["state"]["alpha"])


def seed_of(random_state: int | np.random.RandomState | None, before: Warm | None) -> int:
    """Return the seed of a fit; one that is to go on keeps that of the fit before, where none is given."""
    if before is not None and not isinstance(random_state, Integral):
        return before.seed
    return int(check_random_state(random_state).randint(2**31 - 1))
