"""A log for programs to read: one JSON object a line."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from joker.callbacks.base import Callback
from joker.callbacks.run import Run
from joker.errors import InvalidFile


@dataclass
class JsonLog(Callback):
    """Write a line at the start, after each epoch and at the end of a fit; ``tail -f`` can follow.

    Every line is an object with ``event`` (``"start"``, ``"epoch"`` or ``"end"``), ``title`` and ``time``. An epoch
    has what ``history_`` has, all columns together and the best score of a path; an end has ``reason``
    and ``best_epoch``, the epoch of the model that is returned. A number that is not finite is null.

    Parameters
    ----------
    path : path
        The file. Lines are added to one that is there.
    """

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
        text = json.dumps({name: _plain(value) for name, value in line.items()}, allow_nan=False)
        try:
            with Path(self.path).open("a", encoding="utf-8") as file:  # closed each time: nothing waits in a buffer
                file.write(f"{text}\n")
        except OSError as error:
            raise InvalidFile(
                f"path of JsonLog must be a file that can be written; {os.fspath(self.path)!r} cannot "
                f"({error.strerror}). Use another path."
            ) from error


def _plain(value: Any) -> Any:
    """JSON knows neither NaN nor infinity."""
    return None if isinstance(value, float) and not isfinite(value) else value
