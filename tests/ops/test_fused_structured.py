"""Structured cosines in one pass, against the transforms in float64."""

import pytest
import torch

from joker.ops import structured


@pytest.mark.parametrize(("p", "n", "d", "blocks"), [(64, 66, 30, 2), (256, 17, 256, 2), (4096, 2, 3000, 1)])
def test_cosines(p, n, d, blocks, device, draw):
    x, m, skip = draw(n, d), blocks * p - 20, 7
    signs, radii, phase = draw(blocks, 3, p).sign(), 2 * p**-1.5 * draw(m).abs(), draw(m)
    # The interpreter takes a product of bfloat16 for one of whole numbers.
    psi = structured.launch_structured(
        x, signs, radii, phase, 0.7, skip, parts="bfloat16" if device == "cuda" else "float32"
    )
    plain = structured.project(x, signs, radii, skip)
    angle = structured.project(x.double(), signs.double(), radii.double(), skip)
    bound = 4 * (plain - angle).abs().max() + 1e-6
    assert ((psi - 0.7 * (angle + phase).cos()).abs() <= bound).all()
    assert (angle.std() > 1).all()  # else the cosine would hide a wrong transform


@pytest.mark.gpu
def test_the_card_takes_the_fused_form():
    x, signs, radii = (torch.ones(shape, device="cuda") for shape in ((2, 3), (1, 3, 64), (64,)))
    assert structured.structured_fused(x, signs, radii)
    assert not structured.structured_fused(x.double(), signs.double(), radii.double())
