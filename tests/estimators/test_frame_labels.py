"""Labels of data frames are the same as those of arrays."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.errors import InvalidData
from joker.estimators.inputs import labels_of_column

pandas = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
NAMES = np.array(["b", "a", "c"], dtype=object)[np.digitize(X[:, 0], [-0.4, 0.4])]
COLUMNS: dict[str, Any] = {
    "text": pandas.Series(NAMES),
    "categories": pandas.Series(NAMES).astype("category"),
    "categories in another order": pandas.Series(pandas.Categorical(NAMES, ["c", "unused", "b", "a"], ordered=True)),
    "categories of numbers": pandas.Series(pandas.Categorical(np.digitize(X[:, 0], [-0.4, 0.4]) * 7)),
    "another index": pandas.Series(NAMES, index=RNG.permutation(90)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_model_is_that_of_the_array(name: str) -> None:
    column = COLUMNS[name]
    array = np.asarray(column)
    framed, plain = (joker.KernelSVC(random_state=0).fit(X, y) for y in (column, array))
    assert framed.classes_.tolist() == plain.classes_.tolist()
    assert framed.classes_.dtype == plain.classes_.dtype
    assert np.array_equal(framed.decision_function(X), plain.decision_function(X))
    assert np.array_equal(framed.predict(X), plain.predict(X))
    assert framed.score(X, column) == plain.score(X, array)
    path = joker.KernelSVC(lam=[0.1, 1.0], class_weight="balanced", random_state=0)
    assert path.fit(X, column, eval_set=(X[:30], column[:30])).path_.scores.tolist() == (
        path.fit(X, array, eval_set=(X[:30], array[:30])).path_.scores.tolist()
    )
    assert framed.plan(X, column).total == plain.plan(X, array).total


def test_columns_of_other_values_are_left_to_scikit_learn() -> None:
    for column in (pandas.Series([1, 2]), pandas.Series(["a", 1], dtype=object), pandas.Series(["a", None]), NAMES):
        assert labels_of_column(column) is None


def test_wrong_columns_are_refused() -> None:
    missing = COLUMNS["categories"].copy()
    missing[7] = None
    with pytest.raises(InvalidData, match="found a missing one in row 7"):
        joker.KernelSVC().fit(X, missing)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        joker.KernelSVC().fit(X[:50], COLUMNS["text"])
    with pytest.raises(InvalidData, match="got one class, 'a'"):
        joker.KernelSVC().fit(X, pandas.Series(["a"] * 90))
    with pytest.raises(InvalidData, match="found 'z'"):
        joker.KernelSVC().fit(X, COLUMNS["text"], eval_set=(X, pandas.Series(["z"] * 90)))
