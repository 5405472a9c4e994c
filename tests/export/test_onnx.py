"""Predictions of ONNX Runtime are those of joker, for every loss, kernel and kind of features."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx_sessions import session_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import joker
from joker import losses
from joker.errors import InvalidParameter, MissingPackage, UnknownName
from joker.kernels import KERNELS, Gaussian

onnx = pytest.importorskip("onnx", reason="needs onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

TOLERANCE = 1e-5  # of the largest value of an output
ROWS, INPUTS, FEATURES = 48, 3, 32
FLOAT32 = ("squared", "hinge", "logistic")  # losses whose models are also computed in float32
KINDS = [(name, kind) for name, kernel in KERNELS.items() for kind in (None, *kernel.feature_kinds)]


def sample(rows: int = ROWS, inputs: int = INPUTS) -> tuple[Any, Any]:
    """Inputs on different scales that float32 represents exactly, and numbers that depend on them."""
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(rows, inputs)) * 10.0 ** np.arange(inputs) + 5).astype(np.float32)
    return x, 100 + 20 * np.sin(x[:, 0]) + x[:, 1]


def outputs(model: Any, path: Path, feeds: Any, **settings: Any) -> dict[str, Any]:
    """The outputs of an exported model."""
    joker.export.to_onnx(model, path, **settings)
    session = session_of(path)
    feeds = feeds if isinstance(feeds, dict) else {"inputs": feeds}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def expected(model: Any, x: Any) -> dict[str, Any]:
    """The same outputs from joker."""
    if not (hasattr(model, "classes_") or isinstance(model, joker.KernelOneClass)):
        return {"prediction": model.predict(x)}
    found = {"label": model.predict(x), "decision_function": model.decision_function(x)}
    return found | ({"probabilities": model.predict_proba(x)} if hasattr(model, "predict_proba") else {})


def difference(got: dict[str, Any], wanted: dict[str, Any]) -> float:
    """The largest difference of a number, as a share of the largest number of its output; labels must be equal."""
    assert got.keys() == wanted.keys()
    worst = 0.0
    for name, values in wanted.items():
        assert got[name].shape == values.shape
        if name == "label":
            assert (got[name] == values).all()
        else:
            worst = max(worst, float(np.abs(got[name] - values).max() / np.abs(values).max()))
    return worst


def fitted(loss: str, kernel: str, kind: str | None, **settings: Any) -> Any:
    x, y = sample()
    m = None if kind is None else INPUTS if kind == "identity" else FEATURES
    shared = {"kernel": kernel, "n_features": m, "features": kind or "auto", "lam": 0.3, "random_state": 0}
    if losses.get(loss).frame.task == "regression":
        return joker.KernelRegressor(loss=loss, **shared, **settings).fit(x, y)
    return joker.KernelClassifier(loss=loss, **shared, **settings).fit(x, np.digitize(y, [90, 110]))


@pytest.mark.parametrize(("kernel", "kind"), KINDS)
def test_predictions_agree_for_every_loss(kernel: str, kind: str | None, tmp_path: Path) -> None:
    x, _ = sample()
    for loss in losses.NAMES:
        model = fitted(loss, kernel, kind, max_epochs=2)
        wanted = expected(model, x)
        for dtype in ("auto", "float32") if loss in FLOAT32 else ("auto",):
            found = difference(outputs(model, tmp_path / "model.onnx", x, dtype=dtype), wanted)
            assert found < TOLERANCE, f"{loss}, {dtype}: {found:.1e}"


def test_the_list_has_every_kernel_and_kind() -> None:
    assert {kind for _, kind in KINDS} - {None} == joker.features.KINDS.keys()
    assert len(KINDS) == 32


def test_float64_is_float64_throughout(tmp_path: Path) -> None:
    x, _ = sample()
    for kernel, kind in (("matern52", None), ("laplacian", "fourier")):
        model = fitted("squared", kernel, kind, dtype="float64")
        x64 = x.astype(np.float64)
        got = outputs(model, tmp_path / "model.onnx", x64, dtype="float64")
        assert got["prediction"].dtype == np.float64
        assert difference(got, expected(model, x64)) < 1e-12


def test_a_float32_model_agrees(tmp_path: Path) -> None:
    x, _ = sample()
    for kind in (None, "orthogonal"):
        model = fitted("huber", "gaussian", kind, dtype="float32")
        assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_the_number_of_rows_is_free(rows: int, tmp_path: Path) -> None:
    for kernel, kind in (("laplacian", None), ("polynomial", "tensor_sketch")):
        model = fitted("logistic", kernel, kind)
        x, _ = sample(rows)
        assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


@dataclass(frozen=True)
class Case:
    """An estimator, and the targets it is fitted to."""

    model: Any
    y: Any


def cases() -> dict[str, Case]:
    _, y = sample()
    classes = np.digitize(y, [90, 110])
    several = np.column_stack([y, -1e6 * y, y**2])
    return {
        "a bandwidth for each input": Case(joker.KernelRidge(bandwidth=[0.5, 3.0, 70.0]), y),
        "both scalings": Case(joker.KernelRidge(bandwidth=[0.5, 3.0, 9.0], standardize=True), y),
        "no intercept": Case(joker.KernelRidge(fit_intercept=False), y),
        "no intercept, features": Case(joker.KernelRidge(fit_intercept=False, n_features=20), y),
        "targets as they are": Case(joker.KernelSVR(scale_target=False), y),
        "several outputs": Case(joker.KernelRidge(), several),
        "one output in a column": Case(joker.KernelRidge(), y[:, None]),
        "a path": Case(joker.KernelHuber(lam=[0.1, 1.0, 10.0], random_state=0), y),
        "levels in any order": Case(joker.KernelQuantile(quantile=[0.9, 0.1, 0.5]), y),
        "one level": Case(joker.KernelQuantile(quantile=[0.3]), y),
        "an expectile": Case(joker.KernelExpectile(expectile=0.8), y),
        "counts": Case(joker.KernelPoisson(), np.round(np.abs(y))),
        "costs": Case(joker.KernelTweedie(n_features=50, random_state=0), np.abs(y)),
        "two classes": Case(joker.KernelLogistic(), y > 100),
        "two classes, no probabilities": Case(joker.KernelSVC(loss="hinge"), y > 100),
        "words": Case(joker.KernelLogistic(), np.array(["low", "middle", "high, é"])[classes]),
        "objects": Case(joker.KernelLogistic(), np.array(["low", "middle", "high"], dtype=object)[classes]),
        "floating-point classes": Case(joker.KernelLogistic(), np.array([1.0, 2.0, 4.0])[classes]),
        "small integers": Case(joker.KernelSVC(), classes.astype(np.uint8)),
    }


@pytest.mark.parametrize("name", cases())
def test_settings_that_change_predictions(name: str, tmp_path: Path) -> None:
    case, (x, _) = cases()[name], sample()
    model = case.model.fit(x, case.y)
    assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


def test_probabilities_of_earlier_files_agree(tmp_path: Path) -> None:
    x, _ = sample()
    model = fitted("logistic", "gaussian", None)
    model._slope = None
    assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


def test_a_quantile_that_was_calibrated_agrees(tmp_path: Path) -> None:
    x, y = sample()
    model = joker.KernelQuantile(quantile=[0.1, 0.9]).fit(x[:30], y[:30]).calibrate(x[30:], y[30:])
    assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


def test_rows_without_weight_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)).astype(np.float32)
    model = joker.KernelSVC(loss="hinge", lam=1.0, tol=1e-6).fit(x, x[:, 0] > 0)
    support = int(np.sum(model.dual_coef_ != 0))
    joker.export.to_onnx(model, tmp_path / "model.onnx")
    shapes = {tuple(c.dims) for c in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert support < 200
    assert (support, 1) in shapes
    assert not {shape for shape in shapes if 400 in shape}


@pytest.mark.parametrize("m", [None, FEATURES])
@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_a_one_class_machine(m: int | None, dtype: str, tmp_path: Path) -> None:
    x, _ = sample()
    model = joker.KernelOneClass(nu=0.3, n_features=m, dtype=dtype, random_state=0).fit(x)
    new = x + np.float32(0.3)  # no row is at the threshold
    got = outputs(model, tmp_path / "model.onnx", new)
    assert set(got["label"]) == {-1, 1}
    assert difference(got, expected(model, new)) < TOLERANCE


def test_a_saved_model_gives_the_same_file(tmp_path: Path) -> None:
    model = fitted("logistic", "gaussian", "structured")
    model.save(tmp_path / "model.joker")
    joker.export.to_onnx(model, tmp_path / "a.onnx")
    joker.export.to_onnx(joker.load(tmp_path / "model.joker"), tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_metadata(tmp_path: Path) -> None:
    import pandas as pd

    x, y = sample()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = joker.KernelLogistic(lam=0.5).fit(frame, np.where(y > 100, "high", "low"))
    joker.export.to_onnx(model, tmp_path / "model.onnx")
    session = session_of(tmp_path / "model.onnx")
    facts = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert facts["joker_version"] == joker.__version__
    assert facts["estimator"] == "KernelLogistic"
    assert (facts["columns"], facts["classes"]) == (["a", "b", "c"], ["high", "low"])
    assert (facts["lam"], facts["bandwidth"], facts["kernel"]) == (0.5, model.bandwidth_, "gaussian")
    assert session.get_modelmeta().producer_name == "joker"
    (only,) = session.get_inputs()
    assert (only.name, only.shape, only.type) == ("inputs", ["rows", 3], "tensor(float)")


def test_the_file_is_one_that_the_oldest_runtime_reads(tmp_path: Path) -> None:
    """ONNX Runtime 1.17 reads opset 20 of ONNX, opset 4 of ai.onnx.ml and IR version 9."""
    joker.export.to_onnx(fitted("squared", "gaussian", None), tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    assert {one.domain: one.version for one in model.opset_import} == {"": 18, "ai.onnx.ml": 3}
    assert model.ir_version <= 9


# What cannot be exported


class Own(Gaussian):
    """A kernel of a user."""


def test_a_kernel_of_your_own_needs_features(tmp_path: Path) -> None:
    x, y = sample()
    with pytest.raises(InvalidParameter, match="a class of your own, which has no ONNX operations"):
        joker.export.to_onnx(joker.KernelRidge(kernel=Own()).fit(x, y), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    model = joker.KernelRidge(kernel=Own(), n_features=20).fit(x, y)
    assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


def test_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="must be a fitted estimator of joker; got Ridge"):
        joker.export.to_onnx(Ridge(), tmp_path / "model.onnx")
    with pytest.raises(NotFittedError):
        joker.export.to_onnx(joker.KernelRidge(), tmp_path / "model.onnx")
    with pytest.raises(UnknownName, match="dtype must be one of auto, float32, float64; got 'float16'"):
        joker.export.to_onnx(fitted("squared", "gaussian", None), tmp_path / "model.onnx", dtype="float16")


def test_targets_that_float32_cannot_represent_are_refused(tmp_path: Path) -> None:
    x, y = sample()
    model = joker.KernelRidge(dtype="float32").fit(x, 1e36 * y)
    with pytest.raises(InvalidParameter, match=r"representable in float32; their unit is .* Use dtype='float64'"):
        joker.export.to_onnx(model, tmp_path / "model.onnx")
    x64 = x.astype(np.float64)
    got = outputs(model, tmp_path / "model.onnx", x64, dtype="float64")
    assert difference(got, expected(model, x64)) < TOLERANCE


def test_a_file_that_would_be_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from joker.export import estimators

    monkeypatch.setattr(estimators, "MAX_BYTES", 500)
    with pytest.raises(InvalidParameter, match="must be smaller than 2 GiB; the training rows of this model take"):
        joker.export.to_onnx(fitted("squared", "gaussian", None), tmp_path / "model.onnx")
    with pytest.raises(InvalidParameter, match="the random features of this model take"):
        joker.export.to_onnx(fitted("squared", "gaussian", "fourier"), tmp_path / "model.onnx")


def test_without_onnx_an_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("squared", "gaussian", None)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingPackage, match=r"pip install 'joker-kernels\[onnx\]'"):
        joker.export.to_onnx(model, tmp_path / "model.onnx")


@pytest.mark.gpu
def test_a_model_on_a_gpu_is_exported(tmp_path: Path) -> None:
    x, y = sample()
    for m in (None, 30):
        model = joker.KernelRidge(n_features=m, device="cuda").fit(torch.from_numpy(x), torch.from_numpy(y))
        assert difference(outputs(model, tmp_path / "model.onnx", x), expected(model, x)) < TOLERANCE


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        joker.KernelLogistic(),
        joker.KernelLogistic(calibrate=True),
        joker.KernelSVC(calibrate=True),
        joker.KernelSVC(multi_class="crammer_singer", calibrate=True),
        joker.KernelClassifier(loss="softmax", n_features=30, random_state=0),
    ],
    ids=repr,
)
def test_probabilities_of_coupled_and_of_calibrated_classes(model: Any, classes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5][: classes - 1])
    model = clone(model).fit(X, y)
    joker.export.to_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    label, p = session.run(["label", "probabilities"], {session.get_inputs()[0].name: X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-5)
