"""Newton's method with sparse inputs: the products and the solution of the dense matrix, without the dense matrix."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

import joker
from joker.data import SparseRows, sparse_rows
from joker.losses import Hinge, SquaredHinge, get, scaled
from joker.solvers import ProblemSize, Settings
from joker.solvers.methods.newton import (
    EXACT,
    DenseFactor,
    Newton,
    SparseFactor,
    _Column,
    _Proximal,
    pivoted_cholesky,
    pivoted_cholesky_of,
)

Array = NDArray[np.float64]


def text(n: int = 300, d: int = 400, words: int = 12) -> tuple[Any, Array]:
    """Return sparse rows of length 1, with frequent and rare words, and a linear function of them with noise."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, d + 1)
    columns = rng.choice(d, size=(n, words), p=frequency / frequency.sum())
    x = sp.csr_matrix((np.ones(n * words), (np.repeat(np.arange(n), words), columns.ravel())), shape=(n, d))
    x = sp.csr_matrix(x.multiply(1 / np.sqrt(x.multiply(x).sum(1))))
    return x, 3 * (x @ rng.normal(size=d)) + 0.3 * rng.normal(size=n)


def rows(x: Any) -> SparseRows:
    return sparse_rows(*(torch.from_numpy(part) for part in (x.indptr, x.indices, x.data)), inputs=x.shape[1])


@pytest.mark.parametrize("constants", [0, 1])
@pytest.mark.parametrize("active", [0.0, 0.3, 1.0])
def test_a_sparse_factor_has_the_products_and_directions_of_the_dense_one(constants: int, active: float) -> None:
    x, _ = text()
    x = sp.vstack([x, sp.csr_matrix((1, x.shape[1]))], format="csr")  # the last row has no entries
    dense = torch.from_numpy(np.hstack([x.toarray(), np.ones((x.shape[0], constants))]))
    sparse, whole = SparseFactor(rows(x), constants), DenseFactor(dense)
    random = torch.Generator().manual_seed(0)
    theta, alpha = (torch.randn(k, dtype=torch.float64, generator=random) for k in reversed(dense.shape))
    torch.testing.assert_close(sparse.apply(theta), whole.apply(theta))
    torch.testing.assert_close(sparse.transposed(alpha), whole.transposed(alpha))
    D = torch.where(torch.rand(len(alpha), generator=random) < active, 3.0, 0.0).double()
    exact = whole.direction(D, theta)
    torch.testing.assert_close(sparse.direction(D, theta, 1e-12), exact)
    rough = sparse.direction(D, theta, 0.1)
    assert (rough + dense.T @ (D * (dense @ rough)) + theta).norm() <= 0.1 * theta.norm() + 1e-12


MODELS: list[tuple[Any, dict[str, Any]]] = [
    (joker.KernelSVC, {}),
    (joker.KernelSVC, {"loss": "hinge"}),
    (joker.KernelSVC, {"loss": "hinge", "lam": 0.01}),
    (joker.KernelSVC, {"loss": "hinge", "lam": 1e-4, "fit_intercept": False, "tol": 1e-5}),
    (joker.KernelSVR, {}),
    (joker.KernelSVR, {"lam": 100.0}),
    (joker.KernelHuber, {"lam": 0.1}),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "settings"), MODELS, ids=str)
def test_sparse_inputs_of_a_linear_kernel_have_the_solution_of_dense_inputs(
    kind: Any, settings: dict[str, Any], weighted: bool
) -> None:
    x, y = text()
    y = y if kind is not joker.KernelSVC else np.where(y > 0, 1, -1)
    w = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.5) if weighted else None
    fixed = {"kernel": "linear", "standardize": False, "random_state": 0, "tol": 1e-7, **settings}
    model, twin = (kind(**fixed).fit(z, y, w) for z in (x, x.toarray()))
    assert max(np.max(model.gap_), np.max(twin.gap_)) <= fixed["tol"]
    expected = twin._decide(x.toarray())
    np.testing.assert_allclose(model._decide(x), expected, atol=2e-3 * np.abs(expected).max())


def test_rows_of_weight_0_change_nothing() -> None:
    x, y = text()
    kept = np.arange(len(y)) % 3 > 0
    for loss in ("hinge", "squared_hinge"):
        model, fewer = (joker.KernelSVC(kernel="linear", loss=loss, tol=1e-8, standardize=False) for _ in range(2))
        model.fit(x, y > 0, np.where(kept, 2.0, 0.0))
        fewer.fit(x[kept], y[kept] > 0, np.full(kept.sum(), 2.0))
        np.testing.assert_allclose(model._decide(x), fewer._decide(x), atol=1e-3)


def test_several_classes_of_sparse_rows_reach_the_tolerance() -> None:
    x, y = text()
    model = joker.KernelSVC(kernel="linear", loss="hinge", standardize=False)
    model.fit(x, np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75])))
    assert np.max(model.gap_) <= model.tol


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_the_gap_of_sparse_inputs_is_that_of_a_theta_which_need_not_be_the_image_of_alpha(loss: str) -> None:
    x, f = text(1_000, 1_500)
    y = np.where(f > 0, 1.0, -1.0) if loss == "hinge" else f
    settings = Settings(method="newton", tol=1e-3)
    training = joker.prepare(
        rows(x),
        torch.from_numpy(y),
        loss=loss,
        kernel="linear",
        n_features=x.shape[1],
        intercept=True,
        settings=settings,
    )
    _, report = training.run()
    state = training.descent.state
    a, theta = state.alpha[:, 0].numpy(), state.image[:, 0].numpy()
    image, f = np.append(x.T @ a, a.sum()), torch.from_numpy(x @ theta[:-1] + theta[-1])
    c = scaled(get(loss), 1.0)
    primal = theta @ theta / 2 + float(c.value(torch.from_numpy(y), f).sum())
    dual = image @ image / 2 + float(c.psi(torch.from_numpy(y), torch.from_numpy(a)).sum())
    assert np.linalg.norm(theta - image) > 1e-6
    assert report.relative_gap == pytest.approx((primal + dual) / max(abs(primal), abs(dual)), rel=1e-6)
    assert report.relative_gap <= settings.tol


@pytest.mark.parametrize("loss", [Hinge(), get("epsilon_insensitive", epsilon=0.1), get("huber", delta=0.5)])
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
def test_a_line_search_ends_where_the_derivative_is_small(loss: Any, length: float) -> None:
    random = torch.Generator().manual_seed(0)
    G, y = (torch.randn(*shape, dtype=torch.float64, generator=random) for shape in ((200, 10), (200,)))
    y = y.sign() if loss == Hinge() else y
    column = _Column(DenseFactor(G), y, scaled(loss, torch.ones_like(y)), torch.zeros_like(y))
    problem = _Proximal(column, torch.zeros_like(y), 0.3)
    theta = torch.randn(10, dtype=torch.float64, generator=random)
    point = theta, G @ theta, problem.alpha(G @ theta)
    g = theta - G.T @ point[2]
    found = problem.search(point, -length * g, -length * (G @ g))
    assert found is not None
    assert abs((found[0] - G.T @ found[2]) @ g) <= EXACT * (g @ g) * (1 + 1e-9)
    torch.testing.assert_close(found[1], G @ found[0])
    assert problem.search(point, g, G @ g) is None


def test_many_sparse_inputs_are_solved_by_newton_and_few_as_dense_ones() -> None:
    size: dict[str, Any] = {"rows": 50_000, "n_features": 50_000, "to_the_end": True}
    for loss in (Hinge(), SquaredHinge()):
        assert Newton.suits(ProblemSize(loss=loss, entries=10**6, **size))
        assert not Newton.suits(ProblemSize(loss=loss, **size))
        assert not Newton.suits(ProblemSize(loss=loss, entries=10**6, on_gpu=True, **size))
        assert not Newton.suits(ProblemSize(loss=loss, entries=10**9, **size))
    sparse, dense = (ProblemSize(loss=Hinge(), entries=entries, **size) for entries in (10**6, None))
    assert Newton.memory(sparse, 0)[0].bytes < 100 * 10**6 < Newton.memory(dense, 0)[0].bytes
    few = {"loss": Hinge(), "rows": 5_000, "n_features": 20}
    assert Newton.memory(ProblemSize(entries=50_000, **few), 0) == Newton.memory(ProblemSize(**few), 0)


def test_the_plan_counts_the_entries_of_sparse_rows() -> None:
    x, y = text(2_000, 4_000)
    model = joker.KernelSVC(kernel="linear", standardize=False).fit(x, y > 0)
    factor = next(item for item in model.plan_.items if item.name.startswith("factor"))
    assert 12 * x.nnz < factor.bytes < 200 * x.nnz < 8 * x.shape[1] ** 2


@pytest.mark.parametrize(("most", "tol"), [(60, 1e-9), (60, 1e-3), (5, 1e-9), (60, 1e-30)])
def test_the_factor_of_a_matrix_is_that_of_its_columns(most: int, tol: float) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, dtype=torch.float64, generator=random)
    K = torch.exp(-(torch.cdist(x, x) ** 2) / 2) + torch.diag(torch.rand(60, dtype=torch.float64, generator=random))
    K = K if tol == 1e-30 else torch.exp(-(torch.cdist(x, x) ** 2) / 8)
    before = K.clone()
    found, left = pivoted_cholesky_of(K, most, tol)
    expected, other = pivoted_cholesky(K.__getitem__, K.diagonal(), most, tol)
    assert torch.equal(K, before)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert left == pytest.approx(other, abs=1e-12)
    assert left <= tol or found.shape[1] == most


def test_the_image_of_few_rows_is_that_of_their_kernel_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix is kept during a step: the predictions are not computed from a kernel a second time."""
    step, seen = Newton.step, []

    def compared(method: Newton, number: int) -> None:
        step(method, number)
        state = method.state
        assert method._matrix is not None
        assert state.fresh
        torch.testing.assert_close(state.image, state.image_of(state.alpha), rtol=1e-9, atol=1e-6)
        seen.append(number)

    monkeypatch.setattr(Newton, "step", compared)
    x = np.random.default_rng(0).normal(size=(400, 3))
    model = joker.KernelSVC(loss="hinge", lam=1e-4, bandwidth=20.0, standardize=False, random_state=0)
    assert model.fit(x, x[:, 0] > 0).gap_ <= 1e-3
    assert seen
