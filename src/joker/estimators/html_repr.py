"""What a notebook shows of an estimator: scikit-learn's diagram and, once fitted, how the fit went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from joker import kernels
from joker.errors import JokerError
from joker.models import ExactMachine

if TYPE_CHECKING:
    from joker.estimators.base import KernelEstimator


class NotebookView:
    """Adds :func:`summary` to the HTML of a scikit-learn estimator; goes before ``BaseEstimator`` among the bases."""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = super()._repr_html_  # type: ignore[misc]  # none where scikit-learn is set to show text
        return lambda: diagram() + summary(self)  # type: ignore[arg-type]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += summary(self)  # type: ignore[arg-type]
        return bundle


def summary(model: KernelEstimator) -> str:
    """Return a small table of HTML on a fitted estimator; nothing of one that is not fitted.

    Nor of one whose parameters were changed after the fit to what no fit takes.
    """
    if not hasattr(model, "history_"):
        return ""
    try:
        rows = _facts(model)
    except JokerError:
        return ""
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(type(model).__name__)}, fitted</caption><tbody>{''.join(cells)}</tbody></table>"


def _facts(model: KernelEstimator) -> dict[str, str]:
    kernel = kernels.get(model.kernel)
    chosen = f" (best of {len(model.path_.lam)})" if hasattr(model, "path_") else ""
    return {
        "loss": _words(model._loss()),
        "kernel": _words(kernel, but="bandwidth"),
        **({"bandwidth σ": _widths(model.bandwidth_)} if kernel.has_bandwidth else {}),
        "λ": f"{model.lam_:.4g}{chosen}",
        **_size(model),
        "epochs": f"{model.n_iter_}",
        "relative gap": f"{model.gap_:.2e}",
        "stopped": model.stop_reason_,
        "seconds": f"{model.history_[-1]['seconds']:.2g}",
    }


def _widths(bandwidth: Any) -> str:
    if not np.ndim(bandwidth):
        return f"{bandwidth:.4g}"
    return f"{np.min(bandwidth):.4g} to {np.max(bandwidth):.4g}, one for each input"


def _size(model: KernelEstimator) -> dict[str, str]:
    machine: Any = model._machine
    if isinstance(machine, ExactMachine):
        return {"rows": f"{len(machine.x):,}"}
    return {"features": f"{len(machine.theta) - model._constant:,}"}


def _words(part: Any, but: str = "") -> str:
    """A loss or a kernel with its parameters, but for one of them."""
    if not is_dataclass(part):
        return repr(part)
    values = {field.name: getattr(part, field.name) for field in fields(part) if field.name != but}
    words = [f"{name}={value.tolist() if isinstance(value, Tensor) else value}" for name, value in values.items()]
    return f"{type(part).__name__}({', '.join(words)})" if words else type(part).__name__
