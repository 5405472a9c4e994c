"""Where candidates are tried: the rows, the splits, the estimator and the score that all trials share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from joker import kernels
from joker.data import Rows, Scaling
from joker.data.array_rows import cast_row_bytes, input_statistics, pick, rows_of, stored_type
from joker.errors import InvalidData
from joker.estimators import resolve
from joker.estimators.base import KernelEstimator
from joker.estimators.input_bandwidths import divided_by
from joker.estimators.scoring import score_path
from joker.kernels import Kernel
from joker.tuning.halving import OCTAVES, Candidate, Family, Trial
from joker.tuning.input_importance import Relevance, importance, most_rows
from joker.tuning.splits import Split, make_splits

LEAST_ROWS = 10
EPOCHS, BLOCK = 2, 256  # of a trial, at most: after one epoch candidates rank otherwise, after two as after ten
BLOCKS = 4  # of a trial, at least: one block would be solved to the tolerance, at any price
SCREENED, MOST_SCREENED = 300, 512  # held-out rows that the first stage is content with, of folds and of one split
SETTLED = 2_000  # held-out rows from which on an accuracy decides
SAMPLE = 256  # rows on which the size of a kernel is looked at
ALONE = {"early_stopping": False, "warm_start": False, "callbacks": None, "verbose": 0, "max_time": math.inf}


@dataclass(frozen=True, eq=False)
class Bench:
    """What all trials have in common.

    Parameters
    ----------
    estimator : KernelEstimator
        Fitted anew in each trial, with the settings of its candidate.
    score : callable
        ``score(estimator, X, y)``, with ``sample_weight`` where rows have weights.
    x, y, w : ndarray; x may be a CSR matrix or rows of a store
        All rows, their targets and weights.
    splits : list of Split
        Which rows are trained on, and which are scored on.
    unit : float
        What a candidate calls λ = 1, for a kernel with k(x, x) = 1.
    scaling : Scaling, optional
        The figures of all rows, where inputs are to be standardised.
    tell : callable, optional
        Gets each trial as an entry of the table.
    out_of_time : callable
        Whether the search has to end: then the relevance of inputs is not looked at.
    """

    estimator: KernelEstimator
    score: Callable[..., float]
    x: Any  # (n, d), an array or a CSR matrix
    y: NDArray[Any]  # (n,) or (n, t)
    w: NDArray[np.float64] | None  # (n,)
    splits: list[Split]
    unit: float
    scaling: Scaling | None = None
    tell: Callable[[dict[str, Any]], object] | None = None
    out_of_time: Callable[[], bool] = lambda: False

    def family(
        self,
        kernel: str | Kernel,
        bandwidths: Sequence[str | float] | None,
        lam: tuple[float, ...] | None,
        powers: tuple[float, ...] = (0.0,),
    ) -> Family:
        """Return the first candidates with a kernel: the bandwidths given, or shares of the median distance.

        ``powers`` are those of the relevance of inputs; where it cannot be known, they are weighted alike.
        """
        shape = kernels.get(kernel)
        if not shape.has_bandwidth:
            return Family(kernel, (1.0,), False, lam)
        powers = (0.0,) if powers[0] and self.relevance is None else powers
        if bandwidths is not None:
            given = dict.fromkeys(self._sigma(rule, shape, powers[0]) for rule in bandwidths)
            return Family(kernel, tuple(given), False, lam, powers)
        median = self._sigma("median", shape, powers[0])
        return Family(kernel, tuple(median * share for share in OCTAVES), True, lam, powers)

    def weigh(self, candidate: Candidate, power: float) -> Candidate | None:
        """Return a candidate with inputs weighted anew, and the bandwidth that is the same share of the median."""
        if self.relevance is None:
            return None
        shape = kernels.get(candidate.family.kernel)
        share = candidate.bandwidth / self._sigma("median", shape, candidate.power)
        return replace(candidate, power=power, bandwidth=share * self._sigma("median", shape, power))

    @cached_property
    def relevance(self) -> Relevance | None:
        """How much each input matters, read off training rows of each split; None where time is up or none does."""
        found = [self._importance(split.train) for split in self.splits]
        known = [shares for shares in found if shares is not None]
        return Relevance(np.stack([shares / shares.max() for shares in known])) if len(known) == len(found) else None

    def bandwidth(self, candidate: Candidate, split: int | None = None) -> Any:
        """Return the bandwidth of an estimator: a number, or one for each input where their relevance counts."""
        if not candidate.power:
            return candidate.bandwidth
        assert self.relevance is not None
        return candidate.bandwidth / self.relevance.weights(candidate.power, split)

    def run(self, stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        """Fit a candidate on the first rows of the splits and judge each λ on the rows held out."""
        started = time.perf_counter()
        every = [self._judge(candidate, k, rows, self._held(stage, k)) for k in range(self._count(stage))]
        losses, scores = np.mean(every, axis=0)
        seconds = (time.perf_counter() - started) / len(scores)
        found = zip(candidate.lam, np.nan_to_num(losses, nan=np.inf), np.nan_to_num(scores, nan=-np.inf), strict=True)
        trials = [Trial(stage, rows, candidate, lam, float(loss), float(score), seconds) for lam, loss, score in found]
        if self.tell is not None:
            for trial in trials:
                self.tell(self.entry(trial))
        return trials

    @property
    def accurate(self) -> bool:
        """Whether accuracy is what is wanted, and enough rows are held out for it to tell λ apart."""
        weighted = self.estimator.get_params().get("class_weight") is not None
        return is_classifier(self.estimator) and not weighted and len(self.splits[0].held) >= SETTLED

    def n_features(self, kernel: str | Kernel) -> int | None:
        """Return how many features the fit on all rows will have; None is the kernel itself."""
        given = self.estimator
        return resolve.n_features(given.n_features, given.features, kernels.get(kernel), *self.x.shape)

    def entry(self, trial: Trial) -> dict[str, Any]:
        """Return a trial as a row of the table."""
        candidate = trial.candidate
        return {
            "stage": trial.stage,
            "rows": trial.rows,
            "kernel": candidate.family.kernel,
            "bandwidth": candidate.bandwidth,
            "relevance": candidate.power,
            "lam": self._unit(candidate) * trial.lam,
            "loss": trial.loss,
            "score": trial.score,
            "seconds": trial.seconds,
        }

    @property
    def columns(self) -> int:
        """The number of classes or outputs."""
        return len(np.unique(self.y)) if is_classifier(self.estimator) else self.y.size // len(self.y)

    def _importance(self, train: NDArray[np.intp]) -> NDArray[Any] | None:
        rows = train[: most_rows(self.x.shape[1], self.columns, self._memory)]
        weights, seed = self._weights(rows).get("sample_weight"), self.estimator.random_state
        assert isinstance(seed, int)
        return importance(
            self._pick(rows), self.y[rows], weights, is_classifier(self.estimator), seed, self.out_of_time
        )

    @property
    def _memory(self) -> int:
        return resolve.memory(self.estimator.memory, torch.device(self.estimator.device or "cpu"))

    def _count(self, stage: int) -> int:
        """How many splits: all; the first stage makes do with as many as hold out some hundred rows."""
        enough = math.ceil(SCREENED / len(self.splits[0].held))
        return min(enough, len(self.splits)) if stage == 0 else len(self.splits)

    def _held(self, stage: int, k: int) -> NDArray[np.intp]:
        """The rows to judge on: all that are held out; in the first stage some, spread over the classes like all."""
        held = self.splits[k].held
        count = min(MOST_SCREENED, len(held)) if stage == 0 else len(held)
        return held[np.arange(count) * len(held) // count]

    def _judge(self, candidate: Candidate, k: int, size: int, held: NDArray[np.intp]) -> Any:  # (2, λ)
        rows = np.sort(self.splits[k].train[:size])
        model, few = self._model(candidate, k, len(rows)), rows[:1]
        # With an eval_set no rows of these are held out; which rows it has does not matter here.
        model.fit(self._pick(rows), self.y[rows], **self._weights(rows), eval_set=(self._pick(few), self.y[few]))
        if is_classifier(model):
            held = held[np.isin(self.y[held], model.classes_)]  # a class of one row may be missing
        x, y, weights = self._pick(held), self.y[held], self._weights(held)
        sample = model._sample(x, y, weights.get("sample_weight"))
        return score_path(model.path_.models, sample, lambda one: self.score(one, x, y, **weights))

    def _model(self, candidate: Candidate, k: int, n: int) -> Any:
        given, unit, kernel = self.estimator, self._unit(candidate), candidate.family.kernel
        return clone(given).set_params(
            kernel=kernel,
            bandwidth=self.bandwidth(candidate, k),
            lam=[unit * lam for lam in candidate.lam],
            n_features=self.n_features(kernel),  # what features blur is part of what is compared
            block_size=_at_most(self._block_size(n), given.block_size),
        )

    def _block_size(self, n: int) -> int:
        room = resolve.block_size(resolve.AUTO, n, cast_row_bytes(self.x), self._memory)
        return max(1, min(BLOCK, n // BLOCKS, room))

    def _weights(self, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        return {} if self.w is None else {"sample_weight": self.w[rows]}

    def _unit(self, candidate: Candidate) -> float:
        """The λ that a candidate calls 1: 1 itself where the user gave them."""
        if candidate.family.lam is not None:
            return 1.0
        kernel = kernels.get(candidate.family.kernel, candidate.bandwidth)
        few = self._rows(self._pick(np.sort(self.splits[0].train[:SAMPLE])), candidate.power)
        return self.unit * float(kernel.diag(few[:].double()).mean())

    def _sigma(self, rule: str | float, shape: Kernel, power: float) -> float:
        w, seed = None if self.w is None else torch.as_tensor(self.w), self.estimator.random_state
        assert isinstance(seed, int)
        return resolve.sigma(rule, shape, shape, self._rows(self.x, power), w, seed)

    def _pick(self, rows: NDArray[np.intp]) -> Any:
        return pick(self.x, rows)

    def _rows(self, x: Any, power: float) -> Rows:
        """Rows as a kernel sees them, with inputs weighted."""
        scaling = self.scaling
        if power:
            assert self.relevance is not None
            scaling = divided_by(scaling, 1 / self.relevance.weights(power))
        wide = torch.float64 if stored_type(x) == np.float64 else torch.float32
        return rows_of(x, wide, torch.device("cpu"), copy=False, scaling=scaling)


def make_bench(
    model: KernelEstimator,
    score: Callable[..., float],
    x: Any,
    y: NDArray[Any],
    w: NDArray[np.float64] | None,
    place: torch.device,
    tell: Callable[[dict[str, Any]], object] | None,
    out_of_time: Callable[[], bool],
) -> Bench:
    """Split the rows and make the estimator quick."""
    random = check_random_state(model.random_state)
    seed = int(random.randint(2**31 - 1))
    quick = clone(model).set_params(
        max_epochs=_at_most(EPOCHS, model.max_epochs), random_state=seed, device=place, **ALONE
    )
    if hasattr(quick, "set_callbacks"):
        quick.set_callbacks()  # those of scikit-learn watch the fit on all rows only; clone has kept them
    n = x.shape[0]
    counted = np.arange(n) if w is None else np.flatnonzero(w)
    if len(counted) < LEAST_ROWS:
        raise InvalidData(
            f"tune needs at least {LEAST_ROWS} rows of positive weight; got {len(counted)}. "
            "Add rows, or fit an estimator."
        )
    codes = np.unique(y, return_inverse=True)[1].ravel() if is_classifier(model) else np.zeros(n, np.intp)
    splits, unit = make_splits(counted, codes, random), unit_of_penalty(model, y, w)
    return Bench(quick, score, x, y, w, splits, unit, _scaling(model, x, w), tell, out_of_time)


def _scaling(model: KernelEstimator, x: Any, w: NDArray[np.float64] | None) -> Scaling | None:
    if not resolve.flag("standardize", model.standardize):
        return None
    return input_statistics(x, w)


def unit_of_penalty(model: KernelEstimator, y: NDArray[Any], w: NDArray[np.float64] | None) -> float:
    """Return the λ that means for a loss what λ = 1 means for the squared loss.

    That is the loss of predicting 0 over half the mean square of the targets: then a λ is as strong whatever the
    loss, and whatever y and the weights are measured in.
    """
    targets = torch.ones(1, 1, dtype=torch.float64)
    if not is_classifier(model):
        counted = y if w is None else y[w > 0]
        targets = torch.tensor(counted.reshape(len(counted), -1), dtype=torch.float64)
        targets = targets - targets.mean(dim=0)
    weight = 1.0 if w is None else float(w[w > 0].mean())
    loss = float(model._loss().value(targets, torch.zeros_like(targets)).mean())
    square = float(targets.square().mean()) / 2
    unit = weight * loss / square if square > 0 else 0.0
    return unit if 0 < unit < math.inf else 1.0


def _at_most(limit: int, given: Any) -> Any:
    """The setting given where it is a smaller number, or no number at all; else the limit."""
    if isinstance(given, Real):
        return min(given, limit)
    return limit if given == resolve.AUTO else given
