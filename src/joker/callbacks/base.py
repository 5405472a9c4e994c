"""The base class of callbacks, and the function that runs a fit with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from joker.callbacks.run import Result, Run
from joker.distributed import current
from joker.solvers import Reason

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
        are called in all of them, and the first process decides whether to stop.

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
        asked = reasons[0] if reasons else Reason.ASKED.value  # by the first process, which alone may have a reason
        run.reason = asked if report.reason is Reason.ASKED else report.reason.value
        return run.result(report)
