"""Structured cosines in one pass, against the transforms in float64."""

import pytest
import torch

from joker.ops import fourier


@pytest.mark.parametrize(("p", "n", "d", "blocks"), [(64, 66, 30, 2), (256, 17, 250, 1), (4096, 2, 3000, 1)])
def test_cosines(p, n, d, blocks, device, draw):
    if device == "cuda" and p == 256:
        pytest.skip("the shortest and the longest transform are enough to compile")
    x, m, skip = draw(n, d), blocks * p - 20, 7
    signs, radii, phase = draw(blocks, 3, p).sign(), 2 * p**-1.5 * draw(m).abs(), draw(m)
    psi = torch.full((n, m + 2), torch.nan, device=device)[:, :m]
    low = torch.full((n, m + 2), torch.nan, device=device, dtype=torch.bfloat16)[:, :m]
    # The interpreter takes a product of bfloat16 for one of whole numbers.
    parts = "bfloat16" if device == "cuda" else "float32"
    fourier.launch_structured(x, signs, radii, phase, 0.7, skip, psi, low, parts=parts)
    plain = fourier.project(x, signs, radii, skip)
    angle = fourier.project(x.double(), signs.double(), radii.double(), skip)
    want, bound = 0.7 * (angle + phase).cos(), 4 * (plain - angle).abs().max() + 1e-6
    assert ((psi - want).abs() <= bound).all()
    torch.testing.assert_close(low.float(), psi, rtol=2**-7, atol=0)
    assert (angle.std() > 1).all()  # else the cosine would hide a wrong transform


def test_the_plain_form_writes_the_same(draw):
    x, signs, radii, phase = draw(5, 3), draw(1, 3, 64).sign(), draw(40), draw(40)
    out, low = torch.empty(5, 40, device=x.device), torch.empty(5, 40, device=x.device, dtype=torch.bfloat16)
    psi = fourier.structured_cosines(x, signs, radii, phase, 0.5, 3)
    assert fourier.structured_cosines(x, signs, radii, phase, 0.5, 3, out=out, low=low) is out
    assert torch.equal(out, psi)
    assert torch.equal(low, psi.bfloat16())


@pytest.mark.gpu
def test_the_gpu_uses_the_fused_form():
    signs = torch.ones(1, 3, 64, device="cuda")
    assert fourier.structured_fused(signs)
    assert not fourier.structured_fused(signs.double())
