"""The map that each kernel gets, and the arguments that are refused."""

import dataclasses

import pytest
import torch

from joker import features, kernels
from joker.errors import InvalidParameter, UnknownName
from joker.features.dot_product import Identity, TensorSketch
from joker.features.fourier import Fourier, FourierPairs, Structured
from joker.runtime import generator


@pytest.mark.parametrize("kind", [None, "auto"])
@pytest.mark.parametrize(
    ("kernel", "default"),
    [
        ("gaussian", Fourier),
        ("laplacian", Fourier),
        ("cauchy", Fourier),
        ("linear", Identity),
        ("polynomial", TensorSketch),
    ],
)
def test_each_kernel_has_a_default(kernel, default, kind):
    assert isinstance(features.draw(kernels.get(kernel), kind, 4, 4, 0), default)


@pytest.mark.parametrize(
    ("kind", "made"),
    [("fourier", Fourier), ("fourier_pairs", FourierPairs), ("orthogonal", Fourier), ("structured", Structured)],
)
def test_each_kind_has_its_map(kind, made):
    assert isinstance(features.draw(kernels.Gaussian(), kind, 4, 4, 0), made)


@pytest.mark.parametrize(
    ("kernel", "kind", "sentence"),
    [
        (
            "laplacian",
            "orthogonal",
            "needs a rotation-invariant kernel; the laplacian kernel is not one. Use features='fourier'",
        ),
        ("laplacian", "structured", "needs a rotation-invariant kernel; the laplacian"),
        ("linear", "fourier", "needs a stationary kernel; the linear kernel is not one. Use features='identity'."),
        ("polynomial", "fourier_pairs", "needs a stationary kernel; the polynomial"),
        ("gaussian", "identity", "needs the linear kernel; the gaussian"),
        ("matern32", "tensor_sketch", "needs a polynomial kernel; the matern32"),
    ],
)
def test_a_kind_that_does_not_suit_is_refused(kernel, kind, sentence):
    with pytest.raises(InvalidParameter, match=f"features='{kind}' {sentence}"):
        features.draw(kernels.get(kernel), kind, 4, 4, 0)


def test_a_misspelt_kind_is_named():
    with pytest.raises(UnknownName, match=r"features must be one of auto, .*; got 'forier'\. Did you mean 'fourier'\?"):
        features.draw(kernels.Gaussian(), "forier", 4, 4, 0)


@pytest.mark.parametrize("m", [0, -3, 2.5, "many", None])
@pytest.mark.parametrize("kernel", ["gaussian", "polynomial", "linear"])
def test_the_number_of_features_must_be_positive(kernel, m):
    with pytest.raises(InvalidParameter, match="n_features must be a whole number of at least 1; got"):
        features.draw(kernels.get(kernel), None, 4, m, 0)


def test_pairs_need_an_even_number():
    with pytest.raises(InvalidParameter, match=r"n_features must be even .* got 7\. Use 8, or features='fourier'"):
        features.draw(kernels.Gaussian(), "fourier_pairs", 4, 7, 0)


def test_the_linear_kernel_has_as_many_features_as_inputs():
    with pytest.raises(InvalidParameter, match=r"linear kernel.* got 5 with 4 inputs\. Use n_features=4\."):
        features.draw(kernels.Linear(), None, 4, 5, 0)


def test_a_kernel_without_features_says_so():
    @dataclasses.dataclass(frozen=True)
    class Plain(kernels.Linear):
        name = "plain"
        feature_kinds = ()

    for kind in (None, "fourier"):
        with pytest.raises(InvalidParameter, match=r"the plain kernel has none\. Use n_features=None"):
            features.draw(Plain(), kind, 4, 4, 0)


def test_a_user_defined_kernel_has_every_kind_of_its_base_class():
    @dataclasses.dataclass(frozen=True)
    class Wide(kernels.Radial):
        """1/√(1 + r²/σ²), the mixture with τ = |g|."""

        def profile(self, r2):
            return (1 + r2).rsqrt()

        def mixture(self, m, generator):
            return torch.randn(m, dtype=torch.float64, generator=generator).abs()

    kernel = Wide(0.7)
    x = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 3
    for kind in kernel.feature_kinds:
        psi = features.draw(kernel, kind, 5, 2**15, 0, dtype=torch.float64)(x)
        torch.testing.assert_close(psi @ psi.T, kernel(x, x), rtol=0, atol=0.03)


def test_the_draw_is_of_the_generator_named_features():
    """So that no other draw with the same seed gives the same numbers."""
    kernel = kernels.Gaussian()
    psi = features.draw(kernel, "fourier", 3, 10, 5, dtype=torch.float64)
    assert torch.equal(psi.weights, kernel.spectrum(3, 10, generator(5, "features")))
    assert not torch.equal(psi.weights, kernel.spectrum(3, 10, generator(5, "blocks")))


def test_maps_are_frozen():
    psi = features.draw(kernels.Gaussian(), None, 3, 10, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        psi.scale = 1.0


@pytest.mark.parametrize(
    ("kernel", "kind", "m"),
    [
        ("gaussian", "fourier", 6),
        ("gaussian", "fourier_pairs", 6),
        ("gaussian", "orthogonal", 6),
        ("gaussian", "structured", 6),
        ("linear", "identity", 4),
        ("polynomial", "tensor_sketch", 6),
    ],
)
def test_a_map_stores_how_it_was_drawn_and_a_slice_does_not(kernel, kind, m):
    """A second draw with the same arguments and type is equal to the last bit."""
    drawn = features.draw(kernels.get(kernel), None if kind == "fourier" else kind, 4, m, 3, dtype=torch.float32)
    origin = drawn.origin
    assert origin == features.Draw(kernels.get(kernel), kind, 4, m, 3)
    again = features.draw(origin.kernel, origin.kind, origin.d, origin.m, origin.seed, dtype=torch.float32)
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in drawn.tensors.items())
    assert drawn.to(torch.float64, "cpu").origin == origin
    assert drawn.slice(1, 3).origin is None
