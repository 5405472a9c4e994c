"""scikit-learn's own callbacks (``set_callbacks``, from its release 1.9 on), told of a fit of ours.

Its page for developers, "Implementing callback support in estimators", counts ``_init_callback_context``
as public. Where scikit-learn is older there is no ``set_callbacks``, and nothing here does anything.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from joker.callbacks import Callback, Run
from joker.data.array_rows import materialised

__all__ = ["CallbackSupportMixin", "Relay", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    _with_callbacks = None

if TYPE_CHECKING:
    from joker.estimators.base import KernelEstimator
    from joker.estimators.training_set import Sample


def with_callbacks(fit: Method) -> Method:
    """Let scikit-learn's callbacks clear up after a fit, however it ends."""
    managed: Method = fit if _with_callbacks is None else _with_callbacks(fit)
    return managed


class Relay(Callback):
    """Tells scikit-learn's callbacks of a fit: a task for the whole of it, and in it one for each epoch.

    Parameters
    ----------
    model : KernelEstimator
        Whose fit it is.
    sample : Sample
        The rows it is trained on.
    """

    def __init__(self, model: KernelEstimator, sample: Sample) -> None:
        self.model = model
        plain = sample.w is None or getattr(model, "class_weight", None) is not None  # such weights are not the user's
        self.data = {
            "X": lambda: materialised(sample.x),
            "y": lambda: model._decoded(sample.y),
            "metadata": None if plain else {"sample_weight": sample.w},
        }
        self.fit: Any = None
        self.task: Any = None  # that of the epoch
        self._added: set[str] = set()  # attributes that scikit-learn puts on the estimator while it is fitted

    def start(self, run: Run) -> None:
        if _with_callbacks is None:
            return
        before = set(vars(self.model))
        looks = math.ceil(run.max_epochs) - math.floor(run.epoch) if math.isfinite(run.max_epochs) else None
        self.fit = self.model._init_callback_context(max_subtasks=None if run.one_block or not looks else max(1, looks))
        self._added = set(vars(self.model)) - before
        self.fit.call_on_fit_task_begin(estimator=self.model, **self.data)

    def step(self, run: Run) -> None:
        if self.fit and self.task is None:
            self._begin()

    def epoch(self, run: Run) -> bool:
        if self.task is None:  # a look at where an earlier fit ended, before the first step
            return False
        task, self.task = self.task, None
        fitted = {"reconstruction_attributes": lambda: self._attributes(run.model())}
        return bool(task.call_on_fit_task_end(estimator=self.model, **self.data, **fitted))

    def close(self) -> None:
        """Tell that the estimator is fitted."""
        if self.fit:
            fitted = {"reconstruction_attributes": lambda: self._attributes(self.model)}
            self.fit.call_on_fit_task_end(estimator=self.model, **self.data, **fitted)

    def bare(self, model: KernelEstimator) -> KernelEstimator:
        """Return a copy of the estimator without what belongs to the fit alone."""
        copied = copy.copy(model)
        for name in self._added:
            copied.__dict__.pop(name, None)
        return copied

    def _begin(self) -> None:
        self.task = self.fit.subcontext(task_name="epoch")
        self.task.call_on_fit_task_begin(estimator=self.model, **self.data)

    def _attributes(self, model: KernelEstimator) -> dict[str, Any]:
        """What makes a copy of the estimator the fitted model; the rows have lost the names of their inputs."""
        names = {"feature_names_in_": None} if hasattr(model, "feature_names_in_") else {}
        return {**vars(model), **names}
