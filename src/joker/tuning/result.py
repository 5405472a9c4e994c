"""The result of a search for a kernel, a bandwidth and a λ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

COLUMNS = ("stage", "rows", "kernel", "bandwidth", "relevance", "lam", "loss", "score", "seconds")


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """A fitted estimator, and the trials that chose its settings.

    ``model, table = joker.tune(X, y)`` unpacks the first two attributes.

    Attributes
    ----------
    estimator : estimator
        Fitted on all rows with the winning kernel, bandwidth and λ.
    table : list of dict
        One entry for each trial: ``stage``, ``rows`` trained on, ``kernel``, ``bandwidth``, ``relevance``, ``lam``,
        mean ``loss`` and ``score`` on held-out rows, and ``seconds``. One fit tries several λ, and ``seconds`` is the
        time of the fit divided by their number. ``relevance`` is the power of the input importance that
        weights the inputs; 0 gives equal weights. With weights, ``bandwidth`` is that of the most important input, and
        the others have wider ones (``estimator.bandwidth_``). Only entries of the same stage can be compared.
        ``pandas.DataFrame(table)`` turns the table into a data frame.
    best : dict
        The best entry, of the last stage.
    search_seconds, fit_seconds : float
        The time of the trials and of the fit on all rows.
    task : {"classification", "regression"}
        The task of the estimator.
    task_reason : str or None
        What was found in y if the task was guessed from it; else None.
    criterion : {"loss", "ranking", "scoring"}
        What decided between trials: the loss; the area under the ROC curve, because a class is rare (it is the
        ``score`` in the table); or the ``scoring`` that was given.

    Examples
    --------
    >>> import numpy as np
    >>> import joker
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> result = joker.tune(X, np.sin(X[:, 0]), kernels=["gaussian"], random_state=0)
    >>> result.best["kernel"]
    'gaussian'
    """

    estimator: Any
    table: list[dict[str, Any]]
    best: dict[str, Any]
    search_seconds: float
    fit_seconds: float
    task: str
    task_reason: str | None = None
    criterion: str = "loss"

    def __iter__(self) -> Iterator[Any]:
        return iter((self.estimator, self.table))

    def __repr__(self) -> str:
        best = self.best
        return (
            f"Tuned({type(self.estimator).__name__}: {_name(best['kernel'])} kernel, bandwidth {best['bandwidth']:.4g}"
            f"{_relevance(best)}, lam {best['lam']:.4g}; score {best['score']:.4f} on held-out rows; "
            f"{len(self.table)} trials in {self.search_seconds:.1f} s, fit in {self.fit_seconds:.1f} s"
            f"{self._guess()})"
        )

    def _guess(self) -> str:
        return f"; guessed task: {self.task}, y has {self.task_reason}" if self.task_reason else ""

    def __str__(self) -> str:
        lines = [COLUMNS, *(_line(entry) for entry in self.table)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        marks = ["", *("  <- best" if entry is self.best else "" for entry in self.table)]
        rows = ("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)
        return "\n".join([*(row + mark for row, mark in zip(rows, marks, strict=True)), repr(self)])


def _line(entry: dict[str, Any]) -> tuple[str, ...]:
    settings = (f"{entry['rows']:,}", _name(entry["kernel"]), f"{entry['bandwidth']:.4g}", f"{entry['relevance']:g}")
    results = (f"{entry['lam']:.3g}", f"{entry['loss']:.4g}", f"{entry['score']:.4f}", f"{entry['seconds']:.2f}")
    return (str(entry["stage"]), *settings, *results)


def _relevance(entry: dict[str, Any]) -> str:
    return f" (relevance {entry['relevance']:g})" if entry["relevance"] else ""


def _name(kernel: Any) -> str:
    return kernel if isinstance(kernel, str) else kernel.name
