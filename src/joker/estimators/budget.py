"""What a fit or a prediction of an estimator holds in memory, by its settings and its data."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier

from joker import features as feature_maps
from joker import kernels
from joker.callbacks import Callback
from joker.data import Blocks, Rows, Scaling, Store
from joker.estimators import resolve
from joker.estimators.input_bandwidths import scaling_by, widths_of
from joker.estimators.inputs import (
    FLOATS,
    RowSubset,
    as_array,
    copied_bytes,
    dense_row_bytes,
    is_sparse,
    place_of,
    stored_type,
    whole_of,
)
from joker.estimators.sketch import sketch_of
from joker.estimators.training_set import Sample
from joker.estimators.watchers import watchers
from joker.features import FeatureMap
from joker.features.with_constant import WithConstant as FeaturesWithConstant
from joker.kernels import Kernel
from joker.kernels.with_constant import WithConstant as KernelWithConstant
from joker.models import Machine
from joker.planning import LAYOUT, FitLayout, Item, Plan, PredictLayout, plan_fit, plan_predict

if TYPE_CHECKING:
    from joker.estimators.base import KernelEstimator

LIBRARIES = 32 * 10**6  # code that torch, NumPy and BLAS load when first used, and buffers that they keep: 25 to 30 MB
CARD_LIBRARIES = 72 * 10**6  # two work spaces of cuBLAS, 32 MiB each on a Hopper card
CHECKS = 12 * 10**6  # looking at rows and targets a part at a time, and reading a bandwidth off some of them
SPLITTING = 80  # bytes a row that scikit-learn takes to choose the rows to hold out
ENTRY = 18  # bytes an entry of a sparse matrix that checking its order takes


@dataclass(frozen=True, eq=False)
class Sizes:
    """The data of a fit as its plan sees them.

    Parameters
    ----------
    x : array, sparse matrix, part of one, or Rows
        The rows that are trained on.
    n, t : int
        Their number, and the columns of their targets for one λ.
    target : int
        The bytes of a target as it is coded.
    all_rows, held : int
        The rows that were given, and those of them that are held out.
    scored : bool
        Whether there are rows to score on, so that every λ has a machine.
    weights : bool
        Whether rows have weights.
    copied : int
        The bytes of a copy that checking the rows has made.
    label : int
        The bytes of a class as it was given; 0 where targets are numbers.
    """

    x: Any
    n: int
    t: int
    target: int
    all_rows: int
    held: int = 0
    scored: bool = False
    weights: bool = False
    copied: int = 0
    label: int = 0

    @property
    def d(self) -> int:
        """The number of inputs."""
        return int(self.x.shape[1])

    @classmethod
    def of(cls, sample: Sample, all_rows: int, scored: bool, label: int) -> Sizes:
        """Return the sizes of a sample, of rows of which those that are not in it are held out."""
        y = sample.y
        n, weights = len(y), sample.w is not None
        return cls(sample.x, n, y.shape[1], y.itemsize, all_rows, all_rows - n, scored, weights, sample.copied, label)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit that is to be planned: an estimator, its data, and what they were found to need."""

    model: KernelEstimator
    sizes: Sizes
    lams: list[float]
    place: torch.device
    callbacks: list[Callback]
    scaling: Scaling | None

    def plan(self) -> Plan:
        """Return the plan; BudgetTooSmall where there is none within ``memory``."""
        model, sizes = self.model, self.sizes
        budget, scratch = resolve.budget(model.memory), resolve.memory(model.memory, self.place)
        room = 0 if budget is not None else dense_row_bytes(sizes.x)  # a plan counts what rows take
        blocks = resolve.block_sizes(model.block_size, sizes.n, room, scratch, budget is not None)
        return plan_fit(self._layouts(blocks), budget, scratch)

    def _layouts(self, blocks: list[int]) -> Iterator[FitLayout]:
        """What may be done, the best first: on a card rows come from the host before blocks become small."""
        x = self.sizes.x
        movable = self.place.type == "cuda" and not is_sparse(x) and not isinstance(x, Rows)
        for b in blocks:
            for host in (False, True) if movable and resolve.budget(self.model.memory) is not None else (False,):
                yield self._layout(b, host)

    def _layout(self, b: int, host: bool) -> FitLayout:
        model, sizes, place, repeats = self.model, self.sizes, self.place, len(self.lams)
        n, d = sizes.n, sizes.d
        Blocks(n, b)  # refuses what is no number of rows
        dtype, mixed = resolve.precision(model.precision, model.dtype, b >= n, place)
        kernel, features, drawing = self._kernel(dtype)
        exact, card = features is None, place.type == "cuda"
        rows = sketch_of(sizes.x, dtype, place, copy=exact, host=host, scaling=self.scaling)
        return FitLayout(
            rows=n,
            inputs=d,
            columns=sizes.t * repeats,
            kept_columns=sizes.t * (1 + repeats * sizes.scored),
            block_size=b,
            dtype=dtype,
            device=place,
            kernel=kernel,
            features=features,
            draw_bytes=0 if card else drawing,
            low=mixed and card,
            row_bytes=rows.row_bytes,
            order_bytes=0 if rows.shuffled else 4 * n,
            averaging=bool(model.averaging),
            momentum=bool(model.momentum),
            copies=sum(callback.copies for callback in self.callbacks),
            kept=sum(callback.needs_score for callback in self.callbacks),
            left=bool(model.warm_start),
            own=_on_card(sizes, repeats, dtype, host) if card else _in_memory(sizes, repeats, dtype, exact),
            rows_place=_place(sizes.x, place, exact, host),
            host=host,
        )

    def _kernel(self, dtype: torch.dtype) -> tuple[Kernel, FeatureMap | None, int]:
        """The kernel, the outline of its features where there are any, and the bytes that drawing them holds."""
        model, n, d = self.model, self.sizes.n, self.sizes.d
        kernel = kernels.get(model.kernel)
        m = resolve.n_features(model.n_features, model.features, kernel, n, d)
        constant = KernelWithConstant(kernel) if model.fit_intercept else kernel
        if m is None:
            return constant, None, 0
        outline, drawing = feature_maps.outline(kernel, model.features, d, m, dtype=dtype, device=self.place)
        return constant, FeaturesWithConstant(outline, dtype.itemsize) if model.fit_intercept else outline, drawing


def _place(x: Any, place: torch.device, copied: bool, host: bool) -> str:
    if isinstance(x, Rows) and not copied:
        return "in their file"
    if place.type == "cuda":
        return "in the memory of the host" if host else "on the card"
    return "in a copy that the machine keeps" if copied else "where they are, in your own array"


def _in_memory(sizes: Sizes, repeats: int, dtype: torch.dtype, copied: bool) -> tuple[Item, ...]:
    """What an estimator holds on the CPU."""
    n, t, s = sizes.n, sizes.t, dtype.itemsize
    apart = 0 if isinstance(sizes.x, Rows) else sizes.held  # of a store the last rows are held out, where they are
    part = 8 * n if apart else 0
    held = apart * (_row_bytes(sizes.x) + t * sizes.target)
    coding = sizes.all_rows * (2 * sizes.label + 10 + t if sizes.label else 0)
    return (
        _libraries(card=False),
        Item("rows, as they are checked", sizes.copied),
        Item("copy of the rows", _copy_bytes(sizes.x, dtype) if copied else _cast_bytes(sizes.x, dtype)),
        Item("numbers of the rows trained on", part),
        Item("rows held out", held),
        Item("targets", _target_bytes(sizes, repeats, s) + sizes.all_rows * (sizes.label > 0)),
        Item("weights", (8 * sizes.all_rows + part + s * n) * sizes.weights),
        Item("looking at the data", CHECKS + _check_bytes(sizes.x) + coding, (LAYOUT,)),
        Item("choosing the rows held out", sizes.all_rows * SPLITTING * bool(apart), (LAYOUT,)),
    )


def _on_card(sizes: Sizes, repeats: int, dtype: torch.dtype, host: bool) -> tuple[Item, ...]:
    """What an estimator holds on a card."""
    n, s, x = sizes.n, dtype.itemsize, whole_of(sizes.x)
    numbers = sizes.t * (1 if sizes.t == 1 else repeats)
    streams = host or isinstance(x, Rows)
    kept = _copy_bytes(x, dtype) if sp.issparse(x) else x.shape[0] * x.shape[1] * _kept(x, dtype)
    return (
        _libraries(card=True),
        Item("rows", 0 if streams else kept),
        Item("numbers of the rows trained on", 8 * n if sizes.held and not host else 0),
        Item("targets", n * numbers * (1 if sizes.target == 1 else s)),
        Item("weights", s * n * sizes.weights),
        Item("looking at the data", CHECKS + (0 if streams else _check_bytes(x)), (LAYOUT,)),
    )


def _libraries(card: bool) -> Item:
    return Item("work space of cuBLAS", CARD_LIBRARIES) if card else Item("libraries, at their first use", LIBRARIES)


def _target_bytes(sizes: Sizes, repeats: int, itemsize: int) -> int:
    """The targets as they are coded, of the rows trained on and of all, and those of all columns."""
    coded = sizes.target * sizes.t * (sizes.n + (sizes.all_rows if sizes.held else 0))
    shared = sizes.t == 1 or repeats == 1
    if sizes.target == 1:
        return coded + (0 if shared else sizes.n * sizes.t * repeats)
    return coded + itemsize * sizes.n * sizes.t * (1 if shared else repeats + 1)


def _kept(x: Any, dtype: torch.dtype) -> int:
    """The bytes of an entry of a copy."""
    return min(int(stored_type(x).itemsize), dtype.itemsize)


def _row_bytes(x: Any) -> int:
    """The bytes of a row as it is kept, about."""
    whole = whole_of(x)
    if sp.issparse(whole):
        return int(whole.nnz * (whole.dtype.itemsize + whole.indices.itemsize) / max(1, whole.shape[0])) + 9
    return int(whole.shape[1] * whole.dtype.itemsize)


def _copy_bytes(x: Any, dtype: torch.dtype) -> int:
    """A copy of the rows, in their own type where that is smaller."""
    whole = whole_of(x)
    if sp.issparse(whole):
        return int(whole.nnz * (whole.indices.itemsize + whole.dtype.itemsize + dtype.itemsize) + 8 * (x.shape[0] + 1))
    twice = 1 if isinstance(whole, Rows) or whole.flags.c_contiguous else 2
    return int(twice * x.shape[0] * x.shape[1] * _kept(whole, dtype))


def _cast_bytes(x: Any, dtype: torch.dtype) -> int:
    """What of a sparse matrix has to be another type."""
    whole = whole_of(x)
    if not sp.issparse(whole):
        return 0
    return int(whole.nnz * dtype.itemsize + 8 * (whole.shape[0] + 1))


def _check_bytes(x: Any) -> int:
    whole = whole_of(x)
    return int(ENTRY * whole.nnz + 16 * whole.shape[0]) if sp.issparse(whole) else 0


def plan_of_predict(model: KernelEstimator, machine: Machine, x: Any, result: NDArray[Any], copied: int) -> Plan:
    """Return the plan of a prediction whose result for one row is like ``result``."""
    place = machine.constant.device
    card, budget = place.type == "cuda", resolve.budget(model.memory)
    host = card and budget is not None
    rows = sketch_of(x, machine.dtype, place, copy=False, host=host, scaling=model._scaling)
    own = (
        _libraries(card),
        Item("rows, as they are checked", copied * (not card)),
        Item("copy of the rows", 0 if card else _cast_bytes(x, machine.dtype) + _check_bytes(x)),
    )
    layout = PredictLayout(
        rows=x.shape[0],
        inputs=x.shape[1],
        columns=len(machine.constant),
        machine=machine,
        device=place,
        row_bytes=rows.row_bytes,
        result_bytes=0 if card else result.nbytes,
        own=own,
        rows_place=_place(x, place, False, host),
        host=host,
    )
    return plan_predict(layout, budget, resolve.memory(model.memory, place))


def plan_without_fit(model: KernelEstimator, X: Any, y: Any) -> Plan:
    """Return the plan of a fit to X and y, or to X and one column."""
    lams = resolve.penalties(model.lam)
    callbacks = watchers(model.callbacks, model.verbose, model.early_stopping)
    place = place_of(X, model.device)
    x = copy.copy(model)._check_rows(X)
    n, d = x.shape
    scored = bool(np.ndim(model.lam)) or any(callback.needs_score for callback in callbacks)
    held = math.ceil(n * resolve.fraction(model.validation_fraction)) if scored else 0
    part = RowSubset(x, np.broadcast_to(np.intp(0), (n - held,))) if held and not isinstance(x, Rows) else x
    t, target, label = _targets_of(model, X.y if y is None and isinstance(X, Store) else y, place)
    sizes = Sizes(part, n - held, t, target, n, held, scored, copied=copied_bytes(X, x), label=label)
    widths = widths_of(model.bandwidth, kernels.get(model.kernel), d)
    figures = np.ones(d) if model.standardize else None
    return Fit(model, sizes, lams, place, callbacks, scaling_by(figures, figures, widths)).plan()


def _targets_of(model: KernelEstimator, y: Any, place: torch.device) -> tuple[int, int, int]:
    """Return how many columns targets have, the bytes of one as it is coded, and of a class as it was given."""
    given = None if y is None else np.asarray(as_array(y))
    if is_classifier(model):
        classes = np.zeros(2) if given is None else np.unique(given)
        return (1 if len(classes) <= 2 else len(classes)), 1, classes.itemsize
    width = model._loss_of_columns(1, place).box(torch.zeros(1, 1, device=place))[0].shape[1]
    if given is None:
        return width, 8, 0
    t = 1 if given.ndim == 1 else given.shape[1]
    return max(t, width), given.itemsize if given.dtype in FLOATS else 8, 0
