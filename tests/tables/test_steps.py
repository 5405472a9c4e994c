"""Steps beside numbers: quantiles that a value exceeds, chosen by the leave-one-out error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_tables import FAST

import joker
from joker.errors import InvalidFile
from joker.models import packing
from joker.tables import (
    files,  # noqa: F401 - it registers the encoders
    search,
)
from joker.tables.encoders import ROBUST, Z_SCORE, NumberEncoder
from joker.tables.encoding import fit_encoding
from joker.tables.problem import TableProblem
from joker.tables.search import choose_kinds, try_scalings
from joker.tables.steps import AND_STEPS, MIN_DISTINCT, STEPS, SteppedNumberEncoder, fit_stepped_number
from joker.tables.table import NUMBER, RawColumn, read_table

ROWS = 500


def column(values: Any) -> RawColumn:
    return RawColumn("a", NUMBER, np.asarray(values, dtype=np.float64))


def stepped(values: Any, scaling: str = ROBUST + AND_STEPS) -> SteppedNumberEncoder:
    encoder = fit_stepped_number(column(values), scaling)
    assert isinstance(encoder, SteppedNumberEncoder)
    return encoder


def test_a_value_exceeds_the_quantiles_below_it(rng: np.random.Generator) -> None:
    values = rng.lognormal(size=ROWS)
    encoder = stepped(values)
    x = encoder.transform(column(values))
    np.testing.assert_allclose(x[:, 0], encoder.number.transform(column(values))[:, 0])
    above = x[:, 1:] > 0
    np.testing.assert_array_equal(above.sum(axis=1), (values[:, None] > np.asarray(encoder.edges)).sum(axis=1))
    shares = above.mean(axis=0)
    np.testing.assert_allclose(shares, 1 - np.arange(1, STEPS + 1) / (STEPS + 1), atol=0.01)
    assert encoder.sizes == (1, STEPS)


def test_edges_are_between_values_so_that_rounding_changes_nothing(rng: np.random.Generator) -> None:
    values = rng.integers(0, 12, ROWS).astype(np.float64)
    encoder = stepped(values)
    np.testing.assert_allclose(np.asarray(encoder.edges) % 1, 0.5)
    near = encoder.transform(column(values + 1e-6))
    np.testing.assert_array_equal(near[:, 1:], encoder.transform(column(values))[:, 1:])


def test_few_values_have_no_steps(rng: np.random.Generator) -> None:
    values = rng.integers(0, MIN_DISTINCT - 1, ROWS)
    assert isinstance(fit_stepped_number(column(values), Z_SCORE + AND_STEPS), NumberEncoder)


def test_a_missing_value_has_the_steps_of_the_mean(rng: np.random.Generator) -> None:
    values = np.append(rng.normal(size=ROWS), np.nan)
    encoder = stepped(values)
    x = encoder.transform(column([np.nan, np.nanmean(values)]))
    np.testing.assert_array_equal(x[0, 2:], x[1, 2:])
    assert x[0, 1] > 0  # the indicator


def test_the_number_and_its_steps_have_a_weight_each(rng: np.random.Generator) -> None:
    table = read_table({"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS)})
    y = rng.normal(size=ROWS)
    plain = fit_encoding(table, y, 0, scaling=ROBUST)
    encoding, x = fit_encoding(table, y, 0, scaling=ROBUST + AND_STEPS)
    assert np.bincount(encoding.groups).tolist() == [1, STEPS, 1, STEPS]
    _, again = fit_encoding(table, y, 0, scaling=ROBUST + AND_STEPS, like=plain)
    np.testing.assert_array_equal(again, x)
    np.testing.assert_allclose(encoding.transform(table), x)


def scalings_of(frame: dict[str, Any], y: Any) -> list[str]:
    problem = TableProblem(read_table(frame), y, 0, joker.KernelRidge(standardize=False))
    kinds, sample = choose_kinds(problem)
    return [one.scaling for one in try_scalings(problem, kinds, sample)]


def test_steps_are_used_where_the_target_has_them(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not with many rows."""
    frame = {name: rng.normal(size=ROWS) for name in "abc"}
    stairs = sum(np.floor(2 * frame[name]) % 2 for name in "ab")
    assert scalings_of(frame, stairs)[0].endswith(AND_STEPS)
    monkeypatch.setattr(search, "MOST_STEPPED_ROWS", ROWS - 1)
    assert not any(one.endswith(AND_STEPS) for one in scalings_of(frame, stairs))
    monkeypatch.undo()
    smooth = sum(np.sin(frame[name]) for name in "ab")
    assert not scalings_of(frame, smooth)[0].endswith(AND_STEPS)


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    frame = {name: rng.normal(size=ROWS) for name in "abc"}
    y = sum(np.floor(2 * frame[name]) % 2 for name in "ab")
    return joker.JokerRegressor(**FAST).fit(frame, y), frame


def test_a_file_holds_the_steps(fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, frame = fitted
    assert "steps" in model.columns_[0]["encoding"]
    model.save(tmp_path / "model.joker")
    np.testing.assert_array_equal(joker.load(tmp_path / "model.joker").predict(frame), model.predict(frame))


def test_a_file_with_edges_out_of_order_is_refused(rng: np.random.Generator) -> None:
    encoder = stepped(rng.normal(size=ROWS))
    wrong = SteppedNumberEncoder("a", encoder.number, encoder.edges[::-1], encoder.size)
    with pytest.raises(InvalidFile, match=r"edges of SteppedNumberEncoder must be numbers.*ascending"):
        packing.decode(packing.encode(wrong), packing.CustomObjects())
