"""Fused kernels run on the GPU where there is one, and elsewhere in Triton's interpreter on the CPU."""

import os
from importlib.util import find_spec

import numpy as np
import pytest
import torch

ON_GPU = torch.cuda.is_available()
HAS_TRITON = find_spec("triton") is not None
if HAS_TRITON and not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before any is imported

    from triton.runtime import interpreter

    class _AnyInt(type):
        def __instancecheck__(cls, value):
            return isinstance(value, int)

    class _Int(metaclass=_AnyInt):
        """The int() of the interpreter, also for an array with one entry, which NumPy 2.4 refuses."""

        def __new__(cls, value):
            return int(np.asarray(value).item())

    interpreter.int = _Int

INTERPRETED = pytest.param(
    "cpu",
    marks=[
        pytest.mark.skipif(not HAS_TRITON, reason="needs Triton, which is not installed"),
        pytest.mark.skipif(ON_GPU, reason="the same comparison runs on the GPU"),
    ],
)


@pytest.fixture(params=[INTERPRETED, pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Where a fused kernel runs."""
    return request.param


@pytest.fixture
def draw(device):
    """Draw float32 normals, the same on every device."""
    source = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(*shape, generator=source).to(device)
