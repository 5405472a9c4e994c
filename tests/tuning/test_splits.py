"""Rows to train on and rows to score on: disjoint, complete, and with the same shares of classes."""

import numpy as np
import pytest

import joker
from joker.errors import InvalidData
from joker.tuning.splits import (
    MAX_HELD_OUT,
    Split,
    make_splits,
    scorable_splits,
    screening_rows,
    strata,
    stratified_splits,
)


@pytest.mark.parametrize(("n", "folds"), [(10, 5), (499, 5), (500, 3), (1999, 3), (2000, 1), (60_000, 1)])
def test_parts_are_disjoint_and_complete(n: int, folds: int) -> None:
    rows = np.arange(3, 3 + n)  # the first three rows are left out
    splits = make_splits(rows, np.zeros(n + 3, np.intp), np.random.RandomState(0))
    assert len(splits) == folds
    for split in splits:
        assert np.array_equal(np.sort(np.concatenate([split.train, split.held])), rows)
        assert len(split.held) <= MAX_HELD_OUT
    if folds > 1:  # each row is held out once
        assert np.array_equal(np.sort(np.concatenate([split.held for split in splits])), rows)


def test_each_class_is_in_both_parts_in_proportion(rng: np.random.Generator) -> None:
    codes = rng.permutation(np.repeat([0, 1, 2], [2700, 270, 30]))
    (split,) = make_splits(np.arange(3000), codes, np.random.RandomState(0))
    assert np.abs(np.bincount(codes[split.held]) - [540, 54, 6]).max() <= 1


def test_the_smallest_sample_has_every_class(rng: np.random.Generator) -> None:
    codes = rng.permutation(np.repeat([0, 1, 2], [2990, 8, 2]))
    for seed in range(5):
        (split,) = make_splits(np.arange(3000), codes, np.random.RandomState(seed))
        assert set(codes[split.train[:3]]) == set(codes[split.train])


def test_the_first_rows_are_a_random_sample(rng: np.random.Generator) -> None:
    """The order is neither by class nor by row."""
    codes = np.repeat([0, 1], 1500)
    (split,) = make_splits(np.arange(3000), codes, np.random.RandomState(0))
    assert abs(codes[split.train[:400]].mean() - 0.5) < 0.1
    assert abs(split.train[:400].mean() - 1500) < 200


@pytest.mark.parametrize("sizes", [(60, 30, 1), (2, 2, 2), (3, 1, 1, 1)])
def test_every_row_is_held_out_once_also_of_small_classes(sizes: tuple[int, ...]) -> None:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    splits = stratified_splits(codes, 5, 5, 0)
    assert np.array_equal(np.sort(np.concatenate([split.held for split in splits])), np.arange(len(codes)))
    assert all(len(np.intersect1d(split.train, split.held)) == 0 for split in splits)


def test_numbers_are_stratified_by_tenths_of_their_distribution(rng: np.random.Generator) -> None:
    y = rng.exponential(size=1_000)
    (split,) = stratified_splits(strata(y, 0), 10, 1, 0)
    assert len(split.held) == 100
    below = (y[split.held][:, None] < np.quantile(y, [0.1, 0.5, 0.9])).sum(axis=0)
    assert np.abs(below - [10, 50, 90]).max() <= 1


@pytest.mark.parametrize("few", [1, 2, 7])
def test_few_rows_of_a_rare_class(few: int) -> None:
    codes = np.append(np.zeros(400, np.intp), np.ones(few, np.intp))
    splits = make_splits(np.arange(len(codes)), codes, np.random.RandomState(0), rare=True)
    assert np.array_equal(np.sort(np.concatenate([split.held for split in splits])), np.arange(len(codes)))


@pytest.mark.parametrize("count", [3, 10, 64, 100])
def test_screening_rows_have_the_shares_of_the_classes(count: int) -> None:
    """Held-out rows are sorted by class: the first ones would be of the first class only."""
    codes = np.repeat([0, 1, 2], [50, 30, 20])
    shown = screening_rows(np.arange(100), codes, count, rare=False)
    assert len(set(shown)) == count
    assert np.abs(np.bincount(codes[shown], minlength=3) - count * np.array([0.5, 0.3, 0.2])).max() <= 1


def test_splits_that_cannot_score_a_classifier_are_left_out() -> None:
    codes = np.array([0, 0, 0, 1, 2])
    one_class, unknown = Split(np.array([0, 1]), np.array([2])), Split(np.array([0, 3]), np.array([4]))
    good = Split(np.array([0, 3, 4]), np.array([1, 2]))
    assert scorable_splits([one_class, good, unknown], codes) == [good]
    with pytest.raises(InvalidData, match="must train on rows of two classes"):
        scorable_splits([one_class, unknown], codes)


@pytest.mark.parametrize("labels", [["p"] * 39 + ["q"], ["q"] + ["p"] * 39, ["p"] * 2 + list("abcdefghij")])
def test_classes_of_one_row(labels: list[str], rng: np.random.Generator) -> None:
    """It is a training row of all splits but one, or no split can be scored."""
    x = rng.normal(size=(len(labels), 2))
    model = joker.JokerClassifier(effort=1, random_state=0).fit(x, labels)
    assert set(model.classes_) == set(labels)
    if len(set(labels)) == 2:
        assert joker.tune(x, np.array(labels), n_trials=2, random_state=0).table
