"""One interface for the programs that are compared: ``fit``, ``predict`` and, for classes, ``decide``.

Building a model of a package that is not installed raises ImportError; no package is imported before that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any, Protocol

import numpy as np
import sets
from numpy.typing import NDArray

Array = NDArray[Any]


class Model(Protocol):
    """The interface of a program."""

    def fit(self, x: Array, y: Array) -> object: ...
    def predict(self, x: Array) -> Array: ...
    def decide(self, x: Array) -> Array | None: ...


@dataclass
class Estimator:
    """An estimator with the interface of scikit-learn."""

    inner: Any

    def fit(self, x: Array, y: Array) -> object:
        return self.inner.fit(x, y)

    def predict(self, x: Array) -> Array:
        return np.asarray(self.inner.predict(x))

    def decide(self, x: Array) -> Array | None:
        """Return f(x) of two classes, or the probability of the second class; None without either method."""
        if hasattr(self.inner, "decision_function"):
            return np.asarray(self.inner.decision_function(x))
        return np.asarray(self.inner.predict_proba(x))[:, 1] if hasattr(self.inner, "predict_proba") else None


def named(path: str, data: sets.DataSet, **parameters: Any) -> Model:
    """Build an estimator from the import path of its class."""
    module, _, name = path.rpartition(".")
    return Estimator(getattr(import_module(module), name)(**parameters))


def pipeline(path: str, data: sets.DataSet, *, gamma: float, components: int, **parameters: Any) -> Model:
    """Build ``Nystroem`` or ``RBFSampler`` before a linear model; ``+`` joins the two names in ``path``."""
    from sklearn import kernel_approximation
    from sklearn.pipeline import make_pipeline

    kind, _, rest = path.partition("+")
    features = getattr(kernel_approximation, kind)(gamma=gamma, n_components=components, random_state=sets.SEED)
    linear = named(rest, data, **parameters)
    assert isinstance(linear, Estimator)
    return Estimator(make_pipeline(features, linear.inner))


def torchkm(path: str, data: sets.DataSet, **parameters: Any) -> Model:
    """Build a model of torchkm, which tunes C by cross-validation; several classes are fitted one-vs-rest."""
    from sklearn.multiclass import OneVsRestClassifier

    kinds = import_module("torchkm.estimators")
    common = {"device": "cpu", "random_state": sets.SEED, **parameters}
    if data.regression:
        return Estimator(kinds.TorchKMKQR(tau=0.5, **common))
    model = kinds.TorchKMSVC(**common)
    return Estimator(OneVsRestClassifier(model) if data.source == "mnist" else Plain(model))


@dataclass
class Plain:
    """A classifier whose predictions are converted from objects to integers."""

    inner: Any

    def fit(self, x: Array, y: Array) -> object:
        return self.inner.fit(x, y)

    def predict(self, x: Array) -> Array:
        return np.asarray(self.inner.predict(x)).astype(np.int64)

    def decision_function(self, x: Array) -> Array:
        return np.asarray(self.inner.decision_function(x))


@dataclass
class Xrfm:
    """xRFM; a part of the training rows is its validation set."""

    parameters: dict[str, Any]
    held_out: float = 0.2
    inner: Any = field(init=False, default=None)
    classes: Array | None = field(init=False, default=None)

    def fit(self, x: Array, y: Array) -> object:
        model = import_module("xrfm").xRFM(device="cpu", random_state=sets.SEED, verbose=False, **self.parameters)
        if y.dtype.kind == "i":
            self.classes, y = np.unique(y, return_inverse=True)
        else:
            y = y.astype(np.float32)
        cut = len(x) - round(self.held_out * len(x))
        model.fit(x[:cut], y[:cut], x[cut:], y[cut:])
        self.inner = model
        return self

    def predict(self, x: Array) -> Array:
        found = np.asarray(self.inner.predict(x))
        return found.ravel() if self.classes is None else self.classes[found]

    def decide(self, x: Array) -> Array | None:
        return np.asarray(self.inner.predict_proba(x))[:, 1]


def xrfm(path: str, data: sets.DataSet, **parameters: Any) -> Model:
    """Build xRFM; raises ImportError where it is not installed."""
    import_module("xrfm")
    return Xrfm(parameters)


@dataclass
class Falkon:
    """Kernel ridge regression of Falkon on the CPU; classes are columns of -1 and 1."""

    sigma: float
    penalty: float
    centres: int
    inner: Any = field(init=False, default=None)
    classes: Array | None = field(init=False, default=None)

    def fit(self, x: Array, y: Array) -> object:
        import torch

        falkon = import_module("falkon")
        if y.dtype.kind == "i":
            self.classes = np.unique(y)
            columns = self.classes[1:] if len(self.classes) == 2 else self.classes
            y = np.where(y[:, None] == columns, 1.0, -1.0)
        self.inner = falkon.Falkon(
            kernel=falkon.kernels.GaussianKernel(self.sigma),
            penalty=self.penalty,
            M=min(self.centres, len(x)),
            seed=sets.SEED,
            options=falkon.FalkonOptions(use_cpu=True),
        )
        return self.inner.fit(torch.from_numpy(x), torch.from_numpy(y.astype(np.float32).reshape(len(x), -1)))

    def predict(self, x: Array) -> Array:
        f = self._f(x)
        if self.classes is None:
            return f.ravel()
        return self.classes[(f[:, 0] > 0).astype(int) if f.shape[1] == 1 else f.argmax(1)]

    def decide(self, x: Array) -> Array | None:
        f = self._f(x)
        return f[:, 0] if f.shape[1] == 1 else None

    def _f(self, x: Array) -> Array:
        import torch

        return np.asarray(self.inner.predict(torch.from_numpy(x)))


def falkon(path: str, data: sets.DataSet, **parameters: Any) -> Model:
    """Build Falkon; raises ImportError where it is not installed."""
    import_module("falkon")
    return Falkon(**parameters)


def eigenpro(path: str, data: sets.DataSet, **parameters: Any) -> Model:
    """Build EigenPro of scikit-learn-extra."""
    kinds = import_module("sklearn_extra.kernel_methods")
    kind = kinds.EigenProRegressor if data.regression else kinds.EigenProClassifier
    return Estimator(kind(random_state=sets.SEED, **parameters))


@dataclass
class Joker:
    """An estimator of joker, tuned or with given settings; ``curve`` has its score on ``watch`` after each epoch.

    ``spent`` is the time of scoring, which is not counted as time of the fit.
    """

    data: sets.DataSet
    parameters: dict[str, Any]
    search: dict[str, Any] | None = None  # options of joker.tune; None: fit with the given parameters
    watch: tuple[Array, Array] | None = None
    curve: list[dict[str, float]] = field(default_factory=list)
    spent: float = 0.0
    inner: Any = None

    def fit(self, x: Array, y: Array) -> object:
        import joker

        kind = joker.KernelRidge if self.data.regression else joker.KernelClassifier
        watchers = None if self.watch is None else [self._watcher()]
        model = kind(random_state=sets.SEED, callbacks=watchers, **self.parameters)
        self.curve, self.spent, self.started = [], 0.0, time.perf_counter()
        if self.search is None:
            self.inner = model.fit(x, y)
        else:
            self.inner = joker.tune(x, y, estimator=model, **self.search).estimator
        return self

    def predict(self, x: Array) -> Array:
        return np.asarray(self.inner.predict(x))

    def decide(self, x: Array) -> Array | None:
        return None if self.data.regression else np.asarray(self.inner.decision_function(x))

    @property
    def found(self) -> dict[str, Any]:
        """The chosen settings, and the duality gap of the fit."""
        inner = self.inner
        kernel = inner.kernel if isinstance(inner.kernel, str) else inner.kernel.name
        sigma = float(np.min(inner.bandwidth_))  # the smallest one where each input has its own
        chosen = {"kernel": kernel, "bandwidth": float(f"{sigma:.4g}"), "lam": float(f"{inner.lam_:.4g}")}
        if np.ndim(inner.bandwidth_):
            chosen["widest"] = float(f"{np.max(inner.bandwidth_):.4g}")
        return {"chosen": chosen, "gap": float(f"{inner.gap_:.3g}")}

    def _watcher(self) -> Any:
        from joker.callbacks import Callback, Run

        joker = self

        class Watcher(Callback):
            def epoch(self, run: Run) -> None:
                if not run.one_block:
                    joker.evaluate(run.model())

        return Watcher()

    def evaluate(self, model: Any) -> None:
        """Score a model; the time is added to ``spent``."""
        assert self.watch is not None
        now = time.perf_counter()
        x, y = self.watch
        f = None if self.data.regression else model.decision_function(x)
        found = sets.score(self.data, y, model.predict(x), f)
        self.curve.append({"seconds": round(now - self.started - self.spent, 2), **found})
        self.spent += time.perf_counter() - now


def tuned(path: str, data: sets.DataSet, *, search: dict[str, Any], **parameters: Any) -> Model:
    """Build joker with settings chosen by joker.tune."""
    return Joker(data, parameters, search)


def with_settings(path: str, data: sets.DataSet, **parameters: Any) -> Model:
    """Build joker with the given settings."""
    return Joker(data, parameters)


ADAPTERS: dict[str, tuple[Callable[..., Model], str]] = {  # with the package whose version is reported
    "sklearn": (named, "scikit-learn"),
    "pipeline": (pipeline, "scikit-learn"),
    "torchkm": (torchkm, "torchkm"),
    "xrfm": (xrfm, "xrfm"),
    "falkon": (falkon, "falkon"),
    "eigenpro": (eigenpro, "scikit-learn-extra"),
    "joker.tune": (tuned, "joker-kernels"),
    "joker": (with_settings, "joker-kernels"),
}


def build(adapter: str, path: str, data: sets.DataSet, parameters: dict[str, Any]) -> Model:
    """Build an unfitted model."""
    return ADAPTERS[adapter][0](path, data, **parameters)


def version(adapter: str) -> str:
    """Return the name of a package and its version."""
    package = ADAPTERS[adapter][1]
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package
