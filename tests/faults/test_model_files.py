"""Model files with a right checksum and wrong content are refused, or predict the same as before.

They are made by a faulty or hostile writer, so that the checksum protects from nothing.
"""

import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.campaign import REFUSED, VERIFIED, count
from faults.hostile_files import NAN, Mutations, changed, leaves, loaded, value_at, write, wrong_tensors
from scipy.sparse import csr_array
from torch import Tensor

import joker
from joker.errors import InvalidFile, JokerError
from joker.models import files as model_files

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 10.0, 100.0]
Y = np.sin(X[:, 0])
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-0.4, 0.4])]
SPARSE = csr_array(X * (np.abs(X) > 0.7))
MODELS: dict[str, Any] = {
    "exact": joker.KernelHuber(lam=[0.1, 1.0, 10.0], random_state=0).fit(X, Y),
    "sparse": joker.KernelRidge().fit(SPARSE, Y),
    "drawn": joker.KernelLogistic(n_features=300, random_state=0).fit(X, LABELS),
    "stored": joker.KernelSVC(n_features=20, random_state=0).fit(X, LABELS),
    "sketch": joker.KernelSVC(kernel="polynomial", n_features=20, random_state=0).fit(X, LABELS),
    "quantiles": joker.KernelQuantile(quantile=[0.1, 0.9], bandwidth=[1.0, 10.0, 100.0]).fit(X, Y),
    "linear": joker.KernelSVR(kernel="linear").fit(X, Y),
    "calibrated": joker.KernelSVC(calibrate=True, random_state=0, lam=[0.01, 0.1]).fit(X, LABELS),
    "path": joker.KernelRidge(n_features=20, lam=[0.1, 1.0, 10.0], dtype="float32", random_state=0).fit(X, Y),
    "softmax": joker.KernelLogistic(random_state=0).fit(X, LABELS),
    "gamma": joker.KernelGamma(random_state=0).fit(X, np.exp(Y)),
    "counts": joker.KernelPoisson(n_features=20, random_state=0).fit(X, np.round(np.exp(Y))),
    "nu": joker.KernelSVC(nu=0.3, loss="hinge", random_state=0).fit(X, LABELS),
    "nu tube": joker.KernelSVR(nu=0.3, random_state=0).fit(X, Y),
    "one class": joker.KernelOneClass(random_state=0).fit(X),
    "components": joker.KernelPCA(n_components=2, random_state=0).fit(X),
    "features": joker.KernelTransformer(n_components=20, random_state=0).fit(X),
}


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("calibrated", ("fitted", "probability_slope"), 1e308),
        ("calibrated", ("fitted", "probability_offsets", "array", "values", 0), 10**400),
        ("calibrated", ("fitted", "probability_offsets", "array", "values", 0), 1e308),
        ("softmax", ("fitted", "probability_slope"), NAN),
        ("softmax", ("fitted", "probability_slope"), 0),
        ("exact", ("fitted", "offset", "array", "values", 0), 10**400),
        ("exact", ("fitted", "lam"), 10**400),
        ("path", ("path", "models", 1, "offset"), {"array": {"type": "<f8", "values": [1e308, 0]}}),
        ("path", ("machines", "columns", 1), [0, 3]),
    ],
)
def test_numbers_beyond_those_of_any_fit_are_refused(
    name: str, place: tuple[Any, ...], value: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files[name]
    write(tmp_path / "wrong.joker", changed(document, place, value), tensors, monkeypatch)
    assert outcome(tmp_path / "wrong.joker", X) is None


@pytest.mark.parametrize("name", ["exact", "sparse", "quantiles", "calibrated"])
def test_rows_whose_kernel_values_overflow_predict_no_nan(
    name: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files[name]
    rows = "rows.values" if name == "sparse" else "rows"
    for row in (0, -1):
        wrong = tensors[rows].clone()
        wrong[row] = 1e300
        write(tmp_path / "wrong.joker", document, {**tensors, rows: wrong}, monkeypatch)
        found = outcome(tmp_path / "wrong.joker", SPARSE if name == "sparse" else X)
        assert found is None or np.isfinite(found).all()  # a row that is infinitely far has no influence


BOMBS: dict[str, Any] = {
    "a wide type": {"array": {"type": "<U99999", "values": ["a"] * 5_000}},
    "one long text": {"array": {"type": "<U99999", "values": ["a" * 20_000, *["b"] * 10_000]}},
    "many wide types": [{"array": {"type": "<U99999", "values": ["a", "b"]}}] * 1_000,
    "a wide scalar": [{"array": {"type": "<U9999999", "values": "a"}}] * 200,
}


@pytest.mark.parametrize(
    "place", [("fitted", "classes"), ("settings", "class_weight"), ("fitted", "input_names")], ids=str
)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_text_takes_no_more_memory_than_its_length_says(
    bomb: Any, place: tuple[Any, ...], files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files["stored"]
    write(tmp_path / "wrong.joker", changed(document, place, bomb), tensors, monkeypatch)
    tracemalloc.start()
    try:
        assert outcome(tmp_path / "wrong.joker", X) is None
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["dict", "tuple", "list"])
def test_values_in_values_are_refused(kind: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with a hundred dictionaries in one another could be read, and not be shown."""
    document, tensors = files["stored"]
    value: Any = 0
    for _ in range(120):
        value = {"dict": {"dict": [["a", value]]}, "tuple": {"tuple": [value]}, "list": [value]}[kind]
    for place in (("settings", "class_weight"), ("history",), ("fitted", "stop_reason")):
        write(tmp_path / "wrong.joker", changed(document, place, value), tensors, monkeypatch)
        with pytest.raises(InvalidFile, match="more than 100 lists or objects in one another"):
            joker.load(tmp_path / "wrong.joker")
        count(REFUSED)


def test_models_that_name_the_same_columns_share_them(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file may name a large tensor often."""
    document, tensors = files["exact"]
    document = changed(document, ("machines", "columns"), [document["machines"]["columns"][0]] * 4)
    weights = tensors["alpha"][:, :1].contiguous()
    write(tmp_path / "m.joker", document, {**tensors, "alpha": weights}, monkeypatch)
    models = joker.load(tmp_path / "m.joker").path_.models
    assert len({one._machine.weights.data_ptr() for one in models}) == 1
    count(VERIFIED)


def outcome(path: Path, rows: Any) -> Any:
    """Return the predictions of a file, or None if it is refused."""
    model = loaded(path)
    if model is None:
        count(REFUSED)
        return None
    try:
        if hasattr(model, "predict_proba"):
            assert np.allclose(model.predict_proba(rows).sum(axis=1), 1)
        return values_of(model, rows)
    except JokerError:  # a sentence, for example of a memory budget that is too small
        count(REFUSED)
        return None


def values_of(model: Any, rows: Any) -> Any:
    """Return what a model computes for rows: its features, decision values or predictions."""
    if hasattr(model, "transform"):
        return model.transform(rows)
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def equal_or_refused(path: Path, name: str, expected: Any) -> bool:
    """Whether a file is refused; if not, its predictions must be those of the intact file, or other finite numbers."""
    found = outcome(path, SPARSE if name == "sparse" else X)
    if found is None:
        return True
    assert np.isfinite(found).all()
    assert found.reshape(expected.shape).shape == expected.shape  # one output may be a column
    count(VERIFIED)
    return False


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Tensor]]]:
    folder = tmp_path_factory.mktemp("models")
    for name, model in MODELS.items():
        model.save(folder / name, store_features=name == "stored")
    return {name: model_files.read(folder / name) for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_tensors_of_another_type_or_shape_and_nan_are_refused(
    name: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files[name]
    path = tmp_path / "wrong.joker"
    expected = outcome_of(name)
    for key, tensor in tensors.items():
        if key.startswith("witness."):
            continue  # they are compared only if the draw has another checksum
        wrong = wrong_tensors(tensor)
        for kind, value in wrong.items():
            write(path, document, {**tensors, key: value}, monkeypatch)
            assert equal_or_refused(path, name, expected) or kind == "huge", f"{key}: {kind}"
        write(path, document, {other: value for other, value in tensors.items() if other != key}, monkeypatch)
        assert equal_or_refused(path, name, expected), f"without {key}"


def outcome_of(name: str) -> Any:
    return values_of(MODELS[name], SPARSE if name == "sparse" else X)


NUMBERS_THAT_PREDICT = ("offset", "target_scale", "mean", "scale", "bandwidth", "intercept", "lam")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "text", None, [], {}], ids=repr)
def test_numbers_of_the_fit_that_are_none_are_refused(
    name: str, value: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files[name]
    fitted = [place for place in leaves(document) if place[:1] == ("fitted",) and place[1] in NUMBERS_THAT_PREDICT]
    numbers = [place for place in fitted if isinstance(value_at(document, place), int | float)]
    assert numbers
    for place in numbers:
        write(tmp_path / "wrong.joker", changed(document, place, value), tensors, monkeypatch)
        assert outcome(tmp_path / "wrong.joker", X) is None, place


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("drawn", ("fitted", "mean", "array", "values", 0), 1e308),
        ("sketch", ("fitted", "mean", "array", "values", 1), 1e308),
        ("linear", ("fitted", "target_scale", "array", "values", 0), 1e308),
        ("stored", ("machines", "map", 1, "scale"), 1e308),
        ("linear", ("fitted", "one_output"), None),
    ],
)
def test_numbers_that_overflow_and_words_that_are_no_truth_values_are_refused(
    name: str, place: tuple[Any, ...], value: Any, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files[name]
    value_at(document, place)
    write(tmp_path / "wrong.joker", changed(document, place, value), tensors, monkeypatch)
    assert outcome(tmp_path / "wrong.joker", X) is None


@pytest.mark.parametrize("trials", [60, pytest.param(900, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_any_change_of_a_document_is_refused_or_gives_finite_numbers(
    name: str, trials: int, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample; the seed is fixed, so that a failure can be repeated."""
    expected, refused = outcome_of(name), 0
    for done, document, tensors in islice(Mutations(*files[name], seed=1, left_out=("history",)), trials):
        write(tmp_path / "wrong.joker", document, tensors, monkeypatch)
        try:
            refused += equal_or_refused(tmp_path / "wrong.joker", name, expected)
        except Exception as error:
            raise AssertionError(f"{done}: {type(error).__name__}") from error
    assert refused > trials // 3


@pytest.mark.parametrize(
    ("place", "value"), [(("machines", "draw", "inputs"), 10**9), (("machines", "draw", "features"), 10**12)]
)
def test_a_small_file_takes_no_large_memory(
    place: tuple[str, ...], value: int, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document, tensors = files["drawn"]
    document = changed(document, ("fitted", "inputs"), value) if "inputs" in place else document
    write(tmp_path / "wrong.joker", changed(document, place, value), tensors, monkeypatch)
    assert outcome(tmp_path / "wrong.joker", X) is None


def test_a_polynomial_of_huge_degree_is_refused(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = joker.KernelSVC(kernel="polynomial", n_features=300, random_state=0).fit(
        RNG.normal(size=(90, 300)), np.tile(["a", "b", "c"], 30)
    )
    model.save(tmp_path / "m.joker")
    document, tensors = model_files.read(tmp_path / "m.joker")
    kernel = document["machines"]["draw"]["kernel"]["kernel"]
    assert kernel[0] == "polynomial"
    kernel[1]["degree"] = 10**6
    write(tmp_path / "wrong.joker", document, tensors, monkeypatch)
    assert outcome(tmp_path / "wrong.joker", X) is None
