"""Saving a solve and continuing it: its moving parts, and what identifies its problem."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from joker.data import Rows, TensorRows
from joker.errors import StateMismatch
from joker.runtime import chunks
from joker.solvers.gap import Gap
from joker.solvers.method import Method
from joker.solvers.problem import Problem
from joker.solvers.report import Record
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.settings import Settings
from joker.solvers.state import State

# A solve can only be continued with the same values of these settings.
IDENTITY_SETTINGS = ("block_size", "method", "order", "averaging", "momentum", "radius", "halve_every", "seed")
IMAGE = "image"  # the name of every saved tensor that is an image of α
SAMPLE_ROWS = 16  # rows whose kernel matrix differs between kernels, bandwidths and feature draws
RTOL, ATOL = 1e-4, 1e-6  # differences between machines in the rounding of the numbers compared


class Solve(Protocol):
    """The parts of a `Descent` that are saved."""

    state: State
    problem: Problem
    settings: Settings
    method: Method
    steps: int
    seconds: float
    records: list[Record]


def saved_state(solve: Solve) -> dict[str, Any]:
    """Return everything that changes during a solve, as numbers and tensors."""
    return {
        "identity": identity(solve.state, solve.problem, solve.settings),
        "steps": solve.steps,
        "seconds": solve.seconds,
        "records": [(r.epoch, r.seconds, r.gap.sums, r.scores, r.peak_bytes) for r in solve.records],
        "tally": solve.method.statistics.state_dict(),
        **{name: _whole(part.state_dict(), solve.state) for name, part in _moving_parts(solve).items()},
    }


def restore_state(solve: Solve, saved: dict[str, Any]) -> None:
    """Restore what `saved_state` has returned; raise StateMismatch if it belongs to another problem."""
    if names := differences(solve, saved):
        raise StateMismatch(
            f"a saved state must belong to the same problem and settings; {', '.join(names)} differ. "
            "Use the data, kernel and settings it began with."
        )
    for name, part in _moving_parts(solve).items():
        part.load_state_dict(_own(saved[name], solve.state))
    solve.steps, solve.seconds = saved["steps"], saved["seconds"]
    device = solve.state.alpha.device
    solve.records = [Record(epoch, s, Gap(sums.to(device)), *rest) for epoch, s, sums, *rest in saved["records"]]
    solve.method.statistics.load_state_dict(saved["tally"])


def differences(solve: Solve, saved: dict[str, Any]) -> list[str]:
    """Return the names of the parts of the problem and settings in which a saved state differs from a solve."""
    ours, theirs = identity(solve.state, solve.problem, solve.settings), saved["identity"]
    return [name for name in ours if name not in theirs or not _close(ours[name], theirs[name])]


def identity(state: State, problem: Problem, settings: Settings) -> dict[str, Any]:
    """Return what a saved state must have in common with the solve that continues it."""
    targets = problem.targets
    return {
        "rows": (*state.x.shape, fingerprint(state.x)),
        "kernel or features": (*state.whole_shape, *_kernel_sample(state).flatten().tolist()),
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


def _whole(saved: dict[str, Any], state: State) -> dict[str, Any]:
    """Return saved tensors with the parts of all processes, so that any number of processes can continue."""
    return {name: state.whole_image(value) if name == IMAGE else value for name, value in saved.items()}


def _own(saved: dict[str, Any], state: State) -> dict[str, Any]:
    """Return saved tensors with the part that this process has."""
    return {name: state.own_image(value) if name == IMAGE else value for name, value in saved.items()}


def _moving_parts(solve: Solve) -> dict[str, SavedTensors]:
    return {"state": solve.state, **solve.method.parts()}


def _kernel_sample(state: State) -> Tensor:
    """Return the kernel matrix of the first few rows."""
    return state.open(torch.arange(min(len(state.x), SAMPLE_ROWS), device=state.x.device)).K


def _close(a: Any, b: Any) -> bool:
    """Return whether two values are equal; numbers in a tuple up to the rounding of another machine."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return bool(a == b)
    first, second = (torch.tensor(numbers, dtype=torch.float64) for numbers in (a, b))
    return len(a) == len(b) and torch.allclose(first, second, rtol=RTOL, atol=ATOL)
