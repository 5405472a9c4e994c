"""The block solve as one kernel against the plain solver, in Triton's interpreter and on a GPU."""

import ast
import os
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest
import torch
from torch import Tensor

from joker import losses
from joker.data import make_targets
from joker.losses import Loss
from joker.ops import block_solve
from joker.solvers import BlockResult, BlockSolver, Problem

LOSSES = {
    "squared": losses.Squared(),
    "huber": losses.Huber(0.5),
    "squared_epsilon_insensitive": losses.SquaredEpsilonInsensitive(0.2),
    "epsilon_insensitive": losses.EpsilonInsensitive(0.2),
    "quantile": losses.Quantile(0.3),
    "hinge": losses.Hinge(),
    "squared_hinge": losses.SquaredHinge(),
    "logistic": losses.Logistic(),
    "lp_1.5": losses.Lp(1.5),
    "lp_3": losses.Lp(3.0),
    "convolution": losses.InfimalConvolution((losses.Squared(), losses.Scaled(losses.Absolute(), 0.7))),
}
SOLVER = BlockSolver(tol=1e-3, patience=inf)


def block(loss: Loss, b: int, lams: list[float], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Problem]:
    """K, f and a feasible α, and the problem; a fifth of the rows weigh nothing."""
    draw = torch.Generator().manual_seed(b)
    x = torch.randn(b, 3, generator=draw, dtype=torch.float64)
    y = torch.randn(b, generator=draw, dtype=torch.float64)
    y = y.sign() if loss.frame.task == "classification" else y
    w = torch.rand(b, generator=draw, dtype=torch.float64)
    w[::5] = 0
    problem = Problem(loss, make_targets(y.to(dtype), lams, w.to(dtype)))
    wide, scaled = problem.take(slice(None))
    start = torch.randn(b, len(lams), generator=draw, dtype=torch.float64).to(dtype)
    a = scaled.clamp(wide.expand_as(start), 0.1 * start)
    f = 0.3 * torch.randn(b, len(lams), generator=draw, dtype=torch.float64)
    return torch.exp(-torch.cdist(x, x) / 2).to(dtype), f.to(dtype), a, problem


def same(found: BlockResult, twin: BlockResult, rtol: float) -> None:
    assert found.outcome.tolist() == twin.outcome.tolist()
    torch.testing.assert_close(found.change.cpu(), twin.change, rtol=rtol, atol=rtol)
    torch.testing.assert_close(found.linear.cpu(), twin.linear, rtol=20 * rtol, atol=20 * rtol)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_a_form_for_devices(name: str) -> None:
    loss = LOSSES[name]
    form = loss.device_form
    assert form is not None
    assert form[0] == ("quadratic" if loss.quadratic else "entropy" if loss.barrier else "power")


def test_a_loss_that_kernels_do_not_know_has_no_form() -> None:
    class Fourth(losses.RegressionLoss):
        def dual(self, a: Tensor) -> Tensor:
            return a.pow(4)

        def slope(self, a: Tensor) -> Tensor:
            return 4 * a.pow(3)

        def curvature(self, a: Tensor) -> Tensor:
            return 12 * a.square()

    assert Problem(Fourth(), make_targets(torch.ones(3), 1.0)).dual is None


@pytest.mark.parametrize("b", [1, 16, 511, 512, 513, 2048, 4096])
@pytest.mark.parametrize("t", [1, 2, 15, 100, 1000])
def test_groups_share_the_programs_that_run_together(b: int, t: int) -> None:
    shape = block_solve.launch_shape(b, t, multiprocessors=132)
    assert shape.group * shape.lanes <= shape.programs
    assert shape.group * shape.rows == shape.width >= b
    assert shape.lanes <= t


@pytest.mark.parametrize(("b", "t", "held"), [(512, 7, True), (1024, 7, True), (2048, 100, True), (4096, 2, False)])
def test_columns_are_solved_in_turn_where_all_programs_together_hold_the_matrix(b: int, t: int, held: bool) -> None:
    """A program that reads its rows again for each product waits for memory most of the time."""
    assert block_solve.launch_shape(b, t, multiprocessors=132).held == held


@pytest.mark.parametrize("name", ["block_solve", "box_cg"])
def test_the_kernel_takes_its_constants_from_the_plain_solver(name: str) -> None:
    """A number that is typed in a kernel as well could come to differ from that of the plain solver."""
    source = Path(block_solve.__file__).with_name("triton") / f"{name}.py"
    functions = [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)]
    numbers = {node.value for f in functions for node in ast.walk(f) if isinstance(node, ast.Constant)}
    assert {number for number in numbers if isinstance(number, float)} <= {0.0, 0.5, 1.0}


INTERPRETED = """
import sys
sys.path[:0] = {path!r}
from math import inf
import torch
from ops.test_block_solve import LOSSES, block, same
from joker.ops import block_solve
from joker.solvers import BlockResult, BlockSolver

def solve(loss, patience, tol=1e-6):
    K, f, a, problem = block(loss, 11, [0.05, 2.0][: 1 + loss.quadratic], torch.float64)
    y, scaled = problem.take(slice(None))
    c = scaled.unscaled[1].expand_as(a)
    solver = BlockSolver(tol=tol, patience=patience)  # the two may approach the solution differently
    limits = (solver.tol, solver.max_products, solver.max_models, solver.patience)
    found = BlockResult(*block_solve.solve(K, f, a, y.expand_as(a), c, problem.dual, *limits))
    return found, solver.solve(K, f, a, y, scaled)

for name, loss in LOSSES.items():
    same(*solve(loss, inf), 1e-6)
for name in ("squared_hinge", "huber"):
    found, twin = solve(LOSSES[name], 1, 0.02)
    same(found, twin, 1e-2)
    assert found.products.tolist() == twin.products.tolist(), name
    assert bool((found.products < solve(LOSSES[name], inf, 0.02)[0].products).any()), name
K, _, a, problem = block(LOSSES["logistic"], 11, [1e-5], torch.float64)  # rows on the barrier: the tolerance tightens
y, scaled = problem.take(slice(None))
a, f, c = torch.zeros_like(a), 10 * y, scaled.unscaled[1].expand_as(a)
solver = BlockSolver(tol=0.2)
limits = (solver.tol, solver.max_products, solver.max_models, solver.patience)
found = BlockResult(*block_solve.solve(K, f, a, y.expand_as(a), c, problem.dual, *limits))
assert float(found.change) < 0 and float(solver.solve(K, f, a, y, scaled).change) < 0
print("same")
"""


def test_the_kernel_equals_the_plain_solver_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    code = INTERPRETED.format(path=[path for path in sys.path if path])
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "same", run.stderr[-2000:]


@pytest.mark.gpu
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("b", "t"), [(512, 1), (511, 3), (1024, 1), (126, 2), (37, 15)])
def test_the_kernel_equals_the_plain_solver_on_a_gpu(name: str, b: int, t: int) -> None:
    K, f, a, problem = block(LOSSES[name], b, [2.0**-k for k in range(t)], torch.float32)
    y, scaled = problem.take(slice(None))
    twin = SOLVER.solve(K, f, a, y, scaled)
    _, _, _, there = block(LOSSES[name], b, [2.0**-k for k in range(t)], torch.float32)
    there = Problem(
        there.loss, make_targets(*(v.cuda() for v in (there.targets.y, there.targets.lam, there.targets.weights)))
    )
    y, scaled = there.take(slice(None))
    found = SOLVER.solve(K.cuda(), f.cuda(), a.cuda(), y, scaled, there.dual)
    same(found, twin, 1e-3)


@pytest.mark.gpu
def test_every_exchange_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton duplicates a wait whose result is needed in two layouts; a product then takes 1.5 times as long."""
    from joker.ops.triton import block_solve as fused

    kernel, launched = fused.solve_block, []

    class Spy:
        def __getitem__(self, grid):
            return lambda *arguments, **sizes: launched.append(kernel[grid](*arguments, **sizes))

    monkeypatch.setattr(fused, "solve_block", Spy())
    K, f, a, problem = block(LOSSES["squared_hinge"], 500, [2.0**k for k in range(15)], torch.float32)
    problem = Problem(problem.loss, make_targets(problem.targets.y[:, 0].cuda(), problem.targets.lam.cuda()))
    y, scaled = problem.take(torch.arange(500, device="cuda"))  # one column for all: its rows are adjacent
    SOLVER.solve(K.cuda(), f.cuda(), a.cuda(), y, scaled, problem.dual)
    waits = launched[0].asm["ttgir"].count("tt.elementwise_inline_asm")
    assert waits == 3  # a product, that of a projected step, and that of a shorter one
