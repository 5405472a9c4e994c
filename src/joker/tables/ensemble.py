"""The weights of a weighted mean of models, chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROUNDS = 20  # of the greedy choice: weights are multiples of 1/20
MIN_GAIN = 1e-3  # share of the loss by which a mean must be better than the best member


def choose_weights(predictions: list[Array], loss: Callable[[Array], float], min_gain: float = MIN_GAIN) -> Array:
    """Return weights of sum 1 by greedy selection with replacement (Caruana et al., 2004).

    Parameters
    ----------
    predictions : list of ndarray
        The predictions of each member on the same held-out rows.
    loss : callable
        The loss of a mean of predictions; lower is better.
    min_gain : float
        The share of the loss by which a mean must be better than the best member.
    """
    single = [loss(one) for one in predictions]
    best = int(np.argmin(single))
    counts = np.zeros(len(predictions))
    counts[best] = 1
    total, lowest, kept = predictions[best].copy(), single[best], counts.copy()
    for size in range(2, ROUNDS + 1):
        losses = [loss((total + one) / size) for one in predictions]
        chosen = int(np.argmin(losses))
        total = total + predictions[chosen]
        counts[chosen] += 1
        if losses[chosen] < lowest:
            lowest, kept = losses[chosen], counts.copy()
    if lowest > single[best] - min_gain * abs(single[best]):
        kept = np.zeros(len(predictions))
        kept[best] = 1
    weights: Array = kept / kept.sum()
    return weights
