"""The laws of every feature map, checked for a list of kernels and kinds: add a new one to the list."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peak_memory import ROUNDING, peak_bytes

from joker import features, kernels
from joker.features.feature_map import FeaturesWithConstant

SIGMA = 0.8
D = 3
PAIRS = [
    (kernel, kind)
    for kernel in (kernels.get(name, bandwidth=SIGMA) for name in kernels.KERNELS)
    for kind in kernel.feature_kinds
]
PAIRS.append((kernels.Polynomial(1.2, degree=2), "tensor_sketch"))
PAIRS.append((kernels.Polynomial(1.2, degree=1), "tensor_sketch"))
KINDS = list({kind: (kernel, kind) for kernel, kind in reversed(PAIRS)}.values())  # one kernel for each kind

every_pair = pytest.mark.parametrize(("kernel", "kind"), PAIRS, ids=str)
every_kind = pytest.mark.parametrize(("kernel", "kind"), KINDS, ids=str)


def rows(n, d=D, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def draw(kernel, kind, m, d=D, seed=0, dtype=torch.float64):
    return features.draw(kernel, kind, d, d if kind == "identity" else m, seed, dtype=dtype)


@every_pair
@pytest.mark.parametrize(("d", "m", "draws"), [(3, 512, 128), (80, 384, 48)])
def test_the_mean_inner_product_is_the_kernel(kernel, kind, d, m, draws):
    """A wrong scale, spectrum or radius would change the mean by much more than its standard error of 0.003."""
    x = rows(2, d, seed=1) / math.sqrt(d)
    z = torch.cat([x, x + 0.4 * rows(2, d, seed=2) / math.sqrt(d), rows(2, d, seed=3) / math.sqrt(d)])
    maps = [draw(kernel, kind, m, d, seed) for seed in range(draws)]
    products = torch.stack([psi(x) @ psi(z).T for psi in maps])  # (draws, 2, 6)
    error = products.mean(dim=0) - kernel(x, z)
    assert (error.abs() < 5 * products.std(dim=0) / math.sqrt(draws) + 1e-12).all()


@every_pair
def test_more_features_have_a_smaller_error(kernel, kind):
    """The error of m features is about 1/√m."""
    x = rows(20) / 2
    few, many = (draw(kernel, kind, m, seed=5)(x) for m in (64, 16384))
    error = [(psi @ psi.T - kernel(x, x)).square().mean().sqrt() for psi in (few, many)]
    assert error[1] < max(0.3 * error[0], 1e-12)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("d", [1, 3, 70])
@pytest.mark.parametrize("m", [2, 130])
def test_shapes_and_dtypes(kernel, kind, d, m, dtype):
    psi = draw(kernel, kind, m, d, dtype=dtype)
    x = rows(5, d, dtype=dtype)
    before = x.clone()
    assert psi.n_features == (d if kind == "identity" else m)
    assert psi.n_inputs == d
    assert psi(x).shape == (5, psi.n_features)
    assert psi(x).dtype == dtype
    assert torch.equal(x, before)


@every_kind
@settings(max_examples=30)
@given(data=st.data())
def test_slices_are_columns(kernel, kind, data):
    """Also slices of slices, for which a structured map must find its blocks."""
    psi = draw(kernel, kind, 200, 70)
    x = rows(4, 70)
    start = data.draw(st.integers(0, psi.n_features - 1))
    stop = data.draw(st.integers(start + 1, psi.n_features))
    part = psi.slice(start, stop)
    assert part.n_features == stop - start
    torch.testing.assert_close(part(x), psi(x)[:, start:stop], rtol=1e-10, atol=1e-12)
    first = data.draw(st.integers(0, stop - start - 1))
    last = data.draw(st.integers(first + 1, stop - start))
    torch.testing.assert_close(part.slice(first, last)(x), psi(x)[:, start:stop][:, first:last], rtol=1e-10, atol=1e-12)


@every_kind
def test_slices_add_up_to_the_kernel_of_the_whole(kernel, kind):
    psi = draw(kernel, kind, 256, 70)
    x = rows(6, 70)
    cuts = range(0, psi.n_features, 60)
    parts = [psi.slice(cut, min(cut + 60, psi.n_features))(x) for cut in cuts]
    torch.testing.assert_close(sum(part @ part.T for part in parts), psi(x) @ psi(x).T, rtol=1e-10, atol=1e-12)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("d", [3, 70])
def test_the_work_space_is_counted(kernel, kind, d, dtype):
    psi = draw(kernel, kind, 500, d, dtype=dtype)
    x = rows(40, d, dtype=dtype)
    for part in (psi, psi.slice(1, psi.n_features // 2)):
        peak = peak_bytes(lambda part=part: part(x))
        assert peak <= part.work_bytes(40) + ROUNDING
        assert peak >= 0.8 * part.work_bytes(40)


@every_kind
def test_features_are_written_to_given_tensors(kernel, kind):
    """Into the columns of a larger matrix, and rounded into another matrix."""
    psi = draw(kernel, kind, 40, dtype=torch.float32)
    x, m = rows(5, dtype=torch.float32), psi.n_features
    out, low = torch.full((5, m + 2), torch.nan), torch.full((5, m + 2), torch.nan, dtype=torch.bfloat16)
    assert psi.fill(x, out[:, 1:-1], low[:, 1:-1]).data_ptr() == out[:, 1:-1].data_ptr()
    torch.testing.assert_close(out[:, 1:-1], psi(x), rtol=0, atol=1e-6)
    torch.testing.assert_close(low[:, 1:-1], out[:, 1:-1].bfloat16(), rtol=0, atol=0)
    assert out[:, [0, -1]].isnan().all()
    assert low[:, [0, -1]].isnan().all()


@every_kind
def test_the_memory_of_filling_is_counted(kernel, kind):
    psi = draw(kernel, kind, 500, 70)
    x, out = rows(40, 70), torch.empty(40, psi.n_features, dtype=torch.float64)
    assert peak_bytes(lambda: psi.fill(x, out)) <= psi.fill_bytes(40) + ROUNDING


@every_kind
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("b", [1, 16, 37])
def test_the_mixed_form_is_padded_with_zeros(kernel, kind, constant, b):
    psi = draw(kernel, kind, 40, dtype=torch.float32)
    psi = FeaturesWithConstant(psi, 4) if constant else psi
    x = rows(b, dtype=torch.float32)
    high, low = psi.mixed(x)
    assert low.dtype == torch.bfloat16
    m = psi.n_features
    assert low.shape == (-(-b // 16) * 16, -(-m // 16) * 16)
    torch.testing.assert_close(high, psi(x), rtol=0, atol=0)
    torch.testing.assert_close(low[:b, :m], high.bfloat16(), rtol=0, atol=0)
    assert not low[b:].any()
    assert not low[:, m:].any()
    assert peak_bytes(lambda: psi.mixed(x)) <= psi.work_bytes(b) + low.nbytes + ROUNDING


@every_kind
@pytest.mark.parametrize("constant", [False, True])
def test_it_is_applied_to_weights(kernel, kind, constant):
    psi = draw(kernel, kind, 300, 70)
    psi = FeaturesWithConstant(psi, 8) if constant else psi
    x, theta = rows(40, 70), rows(psi.n_features, 3, seed=4)
    torch.testing.assert_close(psi.apply(x, theta), psi(x) @ theta, rtol=1e-10, atol=1e-10)
    result = 8 * 40 * 3
    assert peak_bytes(lambda: psi.apply(x, theta)) <= psi.apply_bytes(40, 3) + result + ROUNDING


@every_kind
def test_a_seed_is_a_draw(kernel, kind):
    x = rows(5)
    psi = draw(kernel, kind, 40, seed=1)(x)
    torch.manual_seed(3)
    assert torch.equal(psi, draw(kernel, kind, 40, seed=1)(x))
    if kind != "identity":
        assert not torch.equal(psi, draw(kernel, kind, 40, seed=2)(x))


@every_kind
def test_the_draw_does_not_depend_on_the_dtype(kernel, kind):
    """Features are drawn in float64 and rounded; a draw in float32 would differ."""
    psi32, psi64 = (draw(kernel, kind, 40, dtype=dtype) for dtype in (torch.float32, torch.float64))
    x = rows(5)
    torch.testing.assert_close(psi32(x.float()).double(), psi64(x), rtol=0, atol=1e-4)
    torch.testing.assert_close(psi64.to(torch.float32, "cpu")(x.float()), psi32(x.float()), rtol=0, atol=0)


@pytest.mark.gpu
@every_kind
def test_the_accelerator_agrees(kernel, kind):
    x = rows(64, 20, dtype=torch.float32) / 4
    here = features.draw(kernel, kind, 20, 20 if kind == "identity" else 300, 0)
    there = features.draw(kernel, kind, 20, here.n_features, 0, device="cuda")
    torch.testing.assert_close(there(x.cuda()).cpu(), here(x), rtol=0, atol=1e-4)


@pytest.mark.gpu
@every_kind
def test_a_call_can_be_captured(kernel, kind):
    """A copy from host memory or a wait for the device would end the capture."""
    psi = features.draw(kernel, kind, 20, 20 if kind == "identity" else 300, 0, device="cuda")
    x, later = rows(64, 20, dtype=torch.float32).cuda(), rows(64, 20, seed=1, dtype=torch.float32).cuda()
    psi(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = psi(x).clone()  # a graph with a view only would be empty
    x.copy_(later)
    graph.replay()
    torch.testing.assert_close(captured, psi(later))
