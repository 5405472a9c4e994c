"""One rule for what targets mean, in Python, in stores and on the command line."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import joker
from joker.data import convert, guess_task
from joker.errors import GuessedTask, InvalidData

RNG = np.random.default_rng(0)
BODY_MASS = np.concatenate([np.arange(2700.0, 6300.0, 25.0)[:93], RNG.choice(np.arange(2700.0, 5000.0, 25.0), 240)])

# name: (targets, task, whether no other reading is likely)
CASES: dict[str, tuple[Any, str, bool]] = {
    "text": (["a", "b", "a"] * 10, "classification", True),
    "text objects": (np.array(["a", "b", "a"] * 10, dtype=object), "classification", True),
    "truth values": (np.array([True, False] * 10), "classification", True),
    "signs": (np.array([-1.0, 1.0] * 10), "classification", True),
    "digits": (RNG.integers(0, 10, 300), "classification", True),
    "digits in floating point": (RNG.integers(0, 10, 300).astype(float), "classification", True),
    "digits as objects": (RNG.integers(0, 10, 300).astype(object), "classification", True),
    "letters numbered from 1": (np.tile(np.arange(1, 27), 20), "classification", False),
    "letters numbered in floating point": (np.tile(np.arange(1.0, 27.0), 20), "regression", False),
    "a hundred classes": (np.tile(np.arange(100), 20), "classification", False),
    "wine of quality 3 to 8": (np.tile(np.arange(3, 9), 50), "classification", False),
    "body mass in grams": (BODY_MASS, "regression", False),
    "body mass as integers": (BODY_MASS.astype(int), "regression", False),
    "ages": (np.tile(np.arange(17, 91), 50), "regression", False),
    "as many integers as rows": (np.arange(15), "regression", False),
    "counts up to 500": (RNG.integers(0, 500, 5000), "regression", True),
    "fractions": (RNG.normal(size=50), "regression", True),
    "two fractions": (np.array([0.5, 1.5] * 10), "regression", True),
    "two columns": (np.tile(np.arange(2), (20, 2)), "regression", True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rule(name: str) -> None:
    y, task, clear = CASES[name]
    found = guess_task(y)
    assert (found.task, found.clear) == (task, clear), found.reason
    assert found.reason


@pytest.mark.parametrize("name", [name for name, (y, *_) in CASES.items() if np.ndim(y) == 1 and "objects" not in name])
def test_a_store_and_the_search_use_it(name: str, tmp_path: Path) -> None:
    y, task, clear = CASES[name]
    x = RNG.normal(size=(len(y), 2))
    np.savez(tmp_path / "t.npz", X=x, y=y)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert convert(tmp_path / "t.npz", tmp_path / "t.rows", target="y").task == task
    assert [w.category for w in said] == ([] if clear else [GuessedTask])
    assert clear or (task in str(said[0].message) and "target 'y'" in str(said[0].message))


@pytest.mark.filterwarnings("ignore::joker.errors.GuessedTask")
def test_the_result_of_the_search_says_what_was_guessed() -> None:
    x = RNG.normal(size=(len(BODY_MASS), 2))
    quick: dict[str, Any] = {"kernels": "gaussian", "bandwidths": [1.0], "random_state": 0}
    tuned = joker.tune(x, BODY_MASS, **quick)
    assert isinstance(tuned.estimator, joker.KernelRidge)
    assert (tuned.task, tuned.task_reason) == ("regression", "93 distinct whole numbers in floating point")
    assert "guessed task: regression, y has 93 distinct whole numbers" in str(tuned)
    given = joker.tune(x, BODY_MASS, task="regression", **quick)
    assert (given.task, given.task_reason) == ("regression", None)
    assert "guessed" not in repr(given)


def test_the_search_warns_where_another_reading_is_likely() -> None:
    x = RNG.normal(size=(len(BODY_MASS), 2))
    quick: dict[str, Any] = {"kernels": "gaussian", "bandwidths": [1.0], "random_state": 0}
    with pytest.warns(GuessedTask, match="y is a target for regression, because it has 93 distinct whole numbers"):
        joker.tune(x, BODY_MASS, **quick)
    joker.tune(x, BODY_MASS, estimator=joker.KernelRidge(), **quick)  # no guess, no warning


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([["a", "b"]] * 5, "got 2 columns of str"),
        ([{}] * 5, "found a value of type dict"),
        (np.array(["a", None], dtype=object), "found a value of type NoneType"),
        (np.array(["2020-01-01"] * 5, dtype="M8[D]"), "got datetime64"),
    ],
)
def test_other_targets_are_refused(y: Any, sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        guess_task(y)
