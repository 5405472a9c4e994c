"""Matrix-vector products K v of one block solve: joker's block solver against the paper's, for every loss.

    python benchmarks/block_solver.py            # about five minutes on one core
    python benchmarks/block_solver.py --plot     # draw the stored results again

Blocks of 512 rows in float64: covtype (class 2 one-vs-rest) for classification losses, kin40k for the others,
inputs z-scored, bandwidth the median distance. Both solvers start at 0 and count every product of the
kernel matrix with a vector. The measure is (J(a) - J*) / (J(0) - J*). J* comes from joker's own solver at a tolerance
of 1e-12, and the duality gap, which needs no solver, certifies it.

A Cholesky factorisation (the squared loss) counts as many products as take the same time, measured in the same run;
the inverse of ADMM counts three factorisations, and each of its iterations one product.

The twin is run in three readings (paper_twin.py): as printed, without the missing line ``r2old <- r2new``; with it;
and with it and at most 10 iterations of conjugate gradients. It is compared at its best point so far,
by the better of the two mended readings.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import common
import paper_twin
import torch
from torch import Tensor

from joker import kernels, losses
from joker.kernels.kernel import choose_bandwidth
from joker.losses import Scaled
from joker.solvers import BlockSolver
from joker.solvers.block.box_cg import Admm
from joker.solvers.block.model import BlockProblem, Box, Face, Minimum

SEED = 0
SAMPLE = 10_000  # rows that the z-scores and the bandwidth are taken from; the blocks are its first rows
LEVELS = (1e-1, 1e-2, 1e-3, 1e-6)
READINGS = {"printed": paper_twin.PRINTED, "mended": paper_twin.MENDED, "mended_short": paper_twin.MENDED_SHORT}
MENDED = ("mended", "mended_short")
NOTES = {
    "epsilon_insensitive": "twin: ε sign(x) as derivative of ε |x|, as in the paper's appendix on SVR",
    "squared_epsilon_insensitive": "not in the paper; twin: as for epsilon_insensitive",
    "quantile": "not in the paper; twin: as for absolute, with another box",
    "logistic": "twin: box and curvature capped as in the paper's section on KLR; started where joker starts",
    "squared": "joker: one Cholesky factorisation, charged in products",
}
RADII = (0.1, 0.3, 1.0)  # for the headline the twin may choose among these, by hindsight
HEADLINE = ("squared_hinge", 32.0, 1e-3)  # loss, c and level
EXPECTED_RATIO = 10
INVERSE = 3  # factorisations that one inverse counts: its own, and twice the work of one for the inversion


@dataclass(frozen=True)
class Plan:
    """The cases of a run."""

    rows: int = 512
    c: tuple[float, ...] = (1.0, 32.0, 128.0)
    kernels: tuple[str, ...] = ("gaussian", "laplacian")
    limit: int = 20_000  # products that the mended twin may use
    printed_limit: int = 5_000
    blocks: int = 5  # for the headline
    generated: bool = False


FULL = Plan()
QUICK = Plan(rows=48, c=(32.0,), kernels=("gaussian",), limit=150, printed_limit=100, blocks=2, generated=True)


@dataclass(frozen=True)
class Case:
    """One block, one loss."""

    K: Tensor  # (b, b)
    y: Tensor  # (b, 1)
    loss: Scaled

    def J(self, a: Tensor) -> float:
        """The dual objective, from its definition."""
        return float(0.5 * (a * (self.K @ a)).sum() + self.loss.psi(self.y, a).sum())

    def relative_gap(self, a: Tensor) -> float:
        """(P + J) / max(|P|, |J|)."""
        f, J = self.K @ a, self.J(a)
        P = float(0.5 * (a * f).sum() + self.loss.value(self.y, f).sum())
        return (P + J) / max(abs(P), abs(J))


Trace = list[tuple[int, float]]  # products so far, J


@cache
def sample(name: str, plan: Plan) -> tuple[Tensor, Tensor]:
    """z-scored rows of a data set; regression targets are z-scored too."""
    x, y = common.generated(name, 400, SEED) if plan.generated else common.load(name)
    x, y = common.shuffled(x, y, SAMPLE, SEED)
    return common.standardise(x, x), y if name == common.CLASSIFICATION else common.standardise(y, y)


@cache
def kernel_of(name: str, data: str, plan: Plan) -> kernels.Kernel:
    """The kernel with the median bandwidth."""
    kernel = kernels.get(name)
    return kernel.with_bandwidth(choose_bandwidth("median", kernel, sample(data, plan)[0], SEED))


def data_of(loss: str) -> str:
    """The data set that a loss is tried on."""
    return common.CLASSIFICATION if losses.get(loss).frame.task == "classification" else common.REGRESSION


def make_case(loss: str, kernel: str, c: float, plan: Plan, block: int = 0) -> Case:
    """A block of the data set that suits the loss."""
    data = data_of(loss)
    rows = slice(block * plan.rows, (block + 1) * plan.rows)
    x, y = (part[rows] for part in sample(data, plan))
    return Case(kernel_of(kernel, data, plan)(x, x), y[:, None], Scaled(losses.get(loss), c))


def optimum(case: Case) -> tuple[float, float]:
    """J* and the relative gap that certifies it; solved again from the last point until neither changes."""
    a, best = torch.zeros_like(case.y), (0.0, float("inf"))
    solver = BlockSolver(tol=1e-12, max_products=2_000, max_models=100, patience=math.inf)
    for _ in range(10):
        a = solver.solve(case.K, case.K @ a, a, case.y, case.loss).a
        now = case.J(a), case.relative_gap(a)
        if now[1] <= 1e-12 or now[0] >= best[0]:
            return now
        best = now
    return best


class Counted:
    """A matrix that counts its products with vectors."""

    def __init__(self, K: Tensor) -> None:
        self.K, self.products = K, 0

    def __matmul__(self, v: Tensor) -> Tensor:
        self.products += 1
        return self.K @ v

    def __rmatmul__(self, v: Tensor) -> Tensor:
        self.products += 1
        return v @ self.K

    def __len__(self) -> int:
        return len(self.K)

    def diagonal(self) -> Tensor:
        """The diagonal of the matrix."""
        return self.K.diagonal()


class ChargedAdmm(Admm):
    """ADMM whose inverse and iterations count as products."""

    factorisation = 0  # in products

    def __init__(self, K: Counted) -> None:
        super().__init__(K.K)
        object.__setattr__(self, "counted", K)
        K.products += INVERSE * self.factorisation

    def approach(self, *problem: Any) -> Minimum:
        """Count what ADMM reports; its own products are not made with ``Counted``."""
        found = super().approach(*problem)
        self.counted.products += int(found.products)
        return found


def trace_joker(case: Case, cholesky: float) -> Trace:
    """Every point that joker's solver would have returned if it had been stopped there.

    The settings are the defaults, with a smaller tolerance. Where the quadratic model is exact, each
    iteration of a search is such a point; else only the ends of accepted searches are.
    """
    zero, K = torch.zeros_like(case.y), Counted(case.K)
    solver, seen = BlockSolver(tol=1e-8, max_models=100, patience=math.inf), [(0, zero)]
    if case.loss.quadratic and case.loss.unbounded:
        found = solver.solve(case.K, zero, zero, case.y, case.loss)
        return [(0, 0.0), (round(cholesky) + int(found.products), case.J(found.a))]
    face, gradient = Box.face, BlockProblem.gradient

    def seen_by_face(box: Box, a: Tensor, g: Tensor) -> Face:
        seen.append((K.products, a.reshape(-1, 1)))
        return face(box, a, g)

    def seen_by_gradient(problem: BlockProblem, a: Tensor, Ks: Tensor) -> Tensor:
        seen.append((K.products, a))
        return gradient(problem, a, Ks)

    quadratic = case.loss.quadratic
    hook = (Box, "face", seen_by_face) if quadratic else (BlockProblem, "gradient", seen_by_gradient)
    charged = type("Charged", (ChargedAdmm,), {"factorisation": round(cholesky)})
    with mock.patch.object(*hook), mock.patch("joker.solvers.block.box_cg.Admm", charged):
        found = solver.solve(K, zero, zero, case.y, case.loss)  # type: ignore[arg-type]
    assert K.products - int(found.products) in (0, INVERSE * round(cholesky))
    return [(products, case.J(a)) for products, a in seen] + [(K.products, case.J(found.a))]


@dataclass(frozen=True)
class TwinRun:
    """One run of the twin."""

    trace: Trace
    rises: int  # accepted steps that raised the objective
    cg: list[int]  # iterations of Algorithm 2 in each call


def run_twin(case: Case, reading: paper_twin.Reading, limit: int, enough: float) -> TwinRun:
    """Run the twin until its objective is ``enough``, it no longer moves, or its products are used up.

    As with joker, a point inside a search counts where the quadratic model is exact (or assumed exact, with a kink).
    """
    zero = torch.zeros_like(case.y)
    problem = paper_twin.Subproblem(case.K, zero, zero, case.y, case.loss)
    trace, cg, rises, used, J = [(0, 0.0)], [], 0, 0, 0.0
    for k, point in enumerate(paper_twin.solve(problem, reading, limit)):
        inside = point.inside if case.loss.quadratic else ()
        trace += [(used + j, value) for j, value in enumerate(inside, start=1)]
        rises += k > 0 and point.J > J and not math.isclose(point.J, J, rel_tol=1e-12)
        used, J = used + point.products, point.J
        trace.append((used, J))
        cg.append(len(point.inside) + 1)
        if any(value <= enough for value in (*inside, J)):
            break
    return TwinRun(trace, rises, cg[1:])


def reached(trace: Trace, best: float) -> dict[str, int | None]:
    """The number of products after which each level of suboptimality is first reached."""
    return {
        f"{level:g}": next((products for products, J in trace if J - best <= level * -best), None) for level in LEVELS
    }


def curve(trace: Trace, best: float, grid: Sequence[int]) -> list[float]:
    """The smallest suboptimality within each number of products."""
    values, low, course = [], 1.0, iter([*trace, (float("inf"), 0.0)])
    products, J = next(course)
    for budget in grid:
        while products <= budget:
            low = min(low, (J - best) / -best)
            products, J = next(course)
        values.append(float(f"{max(low, 1e-12):.3g}"))
    return values


def grid(limit: int) -> list[int]:
    """Numbers of products, about evenly spaced on a logarithmic axis."""
    return sorted({round(10 ** (k / 12)) for k in range(60) if 10 ** (k / 12) < limit} | {limit})


def cholesky_cost(case: Case, repeats: int = 25) -> float:
    """A Cholesky factorisation and solve, in products K v: medians of measurements that take turns."""
    Q, v = case.K + torch.eye(len(case.y), dtype=case.K.dtype), case.y.contiguous()
    factor, product = [], []
    for _ in range(repeats):
        started = time.perf_counter()
        torch.cholesky_solve(v, torch.linalg.cholesky_ex(Q)[0])
        middle = time.perf_counter()
        for _ in range(20):
            case.K @ v
        factor.append(middle - started)
        product.append((time.perf_counter() - middle) / 20)
    return median(factor) / median(product)


def measure(loss: str, kernel: str, c: float, plan: Plan, cholesky: float) -> dict[str, Any]:
    """One case of the table."""
    case = make_case(loss, kernel, c, plan)
    best, gap = optimum(case)
    enough = best * (1 - LEVELS[-1])
    runs: dict[str, TwinRun] = {}
    for name, reading in READINGS.items():
        if name == "mended_short" and max(runs["mended"].cg, default=0) <= reading.max_cg:
            continue  # the same run
        runs[name] = run_twin(case, reading, plan.printed_limit if name == "printed" else plan.limit, enough)
    traces = {name: run.trace for name, run in runs.items()}
    by_reading = {name: reached(trace, best) for name, trace in traces.items()}
    points = grid(plan.limit)
    joker = trace_joker(case, cholesky)
    mended = [name for name in MENDED if name in traces]
    curves = [curve(traces[name], best, points) for name in mended]
    return {
        "loss": loss,
        "kernel": kernel,
        "c": c,
        "data": "generated" if plan.generated else data_of(loss),
        "bandwidth": kernel_of(kernel, data_of(loss), plan).bandwidth,
        "optimum": best,
        "relative_gap_of_optimum": gap,
        "joker": {"reached": reached(joker, best), "curve": curve(joker, best, points)},
        "twin": {
            "reached": {level: smallest(by_reading[name][level] for name in mended) for level in by_reading["mended"]},
            "curve": [min(values) for values in zip(*curves, strict=True)],
            "readings": {name: describe(run, by_reading[name], best) for name, run in runs.items()},
        },
    }


def describe(run: TwinRun, levels: dict[str, int | None], best: float) -> dict[str, Any]:
    """How one run of the twin went."""
    return {
        "reached": levels,
        "products": run.trace[-1][0],
        "best": min(J - best for _, J in run.trace) / -best,
        "last": (run.trace[-1][1] - best) / -best,
        "steps_that_raised_the_objective": run.can_increase,
        "mean_cg_iterations": sum(run.cg) / max(1, len(run.cg)),
    }


def smallest(values: Iterator[int | None]) -> int | None:
    """The smallest number; None where there is none."""
    return min((value for value in values if value is not None), default=None)


def headline(plan: Plan, cholesky: float) -> list[dict[str, Any]]:
    """The headline claim on several blocks, the twin with its best radius for each."""
    loss, c, level = HEADLINE
    rows = []
    for kernel in plan.kernels:
        for block in range(plan.blocks):
            case = make_case(loss, kernel, c, plan, block)
            best, _ = optimum(case)
            enough = best * (1 - level)
            readings = [replace(paper_twin.MENDED, max_radius=radius) for radius in RADII]
            runs = [run_twin(case, reading, plan.limit, enough).trace for reading in readings]
            twin = smallest(reached(run, best)[f"{level:g}"] for run in runs)
            joker = reached(trace_joker(case, cholesky), best)[f"{level:g}"]
            assert joker is not None
            rows.append({"kernel": kernel, "block": block, "joker": joker, "twin": twin})
            rows[-1]["ratio"] = (twin or plan.limit) / joker
    return rows


def show(results: dict[str, Any]) -> None:
    """Print the table and the headline."""
    levels = [f"{level:g}" for level in LEVELS]
    print(f"Products K v to a relative suboptimality; a Cholesky counts {results['cholesky_in_products']:.0f}.\n")
    print(f"{'loss':28}{'kernel':10}{'c':>4} |{'joker':^28}|{'twin':^28}| twin/joker at 1e-3, 1e-6")
    print(f"{'':42} |{''.join(f'{level:>7}' for level in levels)}|{''.join(f'{level:>7}' for level in levels)}|")
    for case in results["cases"]:
        mine, theirs = case["joker"]["reached"], case["twin"]["reached"]
        left = f"{case['loss']:28}{case['kernel']:10}{case['c']:4.0f} |"
        counts = ["".join(f"{side[level] or '-':>7}" for level in levels) for side in (mine, theirs)]
        ratios = "".join(f"{_ratio(case, level, results['plan']['limit']):>8}" for level in levels[-2:])
        print(f"{left}{'|'.join(counts)}|{ratios}")
    print()
    for name in READINGS:
        runs = [case["twin"]["readings"][name] for case in results["cases"] if name in case["twin"]["readings"]]
        met = {level: sum(run["reached"][level] is not None for run in runs) for level in levels}
        rose = sum(run["steps_that_raised_the_objective"] > 0 for run in runs)
        print(f"twin, {name}: of {len(runs)} runs {met['0.001']} reach 1e-3 and {met['1e-06']} reach 1e-6;", end=" ")
        print(f"{rose} took steps that raised J")
    loss, c, level = HEADLINE
    print(
        f"\n\nHeadline: {loss}, c = {c:g}, to {level:g}, {results['plan']['blocks']} blocks, twin with its best radius:"
    )
    for kernel in results["plan"]["kernels"]:
        ratios = [row["ratio"] for row in results["headline"] if row["kernel"] == kernel]
        verdict = "yes" if min(ratios) >= EXPECTED_RATIO else "no"
        spread = f"{min(ratios):.1f} to {max(ratios):.1f}, median {median(ratios):.1f}"
        print(f"  {kernel}: {spread} times fewer products; at least {EXPECTED_RATIO} in every block: {verdict}")


def _ratio(case: dict[str, Any], level: str, limit: int) -> str:
    mine, theirs = case["joker"]["reached"][level], case["twin"]["reached"][level]
    if mine is None or theirs is not None:
        return "-" if mine is None else f"{theirs / mine:.2g}" if theirs < mine else f"{theirs / mine:.1f}"
    stuck = case["twin"]["readings"]["mended"]["products"] < limit
    return "stuck" if stuck else f">{limit / mine:.0f}"


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw one panel for each loss and kernel, with a shade for each c."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shades = {"joker": ("#8fc1ea", "#2f7fc4", "#0b3c6f"), "twin": ("#f6b98a", "#df6d1c", "#873a05")}
    names, points = list(dict.fromkeys(case["loss"] for case in results["cases"])), results["grid"]
    kinds, cs = results["plan"]["kernels"], results["plan"]["c"]
    columns = 2 * len(kinds)
    rows = -(-len(names) * len(kinds) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(13, 2.45 * rows + 1.1), sharex=True, sharey=True, squeeze=False)
    for case in results["cases"]:
        place = names.index(case["loss"]) * len(kinds) + kinds.index(case["kernel"])
        axis = axes[place // columns][place % columns]
        axis.set_title(f"{case['loss'].replace('_', ' ')}, {case['kernel']}", fontsize=9)
        for solver, style in (("twin", "--"), ("joker", "-")):
            values = case[solver]["curve"]
            end = next((k for k, value in enumerate(values, start=1) if value <= LEVELS[-1]), len(values))
            color = shades[solver][cs.index(case["c"])]
            axis.plot(points[:end], values[:end], style, color=color, lw=1.6, label=f"{solver}, c = {case['c']:g}")
    for axis in axes.flat:
        axis.set(xscale="log", yscale="log", xlim=(1, points[-1]), ylim=(LEVELS[-1], 1.5))
        axis.axhline(1e-3, color="0.6", lw=0.6)
        axis.grid(color="0.93", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.supxlabel("products K v", fontsize=10)
    figure.supylabel("(J − J*) / (J(0) − J*), best so far", fontsize=10)
    handles, labels = axes[0][0].get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda k: (labels[k].startswith("twin"), k))
    figure.legend([handles[k] for k in order], [labels[k] for k in order], loc="upper center", ncols=6, fontsize=9)
    figure.tight_layout(rect=(0.01, 0.005, 1, 1 - 0.4 / figure.get_figheight()))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small run on generated data, to show that it works")
    parser.add_argument("--plot", action="store_true", help="print and draw the stored results")
    parser.add_argument("--out", type=Path, default=common.RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    path = options.out / "block_solver.json"
    if not options.plot:
        torch.set_num_threads(1)
        started, plan = time.perf_counter(), QUICK if options.quick else FULL
        cholesky = cholesky_cost(make_case("squared", plan.kernels[0], 1.0, plan))
        cases = [
            measure(loss, kernel, c, plan, cholesky) for loss in losses.NAMES for kernel in plan.kernels for c in plan.c
        ]
        results = {
            "machine": common.machine(SEED),
            "plan": {
                name: getattr(plan, name) for name in ("rows", "c", "kernels", "limit", "printed_limit", "blocks")
            },
            "cholesky_in_products": cholesky,
            "notes": NOTES,
            "headline": headline(plan, cholesky),
            "cases": cases,
            "grid": grid(plan.limit),
            "seconds": round(time.perf_counter() - started, 1),
        }
        common.write_json(path, results)
    results = json.loads(path.read_text(encoding="utf-8"))
    show(results)
    draw(results, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
