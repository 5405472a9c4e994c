"""From tensors to a fitted machine: choose the bandwidth, draw the features, descend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from joker import features as feature_maps
from joker import kernels, losses
from joker.data import Blocks, Rows, Targets, check_rows, check_tensor, make_targets
from joker.errors import BudgetTooSmall, InvalidData, InvalidParameter
from joker.features.with_constant import WithConstant as FeaturesWithConstant
from joker.kernels import bandwidth as bandwidths
from joker.kernels.matvec import matvec, tile_shape
from joker.kernels.with_constant import WithConstant as KernelWithConstant
from joker.losses import Loss
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.runtime import DEFAULT_BUDGET, format_bytes, parse_bytes, release_memory, tiles
from joker.solvers import Descent, ExactState, FeatureState, Point, Problem, Record, Report, Settings, State

DEFAULTS = Settings()


@dataclass(frozen=True, eq=False)
class Training:
    """A problem laid out and ready to run; ``descent`` may be saved, loaded and continued."""

    descent: Descent
    kernel: kernels.Kernel
    features: feature_maps.FeatureMap | None

    def run(self, callback: Callable[[Record], bool | None] | None = None) -> tuple[Machine, Report]:
        """Descend; return the fitted machine and the proof of its quality."""
        report = self.descent.run(callback)
        return self.machine(self.weights((report.alpha, report.image))), report

    def weights(self, point: Point) -> Tensor:
        """What a machine needs of a point: θ with features, α with the kernel itself."""
        return point[0] if self.features is None else point[1]

    def machine(self, weights: Tensor) -> Machine:
        """Return the machine with these weights."""
        if self.features is None:
            return ExactMachine(self.kernel, self.descent.state.x, weights)
        return FeatureMachine(self.features, weights)


def prepare(
    x: Tensor | Rows,  # (n, d)
    y: Tensor,  # (n,) or (n, t)
    *,
    loss: str | Loss = "squared",
    lam: float | Sequence[float] | Tensor = 1.0,
    weights: Tensor | None = None,  # (n,) or (n, t)
    kernel: str | kernels.Kernel = "gaussian",
    bandwidth: str | float | None = None,
    n_features: int | None = None,
    features: str | None = None,
    intercept: bool = False,
    memory: int | str = DEFAULT_BUDGET,
    mixed: bool = False,
    settings: Settings = DEFAULTS,
) -> Training:
    """Check everything and lay out a training, without beginning it.

    Parameters
    ----------
    x : Tensor or Rows
        Rows of inputs, float32 or float64; what is computed takes their type and device. A sparse tensor
        (CSR or COO) is made dense a tile or a block at a time.
    y : Tensor
        Targets; -1 and 1 for classification losses. Each column is a problem of its own.
    loss : str or Loss
        A name of :data:`joker.losses.NAMES`, or a loss.
    lam : float or sequence of float
        The penalty λ of ``λ/2 ‖θ‖² + Σ w_i ℓ(y_i, f(x_i))``; a sequence gives each column its own.
    weights : Tensor, optional
        How much each row counts; 0 leaves it out.
    kernel, bandwidth : str or Kernel, str or float
        The kernel and its length scale: ``"median"``, ``"paper"`` or a number. None keeps that of
        a Kernel, and is ``"median"`` for a name.
    n_features, features : int, str
        How many random features and of which kind; None uses the kernel itself.
    intercept : bool
        Whether to add a feature that is always 1. Its weight, the intercept, is penalised like the others.
    memory : int or str
        Bytes of scratch space for tiles, such as ``"200MB"``; where x is sparse, for the dense rows of a block too.
    mixed : bool
        Whether the kernel among the features of a block may be computed on low-precision tensor
        cores of a CUDA card. It shapes the steps, and does not move the solution.
    settings : Settings
        How to descend.
    """
    if not isinstance(settings, Settings):
        raise InvalidParameter(
            f"settings must be a joker.solvers.Settings; got {settings!r}. Use for example Settings(max_epochs=10)."
        )
    x = check_rows(x)
    check_tensor(y, "y")
    targets = make_targets(y.to(x.device), lam, weights, x.dtype)
    if targets.n != len(x):
        raise InvalidData(
            f"X and y must have the same number of rows; got {len(x)} and {targets.n}. Check that they belong together."
        )
    budget = parse_bytes(memory)
    chosen = kernels.get(kernel)
    if bandwidth is None and chosen is not kernel:
        bandwidth = "median"
    if bandwidth is not None:
        chosen = chosen.with_bandwidth(bandwidths.choose(bandwidth, chosen, x, settings.seed))
    problem = Problem(losses.get(loss), targets)
    _check_columns(problem.loss, targets)
    drawn = _draw(chosen, features, n_features, x, settings.seed)
    if intercept:
        chosen = KernelWithConstant(chosen)
        drawn = None if drawn is None else FeaturesWithConstant(drawn, x.dtype.itemsize)
    if x.device.type == "cpu":
        release_memory(x.device)  # what looking at the data has left
    state: State
    budget = _left(x, settings.block_size, chosen, drawn, budget)
    if drawn is None:
        state = _exact_state(x, targets.t, chosen, budget)
    else:
        tiles(1, drawn.work_bytes(1) + x.row_bytes, budget, "features")  # fails now rather than after an epoch
        state = FeatureState(x, targets.t, drawn, budget, min(settings.block_size, len(x)), mixed)
    return Training(Descent(state, problem, settings), chosen, drawn)


def _draw(
    kernel: kernels.Kernel, kind: str | None, m: int | None, x: Rows, seed: int
) -> feature_maps.FeatureMap | None:
    if m is not None:
        return feature_maps.draw(kernel, kind, x.shape[1], m, seed, dtype=x.dtype, device=x.device)
    if kind not in (None, "auto"):
        raise InvalidParameter(
            f"features need their number, n_features; got features={kind!r} and n_features=None, which uses the "
            "kernel itself. Give n_features, such as 1000, or leave features out."
        )
    return None


def _check_columns(loss: Loss, targets: Targets) -> None:
    """Refuse a loss with parameters for other columns than the targets have."""
    width = loss.box(targets.take(slice(1))[0][:, :1])[0].shape[1]
    if width not in (1, targets.t):
        raise InvalidData(
            f"a loss with {width} columns must have as many in y or lam; they have {targets.t}. "
            f"Give y a column for each, for example with y[:, None].expand(-1, {width})."
        )


def _left(
    x: Rows, block_size: int, kernel: kernels.Kernel, features: feature_maps.FeatureMap | None, budget: int
) -> int:
    """What the rows of a block leave of the budget for tiles, where they have to be made dense first."""
    b = min(Blocks(len(x), block_size).size, len(x))
    block, row = b * x.row_bytes, x.row_bytes
    if features is None:
        least = kernel.work_bytes(1, 1, x.shape[1], x.dtype.itemsize) + 2 * row
    else:
        least = features.work_bytes(1) + row
    if block and block + least > budget:
        raise BudgetTooSmall(
            f"memory must hold the {b} rows of a block as a dense tensor, and a tile; {format_bytes(budget)} is given "
            f"and the block takes {format_bytes(block)}. Use memory={block + least} (bytes) or more, or a smaller "
            "block_size."
        )
    return budget - block


def _exact_state(x: Rows, t: int, kernel: kernels.Kernel, budget: int) -> ExactState:
    tile_shape(kernel, x, x, budget, (x.row_bytes, x.row_bytes))

    def add_product(x: Rows, z: Rows, v: Tensor, out: Tensor) -> None:
        matvec(kernel, x, z, v, budget, out=out, row_bytes=(x.row_bytes, z.row_bytes))

    return ExactState(x, t, kernel, add_product, budget)
