"""Mean targets of the levels of a category, cross-fitted with scikit-learn's TargetEncoder."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.encoders import LevelEncoder, StatisticEncoder, as_levels
from joker.tables.frames import RawColumn

Array = NDArray[Any]
FOLDS = 5
MISSING = "\0missing"  # a level that no table contains


def cross_fitted(
    column: RawColumn,
    y: Array,  # (n,) numbers, or codes of classes
    classes: int,  # 0 for numbers
    frequent: LevelEncoder | None,
    seed: int,
) -> tuple[StatisticEncoder, Array]:
    """Return the encoder, and the encoded training rows: each by the targets of the other folds only."""
    from sklearn.preprocessing import TargetEncoder

    levels = np.array([[MISSING if level is None else level] for level in as_levels(column)], dtype=object)
    kind = "continuous" if not classes else "binary" if classes == 2 else "multiclass"
    folds = max(2, min(FOLDS, int(np.bincount(y.astype(np.intp)).min()) if classes else FOLDS))
    encoder = TargetEncoder(target_type=kind, cv=folds, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than folds
        crossed = encoder.fit_transform(levels, y)
    known = [str(level) for level in encoder.categories_[0]]
    values = np.stack(encoder.encodings_, axis=1)
    default = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    mean, deviation = crossed.mean(axis=0), crossed.std(axis=0)
    # The columns of several classes share the weight of one number.
    scale = np.where(deviation > 0, deviation, 1.0) * (values.shape[1] ** 0.5 if values.shape[1] > 1 else 1.0)
    fitted = StatisticEncoder(column.name, tuple(known), (values - mean) / scale, (default - mean) / scale, frequent)
    if MISSING in known:
        fitted = StatisticEncoder(
            column.name,
            tuple(level for level in known if level != MISSING),
            np.delete(fitted.values, known.index(MISSING), axis=0),
            fitted.values[known.index(MISSING)],
            frequent,
        )
    crossed = (crossed - mean) / scale
    return fitted, fitted.joined(crossed, column)
