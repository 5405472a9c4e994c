"""Rows with their encoded targets and weights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, validate_data

from joker.data import Labels, Rows, Schema, Store, StoreRows, as_source
from joker.data.arrays import INPUT_DTYPES, RowSubset, as_array, pick
from joker.errors import InvalidData, InvalidParameter, JokerError
from joker.kernels.precomputed import check_matrix
from joker.runtime import chunks

LabelledRows = tuple[Any, Any, Any]  # X, y and sample_weight as a user gives them; the weights may be None


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows with their targets, encoded as numbers."""

    x: Any  # (n, d): an array or a CSR matrix, or a part of one, or rows of a store
    y: NDArray[Any]  # (n, t): float32 or float64, or int8 where they are signs
    w: NDArray[np.float64] | None = None  # (n,)
    copied: int = 0  # bytes of the copy that validation has made
    held_out: int = 0  # rows of the same data that are held out
    label_bytes: int = 0  # bytes of a class label; 0 where targets are numbers

    @classmethod
    def blank(cls, x: Any, targets: NDArray[Any], share: float, copied: int, label_bytes: int) -> TrainingSet:
        """Return a sample with the sizes of a fit to ``x``, of which a share is held out, and without its numbers."""
        n = x.shape[0]
        held_out = math.ceil(n * share)
        if held_out and not isinstance(x, Rows):
            x = RowSubset(x, np.broadcast_to(np.intp(0), (n - held_out,)))
        y = np.broadcast_to(targets, (n - held_out, targets.shape[1]))
        return cls(x, y, None, copied, held_out, label_bytes)

    def take(self, rows: NDArray[np.intp]) -> TrainingSet:
        """Return some of the rows."""
        return self._part(pick(self.x, rows), rows)

    def _part(self, x: Any, rows: NDArray[np.intp] | slice) -> TrainingSet:
        return TrainingSet(x, self.y[rows], None if self.w is None else self.w[rows])

    def hold_out(
        self, share: float, strata: NDArray[Any] | None, seed: int, *, copy: bool = True
    ) -> tuple[TrainingSet, TrainingSet]:
        """Return the training rows, which are not copied, and a share of the rows to score on, with ``copy`` a copy.

        The share is the same in every stratum. A store holds out its last rows, which are in random order.
        """
        if isinstance(self.x, StoreRows):
            last = min(max(1, len(self.y) - math.ceil(share * len(self.y))), len(self.y) - 1)
            parts = slice(0, last), slice(last, len(self.y))
            train, scored = (self._part(self.x.run(part.start, part.stop), part) for part in parts)
        else:
            kept, held = _split(len(self.y), share, strata, seed)
            kept, held = np.sort(kept), np.sort(held)
            train = self._part(RowSubset(self.x, kept), kept)
            scored = self.take(held) if copy else self._part(RowSubset(self.x, held), held)
        train = replace(train, copied=self.copied, held_out=len(scored.y), label_bytes=self.label_bytes)
        if any(part.w is not None and not part.w.any() for part in (train, scored)):
            raise InvalidData(
                "the rows held out to choose lam or the epoch, and the others, must not all have zero weight. "
                "Use another validation_fraction or random_state, or give fit an eval_set."
            )
        return train, scored

    def of_positive_weight(self) -> TrainingSet:
        """Return the rows of positive weight."""
        return self if self.w is None else self.take(np.flatnonzero(self.w))

    def mean(self) -> NDArray[np.float64]:  # (t,)
        """The weighted mean of the targets, in float64."""
        mean, weight = np.zeros(self.y.shape[1]), 0.0
        for rows in chunks(*self.y.shape):
            y, w = self.y[rows], None if self.w is None else self.w[rows]
            if more := float(len(y) if w is None else w.sum()):
                weight += more
                mean += (np.average(y.astype(np.float64), axis=0, weights=w) - mean) * (more / weight)
        return mean

    def spread(self, centre: NDArray[np.float64]) -> NDArray[np.float64]:  # (t,) -> (t,)
        """The weighted root mean square of the targets minus ``centre``; 0 for a target that is constant."""
        largest, low, high = np.zeros(self.y.shape[1]), np.inf, -np.inf
        for y, _ in self._weighted_targets():
            largest = np.maximum(largest, np.abs(y - centre).max(axis=0))
            low, high = np.minimum(low, y.min(axis=0)), np.maximum(high, y.max(axis=0))
        largest[(low == high) | (largest == 0)] = 0.0
        unit = np.where(largest > 0, largest, 1.0)  # squares of these multiples of it neither overflow nor vanish
        square, weight = np.zeros(self.y.shape[1]), 0.0
        for y, w in self._weighted_targets():
            square += w @ ((y - centre) / unit) ** 2
            weight += float(w.sum())
        return largest * np.sqrt(square / weight)

    def _weighted_targets(self) -> Iterator[tuple[NDArray[Any], NDArray[np.float64]]]:  # (k, t), (k,)
        """Yield the targets of positive weight, some rows at a time, with their weights."""
        for rows in chunks(*self.y.shape):
            y = self.y[rows]
            w = np.ones(len(y)) if self.w is None else self.w[rows]
            if w.any():
                yield (y, w) if self.w is None else (y[w > 0], w[w > 0])


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return the checked weights of n rows; None where there are none."""
    if sample_weight is None:
        return None
    given = as_array(sample_weight)
    w: NDArray[np.float64] = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if w.shape != (n,):
        raise InvalidData(f"sample_weight must have shape ({n},), one weight for each row; got {w.shape}. Reshape it.")
    if w.min() < 0:
        raise InvalidData(f"sample_weight must be at least 0; found {w.min():g}. Use 0 to leave a row out.")
    if not w.any():
        raise InvalidData("sample_weight must not be zero for every row. Give at least one row a positive weight.")
    return w


def check_pair(eval_set: Any, targets_of: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the rows and targets of ``eval_set``; a row store has both."""
    alone = eval_set[0] if isinstance(eval_set, tuple | list) and len(eval_set) == 1 else eval_set
    if isinstance(alone, Store):
        return alone, targets_of(alone, None)
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise InvalidParameter(
            f"eval_set must be a pair (X, y), or a row store; got {type(eval_set).__name__}. Use eval_set=(Xv, yv)."
        )
    return eval_set[0], targets_of(eval_set[0], eval_set[1])


def _split(n: int, share: float, strata: NDArray[Any] | None, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to train on and a share of the rows, in every stratum where there are enough rows."""
    rows = np.arange(n)
    if strata is not None:
        _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
        held = math.ceil(share * n)
        if counts.min() < 2 or held < len(counts) or n - held < len(counts):
            return _split_few(codes, counts, share, seed)
    kept, scored = train_test_split(rows, test_size=share, random_state=seed, stratify=strata)
    return kept, scored


def _split_few(
    codes: NDArray[np.intp], counts: NDArray[np.intp], share: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out rows at equal distances in the order of the strata; a row that is alone in its stratum stays."""
    order = np.lexsort((np.random.default_rng(seed).permutation(len(codes)), codes))
    order = order[counts[codes[order]] > 1]
    if not len(order):
        raise InvalidData(
            f"choosing lam or the epoch needs rows to hold out; got one row for each of {len(counts)} classes. "
            "Use one lam and early_stopping=False, or give fit an eval_set."
        )
    steps = np.floor(share * np.arange(len(order) + 1))
    held = order[steps[1:] > steps[:-1]]
    held = held if len(held) else order[-1:]
    return np.setdiff1d(np.arange(len(codes)), held), held


FRAME_ROWS = 2**16  # rows of a frame that are converted at a time
MAX_NAMES = 8  # column names that a message lists


def is_stored(X: Any) -> bool:
    """Whether the data are a row store, or rows of one."""
    return isinstance(X, Store | StoreRows)


def classes_of(X: Any, y: Any) -> Any:
    """Return the classes of the rows: those given, or those of a store."""
    if y is not None:
        return as_array(y)
    _check_given(X)
    if X.classes is None:
        raise InvalidData(
            f"y must be classes for a classifier; {X.path} has numbers. Convert the data with task='classification', "
            "or use a regressor."
        )
    return X.labels


def numbers_of(X: Any, y: Any) -> Any:
    """Return the numeric targets of the rows: those given, or those of a store."""
    if y is not None:
        return as_array(y)
    _check_given(X)
    if X.classes is not None and X.classes.dtype.kind == "U":
        raise InvalidData(f"y must be numbers for a regressor; {X.path} has classes of text. Use a classifier.")
    return X.y


def _check_given(X: Any) -> None:
    if not isinstance(X, Store):
        raise InvalidData(
            f"fit requires y to be passed, but the target y is None: only a row store has its own, and X is of type "
            f"{type(X).__name__}. Give y."
        )


def columns_by_name(model: Any, X: Any) -> Any:
    """Return the columns of a frame in the order of the table that a model was fitted on; other data unchanged.

    A model that was fitted on a table of a file or a store knows the names of its columns.
    """
    schema: Schema | None = getattr(model, "schema_", None)
    names = getattr(X, "columns", None)
    if schema is None or names is None or not hasattr(X, "iloc"):
        return X
    if list(map(str, names)) == list(schema.names):  # as the inputs are named, with one column for each level
        return X.to_numpy()
    batches = [batch.dense for batch in as_source(X, schema=schema).batches(FRAME_ROWS)]
    return batches[0] if len(batches) == 1 else np.concatenate(batches)


def check_stored(model: BaseEstimator, X: Store | StoreRows, y: Any, reset: bool = True, **checks: Any) -> Any:
    """Check rows of a store and their targets, as arrays are checked."""
    if isinstance(X, Store):
        if not reset:
            check_columns(model, X.schema)
        X = X.x
    validate_data(model, X, reset=reset, skip_check_array=True)
    if isinstance(y, str):
        return X
    if not isinstance(y, Labels):
        y = check_array(y, ensure_2d=False, dtype="numeric" if checks else None, input_name="y")
    check_consistent_length(X, y)
    return X, y


def check_kernel_matrix(model: BaseEstimator, X: Any, y: Any, reset: bool = True, **checks: Any) -> Any:
    """Check a kernel matrix and targets: with ``reset`` of the training rows, else of other rows with them."""
    if is_stored(X):
        raise InvalidData(
            "X must be a matrix in memory with kernel='precomputed'; got a row store. Use np.asarray of the matrix, or "
            "a kernel of joker.kernels, which reads rows of a store."
        )
    try:
        with naming_columns(X):
            checked = validate_data(model, as_array(X), as_array(y), dtype=INPUT_DTYPES, reset=reset, **checks)
    except ValueError as error:
        if reset or "features as input" not in str(error):
            raise
        raise InvalidData(
            f"{str(error).rstrip('.')}: with kernel='precomputed' X must have a column for each training row. Give the "
            "kernel matrix of the rows to predict with all training rows, in the order of fit."
        ) from error
    if reset:
        check_matrix(checked[0] if isinstance(checked, tuple) else checked)
    return checked


def check_columns(model: BaseEstimator, schema: Schema) -> None:
    """Refuse rows whose columns are not those of the training rows; name those that differ."""
    known = getattr(model, "schema_", None)
    if known is None or known.names == schema.names:
        return
    missing, unknown = ([n for n in a.names if n not in set(b.names)] for a, b in ((known, schema), (schema, known)))
    differences = [
        f"{what} {', '.join(map(repr, names[:MAX_NAMES]))}{' and more' if len(names) > MAX_NAMES else ''}"
        for what, names in (("lacks", missing), ("has the unknown", unknown))
        if names
    ]
    raise InvalidData(
        "X must have the columns of the training rows, in their order; it "
        f"{' and '.join(differences) or 'has them in another order'}. Convert the data with schema=model.schema_."
    )


CHUNK_WIDTH = 64  # entries that a label counts as: a Python string of a few characters takes some 60 bytes


def labels_of_column(y: Any) -> Labels | None:
    """Return the labels of a pandas column of categories or text; None for anything else, whose array is small."""
    if not (hasattr(y, "iloc") and hasattr(y, "dtype") and np.ndim(y) == 1 and len(y)):
        return None
    if hasattr(y, "cat"):
        return _of_categories(np.asarray(y.cat.categories), np.asarray(y.cat.codes))
    return _of_text(y) if y.dtype.kind == "O" else None


def _of_categories(categories: NDArray[Any], codes: NDArray[Any]) -> Labels:
    """Return the categories that occur, sorted, and the number of each row among them."""
    if codes.min() < 0:
        row = int(codes.argmin())
        raise InvalidData(f"y must have a class for each row; found a missing one in row {row}. Leave such rows out.")
    used = np.zeros(len(categories), dtype=bool)
    for rows in chunks(len(codes)):
        used[codes[rows]] = True
    classes, order = np.unique(categories[used], return_inverse=True)
    numbers = np.zeros(len(categories), dtype=np.min_scalar_type(len(classes)))
    numbers[used] = order
    found = np.empty(len(codes), dtype=numbers.dtype)
    for rows in chunks(len(codes)):
        found[rows] = numbers[codes[rows]]
    return Labels(classes, found)


def _of_text(y: Any) -> Labels | None:
    """Return the labels of a column whose values are all text; None if there are others."""
    names: set[str] = set()
    for rows in chunks(len(y), CHUNK_WIDTH):
        some = set(y.iloc[rows])
        if not all(type(value) is str for value in some):
            return None
        names |= some
    classes = np.array(sorted(names), dtype=object)
    numbers = {name: number for number, name in enumerate(classes)}
    codes = np.empty(len(y), dtype=np.min_scalar_type(len(classes)))
    for rows in chunks(len(y), CHUNK_WIDTH):
        codes[rows] = [numbers[name] for name in y.iloc[rows]]
    return Labels(classes, codes)


ENCODE = "Encode text as numbers first, for example with sklearn.preprocessing.OneHotEncoder, or leave the column out."
DATES = "Replace times by numbers, such as the year and the day of the year, or leave the column out."


@contextmanager
def naming_columns(X: Any) -> Iterator[None]:
    """Replace an error about text or times among the inputs by one that names the column and the value."""
    try:
        yield
    except JokerError:
        raise
    except (TypeError, ValueError) as error:
        for name, column in _columns(X):
            if (found := _wrong(column)) is not None:
                row, value, remedy = found
                raise InvalidData(
                    f"X must have numbers only; found {value!r} in column {name!r}, row {row}. {remedy}"
                ) from error
        if (said := _not_finite(X, str(error))) is not None:
            raise InvalidData(said) from None  # the message of scikit-learn recommends its own classes
        raise


MISSING = (
    "Use JokerClassifier or JokerRegressor, which take missing values, or impute them, for example with "
    "sklearn.impute.SimpleImputer."
)
INFINITE = "Replace infinity, and larger numbers than the type can have, by numbers."
NO_TARGET = "Leave such rows out, as JokerClassifier and JokerRegressor do."


def _not_finite(X: Any, said: str) -> str | None:
    """Return what is wrong with a value that scikit-learn found to be missing or infinite, and the remedy."""
    found = re.match(r"Input (X|y) contains (NaN|infinity)", said)
    if found is None:
        return None
    name, value = found.groups()
    if name == "y":
        return f"{found[0]}: targets must be finite. {NO_TARGET if value == 'NaN' else INFINITE}"
    place, remedy = _place_of(X, np.isnan if value == "NaN" else np.isinf), MISSING if value == "NaN" else INFINITE
    return f"{found[0]}: the inputs of a kernel machine must be finite{place}. {remedy}"


def _place_of(X: Any, test: Callable[[NDArray[Any]], NDArray[Any]]) -> str:
    """Return the first place of such a value in words; nothing for sparse matrices."""
    if not (hasattr(X, "columns") or isinstance(X, np.ndarray | list | tuple)):
        return ""
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):  # such as pandas.NA
        return ""
    places = np.argwhere(test(values)) if values.ndim == 2 else np.empty((0, 2))
    if not len(places):
        return ""
    row, column = places[0].tolist()
    name = X.columns[column] if hasattr(X, "columns") else column
    return f"; it is in column {name!r}, row {row}"


def check_numbers(y: Any) -> None:
    """Refuse text and times as targets of a regression."""
    values = np.asarray(y)
    if values.dtype.kind in "OUSMm" and (found := _wrong(values.ravel())) is not None:
        row, value, _ = found
        raise InvalidData(
            f"y must be numbers for a regressor; found {value!r} in row {row // max(1, values.size // len(values))}. "
            "Convert it to numbers, or use a classifier, such as KernelSVC, for classes."
        )


def check_target_size(y: NDArray[Any], largest: float) -> None:
    """Refuse targets so large that sums or squares of them are no finite numbers."""
    low, high = (float(one) for one in (y.min(), y.max()))
    if max(-low, high) > largest:
        raise InvalidData(
            f"targets must be at most {largest:g} in size, so that what is computed from them is finite; found "
            f"{high if high > -low else low:g}. Divide all of them by the same number."
        )


def _columns(X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield the name and the values of each column that may hold something else than numbers."""
    if hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray):
        for place, name in enumerate(X.columns):
            values = np.asarray(X.iloc[:, place] if hasattr(X, "iloc") else X[name])
            if values.dtype.kind not in "biufc":
                yield name, values
        return
    values = np.asarray(X) if isinstance(X, np.ndarray | list | tuple) else np.empty((0, 0))
    if values.ndim == 2 and values.dtype.kind in "OUSMm":
        yield from enumerate(values.T)


def _wrong(values: NDArray[Any]) -> tuple[int, Any, str] | None:
    """Return the row of the first text or time, the value, and the remedy; None if there is none."""
    if values.dtype.kind in "Mm" and len(values):
        text = np.datetime_as_string(values[0], unit="auto") if values.dtype.kind == "M" else values[0]
        return 0, str(text), DATES
    for row, value in enumerate(values.tolist()):
        if isinstance(value, str | bytes) and not _is_number(value):
            return row, value, ENCODE
        if hasattr(value, "isoformat"):
            return row, value.isoformat(), DATES
    return None


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
