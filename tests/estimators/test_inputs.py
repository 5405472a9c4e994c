"""Rows in every form a user has them in, and an estimator in every place a user puts it."""

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import joker
from joker.estimators import resolve
from joker.kernels import Gaussian, Laplacian, Linear
from joker.losses import Hinge
from joker.solvers import ProblemSize
from joker.solvers.methods.random_blocks import RandomBlocks

Array = NDArray[np.float64]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(120, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=120)


def fitted(X: Any, y: Any, **settings: Any) -> Any:
    return joker.KernelRidge(lam=0.1, random_state=0, **settings).fit(X, y)


def test_tensors_are_taken_as_arrays_are(data: tuple[Array, Array]) -> None:
    X, y = data
    model = fitted(torch.tensor(X, requires_grad=True), torch.tensor(y))
    assert_allclose(model.predict(torch.tensor(X)), fitted(X, y).predict(X))
    labels = joker.KernelSVC().fit(torch.tensor(X), torch.tensor(y > 0)).predict(torch.tensor(X))
    assert labels.dtype == bool


@pytest.mark.gpu
def test_a_tensor_on_a_card_is_fitted_there(data: tuple[Array, Array]) -> None:
    X, y = data
    model = fitted(torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda"))
    assert model._machine.constant.device.type == "cuda"
    assert_allclose(model.predict(torch.tensor(X, device="cuda")), fitted(X, y).predict(X), atol=1e-6)
    assert_allclose(fitted(X, y, device="cuda", n_features=50).predict(X), fitted(X, y, n_features=50).predict(X), 1e-5)


def test_frames_are_taken_and_their_names_kept(data: tuple[Array, Array]) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = fitted(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert_allclose(model.predict(frame), fitted(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize("dtype", ["float32", "float64", torch.float32])
def test_the_type_asked_for_is_computed_in(data: tuple[Array, Array], dtype: Any) -> None:
    X, y = data
    model = fitted(X, y, dtype=dtype)
    assert model.predict(X).dtype == str(dtype).removeprefix("torch.")
    assert_allclose(model.predict(X.astype(np.float32)), fitted(X, y).predict(X), atol=1e-3)


def test_a_small_problem_is_solved_in_double_and_a_large_one_in_single(data: tuple[Array, Array]) -> None:
    X, y = data
    assert fitted(X.astype(np.float32), y).predict(X).dtype == np.float64
    assert fitted(X, y, block_size=50).predict(X).dtype == np.float32


def test_what_becomes_of_the_rows_does_not_change_the_model(data: tuple[Array, Array]) -> None:
    X, y = data
    mine, new = X.copy(), X + 0.1
    model = fitted(mine, y)
    before = model.predict(new)
    mine[:] = 0
    assert_allclose(model.predict(new), before)


def test_a_seed_gives_the_same_model_and_another_seed_another(data: tuple[Array, Array]) -> None:
    X, y = data
    one, same = fitted(X, y, n_features=20), fitted(X, y, n_features=20)
    assert np.array_equal(one.coef_, same.coef_)
    other = clone(one).set_params(random_state=1).fit(X, y)
    assert not np.allclose(one.coef_, other.coef_)


def test_pickled_cloned_piped_searched_and_cross_validated(data: tuple[Array, Array]) -> None:
    X, y = data
    model = fitted(X, y)
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()
    pipe = make_pipeline(StandardScaler(), joker.KernelRidge())
    search = GridSearchCV(pipe, {"kernelridge__lam": [1e-2, 1e3]}, cv=3).fit(X, y)
    assert search.best_params_ == {"kernelridge__lam": 1e-2}
    assert np.mean(cross_val_score(joker.KernelSVC(lam=0.1), X, y > 0)) > 0.8


@pytest.mark.slow
def test_searched_by_two_processes(data: tuple[Array, Array]) -> None:
    search = GridSearchCV(joker.KernelRidge(), {"lam": [1e-2, 1e3]}, cv=2, n_jobs=2).fit(*data)
    assert search.best_params_ == {"lam": 1e-2}


def test_weights_are_routed(data: tuple[Array, Array]) -> None:
    """Through a pipeline, as scikit-learn's metadata routing has it."""
    X, y = data
    w = np.linspace(0, 1, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        last = joker.KernelRidge(tol=1e-12).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, last).fit(X, y, sample_weight=w)
    Z = StandardScaler().fit_transform(X)
    assert_allclose(routed.predict(X), joker.KernelRidge(tol=1e-12).fit(Z, y, sample_weight=w).predict(Z), atol=1e-8)


def test_the_bandwidth_of_a_kernel_object_is_kept_unless_told_otherwise(data: tuple[Array, Array]) -> None:
    X, y = data
    assert fitted(X, y, kernel=Gaussian(0.7)).bandwidth_ == 0.7
    assert fitted(X, y, kernel=Gaussian(0.7), bandwidth=2).bandwidth_ == 2
    median = 2 * fitted(X, y).bandwidth_  # half of it is the default for a name
    assert fitted(X, y, kernel=Gaussian(0.7), bandwidth="median").bandwidth_ == median
    distances = np.linalg.norm(X[:, None] - X[None], axis=-1)[np.triu_indices(len(X), 1)]
    assert_allclose(median, np.median(distances))


@pytest.mark.parametrize(("kernel", "share"), [("gaussian", 0.5), ("laplacian", 0.5), ("polynomial", 1.0)])
def test_the_default_is_a_share_of_the_median(data: tuple[Array, Array], kernel: str, share: float) -> None:
    X, y = data
    auto, median = (fitted(X, y, kernel=kernel, bandwidth=rule).bandwidth_ for rule in ("auto", "median"))
    assert auto == share * median


def test_a_bandwidth_rule_counts_distinct_rows_that_weigh(data: tuple[Array, Array]) -> None:
    X, y = data
    twice = fitted(np.vstack([X, X[:60]]), np.concatenate([y, y[:60]])).bandwidth_
    assert twice == fitted(X, y).bandwidth_
    far = np.vstack([X, X + 100])
    weighed = joker.KernelRidge().fit(far, np.tile(y, 2), sample_weight=np.repeat([1, 0], 120)).bandwidth_
    assert weighed == fitted(X, y).bandwidth_
    assert fitted(np.ones((5, 2)), np.arange(5)).bandwidth_ == 1


def test_auto_is_exact_for_few_rows_and_features_for_many() -> None:
    kernel = Gaussian()
    assert resolve.n_features("auto", "auto", kernel, 50_000, 5, CPU) is None
    assert resolve.n_features("auto", "auto", kernel, 50_001, 5, CPU) == 4_000
    assert resolve.n_features("auto", "auto", Laplacian(), 50_000, 5, CPU) is None
    assert resolve.n_features("auto", "auto", Laplacian(), 50_001, 5, CPU) == 4_000
    assert resolve.n_features("auto", "auto", Laplacian(), 20_000, 50, CPU) is None
    assert resolve.n_features("auto", "auto", Laplacian(), 20_001, 50, CPU) == 4_000
    assert resolve.n_features("auto", "auto", Laplacian(), 10_000, 500, CPU) is None
    assert resolve.n_features("auto", "orthogonal", kernel, 100, 5, CPU) == 4_000
    assert resolve.n_features("auto", "auto", Linear(), 100, 5, CPU) == 5
    assert resolve.n_features(None, "auto", Linear(), 100, 5, CPU) is None


def test_a_gpu_has_the_exact_kernel_while_a_pass_takes_seconds() -> None:
    """With few inputs for millions of rows, with many or with sums of differences for fewer."""
    for kernel, n, d in ((Gaussian(), 2_000_000, 11), (Gaussian(), 1_500_000, 90), (Laplacian(), 1_000_000, 50)):
        assert resolve.n_features("auto", "auto", kernel, n, d, GPU) is None
        assert resolve.n_features("auto", "auto", kernel, 5 * n, d, GPU) == 4_000
    assert resolve.n_features("auto", "orthogonal", Gaussian(), 100, 5, GPU) == 4_000


def test_auto_is_one_block_for_few_rows() -> None:
    def block_rows(rows: int, given: int | None = None) -> int:
        return RandomBlocks.block_rows(ProblemSize(loss=Hinge(), rows=rows, n_features=10, block_size=given))

    assert block_rows(2_048) == 2_048
    assert block_rows(2_049) == 512
    assert block_rows(2_049, 100) == 100


def test_the_class_documents_every_parameter_and_attribute(data: tuple[Array, Array]) -> None:
    for name in (name for name in joker.estimators.__all__ if name.startswith("Kernel")):
        kind = getattr(joker, name)
        y = data[1] > 0 if hasattr(kind, "decision_function") else data[1]
        y = np.exp(y) if name in ("KernelGamma", "KernelPoisson", "KernelTweedie") else y
        learnt = [learnt for learnt in vars(kind().fit(data[0], y)) if learnt.endswith("_")]
        for word in [*kind().get_params(), *learnt]:
            assert word in kind.__doc__, f"{name} does not document {word}"
        assert "%(" not in kind.__doc__
