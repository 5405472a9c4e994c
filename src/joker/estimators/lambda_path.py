"""The models of a path of λ, with their scores on held-out rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import EdgeOfPath


@dataclass(frozen=True, eq=False)
class Path:
    """Every model of a path of λ.

    Attributes
    ----------
    lam : ndarray of shape (L,)
        The values of λ, in the order given.
    scores : ndarray of shape (L,)
        The scores on the held-out rows; higher is better. They are minus the mean loss (of the scaled targets, for a
        regressor), unless ``early_stopping`` names a scorer, and NaN without held-out rows.
    models : tuple of L estimators
        A fitted estimator for each λ.
    """

    lam: NDArray[np.float64]
    scores: NDArray[np.float64]
    models: tuple[Any, ...] = field(repr=False)

    @property
    def best(self) -> int:
        """The index of the best score; of equal scores, that with the largest λ."""
        scores = np.nan_to_num(self.scores, nan=-np.inf)
        return int(max(range(len(self.lam)), key=lambda i: (scores[i], self.lam[i])))

    def warn_at_the_edge(self) -> None:
        """Warn if the best of at least three λ is the smallest or the largest."""
        if len(set(self.lam)) < 3 or not np.isfinite(self.scores).all():
            return
        best = float(self.lam[self.best])
        for edge, word, next_one in ((self.lam.min(), "smallest", 0.1), (self.lam.max(), "largest", 10.0)):
            if best == edge:
                warnings.warn(
                    f"lam_ is the {word} value of lam, {best:g}: it has the best score on the held-out rows, and one "
                    f"outside the path may have a better score. Extend lam, for example by {next_one * best:g}.",
                    EdgeOfPath,
                    stacklevel=2,
                )

    def predict(self, X: Any) -> list[NDArray[Any]]:
        """Return the predictions of each model."""
        return [model.predict(X) for model in self.models]
