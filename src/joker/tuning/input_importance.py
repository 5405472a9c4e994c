"""The importance of each input, measured with gradient boosting, and the weights of inputs that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from joker.errors import InvalidParameter

Array = NDArray[Any]
Losses = Callable[[Array, Array], Array]  # from rows and their targets to the loss of each row

AUTO = "auto"
POWERS = (0.0, 0.25, 0.5)  # of the importance: inputs are multiplied by it; the power 0 gives equal weights
MIN_WEIGHT = 0.05  # an input without importance for the boosting may still matter to a kernel
MIN_IMPORTANCE_ROWS = 500  # fewer rows do not rank a dozen inputs reliably
MAX_AUTO_INPUTS = 128  # with more inputs the measurement would take minutes, and "auto" leaves it out
MAX_AUTO_COLUMNS = 16  # the same for more classes or outputs
MAX_INPUTS = 1_024  # that relevance=True accepts
MAX_BOOSTING_ROWS = 20_000  # for two classes or one output
MANY_CLASSES_ROWS = 4_000  # boosting rows for very many classes
LOSS_ROWS_ONE_IN = 5  # rows of the boosting: one in five is held out to measure the loss on
MAX_LOSS_ROWS = 3_000  # held-out rows, at most
MAX_LOSS_ENTRIES = 2**17  # held-out rows times inputs, at most
SHUFFLES = 2  # of each input
ROUNDS_PER_TIME_CHECK = 25  # boosting rounds between two checks of the time
MAX_TREES = 200  # a round has one tree for each class
MAX_ROUNDS = 100
MIN_PROBABILITY = 1e-12  # smaller probabilities are raised to this before the logarithm
BOOSTING_BYTES = 64  # bytes of memory that the boosting takes for an entry of x, approximately


@dataclass(frozen=True, eq=False)
class InputImportance:
    """The importance of each input on the training rows of each split, as a share of the largest importance."""

    shares: Array  # (splits, d)

    def weights(self, power: float, split: int | None = None) -> Array:  # (d,)
        """The factors of the inputs: a power of their shares, in one split or averaged over all splits."""
        shares = self.shares.mean(axis=0) if split is None else self.shares[split]
        weights: Array = np.maximum((shares / shares.max()) ** power, MIN_WEIGHT)
        return weights


def max_importance_rows(d: int, columns: int, memory: int) -> int:
    """Return the number of rows of d inputs, with so many classes or outputs, that fit ``memory`` bytes."""
    wanted = max(MANY_CLASSES_ROWS, 2 * MAX_BOOSTING_ROWS // max(columns, 2))
    return max(MIN_IMPORTANCE_ROWS, min(wanted, memory // (BOOSTING_BYTES * d)))


def powers_to_try(relevance: object, d: int, rows: int, columns: int, free_bandwidths: bool) -> tuple[float, ...]:
    """Return the powers that may be tried, the first one first, for rows of d inputs and so many classes or outputs.

    ``free_bandwidths`` says whether the search chooses the bandwidths.
    """
    if isinstance(relevance, bool | np.bool_):
        if relevance and d > MAX_INPUTS:
            raise InvalidParameter(
                f"relevance=True needs at most {MAX_INPUTS:,} inputs, as each is measured by itself; got {d:,}. "
                "Use relevance=False, or leave out inputs."
            )
        return POWERS[1:] if relevance else POWERS[:1]
    if relevance != AUTO:
        raise InvalidParameter(f"relevance must be 'auto', True or False; got {relevance!r}. Leave it out for 'auto'.")
    small = 1 < d <= MAX_AUTO_INPUTS and rows >= MIN_IMPORTANCE_ROWS and columns <= MAX_AUTO_COLUMNS
    return POWERS if small and free_bandwidths else POWERS[:1]


def measure_importance(
    x: Any,  # (n, d), an array or a CSR matrix
    y: Array,  # (n,) or (n, t)
    w: Array | None,  # (n,)
    classes: bool,
    seed: int,
    out_of_time: Callable[[], bool],
) -> Array | None:  # (d,)
    """Return the increase of the loss of gradient boosting when an input is shuffled among held-out rows.

    The loss is −log p of the class, or the squared error divided by the variance, summed over outputs. The boosting is
    trained on the first rows and the last rows are held out. The result is None if time is up or no input matters.
    """
    dense = (x.toarray() if sp.issparse(x) else np.asarray(x)).astype(np.float64)
    cut = len(dense) - max(1, min(len(dense) // LOSS_ROWS_ONE_IN, MAX_LOSS_ROWS, MAX_LOSS_ENTRIES // dense.shape[1]))
    total = np.zeros(dense.shape[1])
    with threadpool_limits(1, user_api="openmp"):  # on a busy computer, threads wait for each other in every tree
        for column in _columns(y, classes):
            losses = _boosted(dense[:cut], column[:cut], None if w is None else w[:cut], classes, seed, out_of_time)
            if losses is None:
                return None
            increase = _increase(_mean_loss(losses, column[cut:], w, cut), dense[cut:], seed, out_of_time)
            if increase is None:
                return None
            total += increase
    return total if total.max() > 0 else None


def _mean_loss(losses: Losses, y: Array, w: Array | None, cut: int) -> Callable[[Array], float]:
    """The weighted mean loss of the rows at and after ``cut``, as a function of their inputs."""
    weights = None if w is None else w[cut:]
    return lambda x: float(np.average(losses(x, y), weights=weights))


def _columns(y: Array, classes: bool) -> list[Array]:
    """The outputs, each scaled to deviation 1; classes are one column of codes."""
    if classes:
        return [np.unique(y, return_inverse=True)[1].ravel()]
    columns = y.reshape(len(y), -1).astype(np.float64).T
    return [column / deviation for column in columns if (deviation := column.std()) > 0]


def _boosted(
    x: Array, y: Array, w: Array | None, classes: bool, seed: int, out_of_time: Callable[[], bool]
) -> Losses | None:
    """Fit gradient boosting and return its losses, or None if time is up or there is only one class."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    n_classes = len(np.unique(y)) if classes else 2
    if n_classes < 2:
        return None
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    model = kind(warm_start=True, early_stopping=False, random_state=seed)
    trees_per_round = 1 if n_classes == 2 else n_classes
    rounds = min(MAX_ROUNDS, max(ROUNDS_PER_TIME_CHECK, MAX_TREES // trees_per_round))
    for count in range(ROUNDS_PER_TIME_CHECK, rounds + 1, ROUNDS_PER_TIME_CHECK):
        if out_of_time():
            return None
        model.set_params(max_iter=count).fit(x, y, sample_weight=w)
    return (lambda rows, y: _log_losses(model, rows, y)) if classes else lambda rows, y: (model.predict(rows) - y) ** 2


def _log_losses(model: Any, x: Array, y: Array) -> Array:  # (n,)
    """−log p of the class of each row; 0 for a class that the model was not trained on."""
    places = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
    p = model.predict_proba(x)[np.arange(len(y)), places]
    losses: Array = -np.log(np.where(model.classes_[places] == y, np.maximum(p, MIN_PROBABILITY), 1.0))
    return losses


def _increase(
    loss: Callable[[Array], float], x: Array, seed: int, out_of_time: Callable[[], bool]
) -> Array | None:  # (d,)
    """The mean increase of a loss when an input is shuffled, 0 where it falls; None if time is up."""
    random = np.random.RandomState(seed)
    before, increase = loss(x), np.zeros(x.shape[1])
    for j in range(x.shape[1]):
        if out_of_time():
            return None
        shuffled = x.copy()
        for _ in range(SHUFFLES):
            shuffled[:, j] = x[random.permutation(len(x)), j]
            increase[j] += (loss(shuffled) - before) / SHUFFLES
    return np.maximum(increase, 0)
