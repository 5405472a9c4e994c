"""A running fit, as its callbacks see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from joker.distributed import current
from joker.errors import InvalidParameter
from joker.models import Machine
from joker.prepare import Training
from joker.solvers import Point, Reason, Record, Report
from joker.solvers.report import conclusion

ScoreFunction = Callable[[Machine], Sequence[float]]  # one score for each λ; higher is better


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a fit.

    Parameters
    ----------
    machine : Machine
        The fitted machine.
    record : Record
        The record of the point that is returned.
    records : tuple of Record
        A record for each evaluation of the gap.
    reason : str
        Why the fit ended.

    Examples
    --------
    >>> import torch
    >>> from joker import prepare
    >>> from joker.callbacks import Run, descend
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> result = descend(Run(prepare(x, x.sin())))
    >>> len(result.records) >= 1
    True
    """

    machine: Machine
    record: Record  # of the epoch of the machine
    records: tuple[Record, ...]
    reason: str


class Run:
    """A running fit.

    Parameters
    ----------
    training : Training
        The training to run.
    title : str
        The name of the fit in progress lines and logs.
    judge : callable, optional
        Returns the scores of a machine on held-out rows; higher is better.
    model : callable, optional
        Returns a fitted estimator from a result.

    Attributes
    ----------
    reason : str or None
        Why the fit ended; None while it runs.
    failed : bool
        Whether an error or an interrupt has ended it.

    Examples
    --------
    >>> import torch
    >>> from joker import prepare
    >>> from joker.callbacks import Run, descend
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> run = Run(prepare(x, x.sin()), title="sine")
    >>> result = descend(run)
    >>> run.reason == result.reason
    True
    """

    def __init__(
        self,
        training: Training,
        *,
        title: str = "fit",
        judge: ScoreFunction | None = None,
        model: Callable[[Result], Any] | None = None,
    ) -> None:
        self.training, self.title = training, title
        self.reason: str | None = None
        self.failed = False
        self._judge, self._model = judge, model
        self._kept: tuple[Tensor, float] | None = None  # weights and epoch of the machine that keep() stored
        self._began = training.descent.epoch

    @property
    def records(self) -> tuple[Record, ...]:
        """The records so far, one for each epoch, with those of the fit that this one continues."""
        return tuple(self.training.descent.records)

    @property
    def record(self) -> Record | None:
        """The last record; None before the end of the first epoch."""
        return self.records[-1] if self.records else None

    @property
    def best(self) -> Record | None:
        """The record of the machine that the fit would return now: the one that was kept, else the last one."""
        kept = [record for record in self.records if self._kept and record.epoch == self._kept[1]]
        return kept[0] if kept else self.record

    @property
    def conclusion(self) -> str:
        """What the gap and the last epoch mean, in words; empty before the first evaluation."""
        if self.record is None:
            return ""
        primal = [float(record.gap.primal.sum()) for record in self.records[-2:]]
        fall = (primal[0] - primal[1]) / primal[0] if len(primal) > 1 and primal[0] > 0 else None
        return conclusion(self.record.relative_gap, self.tol, fall)

    @property
    def fresh(self) -> tuple[Record, ...]:
        """The records of this fit only."""
        return tuple(r for r in self.records if r.epoch > self._began) or self.records[-1:]

    @property
    def epoch(self) -> float:
        """The number of passes over the rows so far; within an epoch it is not a whole number."""
        return self.training.descent.epoch

    @property
    def seconds(self) -> float:
        """The time so far."""
        return self.training.descent.seconds

    @property
    def max_epochs(self) -> float:
        """The number of epochs after which the fit ends."""
        return self.training.descent.max_epochs

    @property
    def one_block(self) -> bool:
        """Whether all rows are in one block; the fit then runs until the problem is solved."""
        return self.training.descent.one_block

    @property
    def max_time(self) -> float:
        """The number of seconds after which the fit ends."""
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
        """The last score on held-out rows, that of the best λ of a path; None without scores."""
        return self.record.score if self.record else None

    def machine(self) -> Machine:
        """Return a copy of the present machine. To be called in ``epoch``."""
        return self.training.machine(self._weights().clone())

    def model(self) -> Any:
        """Return a fitted estimator with the present machine, that of the best λ of a path; None without ``model``."""
        if self._model is None:
            return None
        machine = self.training.machine(self._weights())
        if current().size == 1:  # all processes would have to take part
            self.training.descent.count_rounding()
        return self._model(Result(machine, self.records[-1], self.records, "The fit is running."))

    def keep(self) -> None:
        """Store the present machine, which the fit returns unless a later one is stored. To be called in ``epoch``."""
        self._kept = self._weights().clone(), self.epoch
        self.training.descent.count_rounding()

    @property
    def whole(self) -> bool:
        """Whether the state can be saved; False after an error within the update of a block."""
        return self.training.descent.whole

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to continue later, as numbers and tensors."""
        descent = self.training.descent.state_dict()
        return {"descent": descent, "began": self._began, "kept": self._kept and list(self._kept)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state of the same problem and settings.

        If an epoch had just ended, it is evaluated again, so that ``epoch`` is called for every callback.
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
        """The device of the fit."""
        return self.training.descent.state.alpha.device

    def scores_of(self, point: Point) -> Sequence[float]:
        """Return the scores of a point of the descent."""
        return () if self._judge is None else self._judge(self.training.machine(self.training.weights(point)))

    def result(self, report: Report) -> Result:
        """Return the result: the machine that was kept, else the last one."""
        weights, epoch = self._kept or (None, self.epoch)
        if weights is None or epoch == self.epoch:  # the end of a fit may have computed θ again
            weights = self.training.weights((report.alpha, report.image))
        record = next(record for record in report.records if record.epoch == epoch)
        return Result(self.training.machine(weights), record, report.records, self.reason or report.reason.value)

    def _weights(self) -> Tensor:
        point = self.training.descent.point
        if point is None:
            raise InvalidParameter(
                "machine(), model() and keep() must be called in a callback's epoch(run); this call is outside of it. "
                "Call them there and store the result."
            )
        return self.training.weights(point)


Answer = bool | str | None  # True or a string stops the fit; the string is the reason that the user reads


class Callback:
    """Base class of callbacks.

    Override the methods that you need. An error in a callback ends the fit, and so does Ctrl-C; ``end`` is still
    called for every callback whose ``start`` has returned.

    Attributes
    ----------
    needs_score : bool
        Whether the callback needs a score after each epoch; an estimator then holds out rows for it.
    copies : int
        The number of copies of the solver's state that it holds at the same time; they count in a memory budget.
    first_process_only : bool
        Whether only the first of several processes that fit one model calls it: for callbacks that report. The others
        are called in all of them, and rank 0 decides whether to stop.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelRidge
    >>> from joker.callbacks import Callback
    >>> class StopAtTenth(Callback):
    ...     def epoch(self, run):
    ...         return run.record.relative_gap < 0.1 and "The gap is below a tenth."
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelRidge(callbacks=[StopAtTenth()], tol=0, block_size=20).fit(X, np.sin(X[:, 0]))
    >>> model.stop_reason_
    'The gap is below a tenth.'
    """

    needs_score: ClassVar[bool] = False
    copies: ClassVar[int] = 0
    first_process_only: ClassVar[bool] = False

    def start(self, run: Run) -> None:
        """Called once before the first step."""

    def step(self, run: Run) -> Answer:
        """Called after each block, so it must be fast. Return True, or a sentence with the reason, to stop the fit."""
        return None

    def epoch(self, run: Run) -> Answer:
        """Called after each epoch; ``run.record`` is its record. Return True, or a sentence, to stop the fit."""
        return None

    def end(self, run: Run) -> None:
        """Called once at the end, also after an error; ``run.reason`` says why the fit ended."""


def descend(run: Run, callbacks: Sequence[Callback] = ()) -> Result:
    """Run a fit with callbacks and return its result.

    Parameters
    ----------
    run : Run
        The fit.
    callbacks : sequence of Callback
        The callbacks, in the order in which they are called.

    Returns
    -------
    Result
        The machine, its records, and why the fit ended.

    Examples
    --------
    >>> import torch
    >>> from joker import prepare
    >>> from joker.callbacks import Run, TimeLimit, descend
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> result = descend(Run(prepare(x, x.sin())), [TimeLimit(60)])
    >>> result.reason
    'The relative duality gap reached the tolerance in every column.'
    """
    reasons: list[str] = []
    callbacks = [callback for callback in callbacks if not (callback.first_process_only and current().rank)]

    def stop(answers: list[Answer]) -> bool:
        reasons.extend(answer if isinstance(answer, str) else Reason.ASKED.value for answer in answers if answer)
        return bool(reasons)

    has_steps, needs_score = current().decide((bool(callbacks), any(one.needs_score for one in callbacks)))
    with ExitStack() as started:
        try:
            for callback in callbacks:
                callback.start(run)
                started.callback(callback.end, run)
            report = run.training.descent.run(
                lambda _: stop([callback.epoch(run) for callback in callbacks]),
                (lambda: stop([callback.step(run) for callback in callbacks])) if has_steps else None,
                run.scores_of if run.scored else None,
                score_always=needs_score,
            )
        except BaseException as error:
            run.reason, run.failed = f"The fit was ended by {type(error).__name__}.", True
            raise
        asked = reasons[0] if reasons else Reason.ASKED.value  # by rank 0, which alone may have a reason
        run.reason = asked if report.reason is Reason.ASKED else report.reason.value
        return run.result(report)
