"""Text that is written numbers, dates or times."""

import datetime
from pathlib import Path

import numpy as np
import pytest
from raw_tables import FAST, IGNORE_OPTIMISM

import joker
from joker import JokerRegressor
from joker.errors import InvalidData
from joker.tables.encoding import fit_encoding
from joker.tables.parsing import DATES, NUMBERS, parse_as, parse_text
from joker.tables.table import RawColumn, read_table

pytestmark = [pytest.mark.usefixtures("few_trials"), IGNORE_OPTIMISM]
N = 40


def column(values: object, name: str = "c", given: str | None = None) -> RawColumn:
    """Return a column as a fit reads it."""
    (found,) = parse_text(read_table({name: values}), None if given is None else {name: given}).columns
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234", 1234.0),
        ("$12", 12.0),
        ("-$1,234.50", -1234.5),
        ("$-1,200", -1200.0),
        ("(1,200)", -1200.0),
        ("\u22125", -5.0),
        ("+$3", 3.0),
        ("12%", 12.0),
        ("5 €", 5.0),
        ("1.5e3", 1500.0),
    ],
)
def test_numbers_with_a_decimal_point(text: str, value: float) -> None:
    assert NUMBERS["decimal point"](text) == value


@pytest.mark.parametrize(("text", "value"), [("0,5", 0.5), ("1.234,5", 1234.5), ("12,75 €", 12.75)])
def test_numbers_with_a_decimal_comma(text: str, value: float) -> None:
    assert NUMBERS["decimal point"](text) is None
    assert NUMBERS["decimal comma"](text) == value


@pytest.mark.parametrize("text", ["1,23,4", "12 km", "5+", "10-20", "", "$", "1.2.3", "-$-5", "(-5)", "()", "-"])
def test_text_that_is_no_number(text: str) -> None:
    assert NUMBERS["decimal point"](text) is None


@pytest.mark.parametrize(
    ("text_format", "text"),
    [
        ("year first", "2024-03-05"),
        ("year first", "2024/3/5"),
        ("month first", "3/5/2024"),
        ("month first", "3/5/24"),
        ("day first", "5.3.2024"),
        ("day first", "05/03/2024"),
        ("named month", "Mar 5 2024"),
        ("named month", "March 5, 2024"),
        ("named month", "5-Mar-24"),
    ],
)
@pytest.mark.parametrize(
    ("time", "hour", "minute"), [("", 0, 0), (" 18:30", 18, 30), (" 6:30 PM", 18, 30), (" 18:30:00", 18, 30)]
)
def test_dates(text_format: str, text: str, time: str, hour: int, minute: int) -> None:
    assert DATES[text_format](text + time) == datetime.datetime(2024, 3, 5, hour, minute)


@pytest.mark.parametrize("text", ["2024-13-01", "2024-02-30", "30/30/2024", "Foo 1 2000", "20241301", "9:75"])
def test_dates_that_do_not_exist(text: str) -> None:
    assert all(read(text) is None for read in DATES.values())


def test_one_value_decides_whether_the_day_is_first() -> None:
    assert column(["1/2/2024", "3/4/2024"]).values[0] == np.datetime64("2024-01-02")
    assert column(["1/2/2024", "13/4/2024"]).values[0] == np.datetime64("2024-02-01")
    assert column(["1/2/2024", "13/4/2024", "4/13/2024"]).form == "text"


def test_prediction_reads_dates_as_the_fit_did() -> None:
    table = parse_text(read_table({"day": ["1/2/2024", "13/4/2024"] * N}), None)
    encoding, x = fit_encoding(table, np.zeros(2 * N), 0)
    assert np.array_equal(encoding.transform(read_table({"day": ["1/2/2024"]})), x[:1])
    with pytest.raises(InvalidData, match=r"'day' must have dates or times.*day first.*got '1/13/2024'"):
        encoding.transform(read_table({"day": ["1/13/2024"]}))


def test_words_among_numbers_are_missing_values() -> None:
    found = column(["1", "2.5", "$3"] * N + ["unknown"])
    assert found.form == "number"
    assert np.isnan(found.values[-1])
    assert column(["1", "2", "5+"] * N).form == "text"  # a word with digits says something
    assert column(["1", "low"] * N).form == "text"


@pytest.mark.parametrize("mark", ["-", ".", "--", "Unknown", "missing", "n.a."])
def test_marks_among_numbers_are_missing_values(mark: str) -> None:
    found = column(["1", "2", mark, mark] * N)
    assert found.form == "number"
    assert np.isnan(found.values).sum() == 2 * N
    assert column(["red", "blue", mark] * N).form == "text"
    encoding, _ = fit_encoding(read_table({"c": [1.0, 2.0, np.nan] * N}), np.zeros(3 * N), 0)
    alone = encoding.transform(read_table({"c": [mark]}))
    assert np.array_equal(alone, encoding.transform(read_table({"c": [None]})))


def test_numbers_with_a_unit() -> None:
    found = column([f"{i / 2:g} kg" for i in range(N)])
    assert (found.form, found.values[3], found.text_format) == ("number", 1.5, "decimal point in kg")
    years = column(["1 year", "12+ years", "-", *(f"{i} years" for i in range(2, N))])
    assert years.values[:2].tolist() == [1.0, 12.0]
    assert column([f"{i} {'kg' if i % 2 else 'lb'}" for i in range(N)]).form == "text"
    assert column(["36 months", "60 months"] * N).form == "text"  # two levels are a category
    with pytest.raises(InvalidData, match=r"got '5 lb'"):
        parse_as(RawColumn("mass", "text", np.array(["1 kg", "5 lb"], dtype=object)), found.text_format)


def test_numbers_with_bounds() -> None:
    found = column(["<0.5", ">= 100", "50+", *(str(i) for i in range(N))])
    assert found.values[:3].tolist() == [0.5, 100.0, 50.0]
    assert column([f"{i}-{i + 9}" for i in range(N)]).form == "text"


def test_a_target_of_written_numbers() -> None:
    size = np.arange(100.0)
    y = [f"${1_000 + 10 * i:,}" for i in range(100)]
    y[7] = "-"
    with pytest.warns(UserWarning, match="1 of 100 rows have no target"):
        model = JokerRegressor(**FAST).fit(size[:, None], y)
    assert np.corrcoef(model.predict(size[:, None]), size)[0, 1] > 0.99
    with pytest.raises(InvalidData, match="y must be numbers"):
        JokerRegressor().fit(size[:, None], ["low", "high"] * 50)


def test_codes_remain_text() -> None:
    assert column(["02134", "98108"] * N).form == "text"
    assert column(["12134", "98108"] * N, "zip_code").form == "text"
    assert column(["12134", "98108"] * N, "salary").form == "number"
    assert column(["12134", "98108"] * N, "zip_code", "number").form == "number"
    assert column(["1", "2"] * N, given="category").form == "text"


def test_declared_categories_remain_text() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"c": pandas.Categorical(["1", "2"] * N)})
    assert parse_text(read_table(frame), None).columns[0].form == "text"


def test_whole_numbers_that_are_dates() -> None:
    found = column([20240131, 20231224] * N)
    assert (found.form, found.values[1]) == ("date", np.datetime64("2023-12-24"))
    assert column([20240131, 20241301] * N).form == "number"
    assert column([20240131, 20231224] * N, given="number").form == "number"


def test_times_of_day() -> None:
    table = parse_text(read_table({"at": ["9:05", "18:30", "23:59", "0:00"] * N}), None)
    encoding, _ = fit_encoding(table, np.zeros(4 * N), 0)
    late, early = encoding.transform(read_table({"at": ["23:59", "0:01"]}))[:, 1:]
    assert np.linalg.norm(late - early) < 0.1  # two minutes apart on the circle of the day


def test_values_that_cannot_be_read_are_named() -> None:
    with pytest.raises(InvalidData, match=r"'price' must have numbers.*got '12 km'"):
        parse_as(RawColumn("price", "text", np.array(["$5", "12 km"], dtype=object)), "decimal point")
    with pytest.raises(InvalidData, match=r"got 'cheap'"):
        parse_as(RawColumn("price", "text", np.array(["cheap"], dtype=object)), "decimal point")


def test_written_numbers_are_as_good_as_numbers() -> None:
    rng = np.random.default_rng(0)
    size, y = rng.integers(1_000, 90_000, 200), np.zeros(200)
    y[:] = size
    rows = [{"size": f"${value:,}", "other": float(value % 7)} for value in size]
    model = JokerRegressor(**FAST).fit(rows[:150], y[:150])
    assert model.columns_[0]["kind"] == "number"
    assert model.score(rows[150:], y[150:]) > 0.99


def test_a_saved_model_reads_values_as_the_fitted_one_did(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, 120)
    rows = [{"day": f"{day.astype(object).day}/{day.astype(object).month}/2024"} for day in days]
    y = (days - np.datetime64("2024-01-01")).astype(float)
    model = JokerRegressor(**FAST).fit(rows, y)
    assert (model.columns_[0]["kind"], model.score(rows, y) > 0.99) == ("date", True)
    model.save(tmp_path / "days.joker")
    assert np.array_equal(joker.load(tmp_path / "days.joker").predict(rows[:9]), model.predict(rows[:9]))
