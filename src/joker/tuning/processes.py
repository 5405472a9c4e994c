"""Fits that do not depend on each other, side by side in processes of this computer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

import joblib
import torch
from joblib.parallel import get_active_backend

from joker.distributed import current
from joker.errors import InvalidParameter
from joker.runtime.devices import one_thread
from joker.tuning.halving import TimeBudget
from joker.tuning.trials import IN_TURN, Runner, TrialFit, TrialResult, TrialWorkers, current_workers

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class SideBySide(TrialWorkers):
    """Processes on this computer. Each has its share of the cores, and arrays of at least 1 MB in common memory."""

    count: int
    threads: int  # of each process

    def run(self, runner: Runner, fits: Sequence[TrialFit]) -> list[TrialResult]:
        limit = getattr(runner, "limit", TimeBudget())
        sent = replace(runner.to_send(), limit=replace(limit))  # type: ignore[type-var]
        results = list(self.map(partial(_fit_and_score, sent), fits))
        limit.is_over()  # the processes have clocks of their own
        return results

    def map(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        with joblib.parallel_config("loky", inner_max_num_threads=self.threads):
            done = joblib.Parallel(n_jobs=self.count)(joblib.delayed(_listened)(work, part) for part in parts)
        for result, said in done:
            for message, category in said:
                warnings.warn(message, category, stacklevel=2)
            yield result


def workers_for(n_jobs: Any, memory: Any, device: Any) -> TrialWorkers:
    """Return what runs independent fits: processes, or this one, one fit after the other.

    It is this process alone with a memory budget, which is for one process; on a GPU, which one fit keeps busy; in a
    group of processes, whose cores have work already; and inside a parallel call of joblib, as in scikit-learn.
    """
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise InvalidParameter(
            f"n_jobs must be a number of processes, -1 for one on each core, or None; got {n_jobs!r}. Use n_jobs=-1."
        )
    nested = get_active_backend()[0].nesting_level
    count = 1 if nested else joblib.effective_n_jobs(n_jobs)
    limited = memory is not None and memory != "auto"
    on_gpu = device is not None and device != "auto" and torch.device(device).type == "cuda"
    if count == 1 or limited or on_gpu or current().size > 1 or current_workers() is not IN_TURN:
        return current_workers()
    return SideBySide(count, max(1, joblib.cpu_count() // count))


def _fit_and_score(runner: Runner, fit: TrialFit) -> TrialResult:
    return runner.fit_and_score(fit)


def _listened(work: Callable[[Part], Result], part: Part) -> tuple[Result, list[tuple[str, type[Warning]]]]:
    """Do the work of a process, and return its warnings too, which are shown where the search was called."""
    with warnings.catch_warnings(record=True) as heard, one_thread():
        warnings.simplefilter("always")
        result = work(part)
    return result, [(str(one.message), one.category) for one in heard]
