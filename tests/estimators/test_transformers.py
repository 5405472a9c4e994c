"""Kernel PCA and the features of a kernel: scikit-learn's results, what certifies them, and files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from onnx_sessions import session_of
from scipy.sparse import csr_array
from sklearn import decomposition
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import pairwise
from sklearn.utils.estimator_checks import parametrize_with_checks

import joker
from joker.errors import InvalidParameter, UnknownName
from joker.estimators import transformers

SIGMA = 1.5
GAMMA = 1 / (2 * SIGMA**2)
X = np.random.default_rng(0).normal(size=(150, 3))
NEW = np.random.default_rng(1).normal(size=(40, 3))
SET = {"bandwidth": SIGMA, "standardize": False, "random_state": 0}
EVERY = [
    joker.KernelPCA(n_components=3, **SET),
    joker.KernelPCA(n_components=3, n_features=40, **SET),
    joker.KernelPCA(n_components=2, kernel="linear", standardize=True),
    joker.KernelTransformer(n_components=30, **SET),
    joker.KernelTransformer(n_components=30, method="random", **SET),
    joker.KernelTransformer(n_components=30, bandwidth=[1.0, 2.0, 3.0], kernel="laplacian", random_state=0),
]
every = pytest.mark.parametrize("model", EVERY, ids=repr)


@parametrize_with_checks(
    [
        joker.KernelPCA(),
        joker.KernelPCA(n_features=20, random_state=0),
        joker.KernelTransformer(n_components=10, random_state=0),
        joker.KernelTransformer(n_components=10, method="random", random_state=0),
    ]
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)


def assert_same_components(ours: Any, theirs: Any, atol: float) -> None:
    """Equal up to the sign of each column."""
    signs = np.sign(np.sum(ours * theirs, axis=0))
    assert_allclose(ours * signs, theirs, atol=atol)


@pytest.mark.parametrize("room", [2**30, 0])
@pytest.mark.parametrize("iterated", [False, True])
def test_kernel_pca_is_that_of_scikit_learn(room: int, iterated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the kernel matrix is not kept, and where eigenvectors are found by iteration."""
    monkeypatch.setattr("joker.estimators.resolve.kernel_room", lambda place: room)
    if iterated:
        monkeypatch.setattr("joker.solvers.eigen.WHOLE", 10)
    theirs = decomposition.KernelPCA(n_components=4, kernel="rbf", gamma=GAMMA).fit(X)
    ours = joker.KernelPCA(n_components=4, tol=1e-9, **SET).fit(X)
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    assert_same_components(ours.transform(NEW), theirs.transform(NEW), 1e-6)
    assert_allclose(ours.fit_transform(X), ours.transform(X))
    assert_same_components(ours.eigenvectors_, theirs.eigenvectors_, 1e-6)


def test_with_features_it_is_the_pca_of_the_features() -> None:
    ours = joker.KernelPCA(n_components=3, n_features=60, **SET).fit(X)
    psi, new = (ours._machine.features(torch.from_numpy(rows)).numpy() for rows in (X, NEW))
    theirs = decomposition.PCA(n_components=3).fit(psi)
    assert_same_components(ours.transform(NEW), theirs.transform(new), 1e-8)
    assert_allclose(ours.eigenvalues_ / (len(X) - 1), theirs.explained_variance_)
    assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_)


def test_a_linear_kernel_gives_the_principal_components() -> None:
    ours = joker.KernelPCA(kernel="linear", standardize=False, n_components=2).fit(X)
    assert_same_components(ours.transform(NEW), decomposition.PCA(2).fit(X).transform(NEW), 1e-8)


@pytest.mark.parametrize("tol", [0.1, 1e-3])
def test_residuals_bound_the_errors_of_eigenvalues(tol: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joker.solvers.eigen.WHOLE", 10)
    model = joker.KernelPCA(n_components=4, tol=tol, **SET).fit(X)
    H = np.eye(len(X)) - 1 / len(X)
    centred = H @ pairwise.rbf_kernel(X, gamma=GAMMA) @ H
    exact = np.linalg.eigvalsh(centred)
    v = model.eigenvectors_
    assert_allclose(np.linalg.norm(centred @ v - v * model.eigenvalues_, axis=0), model.residual_norms_, atol=1e-9)
    assert (np.abs(exact[:, None] - model.eigenvalues_).min(axis=0) <= model.residual_norms_ + 1e-12).all()
    assert_allclose(model.explained_variance_ratio_, model.eigenvalues_ / np.trace(centred))


def test_components_of_a_low_rank_are_zero() -> None:
    rows = np.repeat(X[:3], 10, axis=0)
    found = joker.KernelPCA(n_components=5, **SET).fit_transform(rows)
    assert np.isfinite(found).all()
    assert_allclose(found[:, 2:], 0, atol=1e-6)


def test_features_of_landmarks_are_those_of_scikit_learn() -> None:
    ours = joker.KernelTransformer(n_components=30, **SET).fit(X)
    landmarks = ours._machine.x[0:30].numpy()
    theirs = Nystroem(kernel="rbf", gamma=GAMMA, n_components=30).fit(landmarks)  # all of them are its landmarks
    mine, other = ours.transform(NEW), theirs.transform(NEW)
    assert_allclose(mine @ mine.T, other @ other.T, atol=1e-8)


def test_the_error_of_landmarks_bounds_that_of_every_entry() -> None:
    K = pairwise.rbf_kernel(X, gamma=GAMMA)
    for r in (5, 40, 150, 1_000):
        model = joker.KernelTransformer(n_components=r, **SET).fit(X)
        psi = model.transform(X)
        assert psi.shape == (150, min(r, 150))
        assert np.abs(psi @ psi.T - K).max() <= model.kernel_error_ + 1e-9
    assert abs(model.kernel_error_) < 1e-9  # all rows are landmarks


def test_the_error_of_random_features_is_measured() -> None:
    model = joker.KernelTransformer(n_components=2_000, method="random", **SET).fit(X)
    psi = model.transform(X)
    error = np.abs(psi @ psi.T - pairwise.rbf_kernel(X, gamma=GAMMA)).max()
    assert_allclose(model.kernel_error_, error)
    assert error < 0.2


@every
def test_names_frames_and_files(model: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abc"))
    model = model.set_output(transform="pandas").fit(frame)
    found = model.transform(frame)
    width = found.shape[1]
    assert found.columns.tolist() == [f"{type(model).__name__.lower()}{i}" for i in range(width)]
    assert model.get_feature_names_out().tolist() == found.columns.tolist()
    model.set_output(transform="default").save(tmp_path / "model.joker")
    again = joker.load(tmp_path / "model.joker")
    assert_array_equal(again.transform(frame), model.transform(frame))
    assert again.get_feature_names_out().tolist() == found.columns.tolist()
    for name in ("eigenvalues_", "residual_norms_", "kernel_error_"):
        assert hasattr(again, name) == hasattr(model, name)
        assert_array_equal(getattr(again, name, 0), getattr(model, name, 0))


@every
def test_an_onnx_file_transforms_as_the_model(model: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="needs onnx")
    model.fit(X)
    joker.export.to_onnx(model, tmp_path / "model.onnx")
    (found,) = session_of(tmp_path / "model.onnx").run(["transformed"], {"inputs": NEW.astype(np.float32)})
    assert_allclose(found, model.transform(NEW.astype(np.float32)), atol=1e-5)


@every
def test_sparse_rows_give_the_same(model: Any) -> None:
    sparse = X * (np.abs(X) > 0.5)
    model.set_params(standardize=False)
    dense = model.fit(sparse).transform(sparse)
    assert_allclose(model.fit(csr_array(sparse)).transform(csr_array(sparse)), dense, atol=1e-6)


def test_a_kernel_matrix_gives_the_same() -> None:
    K, k = pairwise.rbf_kernel(X, gamma=GAMMA), pairwise.rbf_kernel(NEW, X, gamma=GAMMA)
    given = joker.KernelPCA(kernel="precomputed").fit(K)
    assert_allclose(given.transform(k), joker.KernelPCA(**SET).fit(X).transform(NEW), atol=1e-8)
    landmarks = joker.KernelTransformer(kernel="precomputed", n_components=20, random_state=0).fit(K).transform(k)
    assert_allclose(np.abs(landmarks), np.abs(joker.KernelTransformer(n_components=20, **SET).fit(X).transform(NEW)))


def test_tiles_of_rows_do_not_change_features(monkeypatch: pytest.MonkeyPatch) -> None:
    model = joker.KernelTransformer(n_components=30, method="random", **SET).fit(X)
    whole = model.transform(X)
    monkeypatch.setattr(transformers, "TILE", 30_000)
    assert_allclose(model.transform(X), whole)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (joker.KernelPCA(n_components=0), "n_components must be a whole number of at least 1"),
        (joker.KernelPCA(n_components=500), "n_components must be at most 150"),
        (joker.KernelPCA(tol=0), "tol must be a positive number"),
        (joker.KernelPCA(n_features="many"), "n_features must be a whole number"),
        (joker.KernelPCA(bandwidth="wide"), "bandwidth"),
        (joker.KernelTransformer(n_components=2.5), "n_components must be a whole number"),
        (joker.KernelTransformer(standardize="no"), "standardize must be True, False or 'auto'"),
    ],
    ids=repr,
)
def test_what_cannot_be_used_is_refused(model: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        model.fit(X)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UnknownName, match="method of KernelTransformer must be one of nystrom, random"):
        joker.KernelTransformer(method="nystroem").fit(X)
