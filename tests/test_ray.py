"""Fits on a local cluster of Ray with two workers."""

import inspect
import os
import signal
from importlib import import_module
from pathlib import Path

import group_worker as worker
import numpy as np
import pytest

import joker
from joker.callbacks import Callback, Run
from joker.errors import InvalidParameter, MissingFile, ProcessLost

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray has warnings about itself
ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")


class Killed(Callback):
    """Kills the second worker after its second epoch, once."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def epoch(self, run: Run) -> None:
        if run.epoch == 2 and joker.distributed.current().rank == 1 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster():
    places = os.pathsep.join([str(Path(joker.__file__).parents[1]), str(Path(__file__).parent)])
    environment = {"env_vars": {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"}}
    # Two workers, and two processors that read a Dataset for them.
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env=environment)
    yield import_module("joker.ray")
    ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    import pyarrow.parquet as pq

    place = tmp_path / "table"
    place.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(worker.N), 3)):
        columns = {f"x{j}": worker.X[rows, j] for j in range(worker.X.shape[1])}
        pq.write_table(pa.table({**columns, "y": worker.y[rows]}), place / f"part{number}.parquet")
    return place


def estimator(**settings: object) -> joker.KernelHuber:
    return joker.KernelHuber(n_features=50, block_size=64, max_epochs=4, tol=0.0, random_state=0, **settings)


def run_config(place: Path, failures: int = 0):
    from ray.train import FailureConfig, RunConfig

    return RunConfig(storage_path=str(place), name="fit", failure_config=FailureConfig(max_failures=failures))


def alone(folder: Path, tmp_path: Path) -> np.ndarray:
    return estimator().fit(joker.data.convert(folder, tmp_path / "one.rows", target="y")).predict(worker.X)


def test_a_folder_of_files(cluster, folder: Path, tmp_path: Path) -> None:
    model = cluster.fit(estimator(), folder, target="y", run_config=run_config(tmp_path / "jobs"))
    np.testing.assert_allclose(model.predict(worker.X), alone(folder, tmp_path), atol=1e-3)


def test_a_dataset(cluster, folder: Path, tmp_path: Path) -> None:
    rows = ray.data.read_parquet(str(folder))
    model = cluster.fit(estimator(), rows, target="y", run_config=run_config(tmp_path / "jobs"))
    assert model.score(worker.X, worker.y) > 0.8


def test_a_worker_that_is_killed(cluster, folder: Path, tmp_path: Path) -> None:
    """Ray Train starts the workers again, and the fit continues from the last checkpoint."""
    given = estimator(callbacks=[Killed(tmp_path / "marker")])
    model = cluster.fit(given, folder, target="y", timeout=10, run_config=run_config(tmp_path / "jobs", failures=1))
    assert (tmp_path / "marker").exists()
    np.testing.assert_allclose(model.predict(worker.X), alone(folder, tmp_path), atol=1e-3)


def without_seconds(result: joker.Tuned) -> list[dict]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in result.table]


def test_trials_side_by_side(cluster) -> None:
    settings = {"random_state": 0, "rows": [100, 200], "kernels": ["gaussian", "laplacian"]}
    found = cluster.tune(worker.X, worker.y, **settings)
    expected = joker.tune(worker.X, worker.y, **settings)
    assert isinstance(found, joker.Tuned)
    for entry, other in zip(without_seconds(found), without_seconds(expected), strict=True):
        assert entry.pop("kernel") == other.pop("kernel")
        assert entry == pytest.approx(other, rel=1e-5)
    assert {name: found.best[name] for name in ("kernel", "stage")} == {"kernel": expected.best["kernel"], "stage": 1}
    np.testing.assert_allclose(found.estimator.predict(worker.X), expected.estimator.predict(worker.X), rtol=1e-5)


class Dies:
    """A scorer that ends its worker; after the first time, if there is a marker, it scores."""

    def __init__(self, marker: Path | None = None) -> None:
        self.marker, self.driver = marker, os.getpid()

    def __call__(self, model, X, y) -> float:
        if os.getpid() != self.driver and (self.marker is None or not self.marker.exists()):
            if self.marker is not None:
                self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return model.score(X, y)


def broken(model, X, y) -> float:
    raise ArithmeticError("this trial fails")


def test_trials_that_end_early(cluster, tmp_path: Path) -> None:
    settings = {"random_state": 0, "rows": [100], "kernels": "gaussian", "bandwidths": [1.0]}
    with pytest.raises(ProcessLost, match=r"a worker has died, and max_failures=0 starts no trial more often"):
        cluster.tune(worker.X, worker.y, scoring=Dies(), **settings)
    with pytest.raises(ArithmeticError, match=r"^this trial fails$"):
        cluster.tune(worker.X, worker.y, scoring=broken, **settings)
    again = cluster.tune(worker.X, worker.y, scoring=Dies(tmp_path / "marker"), max_failures=3, **settings)
    assert (tmp_path / "marker").exists()
    assert again.best["score"] > 0.5


def test_the_signature_is_that_of_tune(cluster) -> None:
    own, others = inspect.signature(cluster.tune).parameters, inspect.signature(joker.tune).parameters
    assert {name: own[name] for name in others} == dict(others)
    assert own.keys() - others.keys() == {"cpus_per_trial", "gpus_per_trial", "max_failures"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'bandwidth'"):
        cluster.tune(worker.X, worker.y, bandwidth=[1.0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"cpus_per_trial": -1}, "cpus_per_trial must be a number of at least 0; got -1"),
        ({"gpus_per_trial": "one"}, "gpus_per_trial must be a number of at least 0; got 'one'"),
        ({"cpus_per_trial": 1000}, "cpus_per_trial must be at most what one machine of the cluster has, 4; got 1000"),
        ({"max_failures": 1.5}, "max_failures must be a whole number of at least 0; got 1.5"),
    ],
)
def test_bad_settings_of_a_search(cluster, settings: dict, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        cluster.tune(worker.X, worker.y, random_state=0, **settings)


def test_bad_input(cluster) -> None:
    with pytest.raises(MissingFile, match="nowhere does not exist"):
        cluster.fit(estimator(), "nowhere", target="y")
    with pytest.raises(InvalidParameter, match="must be a kernel estimator"):
        cluster.fit(joker.JokerRegressor(), "nowhere", target="y")
