"""Encoders: distances that do not depend on the number of levels, unknown levels, missing values and dates."""

import numpy as np
import pytest

from joker.tables.encoders import (
    QUANTILE,
    ROBUST,
    SCALINGS,
    Z_SCORE,
    as_levels,
    fit_date,
    fit_levels,
    fit_number,
    fit_target_encoding,
)
from joker.tables.encoding import fit_encoding
from joker.tables.table import TEXT, RawColumn, read_table


def column(values: object) -> RawColumn:
    (found,) = read_table({"c": values}).columns
    return found


def mean_square_distance(x: np.ndarray) -> float:
    """The mean squared distance of two random rows."""
    return float(2 * ((x - x.mean(axis=0)) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("method", SCALINGS)
def test_numbers_have_mean_0_and_deviation_1(method: str, rng: np.random.Generator) -> None:
    values = np.exp(2 * rng.normal(size=500))
    encoder = fit_number(column(values), method)
    x = encoder.transform(column(values))
    assert encoder.encoding == method
    assert x.mean() == pytest.approx(0, abs=1e-9)
    assert x.std() == pytest.approx(1)
    assert np.all(np.diff(x[np.argsort(values), 0]) >= 0)


def test_outliers_are_bent(rng: np.random.Generator) -> None:
    values = np.append(rng.normal(size=500), 1e6)
    sizes = [np.abs(fit_number(column(values), method).transform(column(values))).max() for method in SCALINGS]
    assert sizes[0] > 20
    assert max(sizes[1:]) < 5


@pytest.mark.parametrize("method", [ROBUST, QUANTILE, Z_SCORE])
def test_missing_numbers_have_the_mean_and_an_indicator(method: str) -> None:
    values = np.array([1.0, 2.0, 4.0, np.nan, 3.0, np.nan])
    encoder = fit_number(column(values), method)
    x = encoder.transform(column(values))
    assert x.shape == (6, 2)
    assert x[3, 0] == 0.0
    assert np.array_equal(x[:, 1] > 0, np.isnan(values))


@pytest.mark.parametrize("levels", [2, 5, 30])
def test_the_distance_of_a_category_does_not_depend_on_the_number_of_levels(levels: int) -> None:
    given = column([f"l{j % levels}" for j in range(1_200)])
    x = fit_levels(given, 2, 50).transform(given)
    assert x.shape[1] == levels
    assert mean_square_distance(x) == pytest.approx(2)


def test_rare_and_unknown_and_missing_levels() -> None:
    train = column(["a"] * 20 + ["b"] * 20 + ["rare"] + [None] * 3)
    encoder = fit_levels(train, 5, 50)
    assert encoder.names == ("c=a", "c=b", "c=other", "c=missing")
    x = encoder.transform(column(["a", "never seen", "rare", None]))
    assert (x > 0).argmax(axis=1).tolist() == [0, 2, 2, 3]


def test_a_level_that_was_never_seen_without_rare_ones_is_zero() -> None:
    encoder = fit_levels(column(["a", "b"] * 20), 2, 50)
    assert not encoder.transform(column(["new", None])).any()


def test_levels_of_numbers_are_short() -> None:
    assert as_levels(column(np.array([1.0, 2.5, np.nan]))) == ["1", "2.5", None]


def test_dates_have_a_trend_and_the_parts_that_vary() -> None:
    days = np.datetime64("2020-01-01") + np.arange(1_000).astype("timedelta64[D]")
    encoder = fit_date(column(days))
    assert encoder.parts == ("trend", "year", "month", "weekday")
    x = encoder.transform(column(days))
    assert np.all(np.diff(x[:, 0]) > 0)
    weekday = x[:, [encoder.names.index("c weekday cos"), encoder.names.index("c weekday sin")]]
    assert np.allclose(weekday[0], weekday[7])
    hours = fit_date(column(days.astype("datetime64[h]") + np.arange(1_000).astype("timedelta64[h]")))
    assert hours.parts[-1] == "hour"


def test_many_levels_become_cross_fitted_target_statistics(rng: np.random.Generator) -> None:
    n = 2_000
    codes = rng.integers(0, 200, n)
    worth = rng.normal(size=200)
    y = worth[codes] + 0.1 * rng.normal(size=n)
    table = read_table({"c": [f"l{j}" for j in codes]})
    encoding, x = fit_encoding(table, y, 0)
    assert np.corrcoef(x[:, 0], y)[0, 1] > 0.95
    noise = rng.normal(size=n)
    _, crossed = fit_encoding(table, noise, 0)
    assert abs(np.corrcoef(crossed[:, 0], noise)[0, 1]) < 0.1  # a row's own target is not used
    new = encoding.transform(read_table({"c": ["never seen", None]}))
    assert np.allclose(new[0, 0], new[1, 0])


@pytest.mark.parametrize("classes", [2, 3])
def test_target_statistics_of_classes(classes: int, rng: np.random.Generator) -> None:
    codes = rng.integers(0, 100, 1_000)
    encoding, x = fit_encoding(read_table({"c": [f"l{j}" for j in codes]}), codes % classes, classes)
    assert encoding.encoders[0].names[0].startswith("mean target of c")
    assert encoding.encoders[0].encoding == "mean target and one-hot, rare pooled"
    assert np.isfinite(x).all()


def test_missing_levels_have_the_mean_of_their_targets(rng: np.random.Generator) -> None:
    """They have no other column here: a model separates them from other rows by this number."""
    levels = np.array([["a", "b", None][k] for k in np.arange(600) % 3], dtype=object)
    y = np.where(np.arange(600) % 3 == 2, 5.0, np.arange(600) % 3) + 0.01 * rng.normal(size=600)
    column = RawColumn("w", TEXT, levels)
    encoder, x = fit_target_encoding(column, y, 0, None, 0)
    found = encoder.transform(column)[:, 0]
    order = [found[np.arange(600) % 3 == k].mean() for k in range(3)]
    expected = (np.array([0.0, 1.0, 5.0]) - 2) / np.std([0.0, 1.0, 5.0])
    np.testing.assert_allclose(order, expected, atol=0.05)
    np.testing.assert_allclose(x[:, 0], expected[np.arange(600) % 3], atol=0.05)


@pytest.mark.parametrize("method", SCALINGS)
def test_denormal_numbers_are_scaled_without_a_warning(method: str) -> None:
    """Warnings are errors in the tests."""
    numbers = np.random.default_rng(0).normal(size=200)
    column = read_table({"a": numbers * 1e-310}).columns[0]
    scaled = fit_number(column, method).transform(column)[:, 0]
    assert np.isfinite(scaled).all()
    if method != Z_SCORE:  # the squares of these numbers are 0
        assert np.corrcoef(scaled, numbers)[0, 1] > 0.9
