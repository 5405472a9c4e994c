"""What identifies the problem of a saved solve, and of the processes that solve one together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from joker.data import Rows, TensorRows
from joker.distributed import facts
from joker.runtime import chunks
from joker.solvers.problem import Problem, Settings
from joker.solvers.state import State

# A solve can only be continued with the same values of these settings.
IDENTITY_SETTINGS = ("block_size", "method", "averaging", "momentum", "seed")
SAMPLE_ROWS = 16  # rows whose kernel matrix differs between kernels, bandwidths and feature draws
RTOL, ATOL = 1e-4, 1e-6  # differences between machines in the rounding of the numbers compared


def identity(state: State, problem: Problem, settings: Settings) -> dict[str, Any]:
    """Return what a saved state must have in common with the solve that continues it."""
    targets, sample = problem.targets, torch.arange(min(len(state.x), SAMPLE_ROWS), device=state.x.device)
    return {
        "rows": (*state.x.shape, fingerprint(state.x)),
        "kernel or features": (*state.whole_shape, *state.open(sample).K.flatten().tolist(), *state.digest),
        "targets": (*targets.y.shape, fingerprint(TensorRows(targets.y))),
        "weights": () if targets.weights is None else (fingerprint(TensorRows(targets.weights)),),
        "lam": tuple(targets.lam.tolist()),
        "dtype": str(state.x.dtype),
        "loss": repr(problem.loss),
        **{name: getattr(settings, name) for name in IDENTITY_SETTINGS},
    }


def fingerprint(values: Rows) -> float:
    """Return a number that differs between different rows: a sum in which every row has its own factor."""
    total = 0.0
    for at in chunks(len(values), 2 * values.shape[1]):
        rows = values[at].double()
        factors = torch.arange(at.start + 1, at.stop + 1, device=rows.device, dtype=rows.dtype).cos()
        total += float(factors @ rows.sum(1))
    return total


def close(a: Any, b: Any) -> bool:
    """Return whether two values are equal; numbers in a tuple up to the rounding of another machine."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return bool(a == b)
    first, second = (torch.tensor(numbers, dtype=torch.float64) for numbers in (a, b))
    return len(a) == len(b) and torch.allclose(first, second, rtol=RTOL, atol=ATOL)


# Numbers of X that processes compare: where X has more of them, those of runs of rows at equal distances. Targets and
# weights are compared as a whole.
CHECKED_NUMBERS, CHECKED_RUNS = 2**28, 64
CHECKED_ROWS = 2**16  # the first rows, which are compared where each process sends its part of them


def check_processes(state: State, problem: Problem, spec: Mapping[str, Any]) -> None:
    """Raise ProcessesDiffer in every process if two of them have different problems; ``spec`` is what was resolved."""
    targets = problem.targets
    state.group.check_equal(
        {
            **facts.VERSIONS,
            "kind of model": type(state).__name__,
            "shape of X": state.x.shape,
            "type of X": state.x.dtype,
            "values of X": fingerprint_of_rows(state.x),
            "shape of y": targets.y.shape,
            "values of y": facts.fingerprint(targets.y),
            "weights": None if targets.weights is None else facts.fingerprint(targets.weights),
            "lam": targets.lam,
            "number of features": state.whole_shape[0],
            **spec,
            "loss of all columns": problem.loss,
        }
    )


def fingerprint_of_rows(x: Rows) -> list[float]:
    """Return sums over the inputs that differ between different rows, and between different orders of the inputs."""
    n, rows = len(x), max(CHECKED_RUNS, CHECKED_NUMBERS // x.shape[1])
    if x.shared:
        return facts.fingerprint(x, [slice(0, min(n, CHECKED_ROWS))])
    if n <= rows:
        return facts.fingerprint(x)
    length = rows // CHECKED_RUNS
    starts = [(n - length) * i // (CHECKED_RUNS - 1) for i in range(CHECKED_RUNS)]
    return facts.fingerprint(x, [slice(start, start + length) for start in starts])
