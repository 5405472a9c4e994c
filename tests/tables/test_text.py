"""Text columns: hashed character n-grams, cross-fitted regressions, and files of models that have them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_tables import FAST, counted, texts

import joker
from joker.errors import InvalidFile
from joker.models import packing
from joker.tables import files  # noqa: F401 - it registers the encoders
from joker.tables.encoding import fit_encoding
from joker.tables.table import TEXT, RawColumn, read_table
from joker.tables.text import BUCKETS, MAX_CHARACTERS, VECTORS, fit_text, hashed, tf_idf


def column(values: list[Any]) -> RawColumn:
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return RawColumn("note", TEXT, held)


def test_the_table_of_numbers_encodes_as_the_dense_formula(rng: np.random.Generator) -> None:
    values = texts(rng, 60)
    encoder, _ = fit_text(column(values), counted(values), 0, 0)
    counts = np.asarray(hashed(values).todense())
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * encoder.idf
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(tf_idf(hashed(values), encoder.idf).todense()), weights, atol=1e-12)
    np.testing.assert_allclose(encoder.transform(column(values)), weights @ encoder.table - encoder.offset, atol=1e-10)
    assert encoder.table.shape == (BUCKETS, VECTORS + 1)


def test_equal_texts_have_equal_counts_in_the_order_of_the_rows() -> None:
    several = hashed(["a word", None, "b", "a word"]).todense()
    alone = np.vstack([hashed([text]).todense() for text in ("a word", "", "b", "a word")])
    np.testing.assert_array_equal(several, alone)


def test_regressions_of_training_rows_do_not_see_their_own_target(rng: np.random.Generator) -> None:
    """With targets of noise, a regression that has seen a row predicts it, and a cross-fitted one does not."""
    values, y = [f"{one} {j}{j}" for j, one in enumerate(texts(rng, 200))], rng.normal(size=200)
    encoder, encode = fit_text(column(values), y, 0, 0)
    crossed = encode(np.arange(200))[:, VECTORS]
    assert abs(np.corrcoef(crossed, y)[0, 1]) < 0.3
    assert np.corrcoef(encoder.transform(column(values))[:, VECTORS], y)[0, 1] > 0.5


def test_two_random_texts_differ_like_two_z_scores(rng: np.random.Generator) -> None:
    values = texts(rng, 300)
    _, encode = fit_text(column(values), counted(values), 0, 0)
    x = encode(np.arange(300))
    for part in (x[:, :VECTORS], x[:, VECTORS:]):
        assert 2 * part.var(axis=0).sum() == pytest.approx(2, rel=1e-6)


def test_missing_and_long_texts_have_inputs(rng: np.random.Generator) -> None:
    values = texts(rng, 50)
    encoder, _ = fit_text(column(values), counted(values), 0, 0)
    long = " ".join(values) * 20
    x = encoder.transform(column([None, "", long, long[:MAX_CHARACTERS]]))
    assert np.isfinite(x).all()
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[2], x[3])


def test_classes_have_a_regression_each(rng: np.random.Generator) -> None:
    values = texts(rng, 90)
    table = read_table({"note": values})
    encoding, _ = fit_encoding(table, np.arange(90) % 3, 3, given={"note": "text"})
    assert encoding.width == VECTORS + 3
    assert len(set(encoding.groups.tolist())) == 2  # the vectors and the regressions have a weight each


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    values = texts(rng, 240)
    frame = {"note": values, "a": rng.normal(size=240)}
    return joker.JokerRegressor(**FAST).fit(frame, counted(values)), frame, counted(values)


def test_a_model_learns_from_text(fitted: tuple[Any, Any, Any]) -> None:
    model, _, _ = fitted
    assert model.held_out_score_ > 0.8
    assert "note (text: character n-grams" in str(model)


def test_a_file_holds_the_table_of_numbers(fitted: tuple[Any, Any, Any], tmp_path: Path) -> None:
    model, frame, _ = fitted
    model.save(tmp_path / "model.joker")
    np.testing.assert_array_equal(joker.load(tmp_path / "model.joker").predict(frame), model.predict(frame))


def test_a_file_with_another_table_is_refused(fitted: tuple[Any, Any, Any]) -> None:
    model, _, _ = fitted
    encoder = next(one for one in model.ensemble.encodings[0].encoders if one.name == "note")
    again = packing.decode(packing.encode(encoder), packing.CustomObjects())
    np.testing.assert_array_equal(again.table, encoder.table)
    for other in (replace(encoder, idf=encoder.idf[:-1]), replace(encoder, vectors=99)):
        with pytest.raises(InvalidFile, match=r"(of|in) TextEncoder"):
            packing.decode(packing.encode(other), packing.CustomObjects())
