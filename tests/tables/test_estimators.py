"""JokerClassifier and JokerRegressor on raw tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from raw_tables import FAST, IGNORE_OPTIMISM, split
from sklearn.base import clone
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

import joker
from joker.data import as_source, convert
from joker.errors import InvalidData, InvalidFile, InvalidParameter

pytestmark = [pytest.mark.usefixtures("few_trials"), IGNORE_OPTIMISM]


@pytest.fixture(scope="module")
def regressor(few_trials: None) -> joker.JokerRegressor:
    frame, y = split()
    return joker.JokerRegressor(**FAST).fit(frame, y)


@pytest.fixture(scope="module")
def classifier(few_trials: None) -> joker.JokerClassifier:
    frame, y = split()
    return joker.JokerClassifier(**FAST).fit(frame, np.array(["low", "mid", "high"])[np.digitize(y, [3.8, 5.0])])


def test_numbers_are_predicted(regressor: joker.JokerRegressor) -> None:
    frame, y = split(seed=1)
    assert regressor.score(frame, y) > 0.85
    assert regressor.held_out_score_ == pytest.approx(regressor.score(frame, y), abs=0.1)


def test_classes_are_predicted_with_probabilities(classifier: joker.JokerClassifier) -> None:
    frame, y = split(seed=1)
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [3.8, 5.0])]
    assert classifier.classes_.tolist() == ["high", "low", "mid"]
    assert classifier.score(frame, labels) > 0.65
    p = classifier.predict_proba(frame)
    assert p.shape == (len(frame), 3)
    assert np.allclose(p.sum(axis=1), 1)
    assert classifier.decision_function(frame).shape == (len(frame), 3)


def test_what_was_decided_for_each_column(regressor: joker.JokerRegressor) -> None:
    facts = {row["name"]: row for row in regressor.columns_}
    kinds = {name: row["kind"] for name, row in facts.items()}
    assert kinds == {
        "size": "number",
        "city": "category",
        "age": "number",
        "sold": "date",
        "new": "boolean",
        "code": "left out",
        "country": "left out",
    }
    assert facts["code"]["encoding"].startswith("an identifier")
    assert facts["country"]["encoding"] == "constant"
    assert facts["age"]["encoding"].endswith("indicator")
    importances = regressor.feature_importances_
    assert importances.sum() == pytest.approx(1)
    assert importances[list(facts).index("city")] > 0.1
    assert importances[list(facts).index("code")] == 0
    assert set(pd.DataFrame(regressor.columns_)) == {"name", "kind", "encoding", "width", "importance"}


def test_frames_of_all_libraries_give_the_same_predictions(regressor: joker.JokerRegressor) -> None:
    frame, _ = split(seed=1)
    expected = regressor.predict(frame)
    others = (
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame, preserve_index=False),
        frame.to_dict("records"),
        frame[frame.columns[::-1]],
        frame.assign(unrelated=1.0),
        frame.astype({"city": "category"}),
    )
    for other in others:
        assert np.array_equal(regressor.predict(other), expected)


def test_polars_is_fitted_like_pandas() -> None:
    frame, y = split(25)
    first = joker.JokerRegressor(**FAST).fit(frame, y)
    second = joker.JokerRegressor(**FAST).fit(pl.from_pandas(frame), pl.Series(y))
    assert np.array_equal(first.predict(frame), second.predict(frame))


def test_unseen_levels_and_missing_values_are_predicted(regressor: joker.JokerRegressor) -> None:
    frame, _ = split(30, seed=2)
    odd = frame.assign(city="Lugano", age=np.nan, sold=None, code="new")
    assert np.isfinite(regressor.predict(odd)).all()


def test_missing_columns_are_refused_by_name(regressor: joker.JokerRegressor) -> None:
    frame, _ = split(30, seed=2)
    with pytest.raises(InvalidData, match=r"missing: 'city'; unknown: 'town'"):
        regressor.predict(frame.rename(columns={"city": "town"}))
    assert np.isfinite(regressor.predict(frame.drop(columns=["code", "country"]))).all()  # they are not used
    with pytest.raises(InvalidData, match="column 'size' must have numbers"):
        regressor.predict(frame.assign(size="large"))


@pytest.mark.parametrize("which", ["regressor", "classifier"])
def test_saved_models_predict_the_same(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model: Any = request.getfixturevalue(which)
    frame, _ = split(50, seed=3)
    model.save(tmp_path / "m.joker")
    again = joker.load(tmp_path / "m.joker")
    assert type(again) is type(model)
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert again.columns_ == model.columns_
    assert again.leaderboard_ == model.leaderboard_
    assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert again.get_params() == model.get_params()
    if which == "classifier":
        assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))
    else:
        assert np.array_equal(again.predict_interval(frame), model.predict_interval(frame))


def test_a_damaged_file_is_refused(regressor: joker.JokerRegressor, tmp_path: Path) -> None:
    path = tmp_path / "m.joker"
    regressor.save(path)
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(text)
    with pytest.raises(InvalidFile):
        joker.load(path)


def test_intervals_cover_what_they_say() -> None:
    """Errors of 600 held-out rows give a coverage with a standard error of 0.02: the mean of three fits is judged."""
    covered: dict[float, list[float]] = {0.5: [], 0.9: []}
    for seed in range(3):
        frame, y = split(600, seed=10 + seed)
        model = joker.JokerRegressor(**FAST).fit(frame, y)
        new, truth = split(2_000, seed=20 + seed)
        for coverage, found in covered.items():
            low, high = model.predict_interval(new, coverage).T
            found.append(np.mean((low <= truth) & (truth <= high)))
    for coverage, found in covered.items():
        assert np.mean(found) == pytest.approx(coverage, abs=0.06)
    with pytest.raises(InvalidParameter, match="coverage must be between 0 and 1"):
        model.predict_interval(new, 1.0)


def test_heavy_tailed_targets_are_fitted_in_another_form() -> None:
    frame, y = split(400)
    new, truth = split(400, seed=1)
    model = joker.JokerRegressor(**FAST).fit(frame, np.exp(y))
    assert {member["target"] for member in model.members_} == {"log"}
    assert r2_score(truth, np.log(model.predict(new))) > 0.7  # a few large values decide the R² of the target itself


def test_the_html_shows_columns(regressor: joker.JokerRegressor) -> None:
    text = regressor._repr_html_()
    assert "an identifier" in text
    assert "held-out rows" in text
    assert "<caption>columns</caption>" in text


def test_scikit_learn_tools_work(regressor: joker.JokerRegressor) -> None:
    pytest.importorskip("matplotlib")
    frame, y = split(60, seed=6)
    found = permutation_importance(regressor, frame, y, n_repeats=1, random_state=0)
    assert found.importances_mean[1] > found.importances_mean[5]
    PartialDependenceDisplay.from_estimator(regressor, frame, ["size"], grid_resolution=3)


def test_cross_validation_of_a_clone() -> None:
    frame, y = split(90)
    scores = cross_val_score(clone(joker.JokerRegressor(**FAST)), frame, y, cv=2)
    assert scores.min() > 0.4


def test_sparse_matrices_and_stores(tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.normal(size=(200, 5)) * (rng.random((200, 5)) < 0.5)
    y = x[:, 0] + x[:, 1] ** 2
    model = joker.JokerRegressor(**FAST).fit(sp.csr_array(x), y)
    assert model.score(sp.csr_array(x), y) > 0.7
    assert np.allclose(model.predict(sp.csr_array(x)), model.predict(x))
    store = convert(as_source(x, y), tmp_path / "d.rows")
    of_store = joker.JokerRegressor(**FAST).fit(store)
    assert of_store.score(store.x, store.y) > 0.7


def test_class_weights_and_scoring() -> None:
    frame, y = split(200)
    rare = np.where(y > np.quantile(y, 0.9), "high", "rest")
    plain = joker.JokerClassifier(**FAST).fit(frame, rare)
    weighted = joker.JokerClassifier(**FAST, class_weight={"high": 20.0}, scoring="roc_auc").fit(frame, rare)
    assert np.sum(weighted.predict(frame) == "high") >= np.sum(plain.predict(frame) == "high")


def test_a_given_loss_is_used() -> None:
    frame, y = split(120)
    model = joker.JokerRegressor(**FAST, loss="huber").fit(frame, y)
    assert model.ensemble.members[0].model.loss == "huber"


def test_a_plan_without_a_fit() -> None:
    """It is the one of the fit, with the bytes of the fit of a kernel model."""
    frame, y = split(120)
    plan = joker.JokerRegressor().plan(frame, y)
    assert plan.total > 0
    assert str(plan).startswith("effort 3: 120 rows, ")
    fitted = joker.JokerRegressor(**FAST).fit(frame, y)
    assert fitted.plan_.steps == plan.steps[: len(fitted.plan_.steps)]


# Bad input: a sentence or a sound model


def test_rows_without_a_target_are_left_out() -> None:
    frame, y = split(120)
    y = y.copy()
    y[:5] = np.nan
    with pytest.warns(UserWarning, match="5 of 120 rows have no target"):
        model = joker.JokerRegressor(**FAST).fit(frame, y)
    assert np.isfinite(model.predict(frame)).all()
    with pytest.raises(InvalidData, match="all are missing"):
        joker.JokerRegressor(**FAST).fit(frame, np.full(120, np.nan))


@pytest.mark.slow
def test_many_levels() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": [f"l{j}" for j in rng.integers(0, 10_000, 12_000)], "x": rng.normal(size=12_000)})
    y = frame["x"].to_numpy() + 0.1 * rng.normal(size=12_000)
    model = joker.JokerRegressor(**FAST).fit(frame, y)
    assert model.score(frame, y) > 0.8


@pytest.mark.slow
def test_many_columns(rng: np.random.Generator) -> None:
    x = rng.normal(size=(60, 20_000))
    model = joker.JokerRegressor(**FAST).fit(x, x[:, 0])
    assert np.isfinite(model.predict(x)).all()


@pytest.mark.parametrize("n", [2, 5, 12, 50])
def test_few_rows(n: int) -> None:
    frame, y = split(n)
    assert np.isfinite(joker.JokerRegressor(**FAST).fit(frame, y).predict(frame)).all()
    labels = np.where(np.arange(n) % 2, "a", "b")
    p = joker.JokerClassifier(**FAST).fit(frame, labels).predict_proba(frame)
    assert np.allclose(p.sum(axis=1), 1)


def test_one_row_of_each_class() -> None:
    frame, _ = split(40)
    labels = np.array([f"c{j}" for j in range(40)])
    p = joker.JokerClassifier(**FAST).fit(frame, labels).predict_proba(frame)
    assert p.shape == (40, 40)


def test_constant_targets_and_constant_columns() -> None:
    frame, y = split(60)
    assert np.allclose(joker.JokerRegressor(**FAST).fit(frame, np.full(60, 7.0)).predict(frame), 7.0)
    model = joker.JokerRegressor(**FAST).fit(np.ones((60, 3)), y)
    assert np.allclose(model.predict(np.ones((60, 3))), y.mean(), atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_time": -1}, "max_time must be a number of seconds"),
        ({"max_time": "long"}, "max_time must be a number of seconds of at least 0, or None; got 'long'"),
        ({"effort": 0}, "effort must be a whole number from 1 to 5; got 0"),
        ({"effort": 2.0}, "effort must be a whole number from 1 to 5"),
        ({"effort": True}, "effort must be a whole number from 1 to 5"),
        ({"effort": "high"}, "effort must be a whole number from 1 to 5; got 'high'"),
        ({"columns": {"nothing": "drop"}}, "columns must be one of"),
        ({"device": "nonsense"}, "device must name a torch device"),
        ({"memory": "x"}, "memory must be"),
        ({"class_weight": {"x": 1.0}}, "class_weight must name classes"),
    ],
)
def test_bad_settings(settings: dict[str, Any], said: str) -> None:
    frame, y = split(60)
    kind = joker.JokerClassifier if "class_weight" in settings else joker.JokerRegressor
    with pytest.raises(InvalidParameter, match=said):
        kind(**settings).fit(frame, np.digitize(y, [4.0]))


def test_targets_of_the_wrong_kind() -> None:
    frame, y = split(60)
    with pytest.raises(InvalidData, match="Use JokerClassifier"):
        joker.JokerRegressor(**FAST).fit(frame, np.array(["a", "b"] * 30))
    with pytest.raises(InvalidData, match="at least two classes"):
        joker.JokerClassifier(**FAST).fit(frame, np.zeros(60, dtype=int))
    with pytest.raises(InvalidData, match="one column"):
        joker.JokerRegressor(**FAST).fit(frame, np.stack([y, y], axis=1))
    with pytest.raises(InvalidData, match="equal lengths"):
        joker.JokerRegressor(**FAST).fit(frame, y[:-1])


def test_no_time_gives_a_usable_model(rng: np.random.Generator) -> None:
    """It has seen some rows of each class, however few they are."""
    X = rng.normal(size=(1_300, 20))
    y = X[:, 0] + 0.5 * X[:, 1]
    with pytest.warns(UserWarning, match="max_time=0 ended the fit before the work of effort=3 was done"):
        model = joker.JokerRegressor(max_time=0, random_state=0).fit(X[:1_200], y[:1_200])
    assert model.stopped_by_time_
    assert model.score(X[1_200:], y[1_200:]) > 0.5
    labels = np.where(y > 0, "high", "low")
    labels[:3] = "rare"
    with pytest.warns(UserWarning, match="max_time=0 ended the fit"):
        classes = joker.JokerClassifier(max_time=0, random_state=0).fit(X[:1_200], labels[:1_200])
    assert classes.classes_.tolist() == ["high", "low", "rare"]
    assert classes.score(X[1_200:], labels[1_200:]) > 0.7
    assert np.allclose(classes.predict_proba(X[1_200:]).sum(axis=1), 1)
