"""The rows that a table model holds out: whole groups, later rows or given splits; and the weights of rows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from raw_tables import FAST
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, ShuffleSplit

import joker
from joker.errors import InvalidData, InvalidParameter, JokerError
from joker.tables.problem import TableProblem
from joker.tables.refit import TableSearch, plan_of
from joker.tables.search import Encodings
from joker.tables.targets import IDENTITY
from joker.tuning.splits import Split

pytestmark = pytest.mark.usefixtures("few_trials")


def small(n: int = 60) -> tuple[pd.DataFrame, Any]:
    """Rows with a person, a day and a number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"person": rng.permutation(np.arange(n) % 12), "x": rng.normal(size=n)})
    day = np.datetime64("2024-01-01") + rng.permutation(n).astype("timedelta64[D]")
    return frame.assign(day=day.astype(str)), frame["x"].to_numpy() + 0.1 * rng.normal(size=n)


def work_of(frame: Any, y: Any, **settings: Any) -> TableSearch:
    """Return the work of a fit, before its first step."""
    kind = joker.JokerRegressor if np.asarray(y).dtype.kind == "f" else joker.JokerClassifier
    problem = kind(**{**FAST, **settings})._problem(frame, y, None, None, None)
    encodings = Encodings(problem)
    return TableSearch(problem, encodings, {False: None if problem.classes else IDENTITY}, plan_of(1, encodings))


def splits_of(frame: Any, y: Any, **settings: Any) -> tuple[list[Split], list[Split]]:
    """Return the folds that judge candidates, and the splits of the trials as row numbers, unless they are random."""
    work = work_of(frame, y, **settings)
    rows = work.sample
    trials = work.problem.validation.search_splits(rows, work.problem.codes, 0)
    return work.folds, [Split(rows[split.train], rows[split.held]) for split in trials or ()]


# Groups


@pytest.mark.parametrize("kind", ["column", "numbers", "words", "list"])
@pytest.mark.parametrize("classes", [False, True])
def test_whole_groups_are_held_out(kind: str, classes: bool) -> None:
    frame, y = small()
    person = frame["person"].to_numpy()
    words = np.array([f"person {one}" for one in person])
    given = {"column": "person", "numbers": person, "words": words, "list": list(words)}[kind]
    folds, trials = splits_of(frame, y > 0 if classes else y, groups=given)
    assert len(folds) == 5
    assert sorted(np.concatenate([fold.held for fold in folds])) == list(range(60))
    assert trials
    for split in [*folds, *trials]:
        assert len(split.train) > 0
        assert len(split.held) > 0
        assert not set(person[split.train]) & set(person[split.held])


def test_two_groups_are_held_out_in_turn() -> None:
    frame, y = small()
    group = np.arange(60) < 20
    folds, _ = splits_of(frame, y, groups=group)
    assert sorted(len(fold.held) for fold in folds) == [20, 40]


def test_a_column_that_names_the_groups_is_no_input() -> None:
    frame, y = small()
    model = joker.JokerRegressor(groups="person", **FAST).fit(frame, y)
    facts = {row["name"]: row for row in model.columns_}
    assert facts["person"]["kind"] == "left out"
    assert facts["person"]["encoding"] == "it names the groups that are held out"
    assert model.splits_ == "whole groups of 'person'"
    np.testing.assert_array_equal(model.predict(frame.assign(person=99)), model.predict(frame))
    asked = joker.JokerRegressor(groups="person", columns={"person": "category"}, **FAST)
    kinds = Encodings(asked._problem(frame, y, None, None, None)).kinds
    assert kinds[0].kind == "category"


COPIES = 6


def near_copies(seed: int, groups: int = 30) -> tuple[Any, Any, Any]:
    """Rows of a group are nearly copies; the target of a group has a part that its inputs do not tell."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), COPIES)
    x = rng.normal(size=(groups, 4))[group] + 1e-3 * rng.normal(size=(len(group), 4))
    y = (x[:, 0] + rng.normal(size=groups)[group]) + 0.05 * rng.normal(size=len(group))
    return x, y, group


def test_the_score_is_that_of_new_groups() -> None:
    """Random held-out rows have copies among the others, so that their score says nothing of new groups."""
    x, y, group = near_copies(0)
    at_random = joker.JokerRegressor(**FAST).fit(x, y)
    by_group = joker.JokerRegressor(**FAST).fit(x, y, groups=group)
    new, truth, _ = near_copies(1, 200)
    assert at_random.held_out_score_ > 0.9
    assert by_group.held_out_score_ < at_random.held_out_score_ - 0.3
    assert by_group.held_out_score_ == pytest.approx(by_group.score(new, truth), abs=0.25)
    assert by_group.held_out_error_ > 2 * at_random.held_out_error_  # there are few groups


# Time


@pytest.mark.parametrize("kind", ["column", "dates", "numbers", "list"])
def test_the_latest_rows_are_held_out(kind: str) -> None:
    frame, y = small()
    dates = frame["day"].to_numpy().astype("datetime64[D]")
    numbers = dates.astype(int).astype(float)
    given = {"column": "day", "dates": dates, "numbers": numbers, "list": numbers.tolist()}[kind]
    (fold,), (trial,) = splits_of(frame, y, time=given)
    assert len(fold.held) == 12
    assert numbers[fold.train].max() < numbers[fold.held].min()
    assert sorted([*fold.train, *fold.held]) == list(range(60))
    assert not set(trial.train) & set(fold.held) and not set(trial.held) & set(fold.held)  # noqa: PT018
    assert numbers[trial.train].max() < numbers[trial.held].min()


def test_rows_of_one_time_are_not_divided() -> None:
    frame, y = small()
    (fold,), _ = splits_of(frame, y, time=np.arange(60) // 25)
    assert fold.held.tolist() == list(range(25, 60))  # a fifth begins within the second time
    (fold,), _ = splits_of(frame, y, time=np.arange(60) >= 20)
    assert fold.held.tolist() == list(range(20, 60))


def test_a_trend_that_goes_on_is_judged_on_later_rows() -> None:
    """A column that is named as the time remains an input."""
    frame, y = small()
    model = joker.JokerRegressor(time="day", **FAST).fit(frame, y)
    assert model.splits_ == "later rows by 'day'"
    assert {row["name"]: row["kind"] for row in model.columns_}["day"] == "date"
    late = np.sort(frame["day"].to_numpy())[-12]
    assert model.residuals.rows == 12 == np.sum(frame["day"] >= late)


# Splitters


GROUP = np.arange(60) % 6
PAIRS = [(np.arange(40), np.arange(40, 60)), (list(range(20, 60)), list(range(20)))]


@pytest.mark.parametrize(
    ("settings", "held"),
    [
        ({"cv": 4}, [15] * 4),
        ({"cv": KFold(3)}, [20] * 3),
        ({"cv": ShuffleSplit(2, test_size=0.25, random_state=0)}, [15, 15]),
        ({"cv": PAIRS}, [20, 20]),
        ({"cv": PAIRS[:1]}, [20]),
        ({"cv": iter(PAIRS)}, [20, 20]),
        ({"cv": GroupKFold(3), "groups": GROUP}, [20] * 3),
        ({"cv": LeaveOneGroupOut(), "groups": GROUP}, [10] * 6),
    ],
    ids=["number", "KFold", "ShuffleSplit", "pairs", "one pair", "iterator", "GroupKFold", "LeaveOneGroupOut"],
)
def test_splitters_are_used_as_they_are(settings: dict[str, Any], held: list[int]) -> None:
    frame, y = small()
    folds, trials = splits_of(frame, y, **settings)
    assert [len(fold.held) for fold in folds] == held
    assert bool(trials) == (len(held) > 1)  # the trials of a single split have its training rows alone
    for split in [*folds, *trials]:
        assert not set(split.train) & set(split.held)
        if "groups" in settings:
            assert not set(GROUP[split.train]) & set(GROUP[split.held])


def test_a_number_of_folds_is_stratified_for_classes() -> None:
    frame, _ = small()
    y = np.where(np.arange(60) < 12, "rare", "often")
    folds, _ = splits_of(frame, y, cv=4)
    assert [int(np.sum(y[fold.held] == "rare")) for fold in folds] == [3] * 4


def test_the_scores_of_a_model_are_those_of_the_splits() -> None:
    frame, y = small()
    model = joker.JokerRegressor(cv=PAIRS[:1], **FAST).fit(frame, y)
    assert model.splits_ == "cv"
    assert model.residuals.rows == 20
    assert model.score(frame, y) > 0.8


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"cv": 1}, InvalidParameter, "cv must be a number of folds, a splitter of scikit-learn or pairs"),
    ({"cv": 2.5}, InvalidParameter, "cv must be a number of folds"),
    ({"cv": "five"}, InvalidParameter, "cv must be a number of folds"),
    ({"cv": 61}, InvalidParameter, "cv must be a number of folds"),
    ({"cv": []}, InvalidParameter, "cv must give at least one split"),
    ({"cv": [(0, 1, 2)]}, InvalidParameter, "cv must be a number of folds"),
    ({"cv": GroupKFold(3)}, InvalidParameter, "cv must be a number of folds"),
    ({"cv": [([0, 1], [60])]}, InvalidParameter, r"the held-out rows of each split of cv .*from 0 to 59.*got \[60\]"),
    ({"cv": [([0, 1], [-1])]}, InvalidParameter, r"got \[-1\]"),
    ({"cv": [([0, 1], [])]}, InvalidParameter, "the held-out rows of each split"),
    ({"cv": [([], [0, 1])]}, InvalidParameter, "the training rows of each split"),
    ({"cv": [(GROUP < 3, GROUP >= 3)]}, InvalidParameter, r"Of a mask, use np\.flatnonzero"),
    ({"cv": [([0.5, 1.5], [2.5])]}, InvalidParameter, "the training rows of each split"),
    ({"cv": [(range(40), range(30, 50))]}, InvalidParameter, "both a training row and a held-out row; row 30 is"),
    ({"groups": "town"}, InvalidParameter, r"groups must name a column of X.*got 'town'.*The columns are 'person'"),
    ({"groups": np.arange(59)}, InvalidParameter, "groups must have one value for each of the 60 rows"),
    ({"groups": np.zeros(60)}, InvalidData, "groups must have at least two values"),
    ({"groups": 3}, InvalidParameter, "groups must have one value for each of the 60 rows"),
    ({"time": "year"}, InvalidParameter, r"time must name a column of X.*got 'year'"),
    ({"time": np.arange(61)}, InvalidParameter, "time must have one value for each of the 60 rows"),
    ({"time": np.ones(60)}, InvalidData, "at least two values"),
    ({"time": ["a", "b"] * 30}, InvalidData, "time must be a column of dates or numbers"),
    ({"time": np.where(np.arange(60) < 3, np.nan, 1.0)}, InvalidData, "3 are missing"),
    ({"time": "day", "groups": "person"}, InvalidParameter, "cannot be combined"),
    ({"time": "day", "cv": 3}, InvalidParameter, "cannot be combined"),
]


@pytest.mark.parametrize(
    ("settings", "error", "sentence"), BAD, ids=[f"{i} {g}"[:40] for i, (g, _, _) in enumerate(BAD)]
)
def test_bad_splits_are_answered(settings: dict[str, Any], error: type[Exception], sentence: str) -> None:
    frame, y = small()
    with pytest.raises(error, match=sentence) as raised:
        work_of(frame, y, **settings)
    assert isinstance(raised.value, JokerError)


def test_a_matrix_has_no_named_columns() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(InvalidParameter, match="groups must name a column of X"):
        work_of(x, x[:, 0], groups="person")


def test_groups_of_rows_without_a_target_are_left_out() -> None:
    frame, y = small()
    y[:5] = np.nan
    with pytest.warns(UserWarning, match="5 of 60 rows have no target"):
        work = work_of(frame, y, groups=frame["person"].to_numpy())
    groups = work.problem.validation.groups
    assert groups is not None
    assert pd.factorize(groups)[0].tolist() == pd.factorize(frame["person"][5:])[0].tolist()


def test_an_eval_set_is_answered_by_what_replaces_it() -> None:
    frame, y = small()
    with pytest.raises(InvalidParameter, match=r"takes no eval_set\. Add these rows to X and y, and say which rows"):
        joker.JokerRegressor().fit(frame, y, eval_set=[(frame, y)])


# Weights


def test_rows_without_weight_change_little() -> None:
    """Their targets are wrong, and the model is nearly the one without them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = np.sin(2 * x[:, 0])
    spoilt, w = y.copy(), np.ones(120)
    spoilt[::4], w[::4] = -y[::4], 0
    weighted = joker.JokerRegressor(**FAST).fit(x, spoilt, sample_weight=w)
    without = joker.JokerRegressor(**FAST).fit(x[w > 0], y[w > 0])
    misled = joker.JokerRegressor(**FAST).fit(x, spoilt)
    new = rng.normal(size=(300, 2))
    truth = np.sin(2 * new[:, 0])
    assert weighted.score(new, truth) > 0.9
    assert weighted.score(new, truth) == pytest.approx(without.score(new, truth), abs=0.05)
    assert misled.score(new, truth) < weighted.score(new, truth) - 0.1
    assert weighted.held_out_score_ == pytest.approx(without.held_out_score_, abs=0.1)


@pytest.mark.parametrize("classes", [False, True])
def test_a_row_of_weight_two_has_the_score_of_two_rows(classes: bool) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2 if classes else rng.normal(size=40)
    w, held = rng.integers(1, 4, 40), rng.normal(size=(40, 2 if classes else 1)) + y[:, None]
    model = joker.JokerClassifier() if classes else joker.JokerRegressor()
    table: Any = np.zeros((40, 1))

    def score(rows: Any, weights: Any) -> float | None:
        problem = TableProblem(table[rows], y[rows], 2 * classes, None, sample_weight=weights)
        calibration = joker.estimators.probabilities.Calibration(1.0, np.zeros(2))
        fitted = SimpleNamespace(held_rows=np.arange(len(rows)), held_predictions=held[rows], calibration=calibration)
        return model._held_out_score(fitted, problem)  # type: ignore[arg-type]

    everyone = np.arange(40)
    assert score(everyone, w.astype(float)) == pytest.approx(score(np.repeat(everyone, w), None))
    assert score(everyone, w.astype(float)) != pytest.approx(score(everyone, None))


def test_weights_that_are_none_are_answered() -> None:
    frame, y = small()
    for bad in (np.ones(59), -np.ones(60), np.full(60, np.nan), np.zeros(60)):
        with pytest.raises(ValueError, match="sample_weight"):
            joker.JokerRegressor(**FAST).fit(frame, y, sample_weight=bad)
