"""The encoding of a whole table."""

import tracemalloc
import warnings

import numpy as np
import pytest
from raw_tables import panel

import joker
from joker.tables import encoding as encoding_module
from joker.tables import search as search_module
from joker.tables.encoders import SCALINGS
from joker.tables.encoding import MAX_STATISTIC_CLASSES, fit_encoding
from joker.tables.problem import TableProblem
from joker.tables.search import Encodings
from joker.tables.table import read_table


def test_another_scaling_keeps_the_encoders_of_words() -> None:
    """Only numbers have a scaling: with ``like``, the inputs are those of an encoding from the beginning."""
    rng = np.random.default_rng(0)
    frame = [
        {"a": float(a), "word": "uvwxyz"[int(b)], "b": float(c)}
        for a, b, c in zip(rng.lognormal(size=300), rng.integers(6, size=300), rng.normal(size=300), strict=True)
    ]
    table, y = read_table(frame), rng.normal(size=300)
    first = fit_encoding(table, y, 0, scaling=SCALINGS[0])
    for scaling in SCALINGS[1:]:
        encoding, x = fit_encoding(table, y, 0, scaling=scaling, like=first)
        again, whole = fit_encoding(table, y, 0, scaling=scaling)
        np.testing.assert_array_equal(x, whole)
        np.testing.assert_array_equal(encoding.transform(table), again.transform(table))
        assert encoding.encoders[1] is first[0].encoders[1]


def test_many_classes_have_no_mean_targets() -> None:
    rows = 40 * (MAX_STATISTIC_CLASSES + 1)
    table = read_table({"c": [f"level {j % 7}" for j in range(rows)]})
    for classes, width in ((MAX_STATISTIC_CLASSES + 1, 7), (MAX_STATISTIC_CLASSES, 7 + MAX_STATISTIC_CLASSES)):
        encoding, _ = fit_encoding(table, np.arange(rows) % classes, classes)
        assert encoding.width == width


def test_an_encoding_holds_its_inputs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inputs of all columns were once there twice, and those of a category in float64 too."""
    monkeypatch.setattr(encoding_module, "CHUNK", 500)
    rng = np.random.default_rng(0)
    columns = {f"k{j}": rng.choice([f"level {i}" for i in range(40)], 5_000) for j in range(4)}
    table, y = read_table(columns), rng.normal(size=5_000)
    fit_encoding(table.some(np.arange(500)), y[:500], 0)  # what libraries allocate at their first use
    tracemalloc.start()
    try:
        encoding, x = fit_encoding(table, y, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert x.shape == (5_000, encoding.width)
    assert encoding.width > 150
    assert peak < 1.5 * x.nbytes


@pytest.mark.usefixtures("few_trials")
@pytest.mark.parametrize(("n", "validation"), [(240, {"groups": "person"}), (640, {})], ids=str)
def test_inputs_that_are_computed_again_make_the_same_model(
    n: int, validation: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, groups of held-out rows and fits of folds use some of the inputs each."""
    X, y = panel(rows=n)
    X["city"] = [f"c{i % 7}" for i in range(n)]
    fit = lambda: joker.JokerRegressor(effort=1, random_state=0, **validation).fit(X, y)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        whole = fit().predict(X)
        monkeypatch.setattr(encoding_module, "MAX_STORED", 0)
        monkeypatch.setattr(encoding_module, "CHUNK", 100)
        again = fit().predict(X)
    np.testing.assert_allclose(again, whole, rtol=1e-5)


def test_the_encodings_of_many_rows_take_less_memory_than_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred levels of each word are 300 inputs of four bytes, beside 16 numbers and words of eight bytes."""
    monkeypatch.setattr(search_module, "CHOICE_ROWS", 2_000)  # these rows are encoded in memory, in any large table
    n, rng = 50_000, np.random.default_rng(0)
    X = {f"n{j}": rng.normal(size=n) for j in range(8)}
    X |= {f"w{j}": rng.choice([f"level {i}" for i in range(60)], n).astype(object) for j in range(8)}
    table, y = read_table(X), rng.normal(size=n)
    problem = TableProblem(table, y, 0, joker.KernelRidge())
    data = sum(column.values.nbytes for column in table.columns)
    encodings = Encodings(problem)
    tracemalloc.start()
    try:
        scaled = encodings.scaled
        inputs = scaled[0].encoding.width
        candidate = scaled[0].weighted(np.ones(inputs), "gaussian")
        assert candidate.x[np.arange(1_000)].shape == (1_000, inputs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert inputs > 400
    assert 4 * n * inputs > 10 * data  # one encoding of all rows
    assert peak < 8 * data, f"{peak / data:.1f}"
