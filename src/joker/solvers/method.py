"""What a method of a solve is: steps that lower the dual objective, between evaluations of the gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from joker.solvers.gap import Gap, Point
from joker.solvers.report import BlockStatistics
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.state import State


class Method(ABC):
    """One way to lower the dual objective. `Descent` calls its steps and evaluates the gap after each epoch.

    Parameters
    ----------
    state : State
        α and its image, which a step changes.
    steps_per_epoch : int
        Steps whose work is one pass over the kernel matrix, or over the features of all rows.
    """

    long_epochs: ClassVar[bool] = True
    """Whether an epoch takes longer than the prediction of held-out rows, which are then scored after each."""

    quick_gap: ClassVar[bool] = False
    """Whether the gap costs much less than a step, so that it is evaluated several times in an epoch."""

    def __init__(self, state: State, steps_per_epoch: int) -> None:
        self.state, self.steps_per_epoch = state, steps_per_epoch
        self.statistics = BlockStatistics(state.alpha.device)

    @abstractmethod
    def step(self, number: int) -> None:
        """Take the step with this number, counted from 0."""

    def average(self) -> Point | None:
        """Return the average of the iterates, in memory of its own; None where the last iterate is returned."""
        return None

    def epoch_ended(self, gap: Gap) -> None:  # noqa: B027  # most methods need no check
        """Adapt to the gap of the last iterate, at the end of an epoch."""

    def restarted(self) -> None:  # noqa: B027  # most methods keep nothing that depends on α
        """Begin at the present α, which was set from outside."""

    def release(self) -> None:  # noqa: B027  # most methods keep nothing that can be computed again
        """Free what can be computed again."""

    def parts(self) -> dict[str, SavedTensors]:
        """Return what moves beside the state, by the names under which a checkpoint stores it."""
        return {}
