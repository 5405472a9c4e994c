"""Outlines: maps without numbers that have the sizes of drawn maps, and the memory that drawing needs."""

import pytest
import torch
from peak_memory import peak_bytes

from joker import features, kernels
from joker.features import FeatureMap
from joker.features.feature_map import FeaturesWithConstant

CASES = [("gaussian", kind) for kind in kernels.get("gaussian").feature_kinds]
CASES += [("matern32", "fourier"), ("laplacian", "fourier"), ("polynomial", "tensor_sketch")]


def sizes(found: FeatureMap) -> list[int]:
    part = found.slice(0, found.n_features // 2)
    asked = [found.n_inputs, found.n_features, found.nbytes, found.apply_bytes(7, 3), part.n_features]
    return asked + [f(b) for f in (found.work_bytes, found.fill_bytes, part.work_bytes) for b in (1, 9)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("name", "kind"), [*CASES, ("linear", "identity")])
def test_an_outline_has_the_sizes_of_the_map(name: str, kind: str, dtype: torch.dtype) -> None:
    kernel, d = kernels.get(name), 20
    m = d if kind == "identity" else 1_000
    drawn = features.draw(kernel, kind, d, m, 0, dtype=dtype)
    found, _ = features.outline(kernel, kind, d, m, dtype=dtype)
    assert sizes(found) == sizes(drawn)
    assert sizes(FeaturesWithConstant(found, dtype.itemsize)) == sizes(FeaturesWithConstant(drawn, dtype.itemsize))
    assert drawn.nbytes == sum(tensor.numel() * tensor.element_size() for tensor in drawn.tensors.values())


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("d", [3, 40, 300])
def test_drawing_needs_the_memory_that_the_outline_states(name: str, kind: str, d: int) -> None:
    kernel, m = kernels.get(name), 2_000
    found, beside = features.outline(kernel, kind, d, m)
    peak = peak_bytes(lambda: features.draw(kernel, kind, d, m, 0))
    assert peak <= beside + found.nbytes + 2**16


@pytest.mark.parametrize("kind", ["fourier", "fourier_pairs", "structured"])
def test_an_outline_needs_no_memory(kind: str) -> None:
    def both_halves() -> object:
        found = features.outline(kernels.get("gaussian"), kind, 3_000, 100_000)[0]
        return found, found.slice(0, 50_000), found.slice(50_000, 100_000)

    assert peak_bytes(both_halves) <= 2**20
