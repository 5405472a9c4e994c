"""Transformers of scikit-learn: kernel PCA, and the features of a kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from joker import features as feature_maps
from joker.data import Rows, Store
from joker.data.arrays import device_of, input_statistics, numbered_rows, rows_of
from joker.errors import InvalidParameter, UnknownName
from joker.estimators import resolve
from joker.estimators.docstrings import documented_transformer
from joker.estimators.estimator import CheckedParameters
from joker.estimators.model import FittedModel, check_predictions
from joker.features import FeatureMap
from joker.kernels import Kernel
from joker.kernels.kernel import matvec
from joker.kernels.precomputed import KernelOfArrays
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.models.files import save
from joker.runtime import enough_memory, generator, parse_device, tiles
from joker.solvers.eigen import largest
from joker.solvers.problem import AUTO

TILE = 2**26  # bytes of the features of a tile of rows
SAMPLED = 512  # rows whose kernel is compared with that of random features


@dataclass(kw_only=True, eq=False, repr=False)
class KernelTransform(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CheckedParameters, FittedModel):
    """What the transformers share: the kernel, its rows, and the files."""

    kernel: str | Kernel | KernelOfArrays = "gaussian"
    bandwidth: str | float | Sequence[float] | NDArray[Any] = "auto"
    features: str = "auto"
    standardize: bool | str = "auto"
    device: str | torch.device | None = None
    memory: int | str = "auto"
    random_state: int | np.random.RandomState | None = None

    _predicted = None

    def save(self, path: str | os.PathLike[str], *, store_features: bool = False) -> None:
        """Write the fitted transformer to one file, which `joker.load` reads; see ``KernelRidge.save``."""
        save(self, path, store_features=store_features)

    def check_settings(self, n_inputs: int | None = None) -> None:
        """Raise the error that ``fit`` raises for a parameter that cannot be used, without any data."""
        kernel = resolve.get_kernel(self.kernel)
        if kernel.external:
            resolve.check_external(kernel, self)
        if isinstance(self.bandwidth, str | Real) and self.bandwidth != AUTO:
            resolve.check_rule(self.bandwidth)
        resolve.check_standardize(self.standardize)
        parse_device(self.device)
        resolve.budget(self.memory)
        check_random_state(self.random_state)
        feature_maps.check(kernel, self.features, n_inputs or 1, None if self.features == AUTO else 1)

    @property
    def _n_features_out(self) -> int:
        return len(self._offset)

    def _prepare(self, X: Any) -> tuple[Kernel, Rows, int]:
        """Store the scale of the inputs and the bandwidth; return the kernel, the rows in float64 and a seed."""
        for name in ("mean_", "scale_", "bandwidth_", "schema_"):
            if name in vars(self):
                delattr(self, name)
        self.check_settings()
        x = self._check_rows(X)
        self.check_settings(self.n_features_in_)
        if isinstance(X, Store):
            self.schema_ = X.schema
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kernel, place = resolve.get_kernel(self.kernel), device_of(X, self.device)
        if kernel.precomputed:
            matrix, x = numbered_rows(x)
            kernel = kernel.reading(matrix, symmetric=True)
        if resolve.standardizes(self.standardize, kernel, self.bandwidth, x, None):
            statistics = input_statistics(x, None)
            self.mean_, self.scale_ = statistics.mean.numpy(), statistics.deviation.numpy()
        widths = resolve.bandwidths(self.bandwidth, kernel, self.n_features_in_)
        if widths is not None:
            self.bandwidth_ = widths
        rows = rows_of(x, torch.float64, place, copy=True, scaling=self._scaling)
        kernel = kernel.with_bandwidth(resolve.sigma(self.bandwidth, self.kernel, kernel, rows, None, seed))
        if not hasattr(self, "bandwidth_"):
            self.bandwidth_ = kernel.bandwidth
        return kernel, rows, seed

    def _finish(self, machine: Machine, offset: NDArray[np.float64]) -> None:  # (t,)
        """Store the machine: the transformed row is its prediction plus the offset."""
        self._machine = machine.reading(None)
        self._constant, self._offset, self._target_scale = False, offset, np.ones(len(offset))
        self.intercept_ = offset

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the transformed rows, of shape (n, components)."""
        return self._decide(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.input_tags.pairwise = self._precomputed
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def _check_components(n_components: object) -> int:
    number = isinstance(n_components, Integral) and not isinstance(n_components, bool)
    if not number or not n_components >= 1:  # type: ignore[operator]  # it is a number
        raise InvalidParameter(
            f"n_components must be a whole number of at least 1; got {n_components!r}. Use a number such as 2."
        )
    return int(n_components)  # type: ignore[call-overload, no-any-return]  # it is a number


def _draw(kernel: Kernel, kind: str, x: Rows, m: int, seed: int) -> FeatureMap:
    """Return m random features of the kernel, or one for each input of the linear kernel."""
    name = None if kind == AUTO else kind
    m = x.shape[1] if "identity" in kernel.feature_kinds else m
    feature_maps.check(kernel, kind, x.shape[1], m)
    return feature_maps.draw(kernel, name, x.shape[1], m, seed, dtype=x.dtype, device=x.device)


@documented_transformer
@dataclass(kw_only=True, eq=False, repr=False)
class KernelPCA(KernelTransform):
    """Kernel principal component analysis, with residuals that certify the eigenvalues.

    The components are the directions of the largest variance of ``φ(x)``: eigenvectors of the centred kernel matrix
    ``H K H`` with ``H = I − 11ᵀ/n``, or with features of their centred Gram matrix, which has the same eigenvalues.

    Parameters
    ----------
    n_components : int
        The number of components.
    n_features : int, None or "auto"
        The number of random features; None uses the exact kernel. ``"auto"`` uses the exact kernel up to 50,000 rows,
        and 4,000 features with more rows or if ``features`` names a kind.
    tol : float
        The residual at which the iteration ends, relative to the largest eigenvalue.
    %(shared)s
    eigenvalues_ : ndarray of shape (n_components,)
        The largest eigenvalues λ of ``H K H``, in falling order. The variance along a component is λ/n.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Their eigenvectors v, with the exact kernel.
    residual_norms_ : ndarray of shape (n_components,)
        ``‖H K H v − λ v‖`` of each: ``H K H`` has an eigenvalue no farther than this from λ.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The eigenvalues as shares of the trace of ``H K H``, the sum of all. What is left over bounds every eigenvalue
        that is not among them.
    intercept_ : ndarray of shape (n_components,)
        What is added to the products with the rows, so that the components are centred.

    Notes
    -----
    With the exact kernel it is scikit-learn's KernelPCA, up to the signs of components; there is no inverse transform.
    The computation is in float64. A component whose eigenvalue is a rounding error is 0 for every row.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = KernelPCA(n_components=2, bandwidth=2.0).fit(X)
    >>> model.transform(X).shape
    (300, 2)
    >>> bool(np.all(model.residual_norms_ < 1e-6 * model.eigenvalues_[0]))
    True
    """

    n_components: int = 2
    n_features: int | str | None = AUTO
    tol: float = 1e-6

    def check_settings(self, n_inputs: int | None = None) -> None:
        """Raise the error that ``fit`` raises for a parameter that cannot be used, without any data."""
        super().check_settings(n_inputs)
        _check_components(self.n_components)
        resolve.check_count("n_features", self.n_features, 1000)
        if not isinstance(self.tol, Real) or isinstance(self.tol, bool) or not self.tol > 0:
            raise InvalidParameter(f"tol must be a positive number; got {self.tol!r}. Use a value such as 1e-6.")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of rows.

        Parameters
        ----------
        X : array, sparse matrix, data frame or tensor of shape (n, d), or row store
            Rows of inputs, or with ``kernel="precomputed"`` their kernel matrix.
        y : ignored
            There are no targets.
        """
        kernel, x, seed = self._prepare(X)
        m = resolve.n_features(self.n_features, self.features, kernel, len(x), x.shape[1], x.device)
        with enough_memory(x.device):
            if m is None:
                self._fit_exact(kernel, x, seed)
            else:
                self._fit_features(_draw(kernel, self.features, x, m, seed), x, seed)
        return self

    def _fit_exact(self, kernel: Kernel, x: Rows, seed: int) -> None:
        n, budget = len(x), resolve.memory(self.memory, x.device)
        room = budget if resolve.budget(self.memory) is not None else resolve.kernel_room(x.device)
        matrix = kernel(x[0:n], x[0:n]) if 3 * 8 * n**2 <= room else None

        def product(v: Tensor) -> Tensor:
            return matrix @ v if matrix is not None else matvec(kernel, x, x, v, budget)

        def centred(v: Tensor) -> Tensor:
            image = product(v - v.mean(0))
            return image - image.mean(0)

        means = product(x[0:1].new_full((n, 1), 1 / n))[:, 0]
        trace = sum(float(kernel.diag(x[at : at + 4096]).sum()) for at in range(0, n, 4096)) - float(means.sum())
        vectors = self._find(centred, n, trace, seed, means)
        alpha = vectors * self._per_root(vectors)
        self._finish(ExactMachine(kernel, x, alpha.contiguous()), -(means @ alpha).cpu().numpy())
        self.eigenvectors_ = vectors.cpu().numpy()

    def _fit_features(self, features: FeatureMap, x: Rows, seed: int) -> None:
        n, m = len(x), features.n_features
        gram, total = x[0:1].new_zeros(m, m), x[0:1].new_zeros(m)
        for rows in _feature_tiles(x, features):
            psi = features(x[rows])
            gram.addmm_(psi.T, psi)
            total += psi.sum(0)
        gram.addr_(total, total, alpha=-1 / n)
        vectors = self._find(gram.matmul, m, float(gram.diagonal().sum()), seed, total)
        theta = vectors * (self._per_root(vectors) > 0)
        self._finish(FeatureMachine(features, theta.contiguous()), -(total / n @ theta).cpu().numpy())

    def _find(self, multiply: Callable[[Tensor], Tensor], n: int, trace: float, seed: int, like: Tensor) -> Tensor:
        """Store the eigenvalues of a matrix, and return the eigenvectors with the sign of their largest entry."""
        k = _check_components(self.n_components)
        if k > n:
            raise InvalidParameter(
                f"n_components must be at most {n}, the number of rows, or of features; got {k}. Use a smaller number."
            )
        found = largest(multiply, n, k, float(self.tol), seed, like)
        self.eigenvalues_ = found.values.clamp(min=0).cpu().numpy()
        self.residual_norms_ = found.residuals.cpu().numpy()
        self.explained_variance_ratio_ = self.eigenvalues_ / (trace if trace > 0 else 1.0)
        entries = found.vectors.gather(0, found.vectors.abs().argmax(0)[None])
        return found.vectors * torch.where(entries < 0, -1.0, 1.0)

    def _per_root(self, like: Tensor) -> Tensor:  # (t,)
        """Return 1/√λ, and 0 for an eigenvalue that is a rounding error."""
        values = torch.from_numpy(self.eigenvalues_).to(like)
        smallest = len(like) * torch.finfo(like.dtype).eps * values.max()
        return torch.where(values > smallest, values.clamp(min=torch.finfo(like.dtype).tiny).rsqrt(), 0.0)


@documented_transformer
@dataclass(kw_only=True, eq=False, repr=False)
class KernelTransformer(KernelTransform):
    """The features of a kernel, for a model of your own: ``⟨ψ(x), ψ(z)⟩ ≈ k(x, z)``.

    Parameters
    ----------
    n_components : int
        The number of features, and of landmarks. The linear kernel has one random feature for each input.
    method : {"nystrom", "random"}
        ``"nystrom"`` are the features of the kernel with random training rows, the landmarks; with all rows as
        landmarks they are exact on the training rows. ``"random"`` are the random features of joker's machines, which
        depend on the rows by the bandwidth and the scale of inputs only.
    %(shared)s
    kernel_error_ : float
        With ``"nystrom"`` a bound on ``|⟨ψ(x), ψ(z)⟩ − k(x, z)|`` for all pairs of training rows; with ``"random"``
        the largest error among pairs of 512 training rows.
    intercept_ : ndarray
        What is added to the features: 0.

    Notes
    -----
    The features of ``"nystrom"`` are those of scikit-learn's Nystroem up to a rotation, in the order of their variance
    on the landmarks. The residual ``K − ΨΨᵀ`` is positive semidefinite, so that no entry of it is larger than the
    largest one of its diagonal, which is ``kernel_error_``.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelTransformer
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.linalg.norm(X, axis=1) < 1
    >>> model = make_pipeline(KernelTransformer(n_components=50, random_state=0), RidgeClassifier()).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    n_components: int = 100
    method: str = "nystrom"

    def check_settings(self, n_inputs: int | None = None) -> None:
        """Raise the error that ``fit`` raises for a parameter that cannot be used, without any data."""
        super().check_settings(n_inputs)
        _check_components(self.n_components)
        if self.method not in ("nystrom", "random"):
            raise UnknownName.among("method of KernelTransformer", self.method, ["nystrom", "random"])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the landmarks, or draw the features.

        Parameters
        ----------
        X : array, sparse matrix, data frame or tensor of shape (n, d), or row store
            Rows of inputs, or with ``kernel="precomputed"`` their kernel matrix.
        y : ignored
            There are no targets.
        """
        kernel, x, seed = self._prepare(X)
        with enough_memory(x.device):
            if self.method == "nystrom":
                self._fit_landmarks(kernel, x, seed)
            else:
                self._fit_random(kernel, x, seed)
        return self

    def _fit_landmarks(self, kernel: Kernel, x: Rows, seed: int) -> None:
        r = min(len(x), self.n_components)
        chosen = torch.randperm(len(x), generator=generator(seed, "landmarks"))[:r].sort().values
        landmarks = x.some(chosen)
        z = landmarks[0:r]
        values, vectors = torch.linalg.eigh(kernel(z, z))
        values, vectors = values.flip(0), vectors.flip(1)
        smallest = r * torch.finfo(values.dtype).eps * values[0]
        alpha = vectors * torch.where(values > smallest, values.clamp(min=smallest).rsqrt(), 0.0)
        machine = ExactMachine(kernel, landmarks, alpha.contiguous())
        error = 0.0
        for rows, psi in machine.stream(x, resolve.memory(self.memory, x.device)):
            error = max(error, float((kernel.diag(x[rows]) - psi.square().sum(1)).max()))
        self.kernel_error_ = error
        self._finish(machine, np.zeros(r))

    def _fit_random(self, kernel: Kernel, x: Rows, seed: int) -> None:
        features = _draw(kernel, self.features, x, self.n_components, seed)
        some = x[torch.randperm(len(x), generator=generator(seed, "sample"))[:SAMPLED].to(x.index_device)]
        psi = features(some)
        self.kernel_error_ = float((psi @ psi.T - kernel(some, some)).abs().max())
        # The machine is there for its features, and has no weights of its own.
        self._finish(FeatureMachine(features, psi.new_zeros(features.n_features, 1)), np.zeros(1))

    @property
    def _features_only(self) -> bool:
        return isinstance(self._machine, FeatureMachine)

    @property
    def _n_features_out(self) -> int:
        machine = self._machine
        return machine.features.n_features if isinstance(machine, FeatureMachine) else len(self._offset)

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the features of rows, of shape (n, n_components)."""
        check_is_fitted(self)
        if not isinstance(self._machine, FeatureMachine):
            return super().transform(X)
        x = self._rows(self._check_rows(X, reset=False), self._machine)
        result = np.empty((len(x), self._n_features_out))
        for rows in _feature_tiles(x, self._machine.features):
            result[rows] = self._machine.features(x[rows]).cpu().numpy()
            check_predictions(result[rows], rows.start)
        return result


def _feature_tiles(x: Rows, features: FeatureMap) -> Any:
    """Yield slices of rows whose features take some memory."""
    return tiles(
        len(x), lambda b: features.work_bytes(b) + b * x.row_bytes, max(TILE, features.work_bytes(1)), "features"
    )
