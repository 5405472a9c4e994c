"""A kernel matrix as X, and a function of two arrays as the kernel: the same optimum as with a kernel of joker."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.kernel_ridge import KernelRidge as SklearnRidge
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import estimator_checks_generator
from store_sources import Table

import joker
from joker.callbacks import Checkpoint
from joker.data import convert
from joker.errors import InvalidData, InvalidFile, InvalidParameter, StateMismatch
from joker.estimators.inputs import TrainingSet

Array = NDArray[Any]
GAMMA = 0.5  # exp(−γ‖x − z‖²) with bandwidth 1
TIGHT = {"tol": 1e-12, "max_epochs": 500}
# Data of these checks are no kernel matrix: random numbers, a matrix minus its mean, one cast to integers, inputs.
NOT_KERNEL_MATRICES = {
    "check_classifiers_one_label_sample_weights",
    "check_decision_proba_consistency",
    "check_estimators_dtypes",
    "check_positive_only_tag_during_fit",
}


def gaussian(x: Array, z: Array) -> Array:
    """The Gaussian kernel of scikit-learn with bandwidth 1; a function of the module, so that it can be pickled."""
    matrix: Array = rbf_kernel(x, z, gamma=GAMMA)
    return matrix


def rows(n: int = 150, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, 3))


def classes(x: Array) -> Array:
    """Three classes, of text."""
    return np.array(["a", "b", "c"])[(np.linalg.norm(x, axis=1) > 1.5).astype(int) + (x[:, 0] > 0.5)]


def numbers(x: Array) -> Array:
    noise = np.random.default_rng(1).normal(size=len(x))
    smooth: Array = np.sin(2 * x[:, 0]) + x[:, 1] + 0.1 * noise
    return smooth


X, NEW = rows(), rows(40, seed=2)
K, K_NEW = gaussian(X, X), gaussian(NEW, X)
W = np.random.default_rng(3).integers(0, 3, len(X)).astype(float)
TARGETS = {"regressor": numbers(X), "classifier": classes(X)}
ESTIMATORS = [
    joker.KernelRidge(),
    joker.KernelHuber(),
    joker.KernelSVR(),
    joker.KernelQuantile(),
    joker.KernelSVC(loss="hinge"),
    joker.KernelSVC(multi_class="crammer_singer"),
    joker.KernelLogistic(),
    joker.KernelLogistic(multi_class="ovr"),
]


def values(model: Any, x: Array) -> Array:
    found: Array = model.decision_function(x) if hasattr(model, "decision_function") else model.predict(x)
    return found


# The same optimum


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, W], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_matrix_and_a_function_have_the_optimum_of_the_named_kernel(
    estimator: Any, weights: Array | None, intercept: bool
) -> None:
    estimator = clone(estimator).set_params(lam=0.3, fit_intercept=intercept, **TIGHT)
    y = TARGETS["classifier" if is_classifier(estimator) else "regressor"]
    named = clone(estimator).set_params(kernel="gaussian", bandwidth=1.0, standardize=False).fit(X, y, weights)
    matrix = clone(estimator).set_params(kernel="precomputed").fit(K, y, weights)
    function = clone(estimator).set_params(kernel=gaussian).fit(X, y, weights)
    expected = values(named, NEW)
    assert np.abs(values(matrix, K_NEW) - expected).max() < 1e-5
    assert np.abs(values(function, NEW) - expected).max() < 1e-5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["random_blocks", "greedy_blocks", "conjugate_gradients"])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_method_reads_a_matrix_in_blocks(method: str, dtype: str, intercept: bool) -> None:
    """Blocks are rows in any order, runs of rows, and all rows: each is gathered in another way."""
    settings = {"lam": 0.1, "method": method, "dtype": dtype, "fit_intercept": intercept, "random_state": 0}
    kept = K.copy()
    one = joker.KernelRidge(kernel="precomputed", lam=0.1, fit_intercept=intercept).fit(K, TARGETS["regressor"])
    for kernel, train, new in (("precomputed", K, K_NEW), (gaussian, X, NEW)):
        model = joker.KernelRidge(kernel=kernel, block_size=32, max_epochs=300, tol=1e-7, **settings)
        found = model.fit(train, TARGETS["regressor"]).predict(new)
        assert np.abs(found - one.predict(K_NEW)).max() < 2e-3
    assert np.array_equal(K, kept)  # nothing was written to the user's matrix


def test_ridge_is_that_of_scikit_learn() -> None:
    theirs = SklearnRidge(kernel="precomputed", alpha=0.2).fit(K, TARGETS["regressor"])
    ours = joker.KernelRidge(kernel="precomputed", lam=0.2, fit_intercept=False).fit(K, TARGETS["regressor"])
    assert np.abs(ours.predict(K_NEW) - theirs.predict(K_NEW)).max() < 1e-8
    two = np.stack([TARGETS["regressor"], X[:, 2]], axis=1)
    theirs, ours = theirs.fit(K, two), ours.fit(K, two)
    assert np.abs(ours.predict(K_NEW) - theirs.predict(K_NEW)).max() < 1e-8


def test_svr_and_svc_are_those_of_scikit_learn() -> None:
    """Theirs have an intercept without penalty: kernel matrices are centred at a mean that makes it small."""
    y, signs = TARGETS["regressor"] - TARGETS["regressor"].mean(), X[:, 0] + 0.3 * X[:, 1] > 0
    ours = joker.KernelSVR(kernel="precomputed", lam=1.0, epsilon=0.1, scale_target=False, **TIGHT).fit(100 + K, y)
    theirs = SVR(kernel="precomputed", C=1.0, epsilon=0.1, tol=1e-8).fit(K, y)
    assert np.abs(ours.predict(100 + K_NEW) - theirs.predict(K_NEW)).max() < 2e-2
    svc = joker.KernelSVC(kernel="precomputed", loss="hinge", lam=1.0, **TIGHT).fit(100 + K, signs)
    libsvm = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(K, signs)
    assert np.abs(svc.decision_function(100 + K_NEW) - libsvm.decision_function(K_NEW)).max() < 2e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16, np.uint8])
def test_a_matrix_of_any_type_and_layout_is_used(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 4, (60, 5))
    whole = linear_kernel(x, x)
    expected = joker.KernelRidge(kernel="precomputed").fit(whole, x[:, 0]).predict(whole)
    stored = np.asfortranarray(whole.astype(dtype))
    assert np.abs(joker.KernelRidge(kernel="precomputed").fit(stored, x[:, 0]).predict(stored) - expected).max() < 1e-6
    tensor = torch.from_numpy(whole)
    assert np.abs(joker.KernelRidge(kernel="precomputed").fit(tensor, x[:, 0]).predict(tensor) - expected).max() < 1e-6


# Held-out rows


@pytest.mark.parametrize(
    "settings",
    [{"lam": [0.01, 0.1, 1.0, 10.0]}, {"early_stopping": True}, {"early_stopping": "accuracy"}, {"calibrate": True}],
    ids=["path", "loss", "scorer", "calibrate"],
)
@pytest.mark.filterwarnings("ignore::joker.errors.EdgeOfPath")
def test_held_out_rows_are_rows_of_the_matrix(settings: dict[str, Any]) -> None:
    """The model is trained on some rows, and its predictions take a column for every row of the matrix."""
    settings = {"random_state": 0, **TIGHT, **settings}
    matrix = joker.KernelLogistic(kernel="precomputed", **settings).fit(K, TARGETS["classifier"])
    function = joker.KernelLogistic(kernel=gaussian, **settings).fit(X, TARGETS["classifier"])
    assert matrix.dual_coef_.shape[0] < len(K) == matrix.n_features_in_
    assert matrix.lam_ == function.lam_
    assert np.abs(matrix.predict_proba(K_NEW) - function.predict_proba(NEW)).max() < 1e-4


def test_an_eval_set_has_the_columns_of_the_training_rows() -> None:
    held = (K_NEW, classes(NEW))
    settings = {"lam": [0.01, 0.1, 1.0], "loss": "hinge", **TIGHT}
    matrix = joker.KernelSVC(kernel="precomputed", **settings).fit(K, TARGETS["classifier"], eval_set=held)
    named = joker.KernelSVC(bandwidth=1.0, standardize=False, **settings)
    named.fit(X, TARGETS["classifier"], eval_set=(NEW, held[1]))
    assert np.abs(matrix.path_.scores - named.path_.scores).max() < 1e-6


@pytest.mark.parametrize("loss", ["ridge", "svc"])
def test_cross_validation_slices_rows_and_columns(loss: str) -> None:
    model: Any = joker.KernelRidge(lam=0.1) if loss == "ridge" else joker.KernelSVC(lam=0.1, loss="hinge")
    y = TARGETS["regressor" if loss == "ridge" else "classifier"]
    pairwise = clone(model).set_params(kernel="precomputed")
    matrix = cross_val_score(pairwise, K, y)
    function = cross_val_score(clone(model).set_params(kernel=gaussian), X, y)
    named = cross_val_score(model.set_params(bandwidth=1.0, standardize=False), X, y)
    assert np.abs(matrix - named).max() < 0.02
    assert np.abs(function - named).max() < 0.02
    search = GridSearchCV(pairwise, {"lam": [1e-2, 1e3]}).fit(K, y)
    assert search.best_params_ == {"lam": 1e-2}


def test_a_matrix_is_pairwise_and_a_function_is_not() -> None:
    assert joker.KernelSVC(kernel="precomputed").__sklearn_tags__().input_tags.pairwise
    assert not joker.KernelSVC(kernel="precomputed").__sklearn_tags__().input_tags.sparse
    assert not joker.KernelSVC(kernel=gaussian).__sklearn_tags__().input_tags.pairwise


CHECKED = [
    joker.KernelRidge(kernel="precomputed"),
    joker.KernelSVC(kernel="precomputed", loss="hinge"),
    joker.KernelLogistic(kernel="precomputed"),
    joker.KernelRidge(kernel=gaussian),
]
CHECKS = [pair for model in CHECKED for pair in estimator_checks_generator(model)]


# The name of a function has its address in it, which other processes do not have.
@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=[f"{type(model).__name__}-{check.func.__name__}" for model, check in CHECKS]
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    if estimator.kernel == "precomputed" and check.func.__name__ in NOT_KERNEL_MATRICES:
        pytest.skip("the data of the check are no kernel matrix")
    check(estimator)


# Files, pickles, warm starts


def test_a_fitted_model_keeps_no_matrix() -> None:
    for settings in ({}, {"lam": [0.1, 1.0]}, {"warm_start": True}):
        model = joker.KernelRidge(kernel="precomputed", random_state=0, **settings).fit(K, TARGETS["regressor"])
        assert len(pickle.dumps(model)) < K.nbytes / 4


def test_pickles_and_clones_predict_the_same() -> None:
    for kernel, train, new in (("precomputed", K, K_NEW), (gaussian, X, NEW)):
        model = joker.KernelSVC(kernel=kernel).fit(train, TARGETS["classifier"])
        assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(new), model.predict(new))
        assert clone(model).kernel is kernel


def test_a_model_of_a_matrix_is_saved(tmp_path: Path) -> None:
    model = joker.KernelSVC(kernel="precomputed", lam=[0.1, 1.0], random_state=0).fit(K, TARGETS["classifier"])
    model.save(tmp_path / "model.joker")
    again = joker.load(tmp_path / "model.joker")
    assert np.array_equal(again.decision_function(K_NEW), model.decision_function(K_NEW))
    assert "the model contains none" in again.card()
    assert "Precomputed()" in again.card()


def test_a_file_with_other_row_numbers_is_refused(tmp_path: Path) -> None:
    model = joker.KernelSVC(kernel="precomputed").fit(K, TARGETS["classifier"])
    model.n_features_in_ = 10
    model.save(tmp_path / "model.joker")
    with pytest.raises(InvalidFile, match="numbers of its 10 columns"):
        joker.load(tmp_path / "model.joker")


def test_a_function_is_not_saved_and_neither_is_exported(tmp_path: Path) -> None:
    model = joker.KernelRidge(kernel=gaussian).fit(X, TARGETS["regressor"])
    with pytest.raises(InvalidParameter, match=r"a file holds no code; got kernel=.*Use pickle"):
        model.save(tmp_path / "model.joker")
    assert "FunctionKernel(gaussian)" in model.card()
    pytest.importorskip("onnx")
    for exact in (model, joker.KernelRidge(kernel="precomputed").fit(K, TARGETS["regressor"])):
        with pytest.raises(InvalidParameter, match="a matrix or a function of your own, which has no ONNX operations"):
            joker.export.to_onnx(exact, tmp_path / "model.onnx")


def test_a_warm_start_continues_with_the_same_matrix_only() -> None:
    settings = {"kernel": "precomputed", "block_size": 32, "random_state": 0, "tol": 0.0, "method": "random_blocks"}
    whole = joker.KernelRidge(max_epochs=4, **settings).fit(K, TARGETS["regressor"])
    parts = joker.KernelRidge(max_epochs=2, warm_start=True, **settings).fit(K, TARGETS["regressor"])
    parts.fit(K, TARGETS["regressor"])
    assert np.array_equal(parts.dual_coef_, whole.dual_coef_)
    other = gaussian(X / 2, X / 2)
    fresh = joker.KernelRidge(max_epochs=2, **settings).fit(other, TARGETS["regressor"])
    assert np.array_equal(parts.fit(other, TARGETS["regressor"]).dual_coef_, fresh.dual_coef_)


def test_a_checkpoint_of_another_matrix_is_refused(tmp_path: Path) -> None:
    """The matrices differ in their last rows only."""
    settings = {"kernel": "precomputed", "block_size": 32, "random_state": 0, "method": "random_blocks"}
    model = joker.KernelRidge(callbacks=[Checkpoint(tmp_path / "fit.checkpoint")], max_epochs=2, tol=0.0, **settings)
    model.fit(K, TARGETS["regressor"])
    x = np.concatenate([X[:-20], X[-20:] / 2])
    with pytest.raises(StateMismatch, match="kernel or features"):
        model.fit(gaussian(x, x), TARGETS["regressor"])


# What a function is given


def test_a_function_is_given_float64_inputs_as_they_are_in_parts() -> None:
    x = X * [1, 100, 10_000] + 5  # would be standardised for a kernel of joker
    shapes = set()

    def linear(a: Array, b: Array) -> list[list[float]]:
        assert a.dtype == b.dtype == np.float64
        assert set(a[:, 2]) | set(b[:, 2]) <= set(x[:, 2])
        shapes.add((len(a), len(b)))
        matrix = (a @ b.T).tolist()
        a[:] = 0  # must not change the rows
        return matrix  # any array-like

    model = joker.KernelRidge(kernel=linear, block_size=32, random_state=0).fit(x, TARGETS["regressor"])
    assert not hasattr(model, "mean_")
    assert model.predict(x).std() > 0
    assert len(shapes) > 2
    scaled = joker.KernelRidge(kernel=linear_kernel, standardize=True).fit(x, TARGETS["regressor"])
    named = joker.KernelRidge(kernel="linear", n_features=None, standardize=True).fit(x, TARGETS["regressor"])
    assert np.abs(scaled.predict(x) - named.predict(x)).max() < 1e-6


def test_prepare_takes_a_function_and_no_matrix() -> None:
    x, y = torch.from_numpy(X), torch.from_numpy(TARGETS["regressor"])
    machine, _ = joker.prepare(x, y, kernel=gaussian, lam=0.1).run()
    named, _ = joker.prepare(x, y, kernel="gaussian", bandwidth=1.0, lam=0.1).run()
    assert (machine.predict(x) - named.predict(x)).abs().max() < 1e-5
    with pytest.raises(InvalidData, match=r"it has no matrix. Use kernel='precomputed' in an estimator"):
        joker.prepare(x, y, kernel="precomputed")
    with pytest.raises(InvalidParameter, match="bandwidth must be left out with a function kernel"):
        joker.prepare(x, y, kernel=gaussian, bandwidth=2.0)


# Memory


def test_the_matrix_is_not_copied() -> None:
    """A fit plans no kernel cache and no copy, also with held-out rows; a prediction reads the user's matrix."""
    n = 1_500
    x = rows(n)
    matrix = gaussian(x, x)
    models = (
        (joker.KernelRidge(block_size=64), numbers(x)),
        (joker.KernelSVC(block_size=64, lam=[0.1, 1.0]), classes(x)),
    )
    for model, y in models:
        plan = model.set_params(kernel="precomputed").plan(matrix, y)
        assert plan.kept_rows == 0
        assert "in your own kernel matrix" in str(plan)
        others = ("libraries", "preconditioner")
        held = (item.bytes for item in plan.items if not item.name.startswith(others))
        assert max(held) < matrix.nbytes
        model.set_params(memory=plan.total).fit(matrix, y)
        assert model.plan_.total <= plan.total


# Refusals: the rule, what was found and the remedy

ASYMMETRIC = K + np.triu(np.full(K.shape, 0.01), 1)
INDEFINITE = np.tanh(2 * X @ X.T - 1)
INDEFINITE[np.diag_indices(len(X))] = np.abs(np.diag(INDEFINITE))
NAN = K.copy()
NAN[3, 4] = np.nan
MATRICES = {
    "not square": (K[:, :100], r"must be square in fit, .*got shape \(150, 100\). Give fit"),
    "asymmetric": (ASYMMETRIC, r"must be symmetric; found a difference of 0.01 .*Use the mean of both"),
    "indefinite": (INDEFINITE, r"must be positive semidefinite; found the eigenvalue -.* add .* to the diagonal"),
    "distances": (-K, r"must be at least 0 for a row with itself; found -1. Use similarities, not distances"),
    "not finite": (NAN, "NaN"),
}


@pytest.mark.parametrize("case", MATRICES)
def test_a_matrix_that_is_none_of_a_kernel_is_refused(case: str) -> None:
    matrix, message = MATRICES[case]
    with pytest.raises(ValueError, match=message):
        joker.KernelSVC(kernel="precomputed").fit(matrix, TARGETS["classifier"])


def test_a_large_matrix_is_checked_on_some_rows_and_its_symmetry_on_all() -> None:
    x = rows(700)
    matrix = gaussian(x, x)
    matrix[3, 650] += 0.1
    with pytest.raises(InvalidData, match="must be symmetric"):
        joker.KernelRidge(kernel="precomputed").fit(matrix, x[:, 0])
    with pytest.raises(InvalidData, match=r"positive semidefinite; found the eigenvalue .* among 500 rows"):
        joker.KernelRidge(kernel="precomputed").fit(np.tanh(x @ x.T) + 1e-9 * np.eye(700), x[:, 0])


def test_rounding_is_no_reason_to_refuse() -> None:
    """A kernel matrix of rank 3 in float32 or float16 has eigenvalues a little below 0."""
    matrix = (X @ X.T).astype(np.float32)
    joker.KernelRidge(kernel="precomputed").fit(matrix, TARGETS["regressor"])
    joker.KernelRidge(kernel="precomputed").fit(np.zeros((150, 150)), TARGETS["regressor"])


@pytest.mark.parametrize("columns", [149, 151])
def test_predictions_need_a_column_for_each_training_row(columns: int) -> None:
    model = joker.KernelRidge(kernel="precomputed").fit(K, TARGETS["regressor"])
    message = f"X has {columns} features, but .* is expecting 150 .* a column for each training row. Give the kernel"
    with pytest.raises(InvalidData, match=message):
        model.predict(np.ones((4, columns)))
    bad = K_NEW.copy()
    bad[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict(bad)


FUNCTIONS = {
    "shape": (lambda a, b: np.ones(len(a)), r"must return an array of shape \(\d+, \d+\).*got shape"),
    "transposed": (lambda a, b: gaussian(b, a)[:, :-1], "must return an array of shape"),
    "not finite": (lambda a, b: gaussian(a, b) / 0.0, "must return finite numbers; found inf"),
    "no numbers": (lambda a, b: None, "must return an array"),
    "text": (lambda a, b: [["x"] * len(b)] * len(a), "must return an array of numbers; got list"),
    "asymmetric": (lambda a, b: a[:, :1] - b[:, 0] + 10, "must be symmetric"),
    "indefinite": (lambda a, b: np.tanh(a @ b.T) + 1, "must be positive semidefinite; found the eigenvalue"),
    "negative": (lambda a, b: -gaussian(a, b), "must be at least 0 for a row with itself"),
    "of all rows": (lambda a, b: gaussian(a, b) * len(a) / 100, "must have the same value for two rows whatever"),
}


@pytest.mark.parametrize("case", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_that_is_no_kernel_is_refused(case: str) -> None:
    function, message = FUNCTIONS[case]
    with pytest.raises(InvalidData, match=message):
        joker.KernelRidge(kernel=function).fit(X, TARGETS["regressor"])


def test_a_function_that_fails_on_new_rows_is_refused() -> None:
    def roots(a: Array, b: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.sqrt(a[:, :1] + 10) * np.sqrt(b[:, 0] + 10)

    model = joker.KernelRidge(kernel=roots).fit(X, TARGETS["regressor"])
    with pytest.raises(InvalidData, match="must return finite numbers; found nan"):
        model.predict(X - 100)


def test_an_error_of_a_function_is_its_own() -> None:
    def broken(a: Array, b: Array) -> Array:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        joker.KernelRidge(kernel=broken).fit(X, TARGETS["regressor"])


SETTINGS = {
    "bandwidth": ({"bandwidth": 2.0}, "bandwidth must be left out with a .* kernel, .*got bandwidth=2.0. Compute"),
    "median": ({"bandwidth": "median"}, "bandwidth must be left out"),
    "ARD": ({"bandwidth": np.ones(3)}, "bandwidth must be left out"),
    "features": (
        {"n_features": 10},
        "features need a kernel with a feature map; the .* kernel has none. Use n_features",
    ),
    "kind": ({"features": "fourier"}, "features need their number"),
}


@pytest.mark.parametrize("kernel", ["precomputed", gaussian], ids=["matrix", "function"])
@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_do_not_apply_are_refused(case: str, kernel: Any) -> None:
    settings, message = SETTINGS[case]
    train = K if kernel == "precomputed" else X
    with pytest.raises(InvalidParameter, match=message):
        joker.KernelRidge(kernel=kernel, **settings).fit(train, TARGETS["regressor"])
    with pytest.raises(InvalidParameter, match=message):
        joker.KernelRidge(kernel=kernel, **settings).check_settings(train.shape[1])


def test_a_matrix_is_not_standardised() -> None:
    scaled = joker.KernelRidge(kernel="precomputed", standardize=True)
    with pytest.raises(InvalidParameter, match="standardize must be 'auto' or False with kernel='precomputed'"):
        scaled.fit(K, TARGETS["regressor"])


def test_sparse_matrices_and_stores_are_no_kernel_matrices(tmp_path: Path) -> None:
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match=r"[Ss]parse data was passed"):
        joker.KernelRidge(kernel="precomputed").fit(csr_array(K), TARGETS["regressor"])
    store = convert(Table(K.astype(np.float32), TARGETS["regressor"].astype(np.float32)), tmp_path / "matrix.rows")
    with pytest.raises(InvalidData, match=r"must be a matrix in memory .*; got a row store"):
        joker.KernelRidge(kernel="precomputed").fit(store)


@pytest.mark.parametrize("kernel", ["precomputed", gaussian], ids=["matrix", "function"])
def test_other_devices_and_several_processes_are_refused(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from joker.planning import plan

    train = K if kernel == "precomputed" else X
    model = joker.KernelRidge(kernel=kernel)
    request = model._resolve()
    with pytest.raises(InvalidParameter, match=r"must be used on the CPU; the device is meta. Use device='cpu'"):
        next(request.specs(TrainingSet(train, np.zeros((len(train), 1))), torch.device("meta"), 0, None, False))
    group = type("Group", (), {"size": 2})
    monkeypatch.setattr(plan, "current", lambda: group)
    with pytest.raises(InvalidParameter, match=r"must be used in one process; there are 2. Fit in one process"):
        model.fit(train, TARGETS["regressor"])


@pytest.mark.parametrize("kernel", ["precomputed", gaussian], ids=["matrix", "function"])
def test_a_search_does_not_try_them(kernel: Any) -> None:
    message = "the kernels of a search must be names or objects of joker.kernels, .*Use GridSearchCV"
    with pytest.raises(InvalidParameter, match=message):
        joker.tune(K, TARGETS["regressor"], kernels=kernel)
    with pytest.raises(InvalidParameter, match=message):
        joker.tune(K, TARGETS["regressor"], estimator=joker.KernelRidge(kernel=kernel))


def test_a_class_is_not_taken_for_a_function() -> None:
    with pytest.raises(joker.errors.UnknownName, match="where it is not a Kernel or a function"):
        joker.KernelRidge(kernel=joker.kernels.Gaussian).fit(X, TARGETS["regressor"])
