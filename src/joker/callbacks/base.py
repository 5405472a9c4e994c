"""The protocol: what a callback is told, and how a fit is run with some of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import ClassVar

from joker.callbacks.run import Result, Run
from joker.solvers import Reason

Answer = bool | str | None  # True asks to stop; a string does so too, and is the reason that the user reads


class Callback:
    """Something that watches a fit; the base of your own.

    Override what you need. An error in a callback ends the fit, and so does Ctrl-C; ``end`` is still
    called for every callback whose ``start`` was.

    Attributes
    ----------
    needs_score : bool
        Whether an estimator must hold out rows, so that every record has a score.
    copies : int
        How many copies of the state of the solve it holds at a time; they count in a memory budget.

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

    def start(self, run: Run) -> None:
        """Called before the first step."""

    def step(self, run: Run) -> Answer:
        """Called after each block; must be quick. Return True, or a sentence, to stop."""
        return None

    def epoch(self, run: Run) -> Answer:
        """Called after each epoch, with ``run.record`` as its record. Return True, or a sentence, to stop."""
        return None

    def end(self, run: Run) -> None:
        """Called at the end, also after an error; ``run.reason`` says how it came."""


def descend(run: Run, callbacks: Sequence[Callback] = ()) -> Result:
    """Run a fit with callbacks.

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
    asked: list[str] = []

    def ask(answers: list[Answer]) -> bool:
        asked.extend(answer if isinstance(answer, str) else Reason.ASKED.value for answer in answers if answer)
        return bool(asked)

    with ExitStack() as started:
        try:
            for callback in callbacks:
                callback.start(run)
                started.callback(callback.end, run)
            report = run.training.descent.run(
                lambda _: ask([callback.epoch(run) for callback in callbacks]),
                (lambda: ask([callback.step(run) for callback in callbacks])) if callbacks else None,
                run.scores_of if run.scored else None,
            )
        except BaseException as error:
            run.reason = f"The fit was ended by {type(error).__name__}."
            raise
        run.reason = asked[0] if report.reason is Reason.ASKED else report.reason.value
        return run.result(report)
