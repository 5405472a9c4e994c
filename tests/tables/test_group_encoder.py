"""Codes of groups: one for each group, of equal distances, and none for values that the training rows do not have."""

import numpy as np
import pytest

from joker.tables.encoders import CODE_INPUTS, QUANTILE, ROBUST, fit_group
from joker.tables.encoding import fit_encoding
from joker.tables.table import NUMBER, RawColumn, read_table


def column(values: object) -> RawColumn:
    return RawColumn("day", NUMBER, np.asarray(values, dtype=np.float64))


def test_rows_of_one_group_have_one_code_and_groups_differ_like_z_scores() -> None:
    days = column(np.arange(300) % 100)
    codes = fit_group(days, ROBUST).codes(days.values)
    assert codes.shape == (300, CODE_INPUTS)
    np.testing.assert_array_equal(codes[:100], codes[100:200])
    square = ((codes[:100, None] - codes[None, :100]) ** 2).sum(axis=2)[np.triu_indices(100, 1)]
    assert square.mean() == pytest.approx(2, abs=0.05)
    assert square.min() > 0.2


def test_values_that_are_no_group_are_equally_far_from_all_groups() -> None:
    encoder = fit_group(column([3, 3, 7, 7, np.nan, 9]), ROBUST)
    codes = encoder.codes(np.array([8, 7.5, 1e300, -4, np.nan]))
    assert (codes == codes[0]).all()
    known = encoder.codes(np.array([3.0, 7.0, 9.0]))
    np.testing.assert_allclose(((known - codes[0]) ** 2).sum(axis=1), 2)


def test_the_size_of_codes() -> None:
    days = column(np.arange(60) % 30)
    one, three = (fit_group(days, ROBUST, size).codes(days.values) for size in (1.0, 3.0))
    np.testing.assert_allclose(three, 3 * one)


def test_inputs_are_the_number_and_the_code() -> None:
    days = column([1, 1, 2, 2, 40, np.nan])
    encoder = fit_group(days, ROBUST)
    x = encoder.transform(days)
    np.testing.assert_array_equal(x[:, :2], encoder.number.transform(days))
    assert encoder.names[:3] == ("day", "day is missing", "day code 0")
    assert x.shape[1] == len(encoder.names) == 2 + CODE_INPUTS
    assert encoder.encoding == "robust, indicator and group codes"
    alone = fit_group(days, ROBUST, with_number=False)
    np.testing.assert_array_equal(alone.transform(days), x[:, 2:])
    assert alone.names == encoder.names[2:]
    assert alone.encoding == "group codes"


def test_the_number_and_the_code_have_weights_of_their_own_and_the_number_a_scaling() -> None:
    table = read_table({"a": np.arange(60.0) ** 2, "day": np.arange(60) % 30})
    first = fit_encoding(table, np.arange(60.0), 0, given={"day": "group"})
    assert first[0].groups.tolist() == [0, 1] + [2] * CODE_INPUTS
    scaled, x = fit_encoding(table, np.arange(60.0), 0, given={"day": "group"}, scaling=QUANTILE, like=first)
    assert scaled.encoders[1].encoding == "quantile and group codes"
    np.testing.assert_array_equal(x, scaled.transform(table))
