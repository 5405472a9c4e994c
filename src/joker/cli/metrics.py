"""Metrics of predictions, added up batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import roc_auc_score

from joker.cli.model_files import LoadedModel
from joker.errors import InvalidData
from joker.estimators.classification import codes_of


class Metrics(ABC):
    """Metrics of a model on rows that come in batches."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.rows = 0

    def add(self, x: Any, y: NDArray[Any], first: int) -> None:
        """Add a batch whose first row has the number ``first``."""
        self._count(x, y, first)
        self.rows += len(y)

    @property
    @abstractmethod
    def values(self) -> dict[str, float | None]:
        """The metrics of all rows so far; None for a metric that is not defined."""

    @abstractmethod
    def _count(self, x: Any, y: NDArray[Any], first: int) -> None: ...


class ClassMetrics(Metrics):
    """Accuracy; with two classes the area under the ROC curve; with probabilities the log loss.

    Only the area under the curve stores values of every row: its score and its class.
    """

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        self.classes = model.estimator.classes_
        self.right = 0
        self.log_loss = 0.0
        self.scores: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def _count(self, x: Any, y: NDArray[Any], first: int) -> None:
        codes = self._codes(y, first)
        labels, scores, probabilities = self.model.classify(x)
        self.right += int(np.sum(codes_of(labels, self.classes) == codes))
        if len(self.classes) == 2:
            self.scores.append((scores, codes.astype(bool)))
        if probabilities is not None:
            p = probabilities[np.arange(len(codes)), codes]
            self.log_loss -= float(np.log(np.maximum(p.astype(np.float64), np.finfo(p.dtype).tiny)).sum())

    def _codes(self, y: NDArray[Any], first: int) -> NDArray[np.intp]:
        """The index of each label among the classes of the model."""
        classes = self.classes
        labels = y if (y.dtype.kind == "U") == (classes.dtype.kind == "U") else as_text(y)
        names = classes if labels is y else as_text(classes)
        order = np.argsort(names)
        codes: NDArray[np.intp] = order[np.searchsorted(names[order], labels).clip(max=len(names) - 1)]
        if len(unknown := np.flatnonzero(names[codes] != labels)):
            raise InvalidData(
                f"the target must have the classes of the model, {', '.join(map(str, classes.tolist()))}; found "
                f"{y[unknown[0]].item()!r} in row {first + unknown[0]}. Leave such rows out, or fit again with them."
            )
        return codes

    @property
    def values(self) -> dict[str, float | None]:
        scores, signs = map(np.concatenate, zip(*self.scores, strict=True)) if self.scores else ((), np.array([]))
        return {
            "accuracy": self.right / self.rows,
            "auc": float(roc_auc_score(signs, scores)) if signs.any() and not signs.all() else None,
            "log_loss": self.log_loss / self.rows if hasattr(self.model.estimator, "predict_proba") else None,
        }


class NumberMetrics(Metrics):
    """RMSE, MAE, R² and the relative error, the root mean square of ``(f − y)/y``, if no target is 0."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model)
        self.sums: dict[str, NDArray[np.float64]] = {}
        self.centre: NDArray[np.float64] | None = None
        self.has_zero = False

    def _count(self, x: Any, y: NDArray[Any], first: int) -> None:
        y = y.reshape(len(y), -1).astype(np.float64)
        f = self.model.estimator.predict(x).reshape(len(y), -1).astype(np.float64)
        if y.shape[1] not in (1, f.shape[1]):
            raise InvalidData(
                f"the target must have the {f.shape[1]} columns that the model predicts; got {y.shape[1]}. "
                "Choose another with --target."
            )
        # Sums of squares of targets far from 0 would lose digits; the first target is near enough to the mean.
        self.centre = y[0] if self.centre is None else self.centre
        self.has_zero = self.has_zero or not np.all(y)
        for name, terms in self._terms(f, y, y - self.centre).items():
            self.sums[name] = self.sums.get(name, np.zeros(1)) + terms.sum(axis=0)

    def _terms(self, f: NDArray[Any], y: NDArray[Any], moved: NDArray[Any]) -> dict[str, NDArray[Any]]:
        error = f - y
        relative = error / np.where(y == 0, 1, y)
        return {"square": error**2, "size": np.abs(error), "y": moved, "yy": moved**2, "relative": relative**2}

    @property
    def values(self) -> dict[str, float | None]:
        n, sums = self.rows, self.sums
        spread = sums["yy"] - sums["y"] ** 2 / n
        return {
            "rmse": float(np.sqrt(np.mean(sums["square"]) / n)),
            "mae": float(np.mean(sums["size"]) / n),
            "r2": float(np.mean(1 - sums["square"] / spread)) if n > 1 and np.all(spread > 0) else None,
            "relative_error": None if self.has_zero else float(np.sqrt(np.mean(sums["relative"]) / n)),
        }


class QuantileMetrics(NumberMetrics):
    """The pinball loss of each level of a quantile regression, and the share of targets that are at most it."""

    @property
    def levels(self) -> NDArray[np.float64]:
        """The levels of the model."""
        given = self.model.estimator.quantile
        return np.atleast_1d(np.asarray(0.5 if given is None else given, dtype=float))

    def _terms(self, f: NDArray[Any], y: NDArray[Any], moved: NDArray[Any]) -> dict[str, NDArray[Any]]:
        above = y - f
        pinball = np.maximum(self.levels * above, (self.levels - 1) * above)
        return {"pinball_loss": pinball, "coverage": above <= 0, "mae": np.abs(above)}

    @property
    def values(self) -> dict[str, Any]:
        means = {name: (total / self.rows).tolist() for name, total in self.sums.items()}
        return means if len(self.levels) > 1 else {name: values[0] for name, values in means.items()}


def metrics_of(model: LoadedModel) -> Metrics:
    """Return the metrics for a model."""
    estimator = model.estimator
    if is_classifier(estimator):
        return ClassMetrics(model)
    of_quantiles = hasattr(estimator, "quantile") and getattr(estimator, "loss", "quantile") == "quantile"
    return QuantileMetrics(model) if of_quantiles else NumberMetrics(model)


def as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as text; whole numbers without a decimal point."""
    return np.array([f"{x:g}" if isinstance(x, float) else str(x) for x in labels.tolist()])
