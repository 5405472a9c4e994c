"""A fit by the workers of a Ray Train job, each of which is one process of a group."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ray import train
from ray.data import ExecutionOptions
from ray.train import DataConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.base import clone

from joker.callbacks import Callback, Checkpoint, Run
from joker.data import Store, convert, open_store
from joker.distributed import current, group
from joker.distributed.torch_group import TIMEOUT
from joker.errors import InvalidParameter, MissingFile
from joker.estimators.base import KernelEstimator
from joker.tables import load

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
    trainer = TorchTrainer(
        _work,
        train_loop_config={
            "estimator": model,
            "path": os.path.abspath(data) if is_path else None,
            "target": target,
            "every": every,
            "timeout": timeout,
        },
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
