"""The HTML of an estimator in a notebook: scikit-learn's diagram and, after the fit, a table of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

import numpy as np
from torch import Tensor

from joker import kernels
from joker.errors import JokerError
from joker.models import ExactMachine


class NotebookView:
    """Adds a summary to the HTML of a scikit-learn estimator; must precede ``BaseEstimator`` in the bases."""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = super()._repr_html_  # type: ignore[misc]  # AttributeError if scikit-learn shows text
        return lambda: diagram() + self._summary_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    def _summary_html(self) -> str:
        return summary(self)


def summary(model: Any) -> str:
    """Return a small HTML table that describes a fitted estimator.

    The text is empty before the fit, and where a parameter was set to an invalid value after the fit.
    """
    if not hasattr(model, "history_"):
        return ""
    try:
        rows = facts(model)
    except JokerError:
        return ""
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(type(model).__name__)}, fitted</caption><tbody>{''.join(cells)}</tbody></table>"


def facts(model: Any) -> dict[str, str]:
    """Return the loss, the kernel, the size and the result of a fitted estimator, by name."""
    kernel = kernels.get(model.kernel)
    chosen = f" (best of {len(model.path_.lam)})" if hasattr(model, "path_") else ""
    return {
        "loss": _describe(model._loss()),
        "kernel": _describe(kernel, omit="bandwidth"),
        **({"bandwidth σ": _bandwidth(model.bandwidth_)} if kernel.has_bandwidth else {}),
        "λ": f"{model.lam_:.4g}{chosen}",
        **_size(model),
        "epochs": f"{model.n_iter_}",
        "relative gap": f"{model.gap_:.2e}",
        "stopped": model.stop_reason_,
        "conclusion": model.conclusion_,
        "seconds": f"{model.history_[-1]['seconds']:.2g}",
    }


def _bandwidth(bandwidth: Any) -> str:
    if not np.ndim(bandwidth):
        return f"{bandwidth:.4g}"
    return f"{np.min(bandwidth):.4g} to {np.max(bandwidth):.4g}, one for each input"


def _size(model: Any) -> dict[str, str]:
    machine = model._machine
    if isinstance(machine, ExactMachine):
        return {"rows": f"{len(machine.x):,}"}
    return {"features": f"{len(machine.theta) - model._constant:,}"}


def _describe(part: Any, omit: str = "") -> str:
    """A loss or a kernel with its parameters, without the one named ``omit``."""
    if not is_dataclass(part):
        return repr(part)
    values = {field.name: getattr(part, field.name) for field in fields(part) if field.name != omit}
    shown = [f"{name}={value.tolist() if isinstance(value, Tensor) else value}" for name, value in values.items()]
    return f"{type(part).__name__}({', '.join(shown)})" if shown else type(part).__name__
