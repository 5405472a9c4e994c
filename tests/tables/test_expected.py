"""What users of scikit-learn expect of the table models: every form of input is read, or answered by a sentence."""

import pickle
import textwrap
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from raw_tables import IGNORE_OPTIMISM, raw_frame
from repository import ROOT
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import joker
from joker.errors import InvalidData, InvalidParameter, MissingFile, UnknownSetting
from joker.tables.table import read_table
from joker.tables.targets import labelled_inputs

pytestmark = IGNORE_OPTIMISM
EASY: dict[str, Any] = {"effort": 1, "random_state": 0}
INPUTS = ["size", "city", "age", "sold", "new"]


def labelled(n: int = 100, seed: int = 0) -> pd.DataFrame:
    """Return inputs with the columns price, of numbers, and level, of classes."""
    frame = raw_frame(n, seed)[[*INPUTS, "price"]]
    return frame.assign(level=np.where(frame["price"] > frame["price"].median(), "high", "low"))


@pytest.fixture(scope="module")
def regressor() -> joker.JokerRegressor:
    return joker.JokerRegressor(**EASY).fit(labelled().drop(columns="level"), "price")


@pytest.fixture(scope="module")
def classifier() -> joker.JokerClassifier:
    return joker.JokerClassifier(**EASY).fit(labelled().drop(columns="price"), "level")


# The target by its name


def test_the_name_of_a_column_as_target(regressor: joker.JokerRegressor, classifier: joker.JokerClassifier) -> None:
    frame, new = labelled(), labelled(40, seed=1)
    apart = pickle.loads(pickle.dumps(regressor)).fit(frame[INPUTS], frame["price"])
    assert np.array_equal(regressor.predict(new), apart.predict(new[INPUTS]))
    assert regressor.feature_names_in_.tolist() == INPUTS
    assert (regressor.target_name_, classifier.target_name_) == ("price", "level")
    assert not hasattr(apart, "target_name_")  # a second fit forgets it
    assert classifier.classes_.tolist() == ["high", "low"]
    assert regressor.score(new, "price") == r2_score(new["price"], regressor.predict(new))
    assert classifier.score(new, "level") == classifier.score(new, new["level"])


@pytest.mark.parametrize("form", ["polars", "pyarrow", "records", "columns", "csv", "parquet"])
def test_targets_in_tables_of_every_kind(form: str, regressor: joker.JokerRegressor, tmp_path: Path) -> None:
    frame = labelled(40, seed=1).drop(columns="level")
    given: Any = {
        "polars": lambda: pl.from_pandas(frame),
        "pyarrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
        "records": lambda: frame.to_dict("records"),
        "columns": lambda: {name: frame[name].to_numpy() for name in frame},
        "csv": lambda: frame.to_csv(tmp_path / "t.csv", index=False) or tmp_path / "t.csv",
        "parquet": lambda: frame.to_parquet(tmp_path / "t.parquet") or str(tmp_path / "t.parquet"),
    }[form]()
    assert regressor.score(given, "price") == pytest.approx(regressor.score(frame, "price"), abs=1e-6)


def test_classes_keep_their_type() -> None:
    frame = labelled(60)[["size", "new"]].assign(kind=np.arange(60) % 3)
    for name, kind in (("kind", "i"), ("new", "b")):
        inputs, labels, _ = labelled_inputs(frame, name, "JokerClassifier", numbers=False)
        assert labels.dtype.kind == kind
        assert name not in inputs.names


@pytest.mark.parametrize(
    ("given", "y", "said"),
    [
        (labelled(20), "prise", "name of a column of X; got 'prise'.* Did you mean 'price'?"),
        (np.zeros((20, 2)), "price", "X has no names of columns"),
    ],
)
def test_names_that_are_no_column(given: Any, y: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        joker.JokerRegressor(**EASY).fit(given, y)


# Forms of X


def test_one_row_as_a_dict(regressor: joker.JokerRegressor, classifier: joker.JokerClassifier) -> None:
    row = labelled(3, seed=2)[INPUTS].to_dict("records")[1]
    for model in (regressor, classifier):
        assert model.predict(row).shape == (1,)
        assert np.array_equal(model.predict(row), model.predict([row]))
    with pytest.raises(InvalidData, match="'size' has one value, and others have several"):
        regressor.predict({**row, "city": ["Bern", "Genf"]})


def test_a_file(regressor: joker.JokerRegressor, tmp_path: Path) -> None:
    frame = labelled(30, seed=3)
    frame.to_csv(tmp_path / "new.csv", index=False)
    expected = regressor.predict(frame)
    assert np.allclose(regressor.predict(tmp_path / "new.csv"), expected)
    assert np.allclose(regressor.predict(str(tmp_path / "new.csv")), expected)
    with pytest.raises(MissingFile, match=r"no\.csv"):
        regressor.predict(tmp_path / "no.csv")
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    with pytest.raises(InvalidData, match=r"must be delimited text, Parquet or Arrow.*numpy\.load"):
        regressor.predict(tmp_path / "x.npy")


def test_a_file_with_the_target(tmp_path: Path) -> None:
    frame = labelled(60)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("level", "price"):
        of_file, of_frame = (
            labelled_inputs(given, name, "a model", numbers=name == "price") for given in (tmp_path / "t.csv", frame)
        )
        assert of_file[0].names == of_frame[0].names
        assert of_file[1].tolist() == of_frame[1].tolist()


class Relation:
    """A lazy table of another library, such as DuckDB, with its columns and the stream of the Arrow protocol."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.table = pa.Table.from_pandas(frame, preserve_index=False)

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_the_arrow_protocol(regressor: joker.JokerRegressor) -> None:
    frame = labelled(30, seed=3)
    assert np.array_equal(regressor.predict(Relation(frame)), regressor.predict(frame))
    assert regressor.score(Relation(frame), "price") == pytest.approx(regressor.score(frame, "price"))


def test_a_relation_of_duckdb(regressor: joker.JokerRegressor) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    frame = labelled(30, seed=3)
    assert np.array_equal(regressor.predict(duckdb.sql("SELECT * FROM frame")), regressor.predict(frame))


@pytest.mark.parametrize("series", [labelled(3).iloc[0], labelled(3)["size"], pl.Series([1.0, 2.0])])
def test_a_series_is_no_table(series: Any, regressor: joker.JokerRegressor) -> None:
    with pytest.raises(InvalidData, match=r"got a Series\. Use frame\.iloc\[\[i\]\]"):
        regressor.predict(series)


def test_a_frame_without_columns(regressor: joker.JokerRegressor) -> None:
    empty = labelled(20)[[]]
    with pytest.raises(InvalidData, match=r"0 feature\(s\) \(shape=\(20, 0\)\).*Give X at least one column"):
        joker.JokerRegressor(**EASY).fit(empty, np.arange(20.0))
    with pytest.raises(InvalidData, match="missing: 'size'"):
        regressor.predict(empty)


def test_infinite_values_name_their_column() -> None:
    frame = labelled(20)
    frame.loc[7, "age"] = np.inf
    with pytest.raises(InvalidData, match="column 'age' contains infinity in row 7"):
        joker.JokerRegressor(**EASY).fit(frame[INPUTS], frame["price"])
    with pytest.raises(InvalidData, match=r"y contains infinity.*Leave such rows out"):
        joker.JokerRegressor(**EASY).fit(frame[["size"]], frame["age"].fillna(0.0))


# Targets


@pytest.mark.parametrize("library", ["pandas", "polars", "objects"])
@pytest.mark.parametrize("kind", [joker.JokerRegressor, joker.JokerClassifier])
def test_dates_as_targets_are_refused(kind: Any, library: str) -> None:
    dates = pd.Series(pd.to_datetime(labelled(20)["sold"]))
    y: Any = {"pandas": dates, "polars": pl.Series(dates.dt.to_pydatetime()), "objects": list(dates.dt.date)}[library]
    with pytest.raises(InvalidData, match=r"y must be (numbers|classes); got dates or durations\. Use"):
        kind(**EASY).fit(labelled(20)[["size"]], y)


def test_durations_as_targets_are_refused() -> None:
    y = pd.to_timedelta(np.arange(20), unit="D")
    with pytest.raises(InvalidData, match="got dates or durations"):
        joker.JokerRegressor(**EASY).fit(labelled(20)[["size"]], y)


# Parameters


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_estimators", 5, "Use effort=1 to 5"),
        ("max_depth", 3, "The search finds it"),
        ("learning_rate", 0.1, "The search finds it"),
        ("lam", 0.1, "KernelRidge"),
        ("num_threads", -1, r"n_jobs for processes"),
        ("early_stopping_rounds", 10, "Rows are held out by the fit"),
        ("cat_features", ["city"], r"columns=\{'name': 'category'\}"),
        ("enable_categorical", True, r"columns=\{'name': 'category'\}"),
        ("scale_pos_weight", 2.0, "class_weight='balanced'"),
        ("objective", "mae", "loss='absolute'"),
        ("time_limit", 60, "It is called max_time. Use max_time=60"),
        ("seed", 1, "It is called random_state. Use random_state=1"),
        ("eval_metric", "auc", "Use scoring"),
        ("presets", "best", "Use effort=1 to 5"),
        ("tree_method", "hist", "device='cpu'"),
        ("target", "price", "the name of a column"),
        ("max_tim", 3, "Did you mean 'max_time'?"),
    ],
)
def test_parameters_of_other_libraries(name: str, value: Any, said: str) -> None:
    for kind in (joker.JokerRegressor, joker.JokerClassifier):
        with pytest.raises(UnknownSetting, match=said):
            kind(**{name: value})
        with pytest.raises(UnknownSetting, match=said):
            kind().set_params(**{name: value})


@pytest.mark.parametrize(
    ("scoring", "said"),
    [("auc", "Did you mean 'roc_auc'?"), ("rmse", "'neg_root_mean_squared_error'"), ("acuracy", "'accuracy'")],
)
def test_scorers_of_other_libraries(scoring: str, said: str) -> None:
    frame = labelled(40)
    with pytest.raises(InvalidParameter, match=said):
        joker.JokerClassifier(scoring=scoring, **EASY).fit(frame[INPUTS], frame["level"])
    with pytest.raises(InvalidParameter, match=said):
        joker.tune(frame[["size"]], frame["level"], scoring=scoring)


# Tools


def test_scores_with_weights(regressor: joker.JokerRegressor, classifier: joker.JokerClassifier) -> None:
    new = labelled(50, seed=4)
    w = np.random.default_rng(0).random(50)
    expected = r2_score(new["price"], regressor.predict(new), sample_weight=w)
    assert regressor.score(new, new["price"], sample_weight=w) == expected
    assert regressor.score(new, "price", w) == expected
    assert expected != regressor.score(new, "price")
    expected = accuracy_score(new["level"], classifier.predict(new), sample_weight=w)
    assert classifier.score(new, "level", sample_weight=w) == expected


@pytest.mark.parametrize("tool", ["pickle", "joblib", "cloudpickle"])
@pytest.mark.parametrize("which", ["regressor", "classifier"])
def test_fitted_models_are_pickled(which: str, tool: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model, new = request.getfixturevalue(which), labelled(20, seed=5)
    if tool == "joblib":
        joblib.dump(model, tmp_path / "m")
        again = joblib.load(tmp_path / "m")
    else:
        package = pickle if tool == "pickle" else pytest.importorskip("cloudpickle", reason="needs cloudpickle")
        again = pickle.loads(package.dumps(model))
    assert np.array_equal(again.predict(new), model.predict(new))
    assert again.target_name_ == model.target_name_
    assert clone(again).get_params() == model.get_params()


def test_a_saved_model_has_the_name_of_its_target(regressor: joker.JokerRegressor, tmp_path: Path) -> None:
    regressor.save(tmp_path / "m.joker")
    assert joker.load(tmp_path / "m.joker").target_name_ == "price"


def test_a_search_over_effort() -> None:
    frame = labelled(40)[["size", "price"]]
    search = GridSearchCV(joker.JokerRegressor(**EASY), {"effort": [1]}, cv=2, refit=False)
    search.fit(frame[["size"]], frame["price"])
    assert np.isfinite(search.best_score_)
    assert search.best_params_ == {"effort": 1}


def test_the_output_of_a_column_transformer_in_a_pipeline() -> None:
    frame = labelled(60)
    columns = ColumnTransformer([("scaled", StandardScaler(), ["size"])], remainder="passthrough")
    model = make_pipeline(columns, joker.JokerRegressor(**EASY)).fit(frame[INPUTS], frame["price"])
    assert model.score(frame[INPUTS], frame["price"]) > 0.5
    found = read_table(columns.set_output(transform="pandas").fit_transform(frame[INPUTS]))
    assert found.names == ("scaled__size", "remainder__city", "remainder__age", "remainder__sold", "remainder__new")
    assert found.columns[0].form == "number"


@pytest.mark.slow
def test_the_explanations_of_the_page_are_those_of_shap(
    regressor: joker.JokerRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explanation of a row adds up to its prediction."""
    pytest.importorskip("shap", reason="needs shap")
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    block = page[page.index("    import pandas as pd\n    import shap") : page.index("    explanation = explainer(")]
    names: dict[str, Any] = {"model": regressor, "frame": labelled(60)[INPUTS]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of another library
        exec(textwrap.dedent(block), names)
        encoded = names["encoded"](names["frame"])
        found = names["explainer"](encoded[:1])
    predicted = regressor.predict(names["frame"][:1])
    assert np.allclose(names["predict"](encoded.to_numpy()[:1]), predicted)
    assert np.allclose(found.values.sum(axis=1) + found.base_values, predicted)
