"""Checkpoints: files from which an interrupted fit continues."""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from joker.callbacks.callback import Callback, Run
from joker.distributed import current
from joker.errors import InvalidFile, InvalidParameter, StateMismatch
from joker.runtime import format_bytes
from joker.runtime.files import real_path, replace_file, resolve_target

FORMAT = "joker checkpoint 1"
EXAMPLE = "fit.checkpoint"  # a file name, for messages
MAX_COUNT = 2**48  # steps: more than any fit has
WRONG_CONTENT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError)  # tensors of other shapes, too
# The errors that zipfile and torch raise for a file that is damaged or of another kind.
READ_ERRORS = (OSError, EOFError, RuntimeError, ValueError, LookupError, TypeError, zipfile.BadZipFile, UnpicklingError)


@dataclass
class Checkpoint(Callback):
    """Save the state of the fit every few epochs and at its end, also after Ctrl-C, and continue from it later.

    A fit that is continued returns the same model as one without interruption, bit for bit on the same machine. The
    data and all settings except ``max_epochs``, ``tol`` and ``max_time`` must be the same, so ``random_state`` must be
    a number. The file contains numbers only: reading it runs no code.

    Parameters
    ----------
    path : path
        The file. It is replaced in one step, so that it is always a complete checkpoint. Where several processes fit
        one model, the first writes it and all read it; any number of processes may continue from it.
    every : int
        The number of epochs between two saves.
    resume : bool
        Whether to continue from the file if it exists. False starts from the beginning and replaces it.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from joker import KernelRidge
    >>> from joker.callbacks import Checkpoint
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "fit.checkpoint"
    ...     _ = KernelRidge(n_features=20, callbacks=[Checkpoint(path)], random_state=0).fit(X, np.sin(X[:, 0]))
    ...     path.exists()
    True
    """

    copies = 1

    path: str | os.PathLike[str]
    every: int = 1
    resume: bool = True
    _saved: float = field(default=0.0, init=False, repr=False, compare=False)  # the epoch of the last save

    def __post_init__(self) -> None:
        if not isinstance(self.every, Integral) or isinstance(self.every, bool) or self.every < 1:
            raise InvalidParameter(f"every must be a whole number of at least 1; got {self.every!r}. Use every=1.")

    def start(self, run: Run) -> None:
        path = resolve_target(self.path, EXAMPLE)
        if self.resume and current().decide(path.exists()):
            self._continue(run, path)
        self._saved = run.epoch

    def epoch(self, run: Run) -> None:
        if run.epoch >= self._saved + self.every:
            self._save(run)

    def end(self, run: Run) -> None:
        # With several processes, one of which may have ended, no state can be collected after an error.
        if run.whole and run.epoch > self._saved and not (run.failed and current().size > 1):
            self._save(run)

    def _save(self, run: Run) -> None:
        state = run.state_dict()
        try:
            if not current().rank:  # rank 0 has the state of all
                with replace_file(self.path, EXAMPLE) as file:
                    torch.save({"format": FORMAT, "run": state}, file)
        except RuntimeError as error:  # raised by torch, without the reason, when the disk is full
            raise InvalidFile(
                f"a checkpoint must be in a place with room for it; writing {self.path} failed, and "
                f"{format_bytes(shutil.disk_usage(real_path(Path(self.path)).parent).free)} are free there. Free some "
                "space, or use another path."
            ) from error
        self._saved = run.epoch

    def _continue(self, run: Run, path: Path) -> None:
        saved = read(path, run.device)
        if _impossible(saved) or not _alike(run.state_dict(), saved):
            raise InvalidFile(_refusal(path, "it holds impossible values, or the state of another kind of fit"))
        try:
            run.load_state_dict(saved)
        except WRONG_CONTENT as error:
            raise InvalidFile(_refusal(path, "its content is not that of a fit")) from error
        except StateMismatch as error:
            raise StateMismatch(
                f"{path}: {error} Or remove the file, or use Checkpoint(..., resume=False), to start again. "
                "If random_state is not a number, each fit draws another seed."
            ) from error


def read(path: Path, device: torch.device) -> dict[str, Any]:
    """Return the state in a checkpoint; no code in the file is run."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # torch alone does not detect changed numbers
        saved = None if damaged else torch.load(path, map_location=device, weights_only=True)
    except READ_ERRORS as error:
        raise InvalidFile(_refusal(path, "it cannot be read, or it is damaged or of another kind")) from error
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise InvalidFile(_refusal(path, "it is damaged or of another kind"))
    state: dict[str, Any] = saved["run"]
    return state


def _alike(fresh: object, saved: object) -> bool:
    """Whether a saved value has the type of the one that a new fit has; counts and times are at least 0.

    The parts that identify the problem are compared elsewhere, and lists grow during a fit.
    """
    if isinstance(fresh, dict):
        if not isinstance(saved, dict) or not fresh.keys() <= saved.keys():
            return False
        return all(name == "identity" or _alike(value, saved[name]) for name, value in fresh.items())
    if isinstance(fresh, int | float) and not isinstance(fresh, bool):
        return isinstance(saved, int | float) and saved >= 0
    return fresh is None or isinstance(saved, type(fresh) | list if isinstance(fresh, tuple) else type(fresh))


def _impossible(saved: object) -> bool:
    """Whether a number or tensor in nested dictionaries, lists and tuples is NaN, or counts more steps than any fit."""
    if isinstance(saved, torch.Tensor):
        return bool(saved.isnan().any())
    if isinstance(saved, dict | list | tuple):
        return any(map(_impossible, saved.values() if isinstance(saved, dict) else saved))
    if isinstance(saved, int):
        return abs(saved) > MAX_COUNT
    return isinstance(saved, float) and saved != saved  # noqa: PLR0124  # NaN


def _refusal(path: Path, found: str) -> str:
    return f"a checkpoint must be a complete file of joker.callbacks.Checkpoint; {path}: {found}. Remove it to restart."
