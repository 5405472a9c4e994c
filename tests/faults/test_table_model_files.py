"""Files of table models with a right checksum and wrong content are refused, or predict finite numbers."""

import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.campaign import REFUSED, VERIFIED, count
from faults.hostile_files import INFINITE, NAN, Mutations, changed, loaded, value_at, without, write
from torch import Tensor

import joker
from joker.errors import JokerError
from joker.models import files as model_files

FIXTURES = Path(__file__).parents[1] / "tables" / "fixtures"
EARLIER = ("version3_table_classifier", "version3_table_regressor")
RNG = np.random.default_rng(0)
ROWS = [
    {
        "size": size,
        "flag": size is not None and size > 0,
        "person": person,
        "city": city,
        "day": f"2024-{1 + person % 12:02}-03",
    }
    for size, person, city in zip(
        [*RNG.normal(size=58), None, 1e4], (np.arange(60) % 20).tolist(), RNG.choice(["a", "b", "c"], 60), strict=True
    )
]
NEW = [*ROWS[::6], {"size": None, "flag": None, "person": 77, "city": "z", "day": None}]
TARGET = np.array([np.exp(3 * len(row["city"]) + (row["person"] % 5)) for row in ROWS])
SAID = [{"size": float(k), "said": " ".join(RNG.choice(["good", "bad", "hot", "cold"], 6))} for k in range(60)]
OWN_RNG = np.random.default_rng(0)
SIZES = OWN_RNG.normal(size=300)
STEPS = 3 * SIZES + 4 * (SIZES > 0.5) + 0.1 * (1 + np.abs(SIZES)) * OWN_RNG.normal(size=300)
COUNTS = OWN_RNG.poisson(np.exp(SIZES))
SIZED = [{"size": size, "kind": "xyz"[k % 3]} for k, size in enumerate(SIZES.tolist())]
OTHER_ROWS = {  # by the name of the first column that only they have
    "said": [*SAID[::6], {"size": None, "said": None}, {"size": 1e9, "said": "new words"}],
    "kind": [*SIZED[::30], {"size": None, "kind": "w"}],
}
FITTED: dict[str, Any] = {
    "groups": (joker.JokerClassifier, {"columns": {"person": "group"}}, ROWS, [row["city"] + "!" for row in ROWS]),
    "heavy tail": (joker.JokerRegressor, {"columns": {"person": "group"}}, ROWS, TARGET),
    "two classes": (joker.JokerClassifier, {}, ROWS, [row["person"] > 9 for row in ROWS]),
    "text": (
        joker.JokerRegressor,
        {"columns": {"said": "text"}},
        SAID,
        [float(row["said"].count("good")) for row in SAID],
    ),
    "counts": (joker.JokerRegressor, {"effort": 2}, SIZED, COUNTS),
    "steps": (joker.JokerRegressor, {}, SIZED, STEPS),
    "costs": (joker.JokerRegressor, {"loss": "gamma"}, ROWS, TARGET),
}
NAMES = (*EARLIER, *FITTED)
# Parts of files that every change of them is tried on; they must be in one of the files.
NEWER_PARTS = ("'SteppedNumberEncoder'", "'Trend'", "'TextEncoder'", "'gamma'", "'poisson'", "'spread'")
Content = tuple[dict[str, Any], dict[str, Tensor]]


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory, few_trials: None) -> dict[str, Content]:
    folder = tmp_path_factory.mktemp("tables")
    paths = {name: FIXTURES / f"{name}.joker" for name in EARLIER}
    for name, (kind, settings, rows, y) in FITTED.items():
        paths[name] = folder / name
        kind(**{"effort": 1, "random_state": 0, **settings}).fit(rows, y).save(paths[name])
    return {name: model_files.read(path) for name, path in paths.items()}


def rows_for(model: Any) -> Any:
    """Return rows with the columns of a model; a name that the file has changed is left as it is."""
    names = [*getattr(model, "feature_names_in_", ())]
    if other := next((rows for name, rows in OTHER_ROWS.items() if name in names), None):
        return other
    return NEW if model.n_features_in_ == len(NEW[0]) else [
        {"size": 30.0, "city": "Bern", "sold": "2021-05-02"},
        {"size": None, "city": None, "sold": None},
        {"size": 1e6, "city": "Wil", "sold": "1950-01-01"},
    ]  # fmt: skip


def check(path: Path) -> str:
    """Load a file and use the model in every way; count and return how it ended."""
    model = loaded(path)
    if model is None:
        return count(REFUSED)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)
            found = model.predict(rows_for(model))
            if hasattr(model, "classes_"):
                assert set(found.tolist()) <= set(model.classes_.tolist())
                found = model.predict_proba(rows_for(model))
                assert np.allclose(found.sum(axis=1), 1)
                assert np.isfinite(model.decision_function(rows_for(model))).all()
            elif model.residuals.rows > 20:
                found = np.column_stack([found, model.predict_interval(rows_for(model))])
                assert (np.diff(found[:, 1:]) >= 0).all()
    except JokerError:  # a sentence, for example of a column that the table has not
        return count(REFUSED)
    assert np.isfinite(found).all()
    assert len(found) == len(rows_for(model))
    assert model.card().startswith("# Model card")
    assert len(model.feature_importances_) in (0, model.n_features_in_)
    return count(VERIFIED)


@pytest.mark.parametrize("name", NAMES)
def test_an_intact_file_predicts(name: str, contents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "m.joker", *contents[name], monkeypatch)
    assert check(tmp_path / "m.joker") == VERIFIED


@pytest.mark.parametrize("part", NEWER_PARTS)
def test_the_files_have_all_parts(part: str, contents: Any) -> None:
    assert any(part in str(document) for document, _ in contents.values())


CALIBRATION = ("calibration", "value", 1)
TARGET_VALUES = ("members", 0, "target", "value", 1)
POINTS = ("residuals", "value", 1, "points", "array", "values")
CLASSES = ("fitted", "classes", "array", "values")
ENCODER = ("encodings", 0, "value", 1, "encoders", "values", 0, "value", 1)
WRONG: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    EARLIER[0]: [
        *[((*CALIBRATION, "slope"), value) for value in (NAN, INFINITE, 0.0, -1.0, 1e308, None, "x", True)],
        *[((*CALIBRATION, "offsets", "array", "values", 1), value) for value in (NAN, INFINITE, 1e308, 10**400, "x")],
        *[(("members", 0, "weight"), value) for value in (NAN, float("nan"), 0.5, -1.0, 2.0, 1e308, None, True)],
        *[(("members", 0, "encoding"), value) for value in (-1, 1, 0.0, False, None, 10**30)],
        (CLASSES, ["a", "b", "c", "d", "e"]),
        (CLASSES, ["a", "b"]),
        (CLASSES, ["a", "a", "b"]),
        (CLASSES, []),
        (("n_classes",), 3_000_000),
        (("n_classes",), 2),
        (("n_classes",), 0),
        (("n_classes",), 3.0),
        (("calibration",), None),
        (("members",), []),
        (("encodings",), [None]),
        (("members", 0, "model", "fitted", "classes", "array", "values"), [0, 1, 5]),
        (("members", 0, "model", "fitted", "classes"), {"array": {"type": "<U1", "values": ["a", "b", "c"]}}),
        *[((*ENCODER, "deviation"), value) for value in (NAN, 0.0, -1.0, None)],
        *[((*ENCODER, "points", "tuple", 3), value) for value in (NAN, INFINITE, 1e9, "x")],
        ((*ENCODER, "method"), "robust"),
        ((*ENCODER, "method"), "log"),
        ((*ENCODER, "indicator"), 0.0),
        ((*ENCODER, "name"), "city"),
        (("encodings", 0, "value", 1, "kinds", "values", 0, "value", 1, "kind"), "category"),
        (("encodings", 0, "value", 1, "kinds", "values", 2, "value", 1, "writing"), "mayan"),
        (("encodings", 0, "value", 1, "weights"), {"array": {"type": "<f8", "values": [1.0]}}),
        (("encodings", 0, "value", 1, "encoders", "values", 1, "value", 1, "default", "array", "values"), [0.0]),
        (("encodings", 0, "value", 1, "encoders", "values", 2, "value", 1, "parts", "tuple", 1), "century"),
        (("fitted", "columns"), None),
        (("fitted", "held_out_score"), NAN),
    ],
    EARLIER[1]: [
        *[((*TARGET_VALUES, "deviation"), value) for value in (NAN, INFINITE, 0.0, -1.0, 1e308, None)],
        *[((*TARGET_VALUES, "mean"), value) for value in (NAN, INFINITE, 10**400)],
        *[((*TARGET_VALUES, name), value) for name in ("low", "high") for value in (NAN, INFINITE)],
        ((*TARGET_VALUES, "low"), 1e9),
        ((*TARGET_VALUES, "form"), "square"),
        *[((*POINTS, 1), value) for value in (NAN, INFINITE, 1e9, "x")],
        (POINTS, []),
        (("residuals", "value", 1, "rows"), 3),
        (("residuals",), None),
        (("members", 0, "residuals", "array", "values", 0), NAN),
        (("members", 0, "target"), None),
        (
            ("calibration",),
            {"value": ["Calibration", {"slope": 1.0, "offsets": {"array": {"type": "<f8", "values": []}}}]},
        ),
        (("n_classes",), 1),
    ],
}


@pytest.mark.parametrize("name", EARLIER)
def test_impossible_values_are_refused_when_the_file_is_read(
    name: str, contents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = contents[name]
    for place, value in WRONG[name]:
        value_at(document, place)  # it is there
        write(tmp_path / "wrong.joker", changed(document, place, value), tensors, monkeypatch)
        assert loaded(tmp_path / "wrong.joker") is None, f"{place}: {value}"
        count(REFUSED)


@pytest.mark.parametrize("name", EARLIER)
def test_every_missing_part_is_refused(
    name: str, contents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = contents[name]
    for part in ("encodings", "members", "n_classes", "calibration", "residuals", "fitted"):
        write(tmp_path / "wrong.joker", without(document, (part,)), tensors, monkeypatch)
        assert loaded(tmp_path / "wrong.joker") is None, part
        count(REFUSED)


def test_the_parts_of_two_files_are_not_mixed(contents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that fit but for their number of rows are those of another possible model."""
    for name in NAMES:
        for other in NAMES:
            document, tensors = contents[name][0], contents[other][1]
            if name != other:
                write(tmp_path / "wrong.joker", document, tensors, monkeypatch)
                found = check(tmp_path / "wrong.joker")
                assert found == REFUSED or widths(contents[name]) == widths(contents[other]), (name, other)


def widths(content: Content) -> dict[str, Any]:
    return {key: one.shape[1:] for key, one in content[1].items()}


@pytest.mark.parametrize("trials", [40, pytest.param(900, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_any_change_is_refused_or_gives_finite_numbers(
    name: str, trials: int, contents: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample; the seed is fixed, so that a failure can be repeated."""
    refused = 0
    for done, document, tensors in islice(Mutations(*contents[name], seed=2, left_out=("history",)), trials):
        write(tmp_path / "wrong.joker", document, tensors, monkeypatch)
        try:
            refused += check(tmp_path / "wrong.joker") == REFUSED
        except Exception as error:
            raise AssertionError(f"{done}: {type(error).__name__}: {error}") from error
    assert refused > trials // 3
