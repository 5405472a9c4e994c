"""What the parameters of a constructor mean: each is checked and resolved here, once.

`resolve` turns the words of a constructor into a `Request`, which needs no data. `Request.specs` adds the size of the
data and yields the `FitSpec` of a fit, or several where a memory budget may ask for less.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from itertools import product
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils import check_random_state
from torch import Tensor

from joker import features, kernels, losses
from joker.callbacks import Callback, EarlyStopping, Progress
from joker.data import Blocks, Rows, Scaling, distinct
from joker.data.arrays import RowSubset, as_array, cast_row_bytes, have_common_scale, is_sparse, pick, rows_of
from joker.errors import InvalidParameter, UnknownName
from joker.estimators.foreign_names import refuse_foreign_bandwidth, refuse_foreign_kernel, refuse_loss
from joker.estimators.precision import KernelFacts, Precision, kernel_at, precision_of, sampled
from joker.kernels import Kernel
from joker.kernels.kernel import check_bandwidth_rule, choose_bandwidth, sample_rows
from joker.kernels.precomputed import refuse_bandwidth
from joker.losses import Loss
from joker.planning import FitSpec
from joker.planning.fit import TrainingData
from joker.runtime import DEFAULT_BUDGET, chunks, parse_bytes, parse_device, parse_dtype, physical_bytes
from joker.solvers import Method, ProblemSize, Settings
from joker.solvers.methods.choice import choose, methods_named
from joker.solvers.problem import AUTO

LEAST_RANK_ROWS = 256  # rows: the rank of fewer is not computed
LEAST_BLOCK = 32  # rows: a memory budget makes no smaller block
EXACT_ROWS = 50_000  # rows: n_features="auto" uses the exact kernel for at most so many on a CPU
EXACT_SECONDS = 10.0  # of a pass over the kernel matrix on a GPU, up to which it uses the exact kernel there
# A kernel that is no function of a matrix product costs time for each input: it is used exactly for at most so many
# numbers of X, or so many rows.
EXACT_NUMBERS, FEW_ROWS = 1_000_000, 10_000
FEATURES = 4_000  # random features where the exact kernel is too slow
GPU_BUDGET = 2**30  # bytes of scratch space on a GPU, where a block has more features than on a CPU
KERNEL_ROOM = 2 * 2**30  # bytes of the kernel cache where no budget is named, at most
PRECISIONS = {"auto": None, "mixed": torch.float32, "float32": torch.float32, "float64": torch.float64}
Scorer = Callable[[Any, Any, Any], float]  # estimator, X, y


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """The parameters of an estimator, resolved as far as no data are needed."""

    loss: Loss  # one that couples classes may be for another number of them
    kernel: Kernel  # its bandwidth counts where the user passed a kernel and bandwidth="auto"
    lams: list[float]  # several where ``lam`` is a sequence
    settings: Settings  # those that do not depend on the data
    scorer: Scorer | None  # of held-out rows; None is the loss
    callbacks: list[Callback]  # those of ``verbose`` and ``early_stopping`` included
    validation_fraction: float  # the share of rows to hold out, where a score needs them
    dtype: torch.dtype | None  # None leaves it to the data
    budget: int | None  # the bytes allowed in all; None without a budget
    given: Any  # the estimator, whose other parameters are checked and need no translation

    def bandwidths(self, d: int) -> NDArray[np.float64] | None:  # (d,)
        """Return the bandwidth of each of d inputs; None where one number or rule is for all inputs."""
        return bandwidths(self.given.bandwidth, self.kernel, d)

    def specs(
        self, sample: TrainingData, device: torch.device, seed: int, scaling: Scaling | None, scored: bool
    ) -> Iterator[FitSpec]:
        """Yield the specs that a fit may have, the best first: several where a memory budget may ask for less.

        The other arguments are those of `FitSpec`. On a GPU rows stay in host memory before blocks become smaller.
        """
        x, targets = sample.x, sample.y.shape[1]
        facts = cache(lambda: self._facts(sample, scaling, seed))
        given, (n, d), limited = self.given, x.shape, self.budget is not None
        m = n_features(given.n_features, given.features, self.kernel, n, d, device)
        if m is not None or given.features != AUTO:
            features.check(self.kernel, given.features, d, m)
        movable = limited and device.type == "cuda" and not is_sparse(x) and not isinstance(x, Rows)
        hosts = (False, True) if movable else (False,)
        for choices in self._choices(sample, m, device, facts, sparse_entries(x, self.kernel, m, scaling)):
            for host, (method, size) in product(hosts, choices):
                block_size = method.block_rows(size)
                precision = self._precision(method, size, device, sample.w, facts)
                epochs = method.max_epochs(size) if isinstance(given.max_epochs, str) else given.max_epochs
                yield FitSpec(
                    rows=n,
                    inputs=d,
                    targets=targets,
                    device=device,
                    dtype=precision.dtype,
                    kernel=(self.kernel.precisely() if precision.precise else None) or self.kernel,
                    loss=self.loss,
                    method=method,
                    settings=self.settings.decided(block_size=block_size, max_epochs=epochs, seed=seed),
                    why_dtype=precision.why,
                    rank=size.rank,
                    scale=size.scale,
                    entries=size.entries,
                    mixed=precision.mixed,
                    n_features=m,
                    features=given.features,
                    intercept=bool(given.fit_intercept),
                    scaling=scaling,
                    rows_on_host=host,
                    n_lams=len(self.lams),
                    scored=scored,
                    saved_states=sum(callback.copies for callback in self.callbacks),
                    saved_machines=sum(callback.needs_score for callback in self.callbacks),
                    keeps_state=bool(given.warm_start),
                )

    def _choices(
        self,
        sample: TrainingData,
        m: int | None,
        device: torch.device,
        facts: Callable[[], KernelFacts],
        entries: int | None,
    ) -> Iterator[list[tuple[type[Method], ProblemSize]]]:
        """Yield the methods for each possible block size, the best first: one size unless a budget may ask for less."""
        given, limited, x = self.given, self.budget is not None, sample.x
        row_bytes = 0 if limited else cast_row_bytes(x)  # a plan with a budget counts what rows take
        size = ProblemSize(
            loss=self.loss,
            rows=x.shape[0],
            columns=sample.y.shape[1] * len(self.lams),
            n_features=m,
            block_size=None if isinstance(given.block_size, str) else given.block_size,
            most_block_rows=block_room(memory(given.memory, device), row_bytes),
            one_penalty=len(self.lams) == 1,
            momentum=given.momentum,
            itemsize=(self.dtype or torch.float32).itemsize,
            on_gpu=device.type == "cuda",
            gram_room=inf if limited else gram_room(device),
            to_the_end=self._to_the_end,
            entries=entries,
            kernel_in_memory=self.kernel.precomputed,
        )
        size = self._with_rank(size, sample.w, facts)
        choices = self._with_less_memory(choose(given.method, size), size)
        yield choices
        if not limited or size.block_size is not None:
            return
        method = choices[-1][0]  # that needs the least memory
        rows = method.block_rows(replace(size, rows=sys.maxsize))
        while rows >= LEAST_BLOCK:
            if rows < method.block_rows(size):
                fewer = replace(size, block_size=rows)
                yield self._with_less_memory(choose(given.method, fewer), fewer)
            rows //= 2

    @property
    def _to_the_end(self) -> bool:
        """Whether only the solution counts, and no budget of memory, epochs or time may end the fit before."""
        given = self.given
        limited = self.budget is not None or self.settings.max_time < inf or not isinstance(given.max_epochs, str)
        watched = given.early_stopping or given.warm_start or given.momentum or bool(given.callbacks)
        return not (limited or watched) and isinstance(given.block_size, str)

    def _with_rank(
        self, size: ProblemSize, w: NDArray[np.float64] | None, facts: Callable[[], KernelFacts]
    ) -> ProblemSize:
        """Return the size with the rank of the kernel matrix, where a method asks for it."""
        named = methods_named(self.given.method)
        asked = len(named) == 1
        if not (asked or size.to_the_end) or self.kernel.external or not size.exact or size.rows < LEAST_RANK_ROWS:
            return size
        found, penalty = facts(), self._penalty(w)
        size = replace(size, scale=found.size / penalty)
        if not any(method.needs_rank(size, asked) for method in named):
            return size
        return replace(size, rank=found.rank(penalty, self.settings.tol, size.rows))

    def _with_less_memory(self, method: type[Method], size: ProblemSize) -> list[tuple[type[Method], ProblemSize]]:
        """Return the method, and the one without a Gram matrix, for which a budget may have no room."""
        without = method if self.budget is None else choose(self.given.method, replace(size, gram_room=0))
        return [(method, size)] if without is method else [(method, size), (without, size)]

    def _precision(
        self,
        method: type[Method],
        size: ProblemSize,
        device: torch.device,
        w: NDArray[np.float64] | None,
        facts: Callable[[], KernelFacts],
    ) -> Precision:
        """Return how a fit computes."""
        low = self.given.precision == "mixed" or (self.given.precision == AUTO and device.type == "cuda")
        fused = device.type == "cuda" and self.kernel.own_profile is not None
        whole = method.block_rows(size) >= size.rows or method.wide or self.kernel.external
        solved = method.block_rows(size) if method.in_blocks else size.rows
        penalty, tol = self._penalty(w), self.settings.tol
        found = precision_of(size, whole, self.loss, penalty, tol, facts, solved, given=self.dtype, fused=fused)
        return replace(found, mixed=low and found.dtype == torch.float32)

    def _penalty(self, w: NDArray[np.float64] | None) -> float:
        """Return the smallest λ / w of all rows."""
        return min(self.lams) / (1.0 if w is None else float(w.max(initial=0.0)) or 1.0)

    def _facts(self, sample: TrainingData, scaling: Scaling | None, seed: int) -> KernelFacts:
        """Return what is measured of the kernel on some rows."""
        x, given = sample.x, self.given
        if isinstance(x, RowSubset) and not any(x.rows.strides):  # the rows of a plan, which are one row many times
            x = x.whole
        some = pick(x, sampled(x.shape[0], seed))
        rows = rows_of(some, torch.float64, torch.device("cpu"), copy=False, scaling=scaling)
        kernel = kernel_at(self.kernel, lambda: sigma(given.bandwidth, given.kernel, self.kernel, rows, None, seed))
        return KernelFacts(kernel, rows[slice(len(rows))])


def resolve(model: Any) -> Request:
    """Return what the parameters of an estimator mean; raise an error for one that cannot be used."""
    loss, lams, kernel = model._named_loss(), penalties(model.lam), get_kernel(model.kernel)
    if kernel.external:
        check_external(kernel, model)
    if isinstance(model.bandwidth, str | Real) and model.bandwidth != AUTO:
        check_rule(model.bandwidth)
    check_count("n_features", model.n_features, 1000)
    if isinstance(model.block_size, str):
        check_count("block_size", model.block_size, 512)
    else:
        Blocks(1, model.block_size)  # raises where the size is no number of rows
    if isinstance(model.max_epochs, str):
        check_count("max_epochs", model.max_epochs, 5)
    methods_named(model.method)
    settings = Settings(
        max_epochs=0 if isinstance(model.max_epochs, str) else model.max_epochs,
        tol=model.tol,
        max_time=model.max_time,
        method=model.method,
        averaging=model.averaging,
        momentum=model.momentum,
    )
    flag("fit_intercept", model.fit_intercept)
    flag("warm_start", model.warm_start)
    check_standardize(model.standardize)
    parse_device(model.device)
    check_random_state(model.random_state)
    return Request(
        loss=loss,
        kernel=kernel,
        lams=lams,
        settings=settings,
        scorer=scorer_of(model.early_stopping),
        callbacks=callbacks(model.callbacks, model.verbose, model.early_stopping),
        validation_fraction=fraction(model.validation_fraction),
        dtype=stated_dtype(model.precision, model.dtype),
        budget=budget(model.memory),
        given=model,
    )


def check_external(kernel: Kernel, model: Any) -> None:
    """Refuse parameters that would change the values of a matrix, or of a function, that the user gives."""
    if not isinstance(model.bandwidth, str) or model.bandwidth != AUTO:
        refuse_bandwidth(kernel, model.bandwidth)
    if kernel.precomputed and check_standardize(model.standardize) is True:
        raise InvalidParameter(
            "standardize must be 'auto' or False with kernel='precomputed', whose matrix is used as it is; got True. "
            "Standardise the inputs from which you compute the matrix."
        )


def check_inputs(request: Request, d: int | None) -> None:
    """Check the parameters that depend on the number of inputs d only; None stands for a number that suits."""
    given, kernel = request.given, request.kernel
    if d is not None and not isinstance(given.bandwidth, str | Real) and request.bandwidths(d) is None:
        check_bandwidth_rule(given.bandwidth)
    m = n_features(given.n_features, given.features, kernel, 1, d or 1, torch.device("cpu"))
    features.check(kernel, given.features, d or m or 1, m)


def stated_dtype(precision: str, dtype: str | torch.dtype) -> torch.dtype | None:
    """Return the floating-point type that ``precision`` and ``dtype`` name; None if they leave it to the data."""
    if precision not in PRECISIONS:
        raise UnknownName.among("precision", precision, PRECISIONS)
    stated = None if isinstance(dtype, str) and dtype == AUTO else parse_dtype(dtype)
    meant = PRECISIONS[precision] or stated
    if stated not in (None, meant):
        raise InvalidParameter(
            f"precision and dtype must agree; got precision={precision!r} and dtype={dtype!r}. "
            "Leave out one of the two."
        )
    return meant


def is_linear_system(model: Any) -> bool:
    """Return whether the loss of an estimator makes its problem a linear system."""
    loss = model._loss()
    return bool(loss.quadratic and loss.unbounded)


def block_room(memory: int, row_bytes: int) -> int | None:
    """Return the rows that a block may have, where a row is made dense in ``row_bytes``: half the memory."""
    return max(1, memory // 2 // row_bytes) if row_bytes else None


def check_rule(bandwidth: str | Real) -> None:
    """Refuse a bandwidth that is no rule and no number; a rule of another library is translated in the error."""
    try:
        check_bandwidth_rule(bandwidth)
    except UnknownName:
        refuse_foreign_bandwidth(bandwidth)
        raise


def get_kernel(kernel: Any) -> Kernel:
    """Return the kernel of that name, or the given kernel; a name of another library is translated in the error."""
    try:
        return kernels.get(kernel)
    except UnknownName:
        refuse_foreign_kernel(kernel)
        raise


def get_loss(loss: Any, task: str, **parameters: float) -> Loss:
    """Return the loss of that name; an error for an unknown name offers the losses of the task only."""
    names: dict[str, type[Loss]] = {**losses.NAMES, **losses.ROW_NAMES}
    if isinstance(loss, str) and loss not in names:
        refuse_loss(loss, [name for name, kind in names.items() if kind().frame.task == task])
    return losses.get(loss, **parameters)


def penalties(lam: Any) -> list[float]:
    """Return the values of λ: one, or those of a path."""
    try:
        values = np.atleast_1d(np.asarray(lam, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.zeros(1)
    if values.ndim != 1 or not values.size or not np.all(values > 0) or not np.all(np.isfinite(values)):
        raise InvalidParameter(
            f"lam must be a positive finite number, or a sequence of them; got lam={lam!r}. "
            "Use a small positive value such as 1e-3."
        )
    return [float(value) for value in values]


def n_features(
    given: int | str | None, features: str, kernel: Kernel, n: int, d: int, device: torch.device
) -> int | None:
    """Return the number of features for n rows of d inputs; None is the exact kernel."""
    if not isinstance(given, str):
        return given
    if "identity" in kernel.feature_kinds:
        return d
    exact = features == AUTO and _exact_is_quick(kernel, n, d, device)
    return None if exact or not kernel.feature_kinds else FEATURES


def _exact_is_quick(kernel: Kernel, n: int, d: int, device: torch.device) -> bool:
    """Whether some passes over the kernel matrix of n rows take a time that users accept."""
    if device.type == "cuda":
        return kernel.gpu_seconds(n, d) <= EXACT_SECONDS
    return n <= EXACT_ROWS and (kernel.by_product or n <= max(FEW_ROWS, EXACT_NUMBERS // d))


def sparse_entries(x: Any, kernel: Kernel, m: int | None, scaling: Scaling | None) -> int | None:
    """Return the stored entries of a sparse matrix whose inputs are its m features; None where they are not."""
    stays = is_sparse(x) and not isinstance(x, RowSubset) and (scaling is None or not scaling.moves)
    return int(x.nnz) if stays and m is not None and "identity" in kernel.feature_kinds else None


def budget(given: int | str) -> int | None:
    """Return the bytes that are allowed in total; None without a budget."""
    return None if isinstance(given, str) and given == AUTO else parse_bytes(given)


def memory(given: int | str, place: torch.device) -> int:
    """Return the bytes of scratch space of a computation without a plan."""
    if isinstance(given, str) and given == AUTO:
        return GPU_BUDGET if place.type == "cuda" else DEFAULT_BUDGET
    return parse_bytes(given)


def kernel_room(place: torch.device) -> int:
    """Return the bytes in which a fit without a budget keeps the kernel matrix or a part of it."""
    return GPU_BUDGET if place.type == "cuda" else min(KERNEL_ROOM, physical_bytes() // 4)


def gram_room(place: torch.device) -> int:
    """Return the bytes that the Gram matrix of features may take in a fit without a budget."""
    return physical_bytes(place) // 4 if place.type == "cuda" else kernel_room(place)


def fraction(validation_fraction: float) -> float:
    """Return the share of rows to hold out."""
    number = isinstance(validation_fraction, Real) and not isinstance(validation_fraction, bool)
    if not number or not 0 < validation_fraction < 1:
        raise InvalidParameter(
            f"validation_fraction must be a number between 0 and 1, both excluded; got {validation_fraction!r}. "
            "Use a value such as 0.1."
        )
    return float(validation_fraction)


def flag(name: str, value: object) -> bool:
    """Return a switch."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(f"{name} must be True or False; got {value!r}. Use {name}=True.")
    return bool(value)


def standardizes(
    standardize: object, kernel: Kernel, bandwidth: Any, x: Any, w: NDArray[np.float64] | None
) -> bool:  # (n, d), (n,)
    """Whether checked rows are z-scored.

    "auto" does so unless they are on one scale, each input has its own bandwidth, or the kernel is a matrix or a
    function of the user's.
    """
    if check_standardize(standardize) != AUTO:
        return bool(standardize)
    return not kernel.external and isinstance(bandwidth, str | Real) and not have_common_scale(x, w)


def check_standardize(standardize: object) -> bool | str:
    """Return the setting, which is a switch or "auto"."""
    if isinstance(standardize, str) and standardize == AUTO:
        return AUTO
    if not isinstance(standardize, bool | np.bool_):
        raise InvalidParameter(f"standardize must be True, False or 'auto'; got {standardize!r}. Use 'auto'.")
    return bool(standardize)


def scorer_of(early_stopping: object) -> Scorer | None:
    """Return the scorer that ``early_stopping`` names; None stands for the loss."""
    if isinstance(early_stopping, bool | np.bool_):
        return None
    if callable(early_stopping) and not isinstance(early_stopping, type):
        return early_stopping
    names = get_scorer_names()
    if early_stopping in names:
        scorer: Scorer = get_scorer(early_stopping)
        return scorer
    close = get_close_matches(str(early_stopping), names, n=1)
    raise InvalidParameter(
        "early_stopping must be False, True (the loss), the name of a scikit-learn scorer or a function of estimator, "
        f"X and y; got {early_stopping!r}. " + (f"Did you mean {close[0]!r}?" if close else "Use True.")
    )


def callbacks(given: object, verbose: object, early_stopping: object) -> list[Callback]:
    """Return the callbacks of a fit: those given, and those that ``verbose`` and ``early_stopping`` add."""
    chosen = _checked_callbacks(given)
    if not isinstance(verbose, int) or verbose not in (0, 1):
        raise InvalidParameter(f"verbose must be 0 (silent) or 1 (a progress line); got {verbose!r}. Use verbose=1.")
    if early_stopping and not any(callback.needs_score for callback in chosen):
        chosen.append(EarlyStopping())
    return [*chosen, Progress()] if verbose else chosen


def sigma(rule: Any, given: object, kernel: Kernel, x: Rows, w: Tensor | None, seed: int) -> float:
    """Return the bandwidth that ``rule`` gives on the distinct rows of positive weight of x, (n, d).

    So a row of weight 2 is the same as the row twice, and a row of weight 0 as none. Where all rows are equal, or
    inputs are divided by bandwidths of their own, the bandwidth is 1.
    """
    if np.ndim(rule):
        return 1.0
    share = 1.0
    if isinstance(rule, str) and rule == AUTO:
        if isinstance(given, Kernel):
            return given.bandwidth
        rule, share = "median", kernel.usual_share
    if not isinstance(rule, str) or not kernel.has_bandwidth:
        return choose_bandwidth(rule, kernel, x, seed)
    count = len(x) if w is None else int((w > 0).sum())
    chosen = sample_rows(count, x.shape[1], seed)
    rows = x.some(chosen if w is None else _positions(w, chosen))
    rows = rows.some(distinct(rows))
    return share * choose_bandwidth(rule, kernel, rows, seed) if len(rows) > 1 else 1.0


def _positions(w: Tensor, chosen: Tensor) -> Tensor:  # (n,), (k,) -> (k,)
    """Return the row numbers of the chosen ones among the rows of positive weight."""
    order = chosen.argsort()
    positions, seen = torch.empty_like(chosen), 0
    for rows in chunks(len(w)):
        positive = (w[rows] > 0).nonzero()[:, 0].cpu()
        ends = torch.tensor([seen, seen + len(positive)])
        here = order[slice(*torch.searchsorted(chosen[order], ends).tolist())]
        positions[here] = rows.start + positive[chosen[here] - seen]
        seen += len(positive)
    return positions


def check_count(name: str, given: object, number: int) -> None:
    """Raise an error for what is no whole number, "auto" or None."""
    if given is not None and given != AUTO and (isinstance(given, bool) or not isinstance(given, Integral)):
        raise InvalidParameter(f"{name} must be a whole number or 'auto'; got {given!r}. Use {name}={number}.")


def _checked_callbacks(given: Any) -> list[Callback]:
    if given is None:
        return []
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidParameter(
            f"callbacks must be None or a sequence of callbacks; got {given!r}. Use callbacks=[...], with brackets."
        )
    for callback in given:
        if isinstance(callback, Callback):
            continue
        remedy = "Derive yours from it, and override what you need."
        if isinstance(callback, type):
            remedy = f"Use {callback.__name__}(...), with parentheses."
        elif hasattr(callback, "on_fit_task_end"):
            remedy = "Give a callback of scikit-learn to set_callbacks instead."
        raise InvalidParameter(f"callbacks must be instances of joker.callbacks.Callback; got {callback!r}. {remedy}")
    return list(given)


MIN_BANDWIDTH = 1e-30  # an input divided by less may overflow float32
REMEDY = "Use an array such as np.ones(X.shape[1]), or one number for all inputs."


def check_bandwidths(bandwidths: NDArray[np.float64], kernel: Kernel, d: int) -> None:
    """Raise an error for bandwidths that are no array of d positive numbers, or where the kernel has none."""
    if not kernel.has_bandwidth:
        raise InvalidParameter(
            f"bandwidth must be left out for the kernel {kernel.name!r}, which has none; got an array. "
            "Multiply the inputs by weights of your own instead, or use another kernel."
        )
    if bandwidths.shape != (d,):
        raise InvalidParameter(
            f"bandwidth must have shape ({d},) where it is an array, one for each input; got {bandwidths.shape}. "
            f"{REMEDY}"
        )
    bad = np.flatnonzero(~(np.isfinite(bandwidths) & (bandwidths >= MIN_BANDWIDTH)))
    if len(bad):
        raise InvalidParameter(
            f"bandwidth must be positive finite numbers, of at least {MIN_BANDWIDTH:g}, where it is an array; found "
            f"{bandwidths[bad[0]]:g} for input {bad[0]}. Use a large number for an input that should not count."
        )


def bandwidths(given: Any, kernel: Kernel, d: int) -> NDArray[np.float64] | None:  # (d,)
    """Return the bandwidth of each of d inputs; None where one number or rule is for all inputs."""
    if isinstance(given, str | Real):
        return None
    try:
        found = np.array(as_array(given), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"bandwidth must be a number, a rule or an array of numbers; got {given!r}. {REMEDY}"
        ) from error
    if not found.ndim:
        return None
    check_bandwidths(found, kernel, d)
    return found


def scaling_by(
    mean: NDArray[np.float64] | None, deviation: NDArray[np.float64] | None, bandwidth: Any
) -> Scaling | None:  # (d,), (d,)
    """Return what inputs are shifted by, and divided by: the deviation, the bandwidth of the input, or the product."""
    standardized = mean is not None and deviation is not None
    scaling = Scaling(torch.from_numpy(mean), torch.from_numpy(deviation)) if standardized else None
    return divided_by(scaling, bandwidth) if np.ndim(bandwidth) else scaling


def divided_by(scaling: Scaling | None, bandwidths: NDArray[np.float64]) -> Scaling:  # (d,)
    """Return a scaling that divides each input by its bandwidth as well."""
    by = torch.from_numpy(bandwidths)
    return Scaling(torch.zeros(len(by)), by) if scaling is None else Scaling(scaling.mean, scaling.deviation * by)
