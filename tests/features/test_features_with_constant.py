"""The feature that is always 1, added to any map."""

import pytest
import torch
from peak_memory import ROUNDING, peak_bytes

from joker import features, kernels
from joker.features.feature_map import FeaturesWithConstant


def maps(dtype: torch.dtype = torch.float64) -> list[tuple[features.FeatureMap, FeaturesWithConstant]]:
    drawn = [features.draw(kernels.get(name), None, 3, 3, 0, dtype=dtype) for name in ("linear", "gaussian")]
    return [(inner, FeaturesWithConstant(inner, dtype.itemsize)) for inner in drawn]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_it_is_the_last_feature(dtype: torch.dtype) -> None:
    x = torch.randn(5, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    for inner, psi in maps(dtype):
        assert (psi.n_inputs, psi.n_features) == (3, 4)
        torch.testing.assert_close(psi(x)[:, :3], inner(x))
        assert torch.equal(psi(x)[:, 3], torch.ones(5, dtype=dtype))


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 3), (2, 4), (0, 0)])
def test_a_slice_is_a_slice_of_the_features(start: int, stop: int) -> None:
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for _, psi in maps():
        torch.testing.assert_close(psi.slice(start, stop)(x), psi(x)[:, start:stop])


def test_it_moves_with_its_map_and_keeps_its_memory() -> None:
    x = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
    for _, psi in maps():
        single = psi.to(torch.float32, "cpu")
        assert single(x).dtype == torch.float32
        assert peak_bytes(lambda single=single: single(x)) <= single.work_bytes(len(x)) + ROUNDING
