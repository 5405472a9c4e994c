"""Callbacks that end a fit: early stopping and a time limit."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf, isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from joker.callbacks.callback import Answer, Callback, Run
from joker.errors import InvalidFile, InvalidParameter


@dataclass
class EarlyStopping(Callback):
    """Stop when the score on held-out rows no longer rises; the fit returns the machine with the best score.

    Parameters
    ----------
    patience : int
        The number of epochs without a higher score after which the fit stops.
    min_delta : float
        The amount by which a score must exceed the best one so far to count as higher.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelRidge
    >>> from joker.callbacks import EarlyStopping
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelRidge(n_features=20, callbacks=[EarlyStopping()], random_state=0).fit(X, np.sin(X[:, 0]))
    >>> "validation_score" in model.history_[-1]
    True
    """

    needs_score = True

    patience: int = 3
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.patience, Integral) or isinstance(self.patience, bool) or self.patience < 1:
            raise InvalidParameter(
                f"patience must be a whole number of at least 1; got {self.patience!r}. Use for example patience=3."
            )
        if not isinstance(self.min_delta, Real) or not self.min_delta >= 0:
            raise InvalidParameter(f"min_delta must be a number of at least 0; got {self.min_delta!r}. Use 0.0.")

    def start(self, run: Run) -> None:
        if not run.scored:
            raise InvalidParameter(
                "EarlyStopping needs scores on held-out rows, and this run has none. Give rows to score on, or "
                "use Run(training, judge=...)."
            )

    def epoch(self, run: Run) -> Answer:
        # Counted from the records each time, so that a continued fit stops at the same epoch.
        scores = [-inf if record.score is None else record.score for record in run.fresh]
        if scores[-1] > max(scores[:-1], default=-inf) or len(scores) == 1:
            run.keep()
        best, waited = -inf, 0
        for score in scores:
            best, waited = (score, 0) if score > best + self.min_delta else (best, waited + 1)
        epochs = "an epoch" if self.patience == 1 else f"{self.patience} epochs"
        return waited >= self.patience and f"The validation score has not risen for {epochs}."


@dataclass
class TimeLimit(Callback):
    """Stop after the first block that ends later than a limit; the time for callbacks and scores counts.

    Parameters
    ----------
    seconds : float
        The time that the fit may take. A fit that is continued has the full time again.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelRidge
    >>> from joker.callbacks import TimeLimit
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelRidge(n_features=20, callbacks=[TimeLimit(60)], random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.history_[-1]["seconds"] < 60
    True
    """

    seconds: float
    _until: float = field(default=inf, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number = isinstance(self.seconds, Real) and not isinstance(self.seconds, bool)
        if not number or not self.seconds > 0 or not isfinite(self.seconds):
            raise InvalidParameter(f"seconds must be a positive number; got {self.seconds!r}. Use for example 60.")

    def start(self, run: Run) -> None:
        self._until = time.monotonic() + self.seconds

    def step(self, run: Run) -> Answer:
        return time.monotonic() >= self._until and "The time allowed was used up."

    def epoch(self, run: Run) -> Answer:
        return self.step(run)


@dataclass
class JsonLog(Callback):
    """Write one line at the start, after each epoch and at the end of a fit; ``tail -f`` shows them at once.

    Every line is an object with ``event`` (``"start"``, ``"epoch"`` or ``"end"``), ``title`` and ``time``. The line of
    an epoch has the entries of ``history_``, summed over all columns, and the best score of a path of λ. The last line
    has ``reason`` and ``best_epoch``, the epoch of the model that is returned. Numbers that are not finite are null.

    Parameters
    ----------
    path : path
        The file. Lines are appended if it exists.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from joker import KernelRidge
    >>> from joker.callbacks import JsonLog
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "fit.jsonl"
    ...     _ = KernelRidge(n_features=20, callbacks=[JsonLog(path)], random_state=0).fit(X, np.sin(X[:, 0]))
    ...     '"event": "end"' in path.read_text()
    True
    """

    first_process_only = True

    path: str | os.PathLike[str]

    def start(self, run: Run) -> None:
        limits = {"max_epochs": run.max_epochs, "max_time": run.max_time, "tol": run.tol}
        self._write(run, "start", epoch=run.epoch, **limits)

    def epoch(self, run: Run) -> None:
        if run.record:
            self._write(run, "epoch", **run.record.entry(score=run.score))

    def end(self, run: Run) -> None:
        best = run.best.epoch if run.best else None
        self._write(run, "end", epoch=run.epoch, best_epoch=best, seconds=run.seconds, reason=run.reason)

    def _write(self, run: Run, event: str, **entries: Any) -> None:
        line = {"event": event, "title": run.title, "time": datetime.now(UTC).isoformat(), **entries}
        # JSON has no NaN and no infinity.
        finite = {name: None if isinstance(x, float) and not isfinite(x) else x for name, x in line.items()}
        text = json.dumps(finite, allow_nan=False)
        try:
            # The file is closed each time, so that no line stays in a buffer.
            with Path(self.path).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except OSError as error:
            raise InvalidFile(
                f"path of JsonLog must be a file that can be written; {os.fspath(self.path)!r} cannot "
                f"({error.strerror}). Use another path."
            ) from error
