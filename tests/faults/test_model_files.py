"""Model files with a right checksum and wrong content are refused, or predict the same as before.

They are made by a faulty or hostile writer, so that the checksum protects from nothing.
"""

import copy
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults.campaign import REFUSED, VERIFIED, count
from scipy.sparse import csr_array
from torch import Tensor

import joker
from joker.errors import JokerError
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
}


def write(path: Path, document: dict[str, Any], tensors: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file with a right checksum, also if the document holds NaN."""
    dumps = json.dumps
    body = {name: value for name, value in document.items() if name not in ("format", "version", "sha256")}
    with monkeypatch.context() as patch:
        patch.setattr(model_files.json, "dumps", lambda value, **_: dumps(value))
        model_files.write(path, body, tensors, version=document["version"])


def outcome(path: Path, rows: Any) -> Any:
    """Return the predictions of a file, or None if it is refused with an error of joker that names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = joker.load(path)
    except JokerError as error:
        assert path.name in str(error)  # noqa: PT017  # any other error fails the test
        count(REFUSED)
        return None
    return model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)


def equal_or_refused(path: Path, name: str, expected: Any) -> bool:
    """Whether a file is refused; if not, its predictions must be those of the intact file, or other finite numbers."""
    found = outcome(path, SPARSE if name == "sparse" else X)
    if found is None:
        return True
    assert np.isfinite(found).all()
    assert found.shape == expected.shape
    count(VERIFIED)
    return False


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers, texts and truth values in a document."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place


def changed(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    whole = copy.deepcopy(document)
    part = whole
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return whole


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
        nan = tensor.clone()
        nan.view(-1)[0] = float("nan") if tensor.is_floating_point() else -7
        wrong = {"nan": nan, "longer": torch.cat([tensor, tensor]), "flat": tensor.reshape(-1)[:1]}
        wrong["integer" if tensor.is_floating_point() else "floating"] = (
            tensor.round().long() if tensor.is_floating_point() else tensor.double() + 0.5
        )
        wrong["half"] = tensor.half() if tensor.is_floating_point() else tensor.to(torch.int8)
        for kind, value in wrong.items():
            write(path, document, {**tensors, key: value}, monkeypatch)
            assert equal_or_refused(path, name, expected), f"{key}: {kind}"
        write(path, document, {other: value for other, value in tensors.items() if other != key}, monkeypatch)
        assert equal_or_refused(path, name, expected), f"without {key}"


def outcome_of(name: str) -> Any:
    model, rows = MODELS[name], SPARSE if name == "sparse" else X
    return model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)


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


def value_at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


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


@pytest.mark.parametrize("trials", [60, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_any_change_of_a_document_is_refused_or_gives_finite_numbers(
    name: str, trials: int, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample; the seed is fixed, so that a failure can be repeated."""
    document, tensors = files[name]
    rng, expected = np.random.default_rng(1), outcome_of(name)
    places = [place for place in leaves(document) if place[0] not in ("format", "version", "sha256", "history")]
    values = [float("nan"), -1, 0, 10**30, 1e308, "x", None, [], {}, True, [1.0, 2.0]]
    refused = 0
    for number in rng.choice(len(places), size=trials):
        value = values[rng.integers(len(values))]
        write(tmp_path / "wrong.joker", changed(document, places[number], value), tensors, monkeypatch)
        refused += equal_or_refused(tmp_path / "wrong.joker", name, expected)
    assert refused > trials // 6


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
