"""The metrics of the tables in the paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from joker.paper.rows import PaperRows
from joker.paper.table import ACCURACY, AUC, FALLING, RELATIVE, RMSE

Values = NDArray[np.float64]


def scores(rows: PaperRows, y: Values, f: Values) -> dict[str, float]:  # y (n,), f (n, t)
    """Return the metrics of a data set for the predictions f of targets y, which are as in the data set.

    The relative error is the root mean square of ``(f − y)/y`` in the unit of y. The RMSE is that of the z-scored
    target. The predicted class of a row is the column with the largest value; for two classes it is the sign.
    """
    return {name: _METRICS[name](rows, y, f) for name in rows.data.metrics}


def better(metric: str, value: float) -> float:
    """Return a value that is larger if the metric is better."""
    return -value if metric in FALLING else value


def _relative(rows: PaperRows, y: Values, f: Values) -> float:
    error = (f[:, 0] * rows.spread + rows.centre - y) / y
    return float(np.sqrt(np.mean(error**2)))


def _rmse(rows: PaperRows, y: Values, f: Values) -> float:
    error = f[:, 0] - (y - rows.centre) / rows.spread
    return float(np.sqrt(np.mean(error**2)))


def _auc(rows: PaperRows, y: Values, f: Values) -> float:
    from sklearn.metrics import roc_auc_score  # imported here, as it takes as long as torch to import

    positive = y == 1
    one_class = positive.all() or not positive.any()
    return float("nan") if one_class else float(roc_auc_score(positive, f[:, 0]))


def _accuracy(rows: PaperRows, y: Values, f: Values) -> float:
    classes = f.argmax(axis=1) if f.shape[1] > 1 else f[:, 0] > 0
    return float(np.mean(classes == y))


_METRICS: dict[str, Callable[[PaperRows, Values, Values], float]] = {
    RELATIVE: _relative,
    RMSE: _rmse,
    AUC: _auc,
    ACCURACY: _accuracy,
}
