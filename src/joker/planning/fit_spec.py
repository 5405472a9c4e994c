"""What a fit was asked for, with every "auto" resolved: planning and `prepare` read it, and nothing else decides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from joker import features as feature_maps
from joker.data import Rows, Scaling
from joker.features import FeatureMap
from joker.features.with_constant import WithConstant as FeaturesWithConstant
from joker.kernels import Kernel
from joker.kernels.with_constant import WithConstant as KernelWithConstant
from joker.solvers import Settings
from joker.solvers.settings import RANDOM

ORDER_BYTES = 8  # of the random orders of an epoch and of the next one, for each row


@dataclass(frozen=True, eq=False, kw_only=True)
class FitSpec:
    """The decisions of one fit.

    Parameters
    ----------
    rows, inputs, targets : int
        The number of training rows n, of inputs d, and of columns for one λ.
    device, dtype : torch.device, torch.dtype
        Where the fit computes, and in which floating-point type.
    kernel : Kernel
        The kernel, without the constant of an intercept. Its bandwidth is final once rows exist.
    settings : Settings
        The settings of the solve, its block size and its method included.
    mixed : bool
        Whether the kernel matrix of a block may be computed in low precision.
    n_features, features : int or None, str or None
        The number of random features and their kind; None uses the kernel itself.
    intercept : bool
        Whether a constant feature is added.
    scaling : Scaling, optional
        What inputs are shifted and divided by.
    rows_on_host : bool
        Whether the rows stay in host memory while a GPU computes.
    n_lams : int
        The number of values of λ.
    scored : bool
        Whether rows are held out, so that every λ gets a model of its own.
    saved_states, saved_machines : int
        Copies of the state and of the weights that callbacks make at an evaluation of the gap.
    keeps_state : bool
        Whether a copy of the state is kept for a warm start.
    """

    rows: int
    inputs: int
    targets: int
    device: torch.device
    dtype: torch.dtype
    kernel: Kernel
    settings: Settings
    mixed: bool = False
    n_features: int | None = None
    features: str | None = None
    intercept: bool = False
    scaling: Scaling | None = None
    rows_on_host: bool = False
    n_lams: int = 1
    scored: bool = False
    saved_states: int = 0
    saved_machines: int = 0
    keeps_state: bool = False

    def __post_init__(self) -> None:
        feature_maps.check(self.kernel, self.features, self.inputs, self.n_features)

    @property
    def columns(self) -> int:
        """The number t of columns, those of every λ included."""
        return self.targets * self.n_lams

    @property
    def block_rows(self) -> int:
        """The number b of rows in a block, at most."""
        return min(self.settings.block_size, self.rows)

    @property
    def averages(self) -> bool:
        """Whether the average of the iterates is kept."""
        return self.settings.averaging and self.settings.method == RANDOM

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.device.type == "cuda"

    @property
    def full_kernel(self) -> Kernel:
        """The kernel with the constant of the intercept."""
        return KernelWithConstant(self.kernel) if self.intercept else self.kernel

    @cached_property
    def outline(self) -> tuple[FeatureMap | None, int]:
        """The feature map without its numbers, and the bytes that drawing it takes beside it."""
        if self.n_features is None:
            return None, 0
        size = (self.inputs, self.n_features)
        plain, drawing = feature_maps.outline(self.kernel, self.features, *size, dtype=self.dtype, device=self.device)
        return self._with_constant(plain), drawing

    def draw(self) -> FeatureMap | None:
        """Draw the feature map; None where the kernel itself is used."""
        if self.n_features is None:
            return None
        size, seed = (self.inputs, self.n_features), self.settings.seed
        return self._with_constant(
            feature_maps.draw(self.kernel, self.features, *size, seed, dtype=self.dtype, device=self.device)
        )

    def _with_constant(self, plain: FeatureMap) -> FeatureMap:
        return FeaturesWithConstant(plain, self.dtype.itemsize) if self.intercept else plain


@dataclass(frozen=True)
class RowReading:
    """What reading training rows takes.

    Parameters
    ----------
    row_bytes : int
        Bytes that reading one row takes; 0 where a tile is a view.
    order_bytes : int
        Bytes of the random order of the rows; 0 where they are stored in random order.
    place : str
        Where the rows are, in words.
    """

    row_bytes: int = 0
    order_bytes: int = 0
    place: str = "where they are"

    @classmethod
    def of(cls, x: Rows) -> RowReading:
        """Return what reading these rows takes."""
        return cls(x.row_bytes, 0 if x.shuffled else ORDER_BYTES * len(x))
