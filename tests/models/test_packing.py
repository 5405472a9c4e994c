"""Values are the same after JSON, and values of other types are refused."""

import json
import math
from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from joker import kernels, losses
from joker.errors import InvalidFile, InvalidParameter
from joker.models.packing import CustomObjects, decode, encode, is_custom, stable_repr

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
FEW = partial(st.lists, max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=6,
)


def through_json(value: Any) -> Any:
    text = json.dumps(encode(value), allow_nan=False)
    return decode(json.loads(text), CustomObjects())


@settings(max_examples=50)
@given(VALUES)
def test_values_are_the_same_after_json(value: Any) -> None:
    assert repr(through_json(value)) == repr(value)  # repr tells 1 from 1.0 and True, and -0.0 from 0.0


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "int64", ">i4", "float16", "float32", "float64", "<U9"])
def test_arrays_are_the_same_after_json(dtype: str) -> None:
    @settings(max_examples=10)
    @given(arrays(dtype, (2, 3)))
    def law(array: np.ndarray) -> None:
        again = through_json(array)
        assert again.dtype == array.dtype
        np.testing.assert_array_equal(again, array)
        scalar = through_json(array[0, 0])
        assert type(scalar) is type(array[0, 0])
        np.testing.assert_array_equal(scalar, array[0, 0])

    law()


@pytest.mark.parametrize("value", [range(3), np.array([1.0, math.inf]), torch.tensor([0.1, -math.inf]), "text"])
def test_special_values_are_the_same_after_json(value: Any) -> None:
    assert np.array_equal(through_json(value), np.asarray(value))


@pytest.mark.parametrize(
    "part",
    [
        *(kernel() for kernel in kernels.KERNELS.values()),
        kernels.Polynomial(0.3, degree=5),
        *(loss() for loss in losses.NAMES.values()),
        losses.Scaled(losses.Tube(0.3), 2.0),
        losses.InfimalConvolution((losses.Lp(3.0), losses.Scaled(losses.Quantile(0.1), 0.5))),
    ],
    ids=stable_repr,
)
def test_kernels_and_losses_are_the_same_after_json(part: Hashable) -> None:
    assert not is_custom(part)
    assert through_json(part) == part


class Mine(kernels.Gaussian):
    """A kernel with the name of the Gaussian kernel."""


class Ours(losses.Squared):
    """A loss of the user's own."""


@pytest.mark.parametrize("part", [Mine(), Ours(), losses.Scaled(Ours()), losses.InfimalConvolution((Ours(),))])
def test_custom_kernels_and_losses_are_recognised(part: Any) -> None:
    assert is_custom(part)
    assert next(iter(encode(part))).startswith("own_")
    own = CustomObjects(kernel=part) if isinstance(part, kernels.Kernel) else CustomObjects(loss=part)
    assert decode(encode(part), own) is part


def test_a_custom_kernel_has_the_bandwidth_of_the_file() -> None:
    assert decode(encode(Mine(3.0)), CustomObjects(kernel=Mine(1.0))) == Mine(3.0)


def test_a_description_has_no_address() -> None:
    assert stable_repr([print, Mine.__call__]) == stable_repr([print, Mine.__call__])
    assert "0x" not in stable_repr(lambda: None)


@pytest.mark.parametrize("value", [object(), {1, 2}, len, 1j, np.array([1j]), np.array([object()]), b"bytes"])
def test_values_that_cannot_be_saved_are_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"(Use set_params|Convert it)"):
        encode({"a": [value]})


def test_one_long_text_among_many_takes_its_length_only() -> None:
    texts = np.array(["a" * 30_000, *["b"] * 2_000])
    text = json.dumps(encode(texts))
    again = decode(json.loads(text), CustomObjects())
    assert again.tolist() == texts.tolist()
    assert again.nbytes < 10 * len(text)
    wide = {"array": {"type": "<U30000", "values": ["a" * 30_000, *["b"] * 2_000]}}  # as earlier versions wrote it
    with pytest.raises(InvalidFile, match="must have similar lengths"):
        decode(wide, CustomObjects())
    narrow = decode({"array": {"type": "<U99999", "values": ["a", "bb"]}}, CustomObjects())
    assert narrow.dtype == "<U2"
