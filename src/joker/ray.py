"""Fits and searches on a cluster of Ray.

``pip install 'joker-kernels[ray]'`` installs Ray. Use ``import joker.ray``; ``import joker`` does not import Ray.
"""

from __future__ import annotations

import inspect
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from joker import tuning
from joker.callbacks import Callback, Checkpoint, Run
from joker.data import Store, convert, open_store
from joker.distributed import current, group
from joker.distributed.group import TIMEOUT
from joker.errors import InvalidParameter, MissingFile, MissingPackage, ProcessLost
from joker.estimators.estimator import KernelEstimator
from joker.models import load
from joker.tuning.trials import Runner, TrialFit, TrialResult, TrialWorkers, trials_on

try:
    import ray
    from ray import train
    from ray.data import ExecutionOptions
    from ray.exceptions import RayError, RayTaskError
    from ray.train import DataConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
except ImportError as error:
    raise MissingPackage(
        f"joker.ray needs Ray Train, which cannot be imported ({error}). Use pip install 'joker-kernels[ray]'."
    ) from error

__all__ = ["fit", "tune"]

CHECKPOINT, MODEL, ROWS = "fit.checkpoint", "model.joker", "rows"


def fit(
    estimator: Any,
    data: Any,
    target: str | None = None,
    *,
    scaling_config: ScalingConfig | None = None,
    run_config: RunConfig | None = None,
    every: int = 1,
    timeout: float = TIMEOUT,
) -> Any:
    """Fit an estimator on the workers of a Ray cluster together, and return the fitted one.

    Each worker reads all rows, from a path that it can read or from a Ray Dataset, into a row store on its own disk.
    It has its part of the features, or computes its part of the kernel matrix. After every few epochs the state is
    reported to Ray Train as a checkpoint; with ``FailureConfig(max_failures=...)`` a job whose worker has died begins
    again there, also with another number of workers.

    Parameters
    ----------
    estimator : estimator
        An estimator of joker, which is not changed.
    data : path or ray.data.Dataset
        A row store, or a file or folder that :func:`joker.data.open_source` reads, such as a folder of Parquet files;
        or a Ray Dataset of numeric columns.
    target : str, optional
        The column to predict; a row store has its own.
    scaling_config : ray.train.ScalingConfig, optional
        The workers; by default two, without GPUs.
    run_config : ray.train.RunConfig, optional
        The name, storage and failure limits of the job.
    every : int
        Epochs between two checkpoints.
    timeout : float
        Seconds that a worker waits for the others before it gives up.

    Returns
    -------
    estimator
        The fitted estimator.

    Examples
    --------
    >>> import joker, joker.ray  # doctest: +SKIP
    >>> from ray.train import FailureConfig, RunConfig, ScalingConfig  # doctest: +SKIP
    >>> model = joker.ray.fit(  # doctest: +SKIP
    ...     joker.KernelRidge(n_features=20_000),
    ...     "/data/train",
    ...     target="price",
    ...     scaling_config=ScalingConfig(num_workers=8),
    ...     run_config=RunConfig(storage_path="/data/jobs", failure_config=FailureConfig(max_failures=2)),
    ... )
    """
    if not isinstance(estimator, KernelEstimator):
        raise InvalidParameter(
            f"estimator must be a kernel estimator of joker, such as KernelRidge(); got {estimator!r}. Tune a table "
            "on one machine, and fit the estimator that it finds."
        )
    is_path = isinstance(data, str | os.PathLike)
    if is_path and not Path(data).exists():
        raise MissingFile(f"data must be a path that every worker can read; {data} does not exist. Check the name.")
    model = clone(estimator)
    if model.random_state is None:  # a fit that continues must have the seed of the one that was interrupted
        model.set_params(random_state=int(np.random.SeedSequence().generate_state(1)[0] % 2**31))
    path = os.path.abspath(data) if is_path else None
    trainer = TorchTrainer(
        _work,
        train_loop_config={"estimator": model, "path": path, "target": target, "every": every, "timeout": timeout},
        scaling_config=scaling_config or ScalingConfig(num_workers=2),
        run_config=run_config,
        datasets={} if is_path else {ROWS: data},
        # Every worker has all rows, in the same order.
        dataset_config=DataConfig(datasets_to_split=[], execution_options=ExecutionOptions(preserve_order=True)),
    )
    result = trainer.fit()
    assert result.checkpoint is not None
    with result.checkpoint.as_directory() as folder:
        return load(Path(folder) / MODEL)


class _Report(Callback):
    """Reports the epoch and the gap to Ray Train, with the checkpoint that was written before."""

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every

    def epoch(self, run: Run) -> None:
        if run.record is not None and run.epoch % self.every == 0:
            _report({"epoch": run.epoch, "gap": run.record.relative_gap, "seconds": run.seconds}, self.path)


def _report(facts: dict[str, Any], path: Path) -> None:
    """Report facts of all workers, and a file of the first one."""
    if current().rank or not path.exists():
        train.report(facts)
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, folder)
        train.report(facts, checkpoint=train.Checkpoint.from_directory(folder))


def _work(config: dict[str, Any]) -> None:
    """Fit on one worker."""
    with tempfile.TemporaryDirectory() as name, group(config["timeout"]):
        folder = Path(name)
        saved = folder / CHECKPOINT
        if (before := train.get_checkpoint()) is not None:
            with before.as_directory() as found:
                if (file := Path(found) / CHECKPOINT).exists():
                    shutil.copy(file, saved)
        rows = _store(config["path"], config["target"], folder)
        model = config["estimator"]
        given = list(model.callbacks or ())
        model.set_params(callbacks=[*given, Checkpoint(saved, config["every"]), _Report(saved, config["every"])])
        model.fit(rows)
        model.set_params(callbacks=given or None)
        model.save(folder / MODEL)
        _report({"epoch": model.n_iter_, "gap": model.gap_}, folder / MODEL)


def _store(path: str | None, target: str | None, folder: Path) -> Store:
    """Return all rows as a row store."""
    if path is None:
        import pyarrow.parquet as pq

        path = str(folder / "rows.parquet")
        writer = None
        for batch in train.get_dataset_shard(ROWS).iter_batches(batch_size=2**14, batch_format="pyarrow"):
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_table(batch)
        if writer is not None:
            writer.close()
    elif Path(path).is_file() and Path(path).suffix == ".rows":
        return open_store(path, verify=False)
    return convert(path, folder / "local.rows", target=target)


def _with_parameters_of_tune(run: Callable[..., tuning.Tuned]) -> Callable[..., tuning.Tuned]:
    """Give a function the signature of `joker.tune`, followed by its own keywords."""
    own = inspect.signature(run)
    added = [each for each in own.parameters.values() if each.kind is each.KEYWORD_ONLY]
    shown = own.replace(parameters=[*inspect.signature(tuning.tune).parameters.values(), *added])
    run.__signature__ = shown  # type: ignore[attr-defined]
    return run


@_with_parameters_of_tune
def tune(
    X: Any, y: Any = None, *, cpus_per_trial: float = 1, gpus_per_trial: float = 0, max_failures: int = 0, **search: Any
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
    n_trials, max_time, memory, device, random_state, n_jobs, verbose, callback
        As in :func:`joker.tune`. ``memory`` is the budget of each trial, and ``device`` that of the trials and of the
        fit on all rows. ``max_time`` ends no trial that has begun, and ``n_jobs`` has no effect.
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
        return tuning.tune(X, y, **search)


class RayWorkers(TrialWorkers):
    """Tasks of a Ray cluster. One search has one runner, which is sent when its first trial begins."""

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
        for kind in ("cpu", "gpu"):
            most = max((machine.get(kind.upper(), 0) for machine in machines), default=0)
            if (asked := self._options[f"num_{kind}s"]) > most:
                raise InvalidParameter(
                    f"{kind}s_per_trial must be at most what one machine of the cluster has, {most:g}; got {asked:g}. "
                    "Use a smaller number, or add a machine to the cluster."
                )


def _fit_and_score(runner: Runner, fit: TrialFit) -> TrialResult:
    return runner.fit_and_score(fit)


_task = ray.remote(_fit_and_score)
