"""The fingerprint of rows: a number that changes with any of them, and with their order."""

import math

import pytest
import torch

from joker.data import TensorRows
from joker.runtime import devices
from joker.solvers.checkpoint import close, fingerprint


def rows(n: int = 50) -> torch.Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("entries", [6, 24, 10**6])
def test_every_row_has_a_factor_of_its_own(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """The cosine of its number, whatever the number of rows that are read at a time."""
    monkeypatch.setattr(devices, "CHUNK_ENTRIES", entries)
    x = rows()
    expected = sum(math.cos(i + 1) * sum(row) for i, row in enumerate(x.tolist()))
    assert fingerprint(TensorRows(x)) == pytest.approx(expected, rel=1e-12)


def test_two_rows_that_change_places_are_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "CHUNK_ENTRIES", 24)
    x = rows()
    for i, j in ((0, 1), (1, 5), (3, 47)):
        other = x.clone()
        other[[i, j]] = x[[j, i]]
        pair = tuple((fingerprint(TensorRows(one)),) for one in (x, other))
        assert not close(*pair)
