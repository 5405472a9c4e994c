"""The trials of a search, side by side on the workers of a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import ray
import torch
from ray.exceptions import RayError, RayTaskError

from joker import tuning
from joker.errors import InvalidParameter, ProcessLost
from joker.estimators.base import KernelEstimator
from joker.kernels import Kernel
from joker.tuning.trial_workers import Runner, TrialFit, TrialResult, TrialWorkers, trials_on


def tune(
    X: Any,
    y: Any = None,
    *,
    estimator: KernelEstimator | None = None,
    task: str | None = None,
    kernels: str | Kernel | Sequence[str | Kernel] | None = None,
    bandwidths: Sequence[str | float] | None = None,
    lam: float | Sequence[float] | None = None,
    relevance: bool | str = "auto",
    rows: int | Sequence[int] | None = None,
    sample_weight: Any = None,
    scoring: str | Callable[..., float] | None = None,
    max_time: float = math.inf,
    memory: int | str | None = None,
    device: str | torch.device | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
    cpus_per_trial: float = 1,
    gpus_per_trial: float = 0,
    max_failures: int = 0,
) -> tuning.Tuned:
    """Run the search of :func:`joker.tune` with its trials side by side on the workers of a Ray cluster.

    The trials, their table and the winner are those of :func:`joker.tune` with the same ``random_state``, unless
    ``max_time`` ends the search. The rows are sent to each machine of the cluster once. The first candidates of a stage
    are run together, and then the next candidate of each kernel; with fewer than 2,000 rows also the folds of a trial.
    The fit on all rows is done by this process; :func:`joker.ray.fit` does such a fit on the cluster.

    Parameters
    ----------
    X, y, estimator, task, kernels, bandwidths, lam, relevance, rows, sample_weight, scoring
        As in :func:`joker.tune`. A row store must have a path that every worker can read.
    max_time, memory, device, random_state, verbose, callback
        As in :func:`joker.tune`. ``memory`` is the budget of each trial, and ``device`` that of the trials and of the
        fit on all rows. ``max_time`` ends no trial that has begun.
    cpus_per_trial : float
        Processors that Ray reserves for a fit of a trial, which has as many threads.
    gpus_per_trial : float
        GPUs that Ray reserves for a fit of a trial; ½ lets two share a GPU. Use it with ``device="cuda"``.
    max_failures : int
        The number of times that a trial is started again after its worker has died.

    Returns
    -------
    Tuned
        As from :func:`joker.tune`.

    Examples
    --------
    >>> import joker.ray  # doctest: +SKIP
    >>> model, table = joker.ray.tune(X, y, kernels=["gaussian", "laplacian"], cpus_per_trial=2)  # doctest: +SKIP
    """
    with trials_on(RayWorkers(cpus_per_trial, gpus_per_trial, max_failures)):
        return tuning.tune(
            X,
            y,
            estimator=estimator,
            task=task,
            kernels=kernels,
            bandwidths=bandwidths,
            lam=lam,
            relevance=relevance,
            rows=rows,
            sample_weight=sample_weight,
            scoring=scoring,
            max_time=max_time,
            memory=memory,
            device=device,
            random_state=random_state,
            verbose=verbose,
            callback=callback,
        )


class RayWorkers(TrialWorkers):
    """Tasks of a Ray cluster. One search has one runner, which is sent when its first trial begins."""

    side_by_side = True

    def __init__(self, cpus: Any, gpus: Any, max_failures: Any) -> None:
        for name, value in (("cpus_per_trial", cpus), ("gpus_per_trial", gpus)):
            if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < math.inf:
                raise InvalidParameter(f"{name} must be a number of at least 0; got {value!r}. Use {name}=1.")
        if not isinstance(max_failures, Integral) or isinstance(max_failures, bool) or max_failures < 0:
            raise InvalidParameter(
                f"max_failures must be a whole number of at least 0; got {max_failures!r}. Use max_failures=2."
            )
        self.max_failures = int(max_failures)
        self._options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": self.max_failures}
        self._sent: Any = None

    def run(self, runner: Runner, fits: Sequence[TrialFit]) -> list[TrialResult]:
        if self._sent is None:
            self._check_resources()
            self._sent = ray.put(runner.to_send())
        running = [_task.options(**self._options).remote(self._sent, fit) for fit in fits]
        try:
            return ray.get(running)  # type: ignore[no-any-return]
        except RayTaskError as error:  # the error of a fit, which joker.tune would raise
            raise error.cause from None
        except RayError as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ProcessLost(
                f"the worker of a trial must live until the trial ends; a worker has died, and max_failures="
                f"{self.max_failures} starts no trial more often ({reason}). Use a larger max_failures, or less memory "
                "for each trial."
            ) from error
        finally:
            for fit in running:
                ray.cancel(fit)  # nothing happens to those that have ended

    def _check_resources(self) -> None:
        """Raise InvalidParameter if no machine of the cluster can run a trial, for which Ray would wait forever."""
        if not ray.is_initialized():
            ray.init()
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for name, resource, option in (
            ("cpus_per_trial", "CPU", "num_cpus"),
            ("gpus_per_trial", "GPU", "num_gpus"),
        ):
            most = max((machine.get(resource, 0) for machine in machines), default=0)
            if self._options[option] > most:
                raise InvalidParameter(
                    f"{name} must be at most what one machine of the cluster has, {most:g}; got "
                    f"{self._options[option]:g}. Use a smaller number, or add a machine to the cluster."
                )


def _fit_and_score(runner: Runner, fit: TrialFit) -> TrialResult:
    return runner.fit_and_score(fit)


_task = ray.remote(_fit_and_score)
