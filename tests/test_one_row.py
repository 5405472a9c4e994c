"""Predicting one row takes few calls of functions, however the model was fitted."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier

import joker
from joker.tables.encoding import fit_encoding
from joker.tables.table import read_table

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 10))
FRAME = pd.DataFrame(X).rename(columns=str)
y = X[:, 0] + np.sin(X[:, 1])
KERNEL_CALLS, ARRAY_CALLS, FRAME_CALLS = 600, 1_000, 2_000  # about half a millisecond, and one
CALLS_OF_A_COLUMN = 130  # one by one, as many rows are read, it takes 200


def calls(work: Callable[[], Any]) -> int:
    """Return the calls of functions of Python and of C that the second call of ``work`` makes."""
    work()  # the first call computes what is kept
    count = 0

    def tick(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (joker.KernelRidge(), "predict"),
        (joker.KernelRidge(n_features=50), "predict"),
        (joker.KernelSVC(), "predict"),
        (joker.KernelLogistic(), "predict_proba"),
    ],
    ids=["exact", "features", "classes", "probabilities"],
)
def test_a_kernel_model(model: Any, method: str) -> None:
    model.fit(X, y > 0 if is_classifier(model) else y)
    assert calls(lambda: getattr(model, method)(X[:1])) < KERNEL_CALLS


def test_a_table_model() -> None:
    model: Any = joker.JokerRegressor(effort=1, random_state=0).fit(X, y)
    assert calls(lambda: model.predict(X[:1])) < ARRAY_CALLS
    model = joker.JokerRegressor(effort=1, random_state=0).fit(FRAME, y)
    row = FRAME[:1]
    assert calls(lambda: model.predict(row)) < FRAME_CALLS


def test_a_row_of_many_columns() -> None:
    n, each = 40, 50
    columns: dict[str, Any] = {}
    for j in range(each):
        columns |= {
            f"number {j}": rng.normal(size=n),
            f"truth {j}": rng.random(n) < 0.5,
            f"text {j}": pd.array(rng.choice(["red", "green", "blue"], n), dtype="string"),
            f"category {j}": pd.Categorical(pd.array(rng.choice(["low", "high"], n), dtype="string")),
            f"date {j}": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    frame = pd.DataFrame(columns)
    encoding, _ = fit_encoding(read_table(frame), rng.normal(size=n), 0)
    row = frame[:1]
    assert calls(lambda: encoding.transform(read_table(row))) < CALLS_OF_A_COLUMN * len(columns)
