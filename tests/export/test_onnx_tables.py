"""ONNX files of table models encode raw columns as joker does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_sessions import session_of
from raw_tables import FAST, IGNORE_OPTIMISM, counted, panel, split, texts
from scipy import sparse, special

import joker
from joker.errors import InvalidParameter
from joker.tables.encoders import SCALINGS, fit_number
from joker.tables.table import NUMBER, RawColumn

pytest.importorskip("onnx", reason="needs onnx")
pytest.importorskip("onnxruntime", reason="needs onnxruntime")

from joker.export.operations import Graph
from joker.export.tables import _number_inputs, normal_scores

pytestmark = [pytest.mark.usefixtures("few_trials"), IGNORE_OPTIMISM]
TOLERANCE = 1e-5


def feeds(session: Any, frame: Any) -> dict[str, Any]:
    """The columns of a table as the file reads them: numbers, text, and days since 1970."""
    result = {}
    for one in session.get_inputs():
        values = frame[one.name]
        if one.type == "tensor(string)":
            column = np.array([value if isinstance(value, str) else "" for value in values], dtype=object)
        elif one.type == "tensor(double)":
            dates = np.array([value if isinstance(value, str) else "NaT" for value in values], dtype="datetime64[us]")
            column = np.where(np.isnat(dates), np.nan, dates.astype(np.int64) / 86_400e6)
        else:
            column = values.to_numpy().astype(np.float32)
        result[one.name] = column[:, None]
    return result


def run(model: Any, frame: Any, path: Path, **settings: Any) -> dict[str, Any]:
    joker.export.to_onnx(model, path, **settings)
    session = session_of(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds(session, frame)), strict=True))


@pytest.fixture(scope="module")
def tables() -> tuple[Any, Any, Any, Any]:
    """A training table and new rows, with an unknown city and missing values; numbers are those of float32."""
    frame, y = split(240)
    new, _ = split(60, seed=3)
    new.loc[0, ["city", "age"]] = ["Chur", np.nan]
    new.loc[1, "city"] = None
    new.loc[2, "sold"] = None
    for one in (frame, new):
        one["size"] = one["size"].astype(np.float32).astype(float)
    return frame, y, new, None


def test_a_regressor_with_categories_dates_and_missing_values(tables: Any, tmp_path: Path) -> None:
    frame, y, new, _ = tables
    model = joker.JokerRegressor(**FAST).fit(frame, y)
    got = run(model, new, tmp_path / "model.onnx")
    wanted = model.predict(new)
    assert got.keys() == {"prediction"}
    assert np.abs(got["prediction"] - wanted).max() < TOLERANCE * np.abs(wanted).max()
    inputs = {one.name for one in session_of(tmp_path / "model.onnx").get_inputs()}
    assert inputs == {"size", "city", "age", "sold", "new"}  # not the code, nor the constant country


def test_a_heavy_tailed_target(tables: Any, tmp_path: Path) -> None:
    frame, y, new, _ = tables
    for target in (np.exp(1.5 * y), np.sign(y - y.mean()) * np.abs(y - y.mean()) ** 7):
        model = joker.JokerRegressor(**FAST).fit(frame, target)
        wanted = model.predict(new)
        got = run(model, new, tmp_path / "model.onnx")["prediction"]
        assert np.abs(got - wanted).max() < TOLERANCE * np.abs(wanted).max()


@pytest.mark.parametrize("smooth", [False, True])  # whether the number of a group is an input beside its code
def test_groups(smooth: bool, tmp_path: Path) -> None:
    frame, y = panel()
    y = y + smooth * np.sin((frame["person"] - 100_000_000).to_numpy() / 40) * 3
    model = joker.JokerRegressor(columns={"person": "group"}, **FAST).fit(frame.assign(hours=0.5), y)
    assert model.columns_[0]["encoding"].endswith(" and group codes") is smooth
    new = panel(1)[0].assign(hours=0.5).astype({"person": float})
    new.loc[:3, "person"] = [100_000_001, 100_000_000.5, np.nan, 1e12]
    joker.export.to_onnx(model, tmp_path / "model.onnx")
    session = session_of(tmp_path / "model.onnx")
    inputs = {"person": new[["person"]].to_numpy(), "age": new[["age"]].to_numpy(dtype=np.float32)}
    (got,) = session.run(["prediction"], inputs)
    wanted = model.predict(new)
    assert np.abs(got - wanted).max() < TOLERANCE * np.abs(wanted).max()


def test_a_linear_trend(tables: Any, tmp_path: Path) -> None:
    frame, y, new, _ = tables
    target = y + 5 * frame["size"].to_numpy()
    model = joker.JokerRegressor(**FAST).fit(frame, target)
    assert all(member.trend is not None for member in model.ensemble.members)
    wanted = model.predict(new)
    got = run(model, new, tmp_path / "model.onnx")["prediction"]
    assert np.abs(got - wanted).max() < TOLERANCE * np.abs(wanted).max()


def test_steps_beside_numbers(rng: np.random.Generator, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: rng.normal(size=500).astype(np.float32) for name in "abc"})
    frame.loc[::9, "a"] = np.nan
    y = np.floor(2 * frame["b"]) % 2 + np.floor(2 * frame["a"].fillna(0.0)) % 2
    model = joker.JokerRegressor(**FAST).fit(frame, y)
    assert "steps" in model.columns_[1]["encoding"]
    got = run(model, frame, tmp_path / "model.onnx")["prediction"]
    assert np.abs(got - model.predict(frame)).max() < TOLERANCE


def test_text_is_refused(rng: np.random.Generator, tmp_path: Path) -> None:
    note = texts(rng, 120)
    model = joker.JokerRegressor(**FAST, columns={"note": "text"}).fit({"note": note}, counted(note))
    with pytest.raises(InvalidParameter, match=r"column 'note' is text.*columns=\{'note': 'drop'\}"):
        joker.export.to_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier(classes: int, tables: Any, tmp_path: Path) -> None:
    frame, y, new, _ = tables
    labels = np.array(["low", "high", "top"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    model = joker.JokerClassifier(**FAST).fit(frame, labels)
    got = run(model, new, tmp_path / "model.onnx")
    assert (got["label"] == model.predict(new)).all()
    assert np.abs(got["probabilities"] - model.predict_proba(new)).max() < TOLERANCE
    decision = model.decision_function(new)
    assert got["decision_function"].shape == decision.shape
    assert np.abs(got["decision_function"] - decision).max() < TOLERANCE * np.abs(decision).max()


def test_a_matrix_has_one_input(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = sparse.random(100, 6, density=0.5, random_state=0, format="csr")
    model = joker.JokerRegressor(**FAST).fit(x, np.asarray(x.sum(axis=1)).ravel() + rng.normal(size=100))
    joker.export.to_onnx(model, tmp_path / "model.onnx", dtype="float64")
    session = session_of(tmp_path / "model.onnx")
    (got,) = session.run(None, {"inputs": x.toarray()})
    assert np.abs(got - model.predict(x)).max() < TOLERANCE


def test_a_table_without_an_input_is_refused(tmp_path: Path) -> None:
    model = joker.JokerRegressor(**FAST).fit([{"a": 1}] * 40, np.arange(40.0))
    with pytest.raises(InvalidParameter, match="must have an input; all columns of the table of this model"):
        joker.export.to_onnx(model, tmp_path / "model.onnx")


def test_a_column_with_the_name_of_an_output_is_refused(tmp_path: Path) -> None:
    rows = [{"label": j % 7, "size": j} for j in range(40)]
    model = joker.JokerRegressor(**FAST).fit(rows, np.arange(40.0) ** 2)
    with pytest.raises(
        InvalidParameter, match="must not have the name of an output of the exported model; got 'label'"
    ):
        joker.export.to_onnx(model, tmp_path / "model.onnx")


def evaluate(graph: Graph, value: str, x: Any, path: Path) -> Any:
    graph.add_output("out", value, np.float64, (1,))
    path.write_bytes(graph.model("test", "0", {}, "").SerializeToString())
    return session_of(path).run(None, {"x": x})[0]


def test_normal_scores_are_exact(tmp_path: Path) -> None:
    graph = Graph()
    p = np.concatenate([[1e-10, 1e-3, 0.075, 0.0750001, 0.5, 0.925, 0.999, 1 - 1e-10], np.linspace(0.001, 0.999, 500)])
    got = evaluate(graph, normal_scores(graph, graph.add_input("x", np.float64, 1)), p[:, None], tmp_path / "a.onnx")
    assert np.abs(got[:, 0] - special.ndtri(p)).max() < 1e-13


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scalings_of_numbers(scaling: str, tmp_path: Path) -> None:
    """With values that occur often, outside of the range, and missing."""
    rng = np.random.default_rng(0)
    train = np.concatenate([rng.lognormal(size=300), np.full(50, 1.0), np.full(20, np.nan)])
    encoder = fit_number(RawColumn("x", NUMBER, train), scaling)
    x = np.concatenate([train, [-5.0, 0.0, 1.0, 1e4, np.nan], rng.uniform(0, 8, 200)])
    wanted = encoder.transform(RawColumn("x", NUMBER, x))
    graph = Graph()
    value = _number_inputs(graph, encoder, graph.add_input("x", np.float64, 1))
    graph.add_output("out", value, np.float64, (2,))
    (tmp_path / "a.onnx").write_bytes(graph.model("test", "0", {}, "").SerializeToString())
    got = session_of(tmp_path / "a.onnx").run(None, {"x": x[:, None]})[0]
    assert np.abs(got - wanted).max() < 1e-12


def test_a_column_without_a_name_is_refused(tmp_path: Path) -> None:
    rows = [{"": float(a), "b": b} for a in range(12) for b in "uv"]
    model = joker.JokerRegressor(effort=1, random_state=0).fit(rows, [row[""] for row in rows])
    with pytest.raises(InvalidParameter, match="a column of an exported model must have a name"):
        joker.export.to_onnx(model, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
