"""Rare classes: whether there are any, and the score that decides where accuracy would not notice them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

MAX_COMMON_SHARE = 0.95  # if one class has more of the rows, a constant prediction has nearly the best accuracy


def has_rare_class(codes: NDArray[np.intp]) -> bool:  # (n,)
    """Whether nearly all rows are of one class, so that the others are rare."""
    counts = np.bincount(codes)
    return bool(np.count_nonzero(counts) > 1 and counts.max() > MAX_COMMON_SHARE * counts.sum())


def ranking_score(estimator: Any, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> float:
    """Return the area under the ROC curve, for several classes the mean over each against the rest.

    It compares the ranks of rows, and does not depend on the share of a class. It is NaN if all rows are of one class.
    """
    f, classes = estimator.decision_function(X), estimator.classes_
    columns = {classes[1]: f} if len(classes) == 2 else dict(zip(classes, f.T, strict=True))
    areas = [
        roc_auc_score(y == label, column, sample_weight=sample_weight)
        for label, column in columns.items()
        if 0 < np.count_nonzero(y == label) < len(y)
    ]
    return float(np.mean(areas)) if areas else float("nan")
