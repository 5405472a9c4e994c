"""A smallest kernel, which shows whether kernels can be compiled and run here."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def one_kernel(
    out,  # (1,)
):
    """Write 1."""
    tl.store(out, 1.0)
