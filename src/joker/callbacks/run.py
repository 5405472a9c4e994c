"""A fit under way, as its callbacks see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.models import Machine
from joker.prepare import Training
from joker.solvers import Point, Record, Report

Judge = Callable[[Machine], Sequence[float]]


@dataclass(frozen=True, eq=False)
class Result:
    """How a fit ended."""

    machine: Machine
    record: Record  # of the epoch that the machine is of
    records: tuple[Record, ...]
    reason: str


class Run:
    """A fit under way.

    Parameters
    ----------
    training : Training
        What is run.
    title : str
        What a reader is to call it.
    judge : callable, optional
        Gives the scores of a machine on rows that are not trained on; higher is better.
    model : callable, optional
        Makes a fitted estimator of a result.

    Attributes
    ----------
    reason : str or None
        Once the fit has ended: why.
    """

    def __init__(
        self,
        training: Training,
        *,
        title: str = "fit",
        judge: Judge | None = None,
        model: Callable[[Result], Any] | None = None,
    ) -> None:
        self.training, self.title = training, title
        self.reason: str | None = None
        self._judge, self._model = judge, model
        self._kept: tuple[Tensor, float] | None = None  # weights, epoch
        self._began = training.descent.epoch

    @property
    def records(self) -> tuple[Record, ...]:
        """The records so far, one after each epoch, and those of the fit that this one continues."""
        return tuple(self.training.descent.records)

    @property
    def record(self) -> Record | None:
        """The latest record; None before the first epoch has ended."""
        return self.records[-1] if self.records else None

    @property
    def best(self) -> Record | None:
        """The record of what the fit would return now: of the machine that was kept, else the latest."""
        kept = [record for record in self.records if self._kept and record.epoch == self._kept[1]]
        return kept[0] if kept else self.record

    @property
    def fresh(self) -> tuple[Record, ...]:
        """The records of this fit alone."""
        return tuple(r for r in self.records if r.epoch > self._began) or self.records[-1:]

    @property
    def epoch(self) -> float:
        """Passes over the rows so far; between two epochs it is not a whole number."""
        return self.training.descent.epoch

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return self.training.descent.seconds

    @property
    def max_epochs(self) -> float:
        """Epochs after which the fit ends."""
        return self.training.descent.max_epochs

    @property
    def one_block(self) -> bool:
        """Whether all rows are in one block, so that the fit goes on until it is solved."""
        return self.training.descent.blocks.count == 1

    @property
    def max_time(self) -> float:
        """Seconds after which the fit ends."""
        return self.training.descent.settings.max_time

    @property
    def tol(self) -> float:
        """The relative duality gap at which the fit ends."""
        return self.training.descent.settings.tol

    @property
    def scored(self) -> bool:
        """Whether records have scores."""
        return self._judge is not None

    @property
    def score(self) -> float | None:
        """The latest score on held-out rows, of the best λ of a path; None where there is none."""
        return self.record.score if self.record else None

    def machine(self) -> Machine:
        """Return the machine as it is now, which no later step changes. For use in ``epoch``."""
        return self.training.machine(self._weights().clone())

    def model(self) -> Any:
        """Return an estimator fitted with the present machine, that of the best λ of a path; None without one."""
        if self._model is None:
            return None
        machine = self.training.machine(self._weights())
        return self._model(Result(machine, self.records[-1], self.records, "The fit is under way."))

    def keep(self) -> None:
        """Let the fit return the present machine, unless a later one is kept. For use in ``epoch``."""
        self._kept = self._weights().clone(), self.epoch

    @property
    def whole(self) -> bool:
        """Whether the state can be saved: False after an error in the middle of a block."""
        return self.training.descent.whole

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to continue later, as numbers and tensors."""
        descent = self.training.descent.state_dict()
        return {"descent": descent, "began": self._began, "kept": self._kept and list(self._kept)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state of the same problem and settings.

        An epoch that had just ended is looked at again, so that every callback is told of it.
        """
        descent = self.training.descent
        descent.load_state_dict(saved["descent"])
        descent.records = [record for record in descent.records if record.epoch < descent.epoch]
        self._began = saved["began"]
        if saved["kept"]:
            weights, epoch = saved["kept"]
            self._kept = weights.to(self.device), epoch

    @property
    def device(self) -> torch.device:
        """Where the fit computes."""
        return self.training.descent.state.alpha.device

    def scores_of(self, point: Point) -> Sequence[float]:
        """The scores of a point of the descent."""
        return () if self._judge is None else self._judge(self.training.machine(self.training.weights(point)))

    def result(self, report: Report) -> Result:
        """What the fit returns: the machine that was kept, else the last one."""
        weights, epoch = self._kept or (self.training.weights((report.alpha, report.image)), self.epoch)
        record = next(record for record in report.records if record.epoch == epoch)
        return Result(self.training.machine(weights), record, report.records, self.reason or report.reason.value)

    def _weights(self) -> Tensor:
        point = self.training.descent.point
        if point is None:
            raise InvalidParameter(
                "a machine, a model or keep() must be asked for while a callback's epoch(run) is called; this is "
                "another time. Ask there and store what you need."
            )
        return self.training.weights(point)
