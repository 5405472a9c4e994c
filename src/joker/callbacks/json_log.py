"""A log in JSON Lines format: one JSON object per line."""

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
        text = json.dumps({name: _plain(value) for name, value in line.items()}, allow_nan=False)
        try:
            # The file is closed each time, so that no line stays in a buffer.
            with Path(self.path).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except OSError as error:
            raise InvalidFile(
                f"path of JsonLog must be a file that can be written; {os.fspath(self.path)!r} cannot "
                f"({error.strerror}). Use another path."
            ) from error


def _plain(value: Any) -> Any:
    """Return None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not isfinite(value) else value
