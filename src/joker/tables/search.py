"""The search for ensemble members: encodings of a table and `joker.tune` on each of them, within a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from joker import kernels
from joker.callbacks import Callback, Run
from joker.data.arrays import pick
from joker.estimators import resolve
from joker.solvers import Reason
from joker.solvers.methods.random_blocks import RANDOM
from joker.tables.columns import (
    CATEGORY,
    DROP,
    GROUP,
    JUDGED_ROWS,
    ColumnKind,
    decide_kinds,
    promising_groups,
    rows_of_groups,
    same_categories,
    useful_groups,
)
from joker.tables.encoders import ROBUST, SCALINGS, GroupEncoder, NumberEncoder
from joker.tables.encoding import Encoding, fit_column, fit_encoding
from joker.tables.plan import (
    FIRST_SHARE,
    FIT_SHARE,
    FOLD_WEIGHTS_SHARE,
    GROUPS_SHARE,
    MOST_TIMES,
    MOST_TIMES_OF_OTHERS,
    PROBE_SHARE,
    SCALING_SHARE,
    SEARCH_ROWS,
    SEARCH_SHARE,
    WEIGHTS_SHARE,
    TableProblem,
)
from joker.tables.table import NUMBER, RawTable, is_limited
from joker.tuning import tune
from joker.tuning.ard import (
    GAUSSIAN,
    LAPLACIAN,
    MATERN12,
    STEPS,
    ArdSample,
    ard_samples,
    coded_targets,
    fit_ard,
    loo_mean_square,
    make_sample,
    minibatches,
    sample_rows,
)
from joker.tuning.splits import Split
from joker.tuning.trials import MIN_TUNING_ROWS

Array = NDArray[Any]
MIN_WEIGHTING_ROWS = 200  # fewer rows do not determine the weights of a dozen columns
MIN_ROWS_OF_WEIGHT = 5  # rows for each column
MAX_FOLD_ROWS = 600  # rows of a table whose folds have weights of their own; with more rows that takes too long
MIN_CATEGORY_GAIN = 0.01  # share of the leave-one-out error that a category in place of a number must save
MAX_WEIGHTED_INPUTS = 4_096
MAX_LAPLACIAN_INPUTS = 512  # the distances of the Laplacian take far more time with many inputs than the others
MIN_GROUP_SAMPLE = 0.5  # of the rows of a sample: with fewer rows in groups, the sample is one of rows
MAX_SCALED_COLUMNS = 512  # with more columns only one scaling is tried
MIN_WEIGHTING_GAIN = 0.05  # share of the leave-one-out error; the weights are fitted on these rows, too
MIN_EFFECTIVE_ROWS = 8  # for each column: with fewer, the error that weights save is not reliable


@dataclass(frozen=True, eq=False)
class EncodingCandidate:
    """An encoding of the inputs, and the part of the search that it gets."""

    encoding: Encoding | None
    x: Any
    scaling: str
    weights: str
    share: float  # of the remaining time
    search: dict[str, Any]  # options of `joker.tune`
    # The encoding for the training rows of a fold; None: the encoding of all rows.
    fold_encoding: Callable[[Array], Encoding] | None = None

    def of_fold(self, train: Array) -> tuple[Encoding | None, Any]:
        """Return the encoding of a fold with these training rows, and the inputs of all rows."""
        if self.fold_encoding is None or self.encoding is None or self.encoding.weights is None:
            return self.encoding, self.x
        encoding = self.fold_encoding(train)
        assert encoding.weights is not None
        return encoding, self.x / self.encoding.weights.astype(np.float32) * encoding.weights.astype(np.float32)


@dataclass(frozen=True, eq=False)
class UnweightedEncoding:
    """The encoding with equal weights of inputs, and its leave-one-out error on a sample."""

    error: float
    encoding: Encoding
    x: Array  # (n, d)
    scaling: str

    def candidate(self, share: float = 1.0) -> EncodingCandidate:
        """Return the candidate with equal weights."""
        search = {"relevance": False} | ({} if self.has_laplacian else {"kernels": (GAUSSIAN, MATERN12)})
        return EncodingCandidate(self.encoding, self.x, self.scaling, "equal", share, search)

    @property
    def has_laplacian(self) -> bool:
        """Whether the Laplacian kernel is tried."""
        return bool(self.x.shape[1] <= MAX_LAPLACIAN_INPUTS)

    def weighted(self, weights: Array, kernel: str, share: float) -> EncodingCandidate:
        """Return a candidate with weights for a kernel."""
        own, x = replace(self.encoding, weights=weights), self.x * weights.astype(np.float32)
        # The weights for distances of one kernel suit the other kernel of these distances, too.
        tried = (MATERN12, GAUSSIAN) if kernel == MATERN12 else kernel
        return EncodingCandidate(own, x, self.scaling, f"for {kernel}", share, {"kernels": tried, "relevance": False})


def encoding_candidates(problem: TableProblem) -> Iterator[EncodingCandidate]:
    """Yield the encodings to try: with equal weights of inputs, and with weights for each of two kernels.

    The one that promises the smallest error comes first, since the time limit may leave no other.
    """
    if not isinstance(problem.inputs, RawTable):
        yield EncodingCandidate(None, problem.inputs, "none", "equal", 1.0, {})
        return
    if is_limited(problem.estimator.memory):  # one encoding at a time, and no leave-one-out errors
        encoding, x = fit_encoding(problem.inputs, problem.y, problem.classes, given=problem.columns, seed=problem.seed)
        yield EncodingCandidate(encoding, x, ROBUST, "equal", 1.0, {})
        return
    kinds, sample = choose_kinds(problem)
    unweighted = choose_scaling(problem, kinds, sample)
    if not _may_be_weighted(problem, unweighted, sample):
        yield unweighted.candidate()
        return
    names = [MATERN12, *([LAPLACIAN] if unweighted.has_laplacian and len(problem.y) <= SEARCH_ROWS else [])]
    first = _ard_weights(problem, unweighted, sample, names[0])
    promising = first is not None and _reduces_error(unweighted, sample, first)
    columns = len(unweighted.encoding.encoders)
    equal_later = promising and _effective_rows(problem, sample) >= MIN_EFFECTIVE_ROWS * columns
    order = [*names, None] if equal_later else [None, *names]
    for place, kernel in enumerate(order):
        share = FIRST_SHARE if place == 0 else 1.0 / (len(order) - place)
        if kernel is None:
            yield unweighted.candidate(share)
            continue
        weights = first if kernel == names[0] else _ard_weights(problem, unweighted, sample, kernel)
        if weights is not None:
            yield _with_fold_weights(problem, unweighted, sample, kernel, unweighted.weighted(weights, kernel, share))


def decided_kinds(problem: TableProblem) -> list[ColumnKind]:
    """Return the kinds of the columns that a fit has; with a memory budget no column of groups is searched for."""
    if is_limited(problem.estimator.memory):
        return decide_kinds(problem.inputs, problem.columns)
    return choose_kinds(problem)[0]


def choose_kinds(problem: TableProblem) -> tuple[list[ColumnKind], ArdSample]:
    """Return the kinds of the columns, and the rows on which encodings are judged: whole groups, if there are any."""
    kinds = decide_kinds(problem.inputs, problem.columns)
    given, targets = problem.columns or {}, (problem.y, problem.classes)
    asked = [j for j, kind in enumerate(kinds) if kind.kind == GROUP]
    if places := asked + promising_groups(problem.inputs, kinds, given, *targets, problem.seed):
        same = same_categories(problem.inputs, kinds, given, places)
        no_codes = [replace(kind, kind=NUMBER) if j in asked else kind for j, kind in enumerate(kinds)]
        no_codes = [replace(kind, kind=DROP) if c in same else kind for c, kind in enumerate(no_codes)]
        _, x = fit_encoding(problem.inputs, *targets, kinds=no_codes, seed=problem.seed)
        common, clock = (x, *targets, problem.seed), problem.clock
        for j, kind in useful_groups(problem.inputs, kinds, places, *common, clock.after(GROUPS_SHARE)).items():
            kinds[j] = kind
        # Not where this duplicates an existing category.
        left = [j for j in places if kinds[j].kind == NUMBER and j not in same.values()]
        for j, kind in useful_categories(problem.inputs, kinds, left, *common, clock.after(GROUPS_SHARE)).items():
            kinds[j] = kind
        for c, j in same.items():
            if kinds[j].kind == GROUP:
                kinds[c] = replace(kinds[c], kind=DROP, reason=f"the same groups as {kinds[j].name!r}")
    groups = [column for column, kind in zip(problem.inputs.columns, kinds, strict=True) if kind.kind == GROUP]
    m = sample_rows(problem.clock.limit)
    rows = rows_of_groups(groups[0].values, m, problem.seed) if groups else np.zeros(0, dtype=np.intp)
    if len(rows) < MIN_GROUP_SAMPLE * min(m, len(problem.y)):
        return kinds, make_sample(problem.y, problem.classes, problem.seed, m)
    return kinds, ArdSample(rows, coded_targets(problem.y[rows], problem.classes), groups[0].values)


def useful_categories(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    places: Sequence[int],
    x: Array,  # (n, d), all columns as they are encoded with numbers
    y: Array,  # (n,)
    classes: int,
    seed: int,
    out_of_time: Callable[[], bool],
) -> dict[int, ColumnKind]:
    """Return the columns of numbers that reduce the leave-one-out error as categories, such as codes of occupations."""
    useful: dict[int, ColumnKind] = {}
    sample = make_sample(y, classes, seed, JUDGED_ROWS)
    before = x[sample.rows]
    error = loo_mean_square(before, sample) if places else 0.0
    for j in places:
        kind = replace(kinds[j], kind=CATEGORY)
        _, part = fit_column(table.columns[j], kind, y, classes, ROBUST, seed)
        joined = np.hstack([before, part[sample.rows]])
        found = loo_mean_square(joined, sample)
        if found < (1 - MIN_CATEGORY_GAIN) * error:
            useful[j], before, error = kind, joined, found
        if out_of_time():
            break
    return useful


def _may_be_weighted(problem: TableProblem, unweighted: UnweightedEncoding, sample: ArdSample) -> bool:
    rows, columns, d = _weighting_rows(problem, sample), len(unweighted.encoding.encoders), unweighted.x.shape[1]
    return rows >= max(MIN_WEIGHTING_ROWS, MIN_ROWS_OF_WEIGHT * columns) and columns > 1 and d <= MAX_WEIGHTED_INPUTS


def _reduces_error(unweighted: UnweightedEncoding, sample: ArdSample, weights: Array) -> bool:
    """Whether weights of inputs reduce the leave-one-out error enough to be tried first."""
    return loo_mean_square(unweighted.x[sample.rows] * weights, sample) < (1 - MIN_WEIGHTING_GAIN) * unweighted.error


def _weighting_rows(problem: TableProblem, sample: ArdSample) -> int:
    """The number of rows that weights are fitted on."""
    return min(len(problem.y), STEPS * len(sample.rows))


def _effective_rows(problem: TableProblem, sample: ArdSample) -> int:
    """The rows that determine weights: of classes, the rarer ones and as many of the most frequent one."""
    rows = _weighting_rows(problem, sample)
    if not problem.classes:
        return rows
    rarer = 1 - np.bincount(problem.y).max() / len(problem.y)
    return int(rows * min(1.0, 2 * rarer))


def _with_fold_weights(
    problem: TableProblem, unweighted: UnweightedEncoding, sample: ArdSample, kernel: str, candidate: EncodingCandidate
) -> EncodingCandidate:
    """Return a candidate whose folds have weights of their own, if there are few rows.

    Weights that the targets of the held-out rows have chosen too would make these rows look easier than new ones.
    """
    if len(problem.y) > MAX_FOLD_ROWS:
        return candidate

    def fold_encoding(train: Array) -> Encoding:
        weights = _ard_weights(problem, unweighted, sample, kernel, train, FOLD_WEIGHTS_SHARE)
        return replace(unweighted.encoding, weights=np.ones(unweighted.x.shape[1]) if weights is None else weights)

    return replace(candidate, fold_encoding=fold_encoding)


def _ard_weights(
    problem: TableProblem,
    unweighted: UnweightedEncoding,
    sample: ArdSample,
    kernel: str,
    rows: Array | None = None,
    share: float = WEIGHTS_SHARE,
) -> Array | None:  # (d,)
    """Return the weights that some rows of the table have chosen, by default all; None: there was no time."""
    rows = np.arange(len(problem.y)) if rows is None else rows
    m = max(2, min(len(sample.rows), len(rows) // 2))  # not all rows at once: their noise would be fitted
    if sample.groups is None:
        drawn = minibatches(rows, m, problem.seed)
    else:
        groups = sample.groups[rows]
        drawn = (rows[rows_of_groups(groups, m, seed)] for seed in count(problem.seed))
    samples = ard_samples(drawn, problem.y, problem.classes)
    return fit_ard(unweighted.x, unweighted.encoding.groups, samples, kernel, problem.clock.after(share))


def choose_scaling(problem: TableProblem, kinds: list[ColumnKind], sample: ArdSample) -> UnweightedEncoding:
    """Return the encoding whose leave-one-out error on a sample is the smallest."""
    best: UnweightedEncoding | None = None
    out_of_time = problem.clock.after(SCALING_SHARE)
    for scaling in SCALINGS if len(kinds) <= MAX_SCALED_COLUMNS else (ROBUST,):
        if best is not None and (not has_scalings(best.encoding) or out_of_time()):
            break
        encoding, x = fit_encoding(
            problem.inputs,
            problem.y,
            problem.classes,
            kinds=kinds,
            scaling=scaling,
            seed=problem.seed,
            like=(best.encoding, best.x) if best else None,
        )
        loss = loo_mean_square(x[sample.rows], sample)
        if best is None or loss < best.error:
            best = UnweightedEncoding(loss, encoding, x, scaling)
    assert best is not None
    return best


def has_scalings(encoding: Encoding) -> bool:
    """Whether some column of numbers has more than two values, so that its scaling matters."""
    numbers = [encoder.number if isinstance(encoder, GroupEncoder) else encoder for encoder in encoding.encoders]
    return any(isinstance(e, NumberEncoder) and not e.two_values for e in numbers)


FAR = 0.1  # relative gap above which a last iterate is not usable
RANDOM_EPOCHS = 40  # at most; with enough time a fit ends at its tolerance
COMPILED_STEPS = 8  # the first ones on a GPU, which compile and capture what the others only run


class SoftTimeLimit(Callback):
    """Ends a fit after a time, but not before its model is usable.

    With random blocks a model is usable after one epoch. Other methods return their last iterate, which must be near
    the optimum. The fit ends in any case after `MOST_TIMES` or `MOST_TIMES_OF_OTHERS` as long as it should take. A fit
    that is too slow for ``least_epochs`` ends after a part of the time, and ``epoch_seconds`` is that of its epochs.
    """

    def __init__(self, seconds: float, least_epochs: float = 0.0) -> None:
        self.seconds, self.least_epochs = seconds, least_epochs
        self.epoch_seconds: float | None = None  # of a fit that is too slow

    def start(self, run: Run) -> None:
        self._judged_from = (0.0, 0.0)  # seconds and epoch

    def step(self, run: Run) -> str | None:
        if self.least_epochs > 0 and self._is_too_slow(run):
            return Reason.TIME.value
        early = run.training.descent.method.usable_early
        times = MOST_TIMES_OF_OTHERS if not early else MOST_TIMES if run.epoch < 1 else 1
        return Reason.TIME.value if run.seconds >= times * self.seconds else None

    def epoch(self, run: Run) -> str | None:
        near = run.record is not None and run.record.relative_gap <= FAR
        return Reason.TIME.value if near and run.seconds >= self.seconds else None

    def _is_too_slow(self, run: Run) -> bool:
        """Whether the first steps, which take a part of the time, leave no hope for the epochs."""
        descent = run.training.descent
        if descent.state.alpha.is_cuda and descent.steps <= COMPILED_STEPS:
            self._judged_from = (run.seconds, run.epoch)
            return False
        seconds, epochs = run.seconds - self._judged_from[0], run.epoch - self._judged_from[1]
        if seconds <= PROBE_SHARE * self.seconds or epochs <= 0 or run.epoch >= 1:
            return False
        slow = self.least_epochs * seconds > epochs * self.seconds
        self.epoch_seconds = seconds / epochs if slow else None
        return slow


def fit_while_fast(model: Any, x: Any, y: Array, seconds: float, least_epochs: float) -> float | None:
    """Fit a model for about so many seconds. Return the seconds of an epoch where it is too slow, else None."""
    watch = SoftTimeLimit(max(1.0, seconds), least_epochs)
    model.set_params(max_time=float("inf"), callbacks=[watch]).fit_sample((x, y, None))
    model.set_params(callbacks=None)
    return watch.epoch_seconds


def fit_in_time(model: Any, x: Any, y: Array, seconds: float) -> Any:
    """Fit a model for about so many seconds, and return it, or one with random blocks in its place."""
    fit_while_fast(model, x, y, seconds, 0.0)
    return usable(model, x, y, seconds)


def usable(model: Any, x: Any, y: Array, seconds: float) -> Any:
    """Return a fitted model, or one with random blocks in its place if its fit ended far from the optimum.

    The predictions of such a last iterate may be useless, however well the same settings do on fewer rows.
    """
    settings = random_blocks(model, *x.shape)
    if model.gap_ <= FAR or settings.items() <= model.get_params(deep=False).items():
        return model
    return fit_in_time(clone(model).set_params(**settings), x, y, seconds)


def random_blocks(model: Any, n: int, d: int) -> dict[str, Any]:
    """Return the settings of a fit with random blocks, which has a usable model after one epoch.

    With the exact kernel, momentum lowers their gap faster.
    """
    exact = resolve.n_features(model.n_features, model.features, kernels.get(model.kernel), n, d) is None
    settings = {"max_epochs": RANDOM_EPOCHS, "method": RANDOM}
    return settings | ({"momentum": True} if exact else {})


@dataclass(frozen=True, eq=False)
class TunedModel:
    """A tuned model on all rows, and its trials."""

    model: Any
    trials: list[dict[str, Any]]
    fit_seconds: float


def tuned(
    problem: TableProblem,
    x: Any,
    y: Array,  # (n,) codes of classes, or scaled numbers
    estimator: Any,
    share: float,
    **search: Any,
) -> TunedModel:
    """Return the best model that `joker.tune` finds; with very few rows, or one of each class, the default one."""
    limit = share * problem.clock.left
    if x.shape[0] < MIN_TUNING_ROWS or (is_classifier(estimator) and len(np.unique(y)) == len(y)):
        return TunedModel(clone(estimator).fit(x, y), [], 0.0)
    seconds = max(1.0, FIT_SHARE * limit)
    model = clone(estimator).set_params(callbacks=[SoftTimeLimit(seconds)])
    given = {"max_time": SEARCH_SHARE * limit, "random_state": problem.seed, "scoring": problem.scoring}
    result = tune(x, y, estimator=model, **given, **search)
    started = problem.clock.spent
    first = result.estimator.set_params(callbacks=None)
    best = usable(first, x, y, seconds)
    return TunedModel(best, result.table, result.fit_seconds if best is first else problem.clock.spent - started)


def held_out_values(
    found: Any,
    inputs: list[Any],  # of all rows, for each fold
    y: Array,
    folds: list[Split],
    values: Callable[[Any, Any], Array],
    max_time: float,
) -> tuple[Array, list[Any]]:
    """Fit a model with the settings of ``found`` on each fold, and return its values on held-out rows, fold by fold."""
    parts, models = [], []
    for fold, x in zip(folds, inputs, strict=True):
        model = fit_in_time(clone(found), pick(x, fold.train), y[fold.train], max_time / len(folds))
        parts.append(values(model, pick(x, fold.held)))
        models.append(model)
    return np.concatenate(parts), models
