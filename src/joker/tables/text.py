"""Text as inputs of a kernel: hashed character n-grams with tf-idf weights, and a few linear functions of them.

Some functions are the first singular vectors, in which texts with common words are near one another. The others are
ridge regressions of the target, cross-fitted as target encodings are: no training row is encoded by its own target.
The encoder is a table of numbers with a row for each bucket of the hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from joker.tables.encoders import as_levels
from joker.tables.table import RawColumn
from joker.tuning.ard import coded_targets

Array = NDArray[Any]
BUCKETS = 2**12
NGRAMS = (2, 4)  # characters, within words
MAX_CHARACTERS = 2_000  # of a text; the rest is not read
VECTORS = 16  # singular vectors
FIT_ROWS = 10_000  # that the table of numbers is learnt from
TEXT_FOLDS = 3
RIDGE = 1.0  # the penalty; rows of tf-idf weights have length 1
STEPS = 15  # of conjugate gradients
MAX_CLASSES = 32  # with more classes there are no regressions
DIGITS = 6  # of the numbers in the table
BATCH = 8_192  # texts that are hashed at a time


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """Linear functions of the tf-idf weights of the character n-grams of a text."""

    name: str
    idf: Array  # (buckets,)
    table: Array  # (buckets, k)
    offset: Array  # (k,)
    vectors: int  # of the functions; the others are regressions of the target

    @property
    def encoding(self) -> str:
        also = "" if self.vectors == len(self.offset) else " and regressions of the target"
        return f"character n-grams: {self.vectors} singular vectors{also}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of inputs with a weight of their own."""
        return tuple(size for size in (self.vectors, len(self.offset) - self.vectors) if size)

    @property
    def names(self) -> tuple[str, ...]:
        of_target = range(len(self.offset) - self.vectors)
        return (
            *(f"{self.name} vector {j}" for j in range(self.vectors)),
            *(f"{self.name} regression {j}" for j in of_target),
        )

    def transform(self, column: RawColumn) -> Array:  # (n, k)
        texts = as_levels(column)
        result = np.zeros((len(texts), len(self.offset)))
        for start in range(0, len(texts), BATCH):
            part = hashed(texts[start : start + BATCH])
            result[start : start + BATCH] = tf_idf(part, self.idf) @ self.table - self.offset
        return result


def hashed(texts: list[str | None]) -> Any:  # (n, buckets), sparse
    """Return the number of n-grams of each text in each bucket of the hash."""
    from sklearn.feature_extraction.text import HashingVectorizer

    read = HashingVectorizer(
        analyzer="char_wb", ngram_range=NGRAMS, n_features=BUCKETS, alternate_sign=False, norm=None
    )
    places: dict[str | None, int] = {}
    of_text = [places.setdefault(text, len(places)) for text in texts]  # a text that many rows have is read once
    return read.transform(["" if text is None else text[:MAX_CHARACTERS] for text in places])[of_text]


def tf_idf(counts: Any, idf: Array) -> Any:  # (n, buckets), sparse
    """Return rows of length 1: 1 + log(count), times the weight of the bucket."""
    weights = counts.tocsr(copy=True)
    weights.data = 1 + np.log(weights.data)
    weights = weights @ sp.diags_array(idf)
    length = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1))).ravel()
    return sp.diags_array(1 / np.where(length > 0, length, 1.0)) @ weights


def fit_text(
    column: RawColumn,
    y: Array,  # (n,) numbers, or codes of classes
    classes: int,  # 0 for numbers
    seed: int,
) -> tuple[TextEncoder, Callable[[Array | slice], Array]]:
    """Learn the table of numbers, and return the encoder with a function that encodes training rows."""
    from sklearn.utils.extmath import randomized_svd

    rows = np.sort(np.random.RandomState(seed).permutation(len(y))[:FIT_ROWS])
    counts = hashed(as_levels(column.some(rows)))
    idf = np.log((1 + len(rows)) / (1 + np.asarray((counts > 0).sum(axis=0)).ravel())) + 1
    x = tf_idf(counts, idf)
    _, _, vectors = randomized_svd(x, min(VECTORS, len(rows)), n_iter=2, random_state=seed)
    parts, fitted = [vectors.T], [x @ vectors.T]
    if classes <= MAX_CLASSES:
        own, crossed = _regressions(x, coded_targets(y[rows], classes).numpy(), seed)
        parts, fitted = [*parts, own], [*fitted, crossed]
    # The squared distance of two random rows is 2 in each part, as that of two z-scores is.
    scales = [float(np.sqrt(part.var(axis=0).sum())) or 1.0 for part in fitted]
    table = _rounded(np.hstack([part / scale for part, scale in zip(parts, scales, strict=True)]))
    of_rows = np.hstack([part / scale for part, scale in zip(fitted, scales, strict=True)])
    offset = of_rows.mean(axis=0)
    encoder = TextEncoder(column.name, _rounded(idf), table, offset, len(vectors))
    known = of_rows - offset

    def encode(given: Array | slice) -> Array:
        some = np.arange(*given.indices(len(y))) if isinstance(given, slice) else given
        places = np.searchsorted(rows, some)
        seen = rows[np.minimum(places, len(rows) - 1)] == some
        encoded = np.empty((len(some), len(offset)))
        encoded[seen] = known[places[seen]]
        if not seen.all():
            encoded[~seen] = encoder.transform(column.some(some[~seen]))
        return encoded

    return encoder, encode


def _regressions(x: Any, targets: Array, seed: int) -> tuple[Array, Array]:
    """Return the coefficients of all rows, and the cross-fitted predictions."""
    centred = targets - targets.mean(axis=0)
    fold = np.random.RandomState(seed).permutation(len(targets)) % TEXT_FOLDS
    crossed = np.zeros_like(centred)
    for one in range(TEXT_FOLDS):
        held = fold == one
        crossed[held] = x[held] @ _ridge(x[~held], centred[~held])
    return _ridge(x, centred), crossed


def _ridge(x: Any, targets: Array) -> Array:  # (n, d), (n, t) -> (d, t)
    """Solve the ridge regressions by some steps of conjugate gradients."""
    right: Array = x.T @ targets
    solution = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    square = (residual**2).sum(axis=0)
    for _ in range(STEPS):
        product = x.T @ (x @ direction) + RIDGE * direction
        curvature = (direction * product).sum(axis=0)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        solution += step * direction
        residual -= step * product
        before, square = square, (residual**2).sum(axis=0)
        direction = residual + np.divide(square, before, out=np.zeros_like(square), where=before > 0) * direction
    return solution


def _rounded(values: Array) -> Array:
    """Return values with a few digits, which take less room in a file."""
    size = np.floor(np.log10(np.abs(values), out=np.zeros_like(values), where=values != 0))
    scale = 10.0 ** (DIGITS - 1 - size)
    rounded: Array = np.round(values * scale) / scale
    return rounded
