"""The runner of trials: the rows, the splits, the estimator and the score that all trials share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from numbers import Real
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from joker import kernels
from joker.data import Rows, Scaling
from joker.data.arrays import cast_row_bytes, input_statistics, pick, rows_of, stored_type
from joker.distributed import current
from joker.errors import InvalidData
from joker.estimators import resolve
from joker.estimators.estimator import KernelEstimator
from joker.estimators.inputs import LabelledRows
from joker.estimators.regression import KernelQuantile, level_residuals
from joker.estimators.resolve import divided_by
from joker.estimators.scoring import log_link_of, mean_loss_at_zero, score_path
from joker.kernels import Kernel
from joker.runtime.devices import one_thread
from joker.solvers.problem import AUTO
from joker.tuning.ard import MATERN12, STEPS, FeatureWeights, ard_samples, fit_ard, minibatches, search_sample_rows
from joker.tuning.halving import FIRST_BANDWIDTHS, Candidate, Family, TimeBudget, Trial
from joker.tuning.splits import Split, has_rare_class, make_splits, scorable_splits, screening_rows


@dataclass(frozen=True, eq=False)
class TrialFit:
    """One fit of a trial. It has no rows, so that it is small enough to be sent."""

    estimator: Any
    split: int
    rows: int
    stage: int


@dataclass(frozen=True, eq=False)
class TrialResult:
    """The result of one fit of a trial."""

    scores: tuple[list[float], list[float]]  # the loss and the score of each λ
    seconds: float


class Runner(Protocol):
    """What has the rows, and can be sent to another process."""

    def fit_and_score(self, fit: TrialFit) -> TrialResult: ...

    def to_send(self) -> Runner: ...


Part = TypeVar("Part")
Result = TypeVar("Result")


class TrialWorkers:
    """Runs the fits of trials. This class runs them one after the other, in this process."""

    def run(self, runner: Runner, fits: Sequence[TrialFit]) -> list[TrialResult]:
        """Return the results of fits that do not depend on each other, in their order."""
        return [runner.fit_and_score(fit) for fit in fits]

    def map(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
        """Yield the results of other independent work, in the order of its parts."""
        return map(work, parts)


IN_TURN = TrialWorkers()
_active: list[TrialWorkers] = [IN_TURN]


def current_workers() -> TrialWorkers:
    """Return what runs the fits of trials in this process."""
    return _active[-1]


@contextmanager
def trials_on(workers: TrialWorkers) -> Iterator[None]:
    """Let workers run the trials of the searches inside."""
    _active.append(workers)
    try:
        yield
    finally:
        _active.remove(workers)


MIN_TUNING_ROWS = 10
TRIAL_EPOCHS = 2  # with features, at most: after one epoch the ranking of candidates differs, after two it is settled
# With the exact kernel, at most: small λ and narrow bandwidths are ranked rightly only where they are nearly solved.
EXACT_TRIAL_EPOCHS, SQUARED_TRIAL_EPOCHS = 4, 40
TRIAL_TOL = 1e-2
TRIAL_BLOCK_ROWS = 256  # at most
EXACT_TRIAL_BLOCK_ROWS = 512  # the same with the exact kernel
MIN_TRIAL_BLOCKS = 4  # a single block would be solved to the tolerance, however long that takes
SCREENING_ROWS_OF_FOLDS = 300  # held-out rows, at least: the first stage runs only the folds that these need
SCREENING_ROWS = 512  # held-out rows of a split that the first stage scores on, at most
MIN_ACCURACY_ROWS = 2_000  # held-out rows: with fewer, the accuracy is too noisy to choose λ by
ARD_BYTES = 16  # of memory for an input of a row, while feature weights are fitted
DIAGONAL_ROWS = 256  # rows over which the mean of k(x, x) is computed
TRIAL_SETTINGS = {"early_stopping": False, "warm_start": False, "callbacks": None, "verbose": 0, "max_time": math.inf}


@dataclass(frozen=True, eq=False)
class TrialRunner:
    """Runs trials on shared rows."""

    estimator: KernelEstimator  # cloned and fitted in each trial, with the settings of its candidate
    scorer: Callable[..., float]  # of an estimator, X and y, with sample_weight where rows have weights
    x: Any  # (n, d), an array, a CSR matrix or rows of a store
    y: NDArray[Any]  # (n,) or (n, t)
    w: NDArray[np.float64] | None  # (n,)
    codes: NDArray[np.intp]  # (n,), the class of each row; 0 for numbers
    rare: bool  # whether a class is rare
    splits: list[Split]  # the rows that trials are trained on and scored on
    lam_scale: float  # the λ that a candidate calls 1, for a kernel with k(x, x) = 1
    scaling: Scaling | None = None  # mean and deviation of all rows, where inputs are standardised
    report: Callable[[dict[str, Any]], object] | None = None  # called with each trial, as an entry of the table
    limit: TimeBudget = field(
        default_factory=TimeBudget
    )  # at whose end a trial ends too, and feature weights are not fitted
    workers: TrialWorkers = IN_TURN  # what runs the fits of trials

    def family(
        self,
        kernel: str | Kernel,
        bandwidths: Sequence[str | float] | None,
        lam: tuple[float, ...] | None,
        powers: tuple[float, ...] = (0.0,),
    ) -> Family:
        """Return the first candidates with a kernel: the bandwidths given, or multiples of the median distance.

        ``powers`` are the powers of the feature weights. Without time to fit them, inputs have equal weights.
        """
        shape = kernels.get(kernel)
        if not shape.has_bandwidth:
            return Family(kernel, (1.0,), False, lam)
        powers = (0.0,) if powers[0] and self.feature_weights is None else powers
        if bandwidths is not None:
            given = dict.fromkeys(self._sigma(rule, shape, powers[0]) for rule in bandwidths)
            return Family(kernel, tuple(given), False, lam, powers)
        median = self._sigma("median", shape, powers[0])
        return Family(kernel, tuple(median * share for share in FIRST_BANDWIDTHS), True, lam, powers)

    def default(self, given: KernelEstimator, families: Sequence[Family]) -> Candidate | None:
        """Return the candidate that the estimator is without a search; None if its kernel is not to be tried.

        So is an estimator with a bandwidth of its own for each input.
        """
        family = next((family for family in families if family.kernel == given.kernel), None)
        if family is None or not isinstance(given.bandwidth, str | Real):
            return None
        shape = kernels.get(given.kernel)
        w = None if self.w is None else torch.as_tensor(self.w)
        rows = self._rows(self.x, 0.0)
        sigma = resolve.sigma(given.bandwidth, given.kernel, shape, rows, w, self._seed) if shape.has_bandwidth else 1.0
        candidate = Candidate(family, sigma, family.lam or (1.0,))
        if family.lam is None:
            candidate = replace(candidate, lam=(resolve.penalties(given.lam)[0] / self._lam_scale(candidate),))
        return candidate

    def reweight(self, candidate: Candidate, power: float) -> Candidate | None:
        """Return a candidate with other weights of inputs, and the bandwidth that is the same share of the median."""
        if self.feature_weights is None:
            return None
        shape = kernels.get(candidate.family.kernel)
        share = candidate.bandwidth / self._sigma("median", shape, candidate.power)
        return replace(candidate, power=power, bandwidth=share * self._sigma("median", shape, power))

    @cached_property
    def feature_weights(self) -> FeatureWeights | None:
        """The ARD weights that the training rows of each split have; None if time is up."""
        found = [self._fit_ard(split.train) for split in self.splits]
        weights = [one for one in found if one is not None]
        return FeatureWeights(np.stack(weights)) if len(weights) == len(found) else None

    def bandwidth(self, candidate: Candidate, split: int | None = None) -> Any:
        """Return the bandwidth for an estimator: a number, or one for each input where inputs are weighted."""
        if not candidate.power:
            return candidate.bandwidth
        assert self.feature_weights is not None
        return candidate.bandwidth / self.feature_weights.power(candidate.power, split)

    def run(self, stage: int, rows: int, candidates: Sequence[Candidate]) -> list[list[Trial]]:
        """Fit each candidate on the first ``rows`` rows of each split, and score each λ on the held-out rows.

        Candidates that are run in turn are left out when time is up, except the first one.
        """
        trials: list[list[Trial]] = []
        for some in [[one] for one in candidates] if self.workers is IN_TURN else [candidates]:
            if trials and self.limit.is_over():
                break
            trials += self._run(stage, rows, some)
        return trials

    def _run(self, stage: int, rows: int, candidates: Sequence[Candidate]) -> list[list[Trial]]:
        splits = range(self._splits(stage))
        fits = [TrialFit(self._model(candidate, k, rows), k, rows, stage) for candidate in candidates for k in splits]
        results = self.workers.run(self, fits)
        trials = [
            self._trials(stage, rows, candidate, results[i * len(splits) : (i + 1) * len(splits)])
            for i, candidate in enumerate(candidates)
        ]
        if self.report is not None:
            for trial in chain(*trials):
                self.report(self.entry(trial))
        return trials

    def fit_and_score(self, fit: TrialFit) -> TrialResult:
        """Fit the estimator of a trial on the rows of one split, and score each λ on its held-out rows."""
        started = time.perf_counter()
        with one_thread(torch.device(fit.estimator.device or "cpu").type == "cpu"):  # equal results on any cores
            model = fit.estimator.set_params(max_time=self.limit.left)
            model.fit_sample(self._labelled(self._training_rows(fit.split, fit.rows)))
            held = self._held(fit.stage, fit.split)
            if is_classifier(model):
                held = held[np.isin(self.y[held], model.classes_)]  # a class of one row may have no training row
            scores = score_path(model.path_.models, self._labelled(held), self.scorer)
        return TrialResult(scores, time.perf_counter() - started)

    def to_send(self) -> TrialRunner:
        """Return the runner as another process needs it for `fit_and_score`."""
        return replace(self, report=None, limit=TimeBudget(), workers=IN_TURN)

    def held_out_levels(
        self, model: KernelQuantile, best: Candidate, rows: int
    ) -> tuple[Any, Any]:  # (n, levels), (n,)
        """Return the residuals of the held-out rows for each level of a quantile machine, and their weights.

        ``model`` has the settings of the winner, and is fitted on at most ``rows`` training rows of each split.
        """
        residuals, weights = [], []
        for k, split in enumerate(self.splits):
            some = self._training_rows(k, rows)
            one = clone(model).set_params(bandwidth=self.bandwidth(best, k), random_state=self._seed, **TRIAL_SETTINGS)
            x, y, w = self._labelled(split.held)
            residuals.append(level_residuals(one.fit_sample(self._labelled(some)), x, y))
            weights.append(w)
        return np.concatenate(residuals), None if self.w is None else np.concatenate(weights)

    @property
    def accuracy_decides(self) -> bool:
        """Whether accuracy chooses λ: for classifiers without weighted or rare classes, if enough rows are held out."""
        weighted = self.estimator.get_params().get("class_weight") is not None
        enough = len(self.splits[0].held) >= MIN_ACCURACY_ROWS
        return is_classifier(self.estimator) and not weighted and not self.rare and enough

    def n_features(self, kernel: str | Kernel) -> int | None:
        """Return the number of features of the fit on all rows; None stands for the exact kernel."""
        given, (n, d) = self.estimator, self.x.shape
        place = torch.device(given.device or "cpu")
        return resolve.n_features(given.n_features, given.features, kernels.get(kernel), n, d, place)

    def entry(self, trial: Trial) -> dict[str, Any]:
        """Return a trial as a row of the table."""
        candidate = trial.candidate
        return {
            "stage": trial.stage,
            "rows": trial.rows,
            "kernel": candidate.family.kernel,
            "bandwidth": candidate.bandwidth,
            "relevance": candidate.power,
            "lam": self._lam_scale(candidate) * trial.lam,
            "loss": trial.loss,
            "score": trial.score,
            "seconds": trial.seconds,
        }

    @property
    def columns(self) -> int:
        """The number of classes or outputs."""
        return len(np.unique(self.y)) if is_classifier(self.estimator) else self.y.size // len(self.y)

    def _fit_ard(self, train: NDArray[np.intp]) -> NDArray[Any] | None:  # (d,)
        d, classes = self.x.shape[1], self.columns if is_classifier(self.estimator) else 0
        m = search_sample_rows(len(train), self._memory)
        rows = train[: max(m, min(STEPS * m, self._memory // (ARD_BYTES * d)))]
        x = self._rows(pick(self.x, rows), 0.0)[:].float().numpy()
        y, w = (self.codes if classes else self.y)[rows], None if self.w is None else self.w[rows]
        samples = ard_samples(minibatches(np.arange(len(rows)), m, self._seed), y, classes, w)
        found = fit_ard(x, np.arange(d), samples, MATERN12, self.limit.is_over)
        return None if found is None else np.array(current().numbers(*found.weights(np.arange(d))))  # equal in all

    @property
    def _memory(self) -> int:
        return resolve.memory(self.estimator.memory, torch.device(self.estimator.device or "cpu"))

    @property
    def _seed(self) -> int:
        seed = self.estimator.random_state
        assert isinstance(seed, int)
        return seed

    def _splits(self, stage: int) -> int:
        """The number of splits to run: all of them; in the first stage, as many as hold out some hundred rows."""
        enough = math.ceil(SCREENING_ROWS_OF_FOLDS / len(self.splits[0].held))
        return min(enough, len(self.splits)) if stage == 0 and not self.rare else len(self.splits)

    def _held(self, stage: int, k: int) -> NDArray[np.intp]:
        """The rows to score on: all that are held out; in the first stage some."""
        held = self.splits[k].held
        return screening_rows(held, self.codes, SCREENING_ROWS, self.rare) if stage == 0 else held

    def _training_rows(self, k: int, size: int) -> NDArray[np.intp]:
        return np.sort(self.splits[k].train[:size])

    @staticmethod
    def _trials(stage: int, rows: int, candidate: Candidate, results: Sequence[TrialResult]) -> list[Trial]:
        """The trials of a candidate from the results of its splits, one for each λ."""
        losses, scores = np.mean([result.scores for result in results], axis=0)
        seconds = sum(result.seconds for result in results) / len(scores)
        columns = zip(candidate.lam, np.nan_to_num(losses, nan=np.inf), np.nan_to_num(scores, nan=-np.inf), strict=True)
        return [Trial(stage, rows, candidate, lam, float(loss), float(score), seconds) for lam, loss, score in columns]

    def _model(self, candidate: Candidate, k: int, size: int) -> Any:
        n = len(self._training_rows(k, size))
        given, scale, kernel = self.estimator, self._lam_scale(candidate), candidate.family.kernel
        m = self.n_features(kernel)
        return clone(given).set_params(
            kernel=kernel,
            bandwidth=self.bandwidth(candidate, k),
            lam=[scale * lam for lam in candidate.lam],
            n_features=m,  # the error of random features is part of what is compared
            max_epochs=_at_most(self._epochs(m), given.max_epochs),
            block_size=_at_most(self._block_size(n, m), given.block_size),
        )

    def _epochs(self, m: int | None) -> int:
        """The epochs of a trial with m features, or with the exact kernel."""
        if m is not None:
            return TRIAL_EPOCHS
        return SQUARED_TRIAL_EPOCHS if resolve.is_linear_system(self.estimator) else EXACT_TRIAL_EPOCHS

    def _block_size(self, n: int, m: int | None) -> int:
        room = resolve.block_room(self._memory, cast_row_bytes(self.x)) or n
        most = EXACT_TRIAL_BLOCK_ROWS if m is None else TRIAL_BLOCK_ROWS
        return max(1, min(most, n // MIN_TRIAL_BLOCKS, room))

    def _labelled(self, rows: NDArray[np.intp]) -> LabelledRows:
        """Some of the rows, with their targets and weights."""
        return pick(self.x, rows), self.y[rows], None if self.w is None else self.w[rows]

    def _lam_scale(self, candidate: Candidate) -> float:
        """The λ that a candidate calls 1; it is 1 where the user gave the λ."""
        if candidate.family.lam is not None:
            return 1.0
        kernel = kernels.get(candidate.family.kernel, candidate.bandwidth)
        rows = self._rows(pick(self.x, np.sort(self.splits[0].train[:DIAGONAL_ROWS])), candidate.power)
        return self.lam_scale * float(kernel.diag(rows[:].double()).mean())

    def _sigma(self, rule: str | float, shape: Kernel, power: float) -> float:
        w = None if self.w is None else torch.as_tensor(self.w)
        return resolve.sigma(rule, shape, shape, self._rows(self.x, power), w, self._seed)

    def _rows(self, x: Any, power: float) -> Rows:
        """Rows as a kernel is given them, with weighted inputs."""
        scaling = self.scaling
        if power:
            assert self.feature_weights is not None
            scaling = divided_by(scaling, 1 / self.feature_weights.power(power))
        wide = torch.float64 if stored_type(x) == np.float64 else torch.float32
        return rows_of(x, wide, torch.device("cpu"), copy=False, scaling=scaling)


def make_trial_runner(
    model: KernelEstimator,
    scorer: Callable[..., float],
    x: Any,
    y: NDArray[Any],
    w: NDArray[np.float64] | None,
    place: torch.device,
    report: Callable[[dict[str, Any]], object] | None,
    limit: TimeBudget,
    splits: Sequence[Split] | None = None,
) -> TrialRunner:
    """Split the rows, unless splits are given, and give the estimator the short settings of a trial."""
    random = check_random_state(model.random_state)
    seed = current().decide(int(random.randint(2**31 - 1)))
    short = clone(model).set_params(tol=max(model.tol, TRIAL_TOL), random_state=seed, device=place, **TRIAL_SETTINGS)
    if hasattr(short, "set_callbacks"):
        short.set_callbacks()  # clone keeps the callbacks of scikit-learn, which are for the fit on all rows only
    n = x.shape[0]
    weighted_rows = np.arange(n) if w is None else np.flatnonzero(w)
    if len(weighted_rows) < MIN_TUNING_ROWS:
        raise InvalidData(
            f"tune needs at least {MIN_TUNING_ROWS} rows of positive weight; got {len(weighted_rows)}. "
            "Add rows, or fit an estimator."
        )
    codes = np.unique(y, return_inverse=True)[1].ravel() if is_classifier(model) else np.zeros(n, np.intp)
    rare = has_rare_class(codes[weighted_rows])
    splits = list(splits) if splits is not None else make_splits(weighted_rows, codes, random, rare)
    if is_classifier(model):
        splits = scorable_splits(splits, codes)
    scale = penalty_scale(model, y, w)
    model.set_params(standardize=resolve.standardizes(model.standardize, kernels.Gaussian(), AUTO, x, w))
    short.set_params(standardize=model.standardize)
    scaling = input_statistics(x, w) if model.standardize else None
    workers = current_workers()
    return TrialRunner(short, scorer, x, y, w, codes, rare, splits, scale, scaling, report, limit, workers)


def penalty_scale(model: KernelEstimator, y: NDArray[Any], w: NDArray[np.float64] | None) -> float:
    """Return the λ that is as strong for a loss as λ = 1 is for the squared loss.

    It is the mean loss of predicting 0, divided by half the mean square of the targets. A multiple of it is equally
    strong for every loss, and for every unit of y and of the weights.
    """
    targets = torch.ones(1, 1, dtype=torch.float64)
    if not is_classifier(model):
        counted = y if w is None else y[w > 0]
        targets = torch.tensor(counted.reshape(len(counted), -1), dtype=torch.float64)
        if (loss := log_link_of(model)) is not None:  # its curvature at the mean, of targets scaled or not
            weight = 1.0 if w is None else float(w[w > 0].mean())
            mean = 1.0 if model.get_params()["scale_target"] else float(targets.mean())
            return weight * mean**loss.s if mean > 0 else 1.0
        targets = targets - targets.mean(dim=0)
        if model.get_params()["scale_target"]:
            targets = targets / targets.square().mean(dim=0).sqrt().where(targets.any(dim=0), 1.0)
    weight = 1.0 if w is None else float(w[w > 0].mean())
    square = float(targets.square().mean()) / 2
    unit = weight * mean_loss_at_zero(model, targets) / square if square > 0 else 0.0
    return unit if 0 < unit < math.inf else 1.0


def _at_most(limit: int, given: Any) -> Any:
    """The limit where ``given`` is "auto" or larger; else ``given``, which may be invalid and is checked by the fit."""
    if isinstance(given, Real):
        return min(given, limit)
    return limit if given == AUTO else given
