"""From tensors to a training: check them, choose the bandwidth, draw the features, build the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from joker import features as feature_maps
from joker import kernels, losses
from joker.data import Blocks, Rows, Targets, check_rows, check_tensor, make_targets
from joker.data.rows import refuse_shared
from joker.distributed import current
from joker.errors import InvalidData, InvalidParameter
from joker.features import FeatureMap
from joker.kernels.kernel import choose_bandwidth, matvec
from joker.kernels.precomputed import KernelOfArrays, refuse_bandwidth
from joker.losses import Loss
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.planning import FitSpec, Plan, RowReading
from joker.planning.fit import FitMemory, plan_fit
from joker.runtime import DEFAULT_BUDGET, enough_memory, parse_bytes, release_memory
from joker.solvers import (
    Descent,
    ExactState,
    FeatureState,
    Point,
    Problem,
    Record,
    Report,
    Settings,
    State,
    check_processes,
)
from joker.solvers.methods.choice import choose
from joker.solvers.methods.method import ProblemSize

DEFAULTS = Settings()


@dataclass(frozen=True, eq=False)
class Training:
    """A problem that is ready to run; ``descent`` may be saved, loaded and continued.

    Parameters
    ----------
    descent : Descent
        The solver with its state.
    kernel : Kernel
        The kernel, with its bandwidth.
    features : FeatureMap or None
        The random features; None for the exact kernel.

    Examples
    --------
    >>> import torch
    >>> import joker
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> training = joker.prepare(x, x.sin(), lam=0.1, bandwidth=1.0)
    >>> training.kernel
    Gaussian(bandwidth=1.0)
    """

    descent: Descent
    kernel: kernels.Kernel
    features: FeatureMap | None

    def run(self, callback: Callable[[Record], bool | None] | None = None) -> tuple[Machine, Report]:
        """Descend; return the fitted machine and the report with its duality gap."""
        with enough_memory(self.descent.state.alpha.device):
            report = self.descent.run(callback)
            return self.machine(self.weights((report.alpha, report.image))), report

    def weights(self, point: Point) -> Tensor:
        """Return the weights of a machine at a point: θ with features, α with the exact kernel."""
        return point[0] if self.features is None else self.descent.state.whole_image(point[1])

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
    kernel: str | kernels.Kernel | KernelOfArrays = "gaussian",
    bandwidth: str | float | None = None,
    n_features: int | None = None,
    features: str | None = None,
    intercept: bool = False,
    memory: int | str = DEFAULT_BUDGET,
    mixed: bool = False,
    settings: Settings = DEFAULTS,
) -> Training:
    """Check everything and build a training, without running it.

    Parameters
    ----------
    x : Tensor or Rows
        Rows of inputs, float32 or float64; the computation has their type and device. A sparse tensor
        (CSR or COO) is made dense in tiles or blocks.
    y : Tensor
        Targets; -1 and 1 for classification losses. Each column is a problem of its own.
    loss : str or Loss
        A name of :data:`joker.losses.NAMES`, or a loss.
    lam : float or sequence of float
        The penalty λ of ``λ/2 ‖θ‖² + Σ w_i ℓ(y_i, f(x_i))``; a sequence gives each column its own.
    weights : Tensor, optional
        The weight of each row in the sum; 0 leaves it out.
    kernel, bandwidth : str, Kernel or callable, str or float
        The kernel and its length scale: ``"median"``, ``"paper"`` or a number. None keeps that of
        a Kernel, and is ``"median"`` for a name. A function of two arrays has no length scale.
    n_features, features : int, str
        The number of random features and their kind; None uses the exact kernel.
    intercept : bool
        Whether to add a feature that is always 1. Its weight, the intercept, is penalised like the others.
    memory : int or str
        Bytes of scratch space for tiles, such as ``"200MB"``; where x is sparse, for the dense rows of a block too.
        As many bytes again keep rows of the kernel matrix, or the Gram matrix of the features, between steps.
    mixed : bool
        Whether the kernel matrix of a block may be computed in low precision on the tensor cores of a GPU.
        The steps change, the solution does not.
    settings : Settings
        The settings of the descent.

    Returns
    -------
    Training
        The training; its method ``run`` returns the fitted machine and a report.

    Examples
    --------
    >>> import torch
    >>> import joker
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> machine, report = joker.prepare(x, x.sin(), loss="huber", lam=0.1).run()
    >>> bool((machine.predict(x) - x.sin()).abs().max() < 0.2)
    True
    """
    if not isinstance(settings, Settings):
        raise InvalidParameter(
            f"settings must be a joker.solvers.Settings; got {settings!r}. Use for example Settings(max_epochs=10)."
        )
    x = check_rows(x)
    check_tensor(y, "y")
    with enough_memory(x.device):
        targets = make_targets(y.to(x.device), lam, weights, x.dtype)
        if targets.n != len(x):
            raise InvalidData(
                f"X and y must have the same number of rows; got {len(x)} and {targets.n}. Check that they belong "
                "together."
            )
        scratch = parse_bytes(memory)
        chosen, chosen_loss = kernels.get(kernel), losses.get(loss)
        if bandwidth is not None and chosen.external:
            refuse_bandwidth(chosen, bandwidth)
        if bandwidth is None and chosen is not kernel:
            bandwidth = "median"
        if bandwidth is not None:
            chosen = chosen.with_bandwidth(choose_bandwidth(bandwidth, chosen, x, settings.seed))
        Blocks(len(x), settings.block_size)  # raises where the size is no number of rows
        feature_maps.check(chosen, features, x.shape[1], n_features)
        size = ProblemSize(
            loss=chosen_loss,
            rows=len(x),
            columns=targets.t,
            n_features=n_features,
            block_size=settings.block_size,
            one_penalty=len(targets.lam.unique()) == 1,
            momentum=settings.momentum,
            itemsize=x.dtype.itemsize,
            on_gpu=x.device.type == "cuda",
            gram_room=scratch,
        )
        spec = FitSpec(
            rows=len(x),
            inputs=x.shape[1],
            targets=targets.t,
            device=x.device,
            dtype=x.dtype,
            kernel=chosen,
            loss=chosen_loss,
            method=choose(settings.method, size),
            settings=settings,
            mixed=mixed,
            n_features=n_features,
            features=features,
            intercept=intercept,
        )
        memory_plan = plan_fit([FitMemory(spec, RowReading.of(x))], None, scratch, scratch)[1]
        return build(spec, x, Problem(chosen_loss, targets), memory_plan)


def build(spec: FitSpec, x: Rows, problem: Problem, plan: Plan, wide: Rows | None = None) -> Training:
    """Build a training from what is checked and resolved: draw the features, and make the state.

    The spec has the final bandwidth; x are finite rows, in its type and on its device. ``wide`` are the same rows in
    float64, where x has lost digits of them.
    """
    _check_columns(problem.loss, problem.targets)
    kernel, features = spec.full_kernel, spec.draw()
    if features is None:
        refuse_shared(x)
        spec.kernel.check(x)
    if not (spec.on_gpu or plan.is_small):
        release_memory(x.device)  # what reading the data has left
    state: State
    if features is None:
        state = _exact_state(spec, x, problem.targets.t, kernel, plan)
    else:
        state = FeatureState(x, problem.targets.t, features, plan.scratch, spec.block_rows, spec.mixed, current())
    state.wide, state.keeps_memory = wide or state.wide, plan.is_small
    if current().size > 1:
        check_processes(state, problem, spec.facts)
    return Training(Descent(state, problem, spec.settings, spec.method), kernel, features)


def _check_columns(loss: Loss, targets: Targets) -> None:
    """Refuse a loss whose parameters are for another number of columns than the targets have."""
    width = loss.box(targets.take(slice(1))[0][:, :1])[0].shape[1]
    if width not in (1, targets.t):
        raise InvalidData(
            f"a loss with {width} columns must have as many in y or lam; they have {targets.t}. "
            f"Give y a column for each, for example with y[:, None].expand(-1, {width})."
        )


def _exact_state(spec: FitSpec, x: Rows, t: int, kernel: kernels.Kernel, plan: Plan) -> ExactState:
    def add_product(x: Rows, z: Rows, v: Tensor, out: Tensor) -> None:
        row_bytes = (x.row_bytes, z.row_bytes)
        # A plan counts entries in the type of the fit; one entry in float64 takes some bytes more.
        least = kernel.work_bytes(1, 1, x.shape[1], x.dtype.itemsize) + sum(row_bytes)
        matvec(kernel, x, z, v, max(plan.scratch, least), out=out, row_bytes=row_bytes)

    sizes = (plan.scratch, plan.kept_rows, plan.landmarks)
    return ExactState(x, t, kernel, add_product, *sizes, current(), spec.method.whole_products)
