"""Columns of numbers are read and encoded many at a time, with the values that each alone has."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from joker.errors import InvalidData
from joker.tables import encoding as encoding_module
from joker.tables import table as table_module
from joker.tables.encoders import SCALINGS, NumberEncoder
from joker.tables.encoding import fit_encoding
from joker.tables.table import BOOLEAN, NUMBER, read_table


def wide_frame(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Return numbers of several types, with missing values, truth values, words and dates."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 7)), columns=[f"c{j}" for j in range(7)])
    frame.loc[::5, "c1"] = np.nan
    frame.loc[1::7, "c4"] = np.nan
    frame["city"] = rng.choice(["Bern", "Genf", "Zug"], n)
    frame["two"] = rng.choice([-1.0, 3.0], n)
    frame["whole"] = rng.integers(0, 9, n)
    frame["small"] = rng.integers(0, 200, n).astype(np.uint8)
    frame["single"] = rng.normal(size=n).astype(np.float32)
    frame["new"] = rng.random(n) < 0.5
    frame["heavy"] = rng.standard_cauchy(n)
    frame["sold"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame["nullable"] = pd.array(np.where(frame["whole"] > 6, None, frame["whole"]), dtype="Int64")
    frame["words"] = pd.array([None, "n/a", " a b ", "c"] * (n // 4), dtype="string")
    frame["grade"] = pd.Categorical.from_codes(rng.integers(-1, 2, n), pd.array(["low", "high"], dtype="string"))
    frame["code"] = pd.Categorical(rng.integers(0, 3, n))
    frame["day"] = pd.Series(frame["sold"].where(frame["whole"] > 2)).astype("datetime64[s]")
    frame["zoned"] = frame["sold"].dt.tz_localize("UTC")
    return frame


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_block_of_columns_is_read_like_each_alone(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wide_frame()
    given: Any = frame if library == "pandas" else pl.from_pandas(frame)
    together = read_table(given)
    assert [column.form for column in together.columns if column.name in ("c0", "new")] == [NUMBER, BOOLEAN]
    monkeypatch.setattr(table_module, "booleans_of_numbers", lambda frame: {})
    monkeypatch.setattr(table_module, "text_and_dates_of_frame", lambda frame: {})
    alone = read_table(given)
    assert together.names == alone.names
    for one, other in zip(together.columns, alone.columns, strict=True):
        assert (one.form, one.values.dtype) == (other.form, other.values.dtype), one.name
        assert one.declared_category == other.declared_category, one.name
        assert pd.Series(one.values).equals(pd.Series(other.values))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_numbers_are_not_read_one_by_one(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(3, 50))).rename(columns=str)
    monkeypatch.setattr(table_module, "_from_series", lambda name, series: pytest.fail(f"{name} is read alone"))
    table = read_table(frame if library == "pandas" else pl.from_pandas(frame))
    assert np.array_equal(np.stack([column.values for column in table.columns], axis=1), frame.to_numpy())


def test_text_and_dates_of_a_few_rows_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wide_frame()[["city", "sold", "words", "grade", "day"]]
    expected = read_table(frame)
    monkeypatch.setattr(table_module, "_from_series", lambda name, series: pytest.fail(f"{name} is read alone"))
    first = read_table(frame[:1])
    assert [str(column.values[0]) for column in first.columns] == [str(column.values[0]) for column in expected.columns]


def test_many_rows_of_text_are_read_one_column_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "BLOCK_ENTRIES", 50)
    monkeypatch.setattr(table_module, "objects_of_frame", lambda *_: pytest.fail("columns are converted together"))
    assert read_table(wide_frame()[["city", "sold"]]).names == ("city", "sold")


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_block_of_columns_is_encoded_like_each_alone(scaling: str) -> None:
    table, y = read_table(wide_frame()), np.random.default_rng(1).normal(size=60)
    encoding, of_training = fit_encoding(table, y, 0, scaling=scaling)
    assert np.array_equal(encoding.transform(table)[:, :3], of_training[:, :3])
    new = read_table(wide_frame(40, seed=1))
    together, place = encoding.transform(new), 0
    for column, encoder in zip(encoding.matched(new), encoding.encoders, strict=True):
        alone = encoder.transform(column).astype(np.float32)
        assert np.array_equal(together[:, place : place + alone.shape[1]], alone), column.name
        if isinstance(encoder, NumberEncoder) and not encoder.indicator:
            assert np.allclose(alone[:, 0], expected(encoder, column.values), atol=1e-5)
        place += alone.shape[1]
    assert place == together.shape[1]


def expected(encoder: NumberEncoder, values: Any) -> Any:
    """The scaled values by the formulas, one value at a time."""
    found = []
    for value in values:
        scaled = (value - encoder.centre) / encoder.scale
        if encoder.method == "robust":
            scaled = scaled / np.sqrt(1 + (scaled / 3) ** 2)
        elif encoder.method == "quantile":
            from scipy.stats import norm

            points, levels = np.asarray(encoder.points), np.linspace(0, 1, len(encoder.points))
            low = np.interp(value, points, levels)
            high = 1 - np.interp(-value, -points[::-1], levels)
            scaled = norm.ppf(np.clip((low + high) / 2, 1e-3, 1 - 1e-3))
        found.append((scaled - encoder.mean) / encoder.deviation)
    return np.array(found)


def test_rows_are_encoded_alike_in_parts_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    table, y = read_table(wide_frame()), np.random.default_rng(1).normal(size=60)
    encoding, _ = fit_encoding(table, y, 0)
    together = encoding.transform(table)
    monkeypatch.setattr(encoding_module, "BLOCK_ENTRIES", 77)
    assert np.array_equal(encoding.transform(table), together)


def test_infinity_in_a_block_is_refused_by_its_column() -> None:
    frame = wide_frame()
    frame.loc[4, "c6"] = np.inf
    with pytest.raises(InvalidData, match="column 'c6' contains infinity in row 4"):
        read_table(frame)
    with pytest.raises(InvalidData, match="column 'c6' contains infinity in row 4"):
        read_table(pl.from_pandas(frame))
