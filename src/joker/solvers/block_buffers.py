"""Two buffers for blocks: one block is solved while the next one is prepared in the other buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from joker.ops.bfloat16_gram import TENSOR_CORE_MULTIPLE
from joker.ops.triton_support import round_up

GramAndFeatures = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # inputs (b, d), out (b, m) -> K (b, b), ψ in out


@dataclass(frozen=True)
class PreparedBlock:
    """The tensors of a block that do not depend on α, so that they can be computed in advance."""

    K: Tensor  # (b, b)
    psi: Tensor  # (b, m)


class BlockBuffers:
    """Memory for two prepared blocks, numbered 0 and 1.

    Parameters
    ----------
    b, m : int
        The largest number of rows of a block, and the number of features.
    like : Tensor
        A tensor with the type and the device of the buffers.
    compute : callable
        ``compute(x, out)`` writes the features of the inputs ``x`` to ``out`` and returns K and the features.
    """

    def __init__(self, b: int, m: int, like: Tensor, compute: GramAndFeatures) -> None:
        self.b, self.m, self._like, self._compute = b, m, like, compute
        self.memory: PreparedBlock | None = None

    def allocate(self) -> None:
        """Allocate both buffers, unless they exist: captured steps refer to their addresses."""
        if self.memory is None:
            b, new = self.b, self._like.new_empty
            widths = round_up(b, TENSOR_CORE_MULTIPLE), round_up(self.m, TENSOR_CORE_MULTIPLE)
            self.memory = PreparedBlock(new(2, b, widths[0]), new(2, b, widths[1]))

    def release(self) -> None:
        """Free both buffers."""
        self.memory = None

    def prepare(self, x: Tensor, buffer: int) -> None:  # (b, d)
        """Compute the block with these inputs in one of the buffers."""
        block = self.block(buffer, len(x))
        block.K.copy_(self._compute(x, block.psi)[0])

    def block(self, buffer: int, b: int) -> PreparedBlock:
        """Return the block of b rows in one of the buffers."""
        assert self.memory is not None
        return PreparedBlock(self.memory.K[buffer, :b, :b], self.memory.psi[buffer, :b, : self.m])
