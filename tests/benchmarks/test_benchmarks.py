"""Small runs of the benchmark scripts, and the properties of the copy of the paper's solver."""

import importlib
import json
import socket
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor

from joker import losses
from joker.losses import Scaled
from joker.solvers import BlockSolver

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = ("block_solver", "tuning")
PARTS = ("common", "sets", "process", "paper_twin", *SCRIPTS, "path", "out_of_core", "standardize")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The scripts as modules; afterwards they are unloaded and the number of threads is restored."""
    if not FOLDER.is_dir():
        pytest.skip(f"needs the scripts in {FOLDER}, which an installed package does not have")
    monkeypatch.syspath_prepend(str(FOLDER))
    threads = torch.get_num_threads()
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in PARTS})
    torch.set_num_threads(threads)
    for name in PARTS:
        del sys.modules[name]


@pytest.fixture
def twin(parts: SimpleNamespace) -> ModuleType:
    return parts.paper_twin


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_quick_run_writes_prints_and_draws(
    name: str, parts: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="the benchmarks draw with matplotlib: pip install 'joker-kernels[plot]'")
    script = getattr(parts, name)
    script.main(["--quick", "--out", str(tmp_path)])
    first = capsys.readouterr().out
    machine = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["machine"]
    assert {"cpu", "cores", "threads", "torch", "date", "seed", "command"} <= machine.keys()
    assert socket.gethostname() not in machine.values()
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    script.main(["--plot", "--out", str(tmp_path)])
    assert first.endswith(capsys.readouterr().out)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.json", f"{name}.png"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_committed_results_name_no_host(name: str) -> None:
    path = FOLDER / "results" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"needs {path}; run benchmarks/{name}.py")
    results = json.loads(path.read_text(encoding="utf-8"))
    assert "--quick" not in results["machine"]["command"]
    assert not {"host", "hostname", "node", "user"} & results["machine"].keys()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("covtype", 581_012), ("kin40k", 40_000)])
def test_the_data_sets_are_found(
    name: str, rows: int, parts: SimpleNamespace, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(parts.common.DATA_VARIABLE, str(data_dir))
    x, y = parts.common.load(name)
    assert (len(x), len(y)) == (rows, rows)
    assert (set(y.unique().tolist()) == {-1.0, 1.0}) == (name == "covtype")


def test_a_missing_data_set_is_reported(
    parts: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(parts.common.DATA_VARIABLE, raising=False)
    with pytest.raises(SystemExit, match=r"JOKER_DATA must name the folder .* See docs/data-sets.md"):
        parts.common.load("covtype")
    monkeypatch.setenv(parts.common.DATA_VARIABLE, str(tmp_path))
    with pytest.raises(SystemExit, match=r"must contain covtype.npz; it does not.* See docs/data-sets.md"):
        parts.common.load("covtype")


# The copy of the paper's block solver


def block(name: str, c: float, b: int = 40) -> tuple[Tensor, Tensor, Scaled]:
    """A Gaussian kernel matrix, targets and a loss."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(b, 2, generator=draw, dtype=torch.float64)
    y = (x[:, :1] * x[:, 1:]).sign() if name in {"hinge", "squared_hinge", "logistic"} else x[:, :1].sin() + x[:, 1:]
    return torch.exp(-torch.cdist(x, x).square()), y, Scaled(losses.get(name), c)


def subproblem(twin: ModuleType, name: str, c: float) -> SimpleNamespace:
    K, y, loss = block(name, c)
    zero = torch.zeros_like(y)
    return twin.Subproblem(K, zero, zero, y, loss)


@pytest.mark.parametrize("name", ["squared", "lp", "logistic"])
def test_the_corrected_twin_converges(name: str, twin: ModuleType) -> None:
    problem = subproblem(twin, name, 4.0)
    solver = BlockSolver(tol=1e-9, max_products=1000)
    best = solver.solve(problem.K, problem.f, problem.a, problem.y, problem.loss)
    *_, last = twin.solve(problem, twin.MENDED, 3000)
    torch.testing.assert_close(last.J, float(best.change), rtol=1e-4, atol=0)  # J(0) = 0


def test_the_twin_counts_what_it_multiplies(twin: ModuleType, parts: SimpleNamespace) -> None:
    problem = subproblem(twin, "squared_hinge", 4.0)
    counted = parts.block_solver.Counted(problem.K)
    problem = twin.Subproblem(counted, problem.f, problem.a, problem.y, problem.loss)
    points = list(twin.solve(problem, twin.MENDED, 200))
    assert counted.products - 1 == sum(point.products for point in points)  # the prediction at the start is given


@pytest.mark.parametrize("name", ["huber", "hinge", "logistic"])
def test_the_twin_stays_in_its_box(name: str, twin: ModuleType) -> None:
    problem = subproblem(twin, name, 2.0)
    low, high = problem.loss.box(problem.y)
    for point in twin.solve(problem, twin.MENDED, 300):
        assert bool(((point.x >= low) & (point.x <= high)).all())


def test_the_twin_takes_steps_that_raise_the_objective(twin: ModuleType) -> None:
    # The ratio of two changes is 1 for a quadratic, whatever their sign: the printed rule accepts both, and cycles.
    J = [point.J for point in twin.solve(subproblem(twin, "squared_hinge", 2.0), twin.MENDED, 400)]
    assert sum(later > sooner + 1e-6 for sooner, later in pairwise(J)) > len(J) / 3


def test_without_updating_r2old_conjugate_gradients_do_not_converge(twin: ModuleType) -> None:
    problem = subproblem(twin, "squared", 4.0)
    mended, printed = (
        min(point.J for point in twin.solve(problem, reading, 500)) for reading in (twin.MENDED, twin.PRINTED)
    )
    assert mended < 0
    assert printed > 0.9 * mended


def test_dropping_the_step_that_leaves_the_box_never_moves(twin: ModuleType) -> None:
    problem = subproblem(twin, "hinge", 0.01)
    points = list(twin.solve(problem, twin.Reading(keep_leaving_step=False, max_radius=1e3), 500))
    assert bool((points[-1].x == 0).all())
    assert len(points) == 1 + twin.T_TR


@pytest.mark.slow
@pytest.mark.parametrize("name", ["path", "standardize"])
def test_a_quick_run_writes_and_prints_its_figures(
    name: str, parts: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    getattr(parts, name).main(["--quick", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    written = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    figures = written["cpu"]["losses"] if name == "path" else written["sets"]
    assert all(word in printed for word in figures)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]


@pytest.mark.slow
def test_training_from_a_disk_is_measured(
    parts: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/proc/self/status").is_file():
        pytest.skip("the growth of resident memory is read from /proc")
    parts.out_of_core.main(["--rows", "20000", "-m", "64", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    written = json.loads((tmp_path / "out_of_core.json").read_text(encoding="utf-8"))
    assert all(step in printed for step in ("convert", "disk", "memory"))
    assert written["convert"]["store_bytes"] > 20_000 * 28 * 4
    assert abs(written["disk"]["accuracy"] - written["memory"]["accuracy"]) < 0.05
    assert min(written[step]["growth_bytes"] for step in ("convert", "disk", "memory")) > 0
    assert written["ratio"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out_of_core.json"]
