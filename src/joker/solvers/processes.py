"""What all processes of a solve must have in common."""

from __future__ import annotations

from joker.data import Rows, TensorRows
from joker.runtime import VERSION
from joker.solvers.checkpoint import fingerprint
from joker.solvers.problem import Problem
from joker.solvers.settings import Settings
from joker.solvers.state import State

CHECKED_ROWS = 2**16  # rows whose inputs are compared; targets and weights are compared as a whole


def check_processes(state: State, problem: Problem, settings: Settings) -> None:
    """Raise ProcessesDiffer in every process if two of them have different problems."""
    if state.group.size == 1:
        return
    targets = problem.targets
    first: Rows = state.x.part(slice(0, min(len(state.x), CHECKED_ROWS)))
    state.group.check_equal(
        {
            "version of joker": VERSION,
            "kind of model": type(state).__name__,
            "shape of X": state.x.shape,
            "values of X": fingerprint(first),
            "type of X": str(state.x.dtype),
            "targets": (*targets.y.shape, fingerprint(TensorRows(targets.y))),
            "weights": None if targets.weights is None else fingerprint(TensorRows(targets.weights)),
            "lam": targets.lam.tolist(),
            "loss": repr(problem.loss),
            "number of features": state.whole_shape[0],
            "settings": repr(settings),
        }
    )
