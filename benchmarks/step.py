"""One block step on a CUDA GPU: milliseconds, ratio to a lower bound, peak memory, synchronisations.

    python benchmarks/step.py                       # about two minutes on an H200
    python benchmarks/step.py --only exact          # the cases whose name contains the word
    python benchmarks/step.py --out DIR             # folder of the results; by default benchmarks/results

Rows are generated: the time of a step depends on their shape, and on their values only through the number of
matrix-vector products of a block solve, which is printed. The floor is the time of the operations that every step
needs, measured in the same run with plain torch calls: XW, the cosine, K_BB (in tf32 for a mixed step, else in
float32), Ψθ and Ψᵀs. A step can be faster than the floor, because joker computes XW and the cosine in one kernel. Times
are medians of device events over batches of steps, after the captured graph has been replayed a few times.
Synchronisations are those that torch's debug mode reports.

While a block is solved, features and K_BB of the next block are computed on a second stream, where the memory budget
allows both and it is faster. The cases named "alone" do not overlap.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import common
import torch
from torch import Tensor

from joker.data import HostRows
from joker.models import FeatureMachine
from joker.prepare import prepare
from joker.runtime.cuda_graphs import Upload
from joker.solvers import Descent, Settings

CUDA = torch.device("cuda")
SEED = 0
WARM, BATCHES, BATCH = 16, 5, 20
CLASSIFICATION = ("hinge", "squared_hinge", "logistic")


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    loss: str
    limit: float  # milliseconds
    b: int = 512
    m: int | None = 100_000
    d: int = 28
    t: int = 1
    n: int = 200_000
    kernel: str = "gaussian"
    features: str = "auto"
    mixed: bool = True
    momentum: bool = False
    host: bool = False
    alone: bool = False  # the next block is not prepared while a block is solved
    memory: str = "4GB"

    def rows(self) -> tuple[Tensor, Tensor]:
        """Generate inputs, on the GPU or in host memory, and targets."""
        place = torch.device("cpu") if self.host else CUDA
        draw = torch.Generator(place).manual_seed(SEED)
        x = torch.empty(self.n, self.d, device=place)
        for part in x.split(1_000_000):
            part.copy_(torch.randn(part.shape, generator=draw, device=place))
        y = (x[:, 0] * x[:, 1] + x[:, 2].sin()).to(CUDA)
        return x, y.sign() if self.loss in CLASSIFICATION else y

    def descent(self) -> Descent:
        """Build the descent whose steps are timed."""
        x, y = self.rows()
        lam = 1 / 32 if self.t == 1 else [2.0 ** (k - 7) for k in range(self.t)]
        solve = prepare(
            HostRows(x.pin_memory(), Upload(CUDA)) if self.host else x,
            y,
            loss=self.loss,
            lam=lam,
            kernel=self.kernel,
            bandwidth=float(self.d) ** 0.5 if self.kernel == "gaussian" else float(self.d),
            n_features=self.m,
            features=None if self.m is None else self.features,
            memory=self.memory,
            mixed=self.mixed,
            settings=Settings(block_size=self.b, method="random_blocks", momentum=self.momentum, seed=SEED),
        ).descent
        if self.alone:
            solve.state.use(replace(solve.state.chunking, ahead=False))
        return solve


def cases() -> list[Case]:
    """Return the rows of the table."""
    mixed = [Case(f"{loss}, mixed", loss, 0.7) for loss in ("squared", "huber", "squared_hinge", "hinge")]
    plain = [Case(f"{case.loss}, float32", case.loss, 1.7, mixed=False) for case in mixed]
    return [
        *mixed,
        *plain,
        Case("logistic, b 1,024", "logistic", 2.0, b=1_024),
        Case("epsilon_insensitive", "epsilon_insensitive", 1.0),
        Case("squared_hinge, mixed, alone", "squared_hinge", 0.7, alone=True),
        Case("logistic, b 1,024, alone", "logistic", 2.0, b=1_024, alone=True),
        Case("epsilon_insensitive, alone", "epsilon_insensitive", 1.0, alone=True),
        Case("1 column, m 50,000", "squared_hinge", 0.7, m=50_000),
        Case("15 columns, m 50,000", "squared_hinge", 0.7, m=50_000, t=15),
        Case("1 column, m 50,000, alone", "squared_hinge", 0.7, m=50_000, alone=True),
        Case("15 columns, m 50,000, alone", "squared_hinge", 0.7, m=50_000, t=15, alone=True),
        Case("ridge, m 10,000", "squared", 0.25, m=10_000),
        Case("ridge with momentum, m 50,000", "squared", 0.7, m=50_000, momentum=True),
        *exact_cases(),
        Case("structured", "squared_hinge", 3.0, m=200_000, d=3_072, t=10, n=20_000, features="structured"),
        Case("8.8 M rows on the GPU", "squared_hinge", 0.7, n=8_800_000),
        Case("8.8 M rows in host memory", "squared_hinge", 0.8, n=8_800_000, host=True),
        Case("8.8 M rows on the GPU, alone", "squared_hinge", 0.7, n=8_800_000, alone=True),
        Case("8.8 M rows in host memory, alone", "squared_hinge", 0.8, n=8_800_000, host=True, alone=True),
    ]


def exact_cases() -> list[Case]:
    """Return the steps with exact kernels: a limit is the number of entries over the entries a second that we want."""
    wanted = {11: 1.4e12, 28: 1.4e12, 54: 8e11, 90: 6e11}

    def case(
        name: str, d: int, n: int = 1_844_352, b: int = 2_048, loss: str = "squared_hinge", **options: Any
    ) -> Case:
        return Case(f"exact {name}", loss, n * b / wanted[d] * 1e3, b=b, m=None, d=d, n=n, **options)

    return [
        *(
            case(f"{kernel}, {d} inputs", d, kernel=kernel)
            for kernel in ("gaussian", "matern12", "matern32", "matern52", "cauchy", "laplacian")
            for d in wanted
        ),
        case("gaussian, 54 inputs, 7 columns", 54, t=7),
        case("matern12, 54 inputs, 0.5 M rows", 54, n=464_810, kernel="matern12"),
        case("matern12, 54 inputs, 0.5 M rows, 7 columns", 54, n=464_810, kernel="matern12", t=7),
        case("gaussian, 28 inputs, 0.2 M rows", 28, n=200_000),
        case("gaussian, 28 inputs, 0.5 M rows", 28, n=464_810),
        case("gaussian, 28 inputs, 8.8 M rows, hinge", 28, n=8_800_000, loss="hinge"),
        case("gaussian, 28 inputs, b 8,192", 28, b=8_192),
        case("matern12, 11 inputs, b 8,192, ridge", 11, b=8_192, loss="squared", kernel="matern12"),
    ]


def milliseconds(run: Callable[[], object], batch: int = BATCH) -> float:
    """Return the median time of a call, by device events around batches."""
    times = []
    for _ in range(BATCHES):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(batch):
            run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / batch)
    return sorted(times)[BATCHES // 2]


def synchronisations(run: Callable[[], object], calls: int = 20) -> int:
    """Return the number of times that the CPU waits for the GPU in ``calls`` calls."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        for _ in range(calls):
            run()
        torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in found)


# What an H200 can do in a second: float16 operations of tensor cores, special functions, float32 instructions, bytes.
TENSOR, SPECIAL, ARITHMETIC, BYTES = 7.9e14, 3.8e12, 3.0e13, 4.8e12


def exact_floor(case: Case) -> dict[str, float]:
    """Return the milliseconds that each unit of a GPU needs for the entries of a step; the largest is a floor."""
    entries = case.n * case.b
    sums = 1 if case.t == 1 else 2 * 4 * case.t  # a product of two parts with two parts, on tensor cores
    by_differences = case.kernel == "laplacian"
    width = 16 if case.d <= 16 else 32 if case.d <= 32 else 64 if case.d <= 64 else -(-case.d // 32) * 32
    units = {
        "tensor": entries * ((0 if by_differences else 3 * 2 * width) + (sums if case.t > 1 else 0)) / TENSOR,
        "special": entries * (2 if case.kernel.startswith("matern") else 1) / SPECIAL,
        "arithmetic": entries * (2 * case.d if by_differences else 4) / ARITHMETIC,
        "bytes": (case.n * (8 * width + 16 * case.t) + 4 * case.b * case.b) / BYTES,
    }
    return {name: round(1e3 * seconds, 4) for name, seconds in units.items()}


def floor(case: Case) -> float | None:
    """Return a lower bound of the milliseconds of a step; None for structured features.

    With features it is the time of XW, cos, K_BB, Ψθ and Ψᵀs in plain torch. With an exact kernel it is that of the
    busiest unit of the GPU, without the block solve.
    """
    if case.m is None:
        return max(exact_floor(case).values())
    if case.features == "structured":
        return None
    x, W = torch.randn(case.b, case.d, device=CUDA), torch.randn(case.d, case.m, device=CUDA)
    phase, theta = torch.rand(case.m, device=CUDA), torch.randn(case.m, case.t, device=CUDA)
    s, psi = torch.randn(case.b, case.t, device=CUDA), torch.randn(case.b, case.m, device=CUDA)
    total = milliseconds(lambda: torch.addmm(phase, x, W)) + milliseconds(psi.cos_)
    total += milliseconds(lambda: psi @ theta) + milliseconds(lambda: psi.T @ s)
    torch.backends.cuda.matmul.allow_tf32 = case.mixed
    total += milliseconds(lambda: psi @ psi.T)
    torch.backends.cuda.matmul.allow_tf32 = False
    return total


def measure(case: Case) -> dict[str, Any]:
    """Time the steps of one case."""
    torch._C._cuda_clearCublasWorkspaces()  # frees the workspaces of earlier cases
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    descent = case.descent()
    inputs = 0 if case.host else 4 * case.n * case.d
    started = time.perf_counter()
    for _ in range(WARM):
        descent.step()
    torch.cuda.synchronize()
    warm = time.perf_counter() - started
    ms = milliseconds(descent.step)
    result = {
        "ms": round(ms, 4),
        "limit_ms": case.limit,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "peak_bytes_without_x": torch.cuda.max_memory_allocated() - inputs,
        "synchronisations": synchronisations(descent.step),
        "products_per_column": round(descent.method.statistics.products / descent.steps / case.t, 1),
        "outcomes": {outcome.name: count for outcome, count in descent.method.statistics.outcomes.items()},
        "first_steps_seconds": round(warm, 2),
    }
    del descent
    torch.cuda.empty_cache()
    least = floor(case)
    if case.m is None:
        result |= {"entries_per_second": round(case.n * case.b / ms * 1e3, -9), "floor_by_unit": exact_floor(case)}
    return result | ({} if least is None else {"floor_ms": round(least, 4), "of_floor": round(ms / least, 2)})


def predict() -> dict[str, Any]:
    """Time a prediction of 1,000,000 rows with 100,000 features."""
    descent = Case("predict", "squared", 400.0, n=1_000_000).descent()
    machine = FeatureMachine(descent.state.features, torch.randn_like(descent.state.image))
    x = descent.state.x[slice(None)]
    machine.predict(x[:1000])
    torch.cuda.reset_peak_memory_stats()
    ms = milliseconds(lambda: machine.predict(x), batch=1)
    return {"ms": round(ms, 1), "limit_ms": 400.0, "peak_bytes": torch.cuda.max_memory_allocated()}


def line(name: str, result: dict[str, Any]) -> str:
    """Format a result as one line."""
    share = f"{result['of_floor']:.2f} x floor" if "of_floor" in result else ""
    verdict = "" if result["ms"] <= result["limit_ms"] else "ABOVE"
    syncs, peak = result.get("synchronisations", "-"), result["peak_bytes"] / 1e9
    if "entries_per_second" in result:
        share += f" {result['entries_per_second'] / 1e12:.2f}e12 entries/s"
    return (
        f"{name:32s} {result['ms']:9.3f} ms (limit {result['limit_ms']:g}) {share:14s} peak {peak:6.3f} GB  "
        f"syncs {syncs}  products {result.get('products_per_column', '-')} {verdict}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA GPU; torch finds none.")
    results: dict[str, Any] = {}
    for case in cases():
        if options.only in case.name:
            results[case.name] = measure(case)
            print(line(case.name, results[case.name]), flush=True)
    if options.only in "predict":
        results["predict"] = predict()
        print(line("predict", results["predict"]), flush=True)
    machine = common.machine(SEED) | common.gpu("cuda")
    common.write_json(options.out / "step.json", {"machine": machine, "cases": results})


if __name__ == "__main__":
    main()
