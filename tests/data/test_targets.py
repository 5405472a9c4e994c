"""Targets, weights and penalties: their checks, their columns and c = w / λ."""

import math

import numpy as np
import pytest
import torch

from joker.data import Targets, make_targets
from joker.errors import InvalidData, InvalidParameter, JokerError

Y = torch.tensor([1.0, -2.0, 0.5, 4.0], dtype=torch.float64)
N = len(Y)


def factors(targets):
    """Return c = w / λ of every row and column, computed one by one."""
    w = torch.ones(N, 1, dtype=torch.float64) if targets.weights is None else targets.weights
    return [
        [
            w[i, min(j, w.shape[1] - 1)].item() / targets.lam[min(j, len(targets.lam) - 1)].item()
            for j in range(targets.t)
        ]
        for i in range(N)
    ]


CASES = [
    (Y, 2.0, None, 1),
    (Y[:, None], [2.0], None, 1),
    (Y, [1.0, 2.0, 4.0], None, 3),
    (Y[:, None] * torch.ones(3), 0.5, None, 3),
    (Y[:, None] * torch.arange(1, 4), [1.0, 2.0, 4.0], None, 3),
    (Y, 2.0, torch.tensor([0.0, 1.0, 2.0, 3.0]), 1),
    (Y, 2.0, torch.rand(N, 3, generator=torch.Generator().manual_seed(0)) + 0.1, 3),
    (Y, [1.0, 3.0], torch.tensor([0.0, 1.0, 2.0, 3.0]), 2),
    (Y[:, None] * torch.ones(2), [1.0, 3.0], torch.ones(N, 2), 2),
]


@pytest.mark.parametrize(("y", "lam", "weights", "t"), CASES)
def test_columns_are_broadcast(y, lam, weights, t):
    targets = make_targets(y, lam, weights)
    assert (targets.n, targets.t) == (N, t)
    assert targets.y.shape == (N, 1 if y.dim() == 1 else y.shape[1])
    got, c = targets.take(slice(None))
    assert torch.equal(got, targets.y)
    np.testing.assert_allclose(c.expand(N, t), factors(targets), rtol=1e-15)


@pytest.mark.parametrize(("y", "lam", "weights", "t"), CASES)
def test_targets_and_weights_of_the_same_rows_are_returned(y, lam, weights, t):
    targets = make_targets(y, lam, weights)
    every, c = targets.take(slice(None))
    for rows in (torch.tensor([2, 0]), slice(1, 3), torch.tensor([3])):
        some, some_c = targets.take(rows)
        assert torch.equal(some, every[rows])
        assert torch.equal(some_c.expand(len(some), t), c.expand(N, t)[rows])


def test_shared_columns_are_stored_once():
    """A path of λ has one column of targets."""
    targets = make_targets(Y, [1.0, 2.0, 4.0], torch.ones(N))
    assert targets.y.shape == (N, 1)
    assert targets.weights.shape == (N, 1)
    assert targets.y.data_ptr() == Y.data_ptr()
    _, c = make_targets(Y, [1.0, 2.0]).take(slice(None))
    assert c.stride() == (0, 1)  # expanded, not copied


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_weights_and_penalties_have_the_type_of_the_targets(dtype):
    targets = make_targets(Y.to(dtype), [1, 2], torch.ones(N, dtype=torch.int64))
    assert {targets.y.dtype, targets.lam.dtype, targets.weights.dtype} == {dtype}
    assert {part.dtype for part in targets.take(torch.tensor([0]))} == {dtype}


@pytest.mark.parametrize(
    "lam", [0.5, 1, np.float32(0.5), [0.5], (0.5, 1), np.array([0.5, 2.0]), torch.tensor(0.5), torch.tensor([0.5, 1])]
)
def test_a_penalty_may_be_a_number_or_a_sequence(lam):
    expected = np.asarray(lam, dtype=float).reshape(-1)
    np.testing.assert_allclose(make_targets(Y, lam).lam, expected)


def test_tensors_are_detached_from_their_gradient():
    weights = torch.ones(N, requires_grad=True)
    targets = make_targets(Y.clone().requires_grad_(), torch.tensor(1.0, requires_grad=True), weights)
    assert not any(part.requires_grad for part in (targets.y, targets.lam, targets.weights))


def test_some_weights_may_be_zero():
    _, c = make_targets(Y, 0.5, torch.tensor([0.0, 1.0, 0.0, 2.0])).take(slice(None))
    assert c[:, 0].tolist() == [0, 2, 0, 4]


NAN, INF = math.nan, math.inf
PENALTY = "lam must be positive and finite"
WRONG = [
    *(
        (lambda lam=lam: make_targets(Y, lam), InvalidParameter, PENALTY, f"got lam={lam!r}", "such as 1e-3")
        for lam in (0, -1.0, NAN, INF, -INF, [], [1.0, 0.0], [1.0, NAN], "x", None, [1.0, "x"], [[1.0], [2.0, 3.0]], 1j)
    ),
    *(
        (lambda lam=lam: make_targets(Y.float(), lam), InvalidParameter, "also when rounded to float32", "got", "Use")
        for lam in (1e-50, 1e-39, 1e39)
    ),
    (lambda: make_targets([1.0], 1.0), InvalidData, "y must be a torch tensor", "got list", "torch.as_tensor(y)"),
    (lambda: make_targets(Y.to(torch.int64), 1.0), InvalidData, "y must be float32", "got int64", "y.to("),
    (lambda: make_targets(Y > 0, 1.0), InvalidData, "y must be float32 or float64", "got bool", "y.to("),
    (lambda: make_targets(Y[:0], 1.0), InvalidData, "n and t at least 1", "got shape (0,)", "Reshape"),
    (lambda: make_targets(Y[:, None][:, :0], 1.0), InvalidData, "(n, t)", "got shape (4, 0)", "Reshape"),
    (lambda: make_targets(Y[0], 1.0), InvalidData, "(n,) or (n, t)", "got shape ()", "Reshape"),
    (lambda: make_targets(Y.reshape(2, 2, 1), 1.0), InvalidData, "(n, t)", "got shape (2, 2, 1)", "Reshape"),
    (lambda: make_targets(Y / 0 * 0, 1.0), InvalidData, "y must be finite", "found nan at row 0", "Remove"),
    (
        lambda: make_targets(torch.stack([Y, Y / 0]).T, 1.0),
        InvalidData,
        "y must be finite",
        "found inf at row 0, column 1",
        "Remove",
    ),
    (lambda: make_targets(Y, 1.0, [1.0] * N), InvalidData, "weights must be a torch tensor", "got list", "Use"),
    (lambda: make_targets(Y, 1.0, "balanced"), InvalidData, "weights must be a torch tensor", "got str", "Use"),
    (lambda: make_targets(Y, 1.0, torch.ones(3)), InvalidData, "each of the 4 rows", "got shape (3,)", "Give"),
    (lambda: make_targets(Y, 1.0, torch.tensor(1.0)), InvalidData, "each of the 4 rows", "got shape ()", "Give"),
    (lambda: make_targets(Y, 1.0, torch.ones(N, 1, 1)), InvalidData, "of the 4 rows", "got shape (4, 1, 1)", "Give"),
    (lambda: make_targets(Y, 1.0, -Y.abs()), InvalidData, "weights must be at least 0", "found -4", "Use 0"),
    (lambda: make_targets(Y, 1.0, 0 * Y), InvalidData, "must not all be 0", "every row is left out", "Give"),
    (lambda: make_targets(Y, 1.0, Y / 0), InvalidData, "weights must be finite", "found inf at row 0", "Remove"),
    (
        lambda: make_targets(Y.float(), 1e-3, torch.full((N,), 1e38)),
        InvalidData,
        "weights / lam must be finite",
        "the largest weight is 1e+38",
        "Divide",
    ),
    (lambda: make_targets(Y, [1.0, 2.0], torch.ones(N, 3)), InvalidData, "the same number", "got [2, 3]", "Give"),
    (lambda: make_targets(torch.ones(N, 2), [1.0] * 3), InvalidData, "one column or the same", "got [2, 3]", "Give"),
]


@pytest.mark.parametrize(("make", "error", "rule", "found", "remedy"), WRONG)
def test_wrong_tensors_are_refused(make, error, rule, found, remedy):
    with pytest.raises(JokerError) as caught:
        make()
    assert type(caught.value) is error
    message = str(caught.value)
    assert rule in message
    assert found in message
    assert remedy in message


def test_signs_in_int8_and_in_float_give_the_same_targets():
    signs = torch.tensor([[1, -1], [-1, 1], [1, 1]], dtype=torch.int8)
    small, large = (make_targets(y, [0.5, 2.0], torch.ones(3), torch.float64) for y in (signs, signs.double()))
    assert small.y.dtype == torch.int8
    for rows in (slice(1, 3), torch.tensor([2, 0])):
        for mine, other in zip(small.take(rows), large.take(rows), strict=True):
            assert torch.equal(mine, other)
            assert mine.dtype == torch.float64


def test_targets_are_frozen():
    with pytest.raises(AttributeError):
        Targets(Y[:, None], torch.ones(1)).lam = torch.ones(2)
