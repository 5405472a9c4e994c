"""How much each input matters, by a boosting that takes less time than a trial, and the weights that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from joker.errors import InvalidParameter

Array = NDArray[Any]
Losses = Callable[[Array, Array], Array]  # of rows and their targets

AUTO = "auto"
POWERS = (0.0, 0.25, 0.5)  # of the importance that inputs are weighted by: 0 weighs all alike
FLOOR = 0.05  # the least weight: what a boosting has no use for may yet say something
LEAST_ROWS = 500  # fewer say little of a dozen inputs
MOST_INPUTS, MOST_COLUMNS = 128, 16  # of what is looked at without being told to: more would take minutes
WIDEST = 1_024  # inputs that are looked at at all
MOST_ROWS, FEWER_ROWS = 20_000, 4_000  # of the boosting, of two classes and of very many
HELD, MOST_HELD, HELD_ENTRIES = 5, 3_000, 2**17  # one row in five is held out, at most so many, with so many entries
REPEATS = 2  # of shuffling an input
STEP, TREES = 25, 200  # rounds between two looks at the clock, and trees in all; a round has one for each class
MOST_ROUNDS = 100
TINY = 1e-12  # a probability below which the logarithm is not taken
SCRATCH = 64  # bytes that a boosting takes for an entry, about


@dataclass(frozen=True, eq=False)
class Relevance:
    """How much each input matters in the training rows of each split, as a share of the input that matters most."""

    shares: Array  # (splits, d)

    def weights(self, power: float, split: int | None = None) -> Array:  # (d,)
        """What inputs are multiplied by: a power of their shares, in one split or on the average of all."""
        shares = self.shares.mean(axis=0) if split is None else self.shares[split]
        found: Array = np.maximum((shares / shares.max()) ** power, FLOOR)
        return found


def most_rows(d: int, columns: int, memory: int) -> int:
    """Return how many rows of d inputs and so many classes to look at, within some bytes of memory."""
    wanted = max(FEWER_ROWS, 2 * MOST_ROWS // max(columns, 2))
    return max(LEAST_ROWS, min(wanted, memory // (SCRATCH * d)))


def powers_of(given: object, d: int, rows: int, columns: int, free: bool) -> tuple[float, ...]:
    """Return the powers that may be tried, the first one first, for rows of d inputs and so many classes or outputs.

    ``free`` tells whether the search may choose the bandwidths.
    """
    if isinstance(given, bool | np.bool_):
        if given and d > WIDEST:
            raise InvalidParameter(
                f"relevance=True needs at most {WIDEST:,} inputs, as each is looked at by itself; got {d:,}. "
                "Use relevance=False, or leave out inputs."
            )
        return POWERS[1:] if given else POWERS[:1]
    if given != AUTO:
        raise InvalidParameter(f"relevance must be 'auto', True or False; got {given!r}. Leave it out for 'auto'.")
    small = 1 < d <= MOST_INPUTS and rows >= LEAST_ROWS and columns <= MOST_COLUMNS
    return POWERS if small and free else POWERS[:1]


def importance(
    x: Any,  # (n, d), an array or a CSR matrix
    y: Array,  # (n,) or (n, t)
    w: Array | None,  # (n,)
    classes: bool,
    seed: int,
    out_of_time: Callable[[], bool],
) -> Array | None:  # (d,)
    """Return by how much the loss of a boosting grows when an input is shuffled among rows that it has not seen.

    The loss is −log p of the class, or the square of the error over the variance, summed over outputs. The first rows
    are trained on. None where time is up, or no input matters.
    """
    dense = (x.toarray() if sp.issparse(x) else np.asarray(x)).astype(np.float64)
    cut = len(dense) - max(1, min(len(dense) // HELD, MOST_HELD, HELD_ENTRIES // dense.shape[1]))
    total = np.zeros(dense.shape[1])
    for column in _columns(y, classes):
        losses = _boosted(dense[:cut], column[:cut], None if w is None else w[:cut], classes, seed, out_of_time)
        found = None if losses is None else _growth(_mean(losses, column[cut:], w, cut), dense[cut:], seed, out_of_time)
        if found is None:
            return None
        total += found
    return total if total.max() > 0 else None


def _mean(losses: Losses, y: Array, w: Array | None, cut: int) -> Callable[[Array], float]:
    """The mean of the losses of the rows from ``cut`` on."""
    weights = None if w is None else w[cut:]
    return lambda x: float(np.average(losses(x, y), weights=weights))


def _columns(y: Array, classes: bool) -> list[Array]:
    """The outputs, each with deviation 1; classes are one."""
    if classes:
        return [np.unique(y, return_inverse=True)[1].ravel()]
    columns = y.reshape(len(y), -1).astype(np.float64).T
    return [column / spread for column in columns if (spread := column.std()) > 0]


def _boosted(
    x: Array, y: Array, w: Array | None, classes: bool, seed: int, out_of_time: Callable[[], bool]
) -> Losses | None:
    """Fit a boosting; return the losses of rows by it, or None where time is up or there is but one class."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    several = len(np.unique(y)) if classes else 2
    if several < 2:
        return None
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    model = kind(warm_start=True, early_stopping=False, random_state=seed)
    rounds = min(MOST_ROUNDS, max(STEP, TREES // (1 if several == 2 else several)))
    for count in range(STEP, rounds + 1, STEP):
        if out_of_time():
            return None
        model.set_params(max_iter=count).fit(x, y, sample_weight=w)
    return (lambda rows, y: _surprise(model, rows, y)) if classes else (lambda rows, y: (model.predict(rows) - y) ** 2)


def _surprise(model: Any, x: Array, y: Array) -> Array:  # (n,)
    """−log p of the class of each row; of a class that the model does not know it is the same for all rows."""
    places = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
    p = model.predict_proba(x)[np.arange(len(y)), places]
    found: Array = -np.log(np.where(model.classes_[places] == y, np.maximum(p, TINY), 1.0))
    return found


def _growth(
    loss: Callable[[Array], float], x: Array, seed: int, out_of_time: Callable[[], bool]
) -> Array | None:  # (d,)
    """By how much a loss grows, on the average, when an input is shuffled; 0 where it falls."""
    random = np.random.RandomState(seed)
    before, found = loss(x), np.zeros(x.shape[1])
    for j in range(x.shape[1]):
        if out_of_time():
            return None
        shuffled = x.copy()
        for _ in range(REPEATS):
            shuffled[:, j] = x[random.permutation(len(x)), j]
            found[j] += (loss(shuffled) - before) / REPEATS
    grown: Array = np.maximum(found, 0)
    return grown
