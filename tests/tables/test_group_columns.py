"""Columns that name groups are found, and smooth columns, noise and fractions are not."""

import numpy as np
import pytest

from joker.tables.columns import (
    MAX_ROWS_OF_A_GROUP,
    MIN_GROUP_GAIN,
    Gains,
    decide_kinds,
    gains_of_groups,
    may_be_group,
    promising_groups,
    rows_of_groups,
    same_categories,
    useful_groups,
)
from joker.tables.encoding import fit_encoding
from joker.tables.search import useful_categories
from joker.tables.table import NUMBER, RawColumn, read_table

ROWS, GROUPS = 1_000, 100


def never() -> bool:
    return False


def column(values: np.ndarray) -> RawColumn:
    return RawColumn("c", NUMBER, np.asarray(values, dtype=np.float64))


@pytest.fixture
def group(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(np.arange(ROWS) % GROUPS)


def test_groups_predict_better_than_their_neighbours(group: np.ndarray, rng: np.random.Generator) -> None:
    noise = 0.5 * rng.normal(size=ROWS)
    effect = rng.normal(size=GROUPS)
    assert gains_of_groups(column(group), effect[group] + noise, 0, 0).group > 0.5
    labels = (effect[group] + noise > 0).astype(int) + (effect[group] + noise > 1)
    assert gains_of_groups(column(group), labels, 3, 0).group > 0.2
    for smooth in (np.sin(group / 15), np.zeros(ROWS)):
        assert gains_of_groups(column(group), smooth + noise, 0, 0).group < MIN_GROUP_GAIN


def test_neighbours_predict_where_the_number_has_a_smooth_effect(group: np.ndarray, rng: np.random.Generator) -> None:
    noise, effect = 0.5 * rng.normal(size=ROWS), rng.normal(size=GROUPS)
    assert gains_of_groups(column(group), effect[group] + noise, 0, 0).neighbours < MIN_GROUP_GAIN
    assert gains_of_groups(column(group), 2 * np.sin(group / 15) + effect[group] + noise, 0, 0).neighbours > 0.3


def test_a_constant_target_has_no_groups(group: np.ndarray) -> None:
    assert gains_of_groups(column(group), np.ones(ROWS), 0, 0) == Gains(0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "may"),
    [
        (np.arange(ROWS) % GROUPS, True),
        (np.where(np.arange(ROWS) < 100, np.nan, np.arange(ROWS) % GROUPS), True),
        (np.arange(ROWS) % GROUPS + 0.5, False),  # no whole numbers
        (np.arange(ROWS) % 5, False),  # few values
        (np.arange(ROWS), False),  # no value has several rows
        (np.arange(100) % 25, False),  # few rows
        (1e17 * (np.arange(ROWS) % GROUPS), False),  # float64 does not hold neighbours of such numbers
    ],
)
def test_columns_that_may_name_groups(values: np.ndarray, may: bool) -> None:
    assert may_be_group(column(values)) is may


def test_a_sample_has_whole_groups(group: np.ndarray) -> None:
    rows = rows_of_groups(group.astype(float), 205, 0)
    _, counts = np.unique(group[rows], return_counts=True)
    assert len(rows) == 205
    assert sorted(counts) == [5] + [10] * 20  # the last group is cut
    assert len(np.unique(rows)) == 205


def test_a_sample_has_few_rows_of_a_large_group_and_none_without_a_group() -> None:
    values = np.append(np.zeros(500), np.arange(1, 31).repeat(4))
    values[-40:] = np.nan
    rows = rows_of_groups(values, 200, 0)
    assert (values[rows] == 0).sum() == MAX_ROWS_OF_A_GROUP
    assert len(rows) == MAX_ROWS_OF_A_GROUP + 80


def test_a_sample_of_few_groups_has_more_rows_of_each() -> None:
    assert len(rows_of_groups(np.arange(1_000.0) % 4, 400, 0)) == 400


def test_only_columns_that_help_beside_the_others_have_codes(group: np.ndarray, rng: np.random.Generator) -> None:
    effect = rng.normal(size=GROUPS)
    y = effect[group] + 0.3 * rng.normal(size=ROWS)
    age = rng.integers(0, 60, ROWS)
    table = read_table({"a": rng.normal(size=ROWS), "age": age, "person": group})
    kinds = decide_kinds(table)
    places = promising_groups(table, kinds, (), y + np.sin(age / 10), 0, 0)
    assert places == [2]
    assert promising_groups(table, kinds, ("person",), y, 0, 0) == []
    a = table.columns[0].values[:, None]
    found = useful_groups(table, kinds, places, a, y, 0, 0, never)
    assert found.keys() == {2}
    assert not found[2].with_number
    assert useful_groups(table, kinds, places, a, y, 0, 0, lambda: True) == {}
    # Where another column has the effect of the group itself, codes add nothing.
    assert useful_groups(table, kinds, places, np.hstack([a, effect[group][:, None]]), y, 0, 0, never) == {}


def test_categories_with_the_same_groups(group: np.ndarray) -> None:
    names = np.array([f"n{j}" for j in range(GROUPS)])
    columns = {
        "person": group,
        "name": names[group],
        "team": names[group // 10],
        "asked": names[group],
        "b": group * 1.5,
    }
    table = read_table(columns)
    kinds = decide_kinds(table, {"asked": "category"})
    assert same_categories(table, kinds, ("asked",), [0]) == {1: 0}
    assert same_categories(table, kinds, ("asked",), []) == {}


def test_codes_with_a_weak_effect_are_categories(rng: np.random.Generator) -> None:
    rows, codes = 4_000, 200
    code, size = rng.integers(0, codes, rows), rng.normal(size=rows)
    y = 0.5 * rng.normal(size=codes)[code] + size + rng.normal(size=rows)
    table = read_table({"code": code, "size": size, "noise": rng.integers(0, codes, rows)})
    kinds = decide_kinds(table)
    encoding, x = fit_encoding(table, y, 0, kinds=kinds)
    assert promising_groups(table, kinds, (), y, 0, 0) == [0]
    found = useful_categories(table, kinds, [0, 2], encoding, x, y, 0, 0, never)
    assert {j: kind.kind for j, kind in found.items()} == {0: "category"}


def test_groups_of_noise_predict_nothing(rng: np.random.Generator) -> None:
    """The mean of a group without the row itself; with it, the target of the row would predict itself."""
    column = RawColumn("g", NUMBER, rng.permutation(np.repeat(np.arange(200.0), 4)))
    gains = gains_of_groups(column, rng.normal(size=800), 0, 0)
    assert abs(gains.group) < 0.05
