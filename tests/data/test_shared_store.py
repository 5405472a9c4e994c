"""Rows of a shared store, with one process in the place of the others: numbers, runs and statistics."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from store_sources import Table, numbered

from joker.data import Store, convert
from joker.data.store.shared import SharedRows, _statistics, interleaved


@dataclass
class OneProcess:
    """A group whose other processes have nothing, or the parts in ``others``."""

    others: list[Any] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)  # by this process
    rank: int = 0
    size: int = 2

    def numbers(self, *values: float) -> tuple[float, ...]:
        return values

    def sum_bytes_(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def collect(self, value: Any) -> list[Any]:
        self.sent.append(value)
        return [value, *self.others]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return convert(Table(numbered(400, 3)), tmp_path_factory.mktemp("shared") / "a.rows")


def test_a_run_of_shared_rows_has_its_own_rows(store: Store) -> None:
    """By slice and by number. This process has every row, so that nothing is missing."""
    whole = store.x[:]
    place = store.file, store.header.x, 0, 400
    rows = SharedRows(*place, own=store.x, numbers=np.arange(400), group=OneProcess())  # type: ignore[arg-type]
    part = rows.run(100, 300).run(20, 120)
    assert torch.equal(part[:], whole[120:220])
    assert torch.equal(part[5:9], whole[125:129])
    numbers = torch.tensor([99, 0, 3, 3])
    assert torch.equal(part[numbers], whole[120 + numbers])


@pytest.mark.parametrize("counts", [[3, 3], [5, 2], [1, 7, 4], [6, 6, 6, 1]], ids=str)
def test_every_row_of_every_process_has_one_number(counts: list[int]) -> None:
    """In the order of their places (2i + 1) / 2n, and of the processes where places are equal."""
    found = [interleaved(counts, rank) for rank in range(len(counts))]
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(sum(counts)))
    places = [((2 * i + 1) / (2 * n), rank, i) for rank, n in enumerate(counts) for i in range(n)]
    for number, (_, rank, i) in enumerate(sorted(places)):
        assert found[rank][i] == number


def test_statistics_are_those_of_the_rows_of_all_processes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(shift, 2.0 + shift, size=(n, 3)) for n, shift in ((40, 0.0), (170, 3.0))]
    headers = [convert(Table(x), tmp_path / f"{k}.rows", dtype="float64").header for k, x in enumerate(parts)]
    other = OneProcess()
    _statistics(headers[1], other)  # type: ignore[arg-type]
    found = _statistics(headers[0], OneProcess(other.sent))  # type: ignore[arg-type]
    whole = np.concatenate(parts)
    np.testing.assert_allclose(found["mean"], whole.mean(axis=0))
    np.testing.assert_allclose(found["deviation"], whole.std(axis=0))
    np.testing.assert_allclose(found["low"], whole.min(axis=0))
