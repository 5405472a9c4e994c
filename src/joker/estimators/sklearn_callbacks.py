"""Calls scikit-learn's own callbacks (``set_callbacks``, since its release 1.9) during a fit.

Its page for developers, "Implementing callback support in estimators", declares ``_init_callback_context`` public.
With an older scikit-learn there is no ``set_callbacks``, and this module has no effect.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, TypeVar

from joker.callbacks import Callback, Run
from joker.data.array_rows import materialised
from joker.estimators.training_set import Sample

__all__ = ["CallbackSupportMixin", "SklearnCallbackRelay", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])
Model = TypeVar("Model")

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An empty base class: scikit-learn has no callbacks."""

    _with_callbacks = None


def with_callbacks(fit: Method) -> Method:
    """Decorate a method that fits: scikit-learn's callbacks are torn down after it, also after an error."""
    managed: Method = fit if _with_callbacks is None else _with_callbacks(fit)
    return managed


class SklearnCallbackRelay(Callback):
    """Calls scikit-learn's callbacks: one task for the whole fit, with a task for each epoch inside it.

    Parameters
    ----------
    model : KernelEstimator
        The estimator that is being fitted.
    sample : Sample
        The rows it is trained on.
    """

    def __init__(self, model: Any, sample: Sample) -> None:
        self.model = model
        # With class weights, the weights of the sample are not those that the user gave.
        unweighted = sample.w is None or getattr(model, "class_weight", None) is not None
        self.data = {
            "X": lambda: materialised(sample.x),
            "y": lambda: model._decoded(sample.y),
            "metadata": None if unweighted else {"sample_weight": sample.w},
        }
        self.fit: Any = None  # the task of the whole fit
        self.task: Any = None  # the task of the current epoch
        self._added: set[str] = set()  # attributes that scikit-learn sets on the estimator during the fit

    def start(self, run: Run) -> None:
        if _with_callbacks is None:
            return
        before = set(vars(self.model))
        epochs = math.ceil(run.max_epochs) - math.floor(run.epoch) if math.isfinite(run.max_epochs) else None
        max_subtasks = None if run.one_block or not epochs else max(1, epochs)
        self.fit = self.model._init_callback_context(max_subtasks=max_subtasks)
        self._added = set(vars(self.model)) - before
        self.fit.call_on_fit_task_begin(estimator=self.model, **self.data)

    def step(self, run: Run) -> None:
        if self.fit and self.task is None:
            self._begin()

    def epoch(self, run: Run) -> bool:
        if self.task is None:  # before the first step, the point is evaluated at which an earlier fit ended
            return False
        if run.epoch % 1:  # within an epoch, where the fit may end or go on
            return False
        return self._end(run.model)

    def close(self) -> None:
        """End the tasks of the last epoch and of the fit: the estimator is fitted."""
        if self.fit:
            if self.task is not None:
                self._end(lambda: self.model)
            fitted = {"reconstruction_attributes": lambda: self._attributes(self.model)}
            self.fit.call_on_fit_task_end(estimator=self.model, **self.data, **fitted)

    def bare(self, model: Model) -> Model:
        """Return a copy of the estimator without the attributes that scikit-learn sets during the fit."""
        copied = copy.copy(model)
        for name in self._added & vars(copied).keys():
            delattr(copied, name)
        return copied

    def _begin(self) -> None:
        self.task = self.fit.subcontext(task_name="epoch")
        self.task.call_on_fit_task_begin(estimator=self.model, **self.data)

    def _end(self, model: Callable[[], Any]) -> bool:
        """End the task of the epoch; return whether scikit-learn asks to stop."""
        task, self.task = self.task, None
        fitted = {"reconstruction_attributes": lambda: self._attributes(model())}
        return bool(task.call_on_fit_task_end(estimator=self.model, **self.data, **fitted))

    def _attributes(self, model: Any) -> dict[str, Any]:
        """The attributes that turn a copy of the estimator into the fitted model, for rows without names of inputs."""
        names = {"feature_names_in_": None} if hasattr(model, "feature_names_in_") else {}
        return {**vars(model), **names}
