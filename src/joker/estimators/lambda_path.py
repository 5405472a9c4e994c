"""The models of a λ path, and how each did on rows it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Path:
    """Every model of a path of λ.

    Attributes
    ----------
    lam : ndarray of shape (L,)
        The values of λ, in the order given.
    scores : ndarray of shape (L,)
        On the held-out rows; higher is better. Minus the mean loss, unless ``early_stopping`` names a scorer.
    models : tuple of L estimators
        A fitted estimator for each λ, ready to predict.
    """

    lam: NDArray[np.float64]
    scores: NDArray[np.float64]
    models: tuple[Any, ...] = field(repr=False)

    @property
    def best(self) -> int:
        """Where the best score is; of equal scores, that with the largest λ."""
        scores = np.nan_to_num(self.scores, nan=-np.inf)
        return int(max(range(len(self.lam)), key=lambda i: (scores[i], self.lam[i])))

    def predict(self, X: Any) -> list[NDArray[Any]]:
        """Return the predictions of each model in turn."""
        return [model.predict(X) for model in self.models]
