"""Warm start: what a fit stores for the next one to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from joker.data.array_rows import arrays_of
from joker.distributed import current
from joker.estimators.training_set import Sample
from joker.kernels import Kernel
from joker.prepare import Training

ALPHA_NEEDS = {"rows", "kernel or features", "dtype"}  # α of another problem is useless where these differ


@dataclass(frozen=True, eq=False)
class ProblemHashes:
    """Hashes that identify a problem, to the last bit."""

    rows: str
    targets: str
    kernel: Kernel

    @classmethod
    def of(
        cls,
        sample: Sample,
        lams: list[float],
        target_scale: NDArray[np.float64],  # (t,)
        training: Training,
    ) -> ProblemHashes:
        """Return the hashes of a problem, whose targets are divided by ``target_scale``."""
        targets = joblib.hash((sample.y, sample.w, lams, target_scale))
        return cls(joblib.hash(arrays_of(sample.x)), targets, training.kernel)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The end of a fit."""

    seed: int
    hashes: ProblemHashes
    state: dict[str, Any]

    def continue_in(self, training: Training, hashes: ProblemHashes) -> None:
        """Continue in a training of the same problem; start at α in one of the same rows and kernel."""
        descent = training.descent
        if (hashes.rows, hashes.kernel) != (self.hashes.rows, self.hashes.kernel):
            return
        differing = set(descent.differing(self.state))
        if not differing and hashes.targets == self.hashes.targets:
            descent.load_state_dict(self.state)
            limits = descent.settings.max_epochs + descent.epoch, descent.settings.max_time + descent.seconds
            descent.settings = replace(descent.settings, max_epochs=limits[0], max_time=limits[1])
        elif not differing & ALPHA_NEEDS:
            descent.start_at(self.state["state"]["alpha"])


def seed_of(random_state: int | np.random.RandomState | None, before: WarmStart | None) -> int:
    """Return the seed of a fit; without one, a fit that continues another has its seed."""
    if before is not None and not isinstance(random_state, Integral):
        return before.seed
    return current().decide(int(check_random_state(random_state).randint(2**31 - 1)))
