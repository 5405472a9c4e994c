"""The encodings that a search has, and the trials on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from joker import kernels
from joker.callbacks import Callback, Run
from joker.data.arrays import pick
from joker.estimators import resolve
from joker.estimators.inputs import LabelledRows
from joker.solvers import Reason
from joker.solvers.methods.random_blocks import RANDOM as RANDOM_BLOCKS
from joker.tables.choices import lasting, proposed, with_useful_proposals
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
from joker.tables.encoding import Encoding, fit_column, fit_encoding, in_memory
from joker.tables.plan import AUTO, EQUAL, MAX_EPOCHS, QUICK_ARD_ROWS, EncodingStep
from joker.tables.problem import TableProblem
from joker.tables.steps import AND_STEPS, MAX_STEP_INPUTS, STEPS, SteppedNumberEncoder
from joker.tables.table import NUMBER, RawTable, is_limited
from joker.tuning.ard import (
    GAUSSIAN,
    MATERN12,
    ArdFit,
    ArdSample,
    ard_samples,
    coded_targets,
    fit_ard,
    loo_mean_square,
    make_sample,
    minibatches,
)
from joker.tuning.halving import TimeBudget
from joker.tuning.trials import MIN_TUNING_ROWS
from joker.tuning.tune import Candidates, find_settings
from joker.tuning.validation import GROUPS

Array = NDArray[Any]
MIN_WEIGHTING_ROWS = 200  # fewer rows do not determine the weights of a dozen columns
MIN_ROWS_OF_WEIGHT = 5  # rows for each column
MAX_FOLD_ROWS = 600  # rows of a table whose folds have weights of their own; with more rows that takes too long
MIN_CATEGORY_GAIN = 0.01  # share of the leave-one-out error that a category in place of a number must save
MIN_STEP_GAIN = 0.01  # share of the leave-one-out error that steps beside numbers must save
# Of a table with more rows, numbers have no steps: a pass over the kernel matrix would take several times as long. With
# 200,000 rows of two sets, steps lowered the error of one by 3% and raised that of the other by 9%.
MOST_STEPPED_ROWS = 50_000
MAX_WEIGHTED_INPUTS = 4_096
MAX_LAPLACIAN_INPUTS = 512  # the distances of the Laplacian take far more time with many inputs than the others
MIN_GROUP_SAMPLE = 0.5  # of the rows of a sample: with fewer rows in groups, the sample is one of rows
MAX_SCALED_COLUMNS = 512  # with more columns only one scaling is tried
CHOICE_ROWS = 20_000  # of a table with more rows, from which kinds of columns and scalings are chosen
MIN_PRESENT = 5  # values of a column among them, if it has so many
MIN_WEIGHTING_GAIN = 0.05  # share of the leave-one-out error; the weights are fitted on these rows, too


@dataclass(frozen=True, eq=False)
class EncodingCandidate:
    """An encoding of the inputs, and what is searched with it."""

    encoding: Encoding | None
    x: Any  # (n, d)
    scaling: str
    weights: str
    kernels: Any = None  # that a search tries; None: its own
    relevance: bool | str = False  # of the search
    # The encoding for the training rows of a fold; None: the encoding of all rows.
    fold_encoding: Callable[[Array], Encoding] | None = None

    def of_fold(self, table: Any, train: Array) -> tuple[Encoding | None, Any]:
        """Return the encoding of a fold with these training rows, and the inputs of all rows."""
        if self.fold_encoding is None or self.encoding is None:
            return self.encoding, self.x
        encoding = self.fold_encoding(train)
        if encoding.encoders is not self.encoding.encoders:
            return encoding, encoding.transform(table)
        old, new = (np.ones(self.x.shape[1]) if e.weights is None else e.weights for e in (self.encoding, encoding))
        return encoding, self.x / old.astype(np.float32) * new.astype(np.float32)


@dataclass(frozen=True, eq=False)
class UnweightedEncoding:
    """The encoding with equal weights of inputs, and its leave-one-out error on a sample."""

    error: float
    scaling: str
    fit: Callable[[], tuple[Encoding, Array]]  # on all rows

    @cached_property
    def fitted(self) -> tuple[Encoding, Array]:
        """The encoding, and the inputs of all rows."""
        return self.fit()

    @property
    def encoding(self) -> Encoding:
        """The encoding that all rows have fitted."""
        return self.fitted[0]

    @property
    def x(self) -> Array:  # (n, d)
        """The inputs of all rows."""
        return self.fitted[1]

    def candidate(self) -> EncodingCandidate:
        """Return the candidate with equal weights."""
        return EncodingCandidate(self.encoding, self.x, self.scaling, EQUAL, affordable_kernels(self.x))

    @property
    def has_laplacian(self) -> bool:
        """Whether the Laplacian kernel is tried."""
        return affordable_kernels(self.x) is None

    def weighted(self, weights: Array, kernel: str) -> EncodingCandidate:
        """Return a candidate with weights for a kernel."""
        own, x = replace(self.encoding, weights=weights), self.x * weights.astype(np.float32)
        # The weights for distances of one kernel suit the other kernel of these distances, too.
        tried = (MATERN12, GAUSSIAN) if kernel == MATERN12 else (kernel,)
        return EncodingCandidate(own, x, self.scaling, f"for {kernel}", tried)


def affordable_kernels(x: Any) -> tuple[str, ...] | None:  # (n, d)
    """Return the kernels that a search of these inputs tries; None: its own, the Laplacian as well."""
    return None if x.shape[1] <= MAX_LAPLACIAN_INPUTS else (GAUSSIAN, MATERN12)


class Encodings:
    """The encodings of a problem. Kinds of columns, scalings and samples are decided once."""

    def __init__(self, problem: TableProblem) -> None:
        self.problem = problem
        self.ard_targets = problem.y  # that feature weights are for
        self._weights: dict[Any, ArdFit | None] = {}

    @property
    def is_table(self) -> bool:
        """Whether there are columns to encode."""
        return isinstance(self.problem.inputs, RawTable)

    @property
    def one_encoding(self) -> bool:
        """Whether there is only one: of a matrix, or within a memory budget, which leaves no room for others."""
        return not self.is_table or is_limited(self.problem.estimator.memory)

    @cached_property
    def kinds_and_sample(self) -> tuple[list[ColumnKind], ArdSample]:
        """The kinds of the columns, and the rows on which encodings are judged."""
        return choose_kinds(self.problem)

    @property
    def kinds(self) -> list[ColumnKind]:
        """The kinds of the columns; with a memory budget no column of groups is searched for."""
        if self.one_encoding:
            return _without_split_column(decide_kinds(self.problem.inputs, self.problem.columns), self.problem)
        return self.kinds_and_sample[0]

    @cached_property
    def scaled(self) -> list[UnweightedEncoding]:
        """The encodings with different scalings of numbers, the one with the smallest leave-one-out error first."""
        kinds, sample = self.kinds_and_sample
        return try_scalings(self.problem, kinds, sample)

    @cached_property
    def weightable(self) -> bool:
        """Whether there are enough rows, and not too many inputs, for feature weights."""
        if self.one_encoding:
            return False
        columns, rows = len(self.scaled[0].encoding.encoders), len(self.problem.y)
        enough = rows >= max(MIN_WEIGHTING_ROWS, MIN_ROWS_OF_WEIGHT * columns)
        return enough and columns > 1 and self.inputs <= MAX_WEIGHTED_INPUTS

    @property
    def inputs(self) -> int:
        """The number of inputs of the encoding."""
        return int(self.x.shape[1])

    @property
    def x(self) -> Any:  # (n, d)
        """The inputs of the first encoding."""
        return self.only.x if self.one_encoding else self.scaled[0].x

    @cached_property
    def only(self) -> EncodingCandidate:
        """The encoding where there is only one."""
        problem = self.problem
        if not self.is_table:
            tried = affordable_kernels(problem.inputs)
            return EncodingCandidate(None, problem.inputs, "none", EQUAL, tried, relevance=AUTO)
        encoding, x = fit_encoding(problem.inputs, problem.y, problem.classes, kinds=self.kinds, seed=problem.seed)
        return EncodingCandidate(encoding, x, ROBUST, EQUAL, relevance=AUTO)

    def candidate(self, step: EncodingStep, y: Array | None = None) -> EncodingCandidate | None:
        """Return the encoding of a step for some targets, by default those of the problem.

        None: its feature weights could not be fitted.
        """
        if y is not None and not self.one_encoding:
            return with_ard_targets(self, y).candidate(step)
        if self.one_encoding:
            return self.only
        unweighted = self.scaled[min(step.scaling, len(self.scaled) - 1)]
        if step.weights == EQUAL:
            return self._for_folds(unweighted.candidate(), unweighted, step)
        kernel = MATERN12 if step.weights == AUTO else step.weights
        weights = self.ard_weights(unweighted, step, kernel)
        if weights is None or (step.weights == AUTO and not self._reduces_error(unweighted, weights)):
            return self._for_folds(unweighted.candidate(), unweighted, step) if step.weights == AUTO else None
        return self._for_folds(unweighted.weighted(weights, kernel), unweighted, step)

    def _reduces_error(self, unweighted: UnweightedEncoding, weights: Array) -> bool:
        """Whether weights of inputs reduce the leave-one-out error enough."""
        sample = self.kinds_and_sample[1]
        error = loo_mean_square(unweighted.x[sample.rows] * weights, sample)
        return error < (1 - MIN_WEIGHTING_GAIN) * unweighted.error

    def _for_folds(
        self, candidate: EncodingCandidate, unweighted: UnweightedEncoding, step: EncodingStep
    ) -> EncodingCandidate:
        """Return a candidate whose folds have an encoding of their own, where held-out rows would look too easy else.

        With few rows, weights that the targets of the held-out rows have chosen too would make these rows look easier
        than new ones. If whole groups or later rows are held out, statistics of targets would do so as well.
        """
        problem, weights = self.problem, candidate.encoding.weights if candidate.encoding else None
        few = len(problem.y) <= MAX_FOLD_ROWS and weights is not None
        if not few and not problem.validation.of_encodings:
            return candidate

        def fold_encoding(train: Array) -> Encoding:
            encoding = unweighted.encoding
            if problem.validation.of_encodings:
                table, y = problem.inputs.some(train), problem.y[train]
                scaling, seed = unweighted.scaling, problem.seed
                encoding, _ = fit_encoding(table, y, problem.classes, kinds=self.kinds, scaling=scaling, seed=seed)
                return replace(encoding, weights=_spread(weights, unweighted.encoding, encoding))
            own = self.ard_weights(unweighted, step, _kernel_of(step), train)
            return replace(encoding, weights=np.ones(unweighted.x.shape[1]) if own is None else own)

        return replace(candidate, fold_encoding=fold_encoding)

    def ard_weights(
        self, unweighted: UnweightedEncoding, step: EncodingStep, kernel: str, rows: Array | None = None
    ) -> Array | None:  # (d,)
        """Return the weights that some rows of the table have chosen, by default all; None: time is up."""
        found = self._ard(unweighted, step, kernel, rows)
        return None if found is None else found.weights(unweighted.encoding.groups)

    def _ard(
        self, unweighted: UnweightedEncoding, step: EncodingStep, kernel: str, rows: Array | None
    ) -> ArdFit | None:
        """Fit feature weights. A fit with many rows in its samples begins with one that has few."""
        problem, sample = self.problem, self.kinds_and_sample[1]
        key = (unweighted.scaling, step.ard_rows, step.draw, kernel)
        if rows is None and key in self._weights:
            return self._weights[key]
        some = np.arange(len(problem.y)) if rows is None else rows
        m = max(2, min(step.ard_rows, len(some) // 2))  # not all rows at once: their noise would be fitted
        seed = problem.seed + step.draw
        groups = sample.groups if problem.validation.kind != GROUPS else problem.validation.groups
        drawn: Iterator[Array]
        if problem.validation.kind == GROUPS:
            assert groups is not None
            drawn = (some[one_row_of_each(groups[some], m, one)] for one in count(seed))
        elif groups is not None:
            drawn = (some[rows_of_groups(groups[some], m, one)] for one in count(seed))
        else:
            drawn = minibatches(some, m, seed)
        begin = None
        if m > QUICK_ARD_ROWS:
            begin = self._ard(unweighted, replace(step, ard_rows=QUICK_ARD_ROWS), MATERN12, rows)
        samples = ard_samples(drawn, self.ard_targets, problem.classes, problem.row_weights)
        columns = unweighted.encoding.groups
        place = problem.gpu or "cpu"
        found = fit_ard(unweighted.x, columns, samples, kernel, problem.clock.is_over, begin, device=place)
        if rows is None:
            self._weights[key] = found
        return found


def with_ard_targets(encodings: Encodings, y: Array) -> Encodings:
    """Return the same encodings, with feature weights for other targets."""
    other = Encodings(encodings.problem)
    other.ard_targets = y
    kinds, sample = encodings.kinds_and_sample
    sample = replace(sample, y=coded_targets(y[sample.rows], 0))
    other.kinds_and_sample = kinds, sample
    errors = [loo_mean_square(one.x[sample.rows], sample) for one in encodings.scaled]
    fitted = [partial(_itself, one.fitted) for one in encodings.scaled]
    pairs = zip(encodings.scaled, errors, fitted, strict=True)
    other.scaled = [replace(one, error=error, fit=fit) for one, error, fit in pairs]
    other.weightable = encodings.weightable
    return other


def _kernel_of(step: EncodingStep) -> str:
    return MATERN12 if step.weights in (AUTO, EQUAL) else step.weights


def _spread(weights: Array | None, old: Encoding, new: Encoding) -> Array | None:
    """Return the weights of the inputs of another encoding of the same columns, which may have other categories."""
    if weights is None:
        return None
    of_set = np.ones(int(old.groups.max(initial=0)) + 1)
    of_set[old.groups] = weights
    return of_set[new.groups]


def one_row_of_each(groups: Array, most: int, seed: int) -> Array:
    """Return one row of each of at most ``most`` groups: the error of a row then is that of a new group."""
    order = np.random.RandomState(seed).permutation(len(groups))
    _, first = np.unique(groups[order], return_index=True)
    return np.sort(np.random.RandomState(seed).permutation(order[first])[:most])


def _without_split_column(kinds: list[ColumnKind], problem: TableProblem) -> list[ColumnKind]:
    """Leave out the column that names the held-out groups: a new group has a new name."""
    validation, given = problem.validation, problem.columns or {}
    if validation.kind != GROUPS or validation.column is None or validation.column in given:
        return kinds
    reason = "it names the groups that are held out"
    return [replace(kind, kind=DROP, reason=reason) if kind.name == validation.column else kind for kind in kinds]


def choose_kinds(problem: TableProblem) -> tuple[list[ColumnKind], ArdSample]:
    """Return the kinds of the columns, and the rows on which encodings are judged: whole groups, if there are any."""
    kinds = _without_split_column(decide_kinds(problem.inputs, problem.columns), problem)
    given, targets = problem.columns or {}, (problem.y, problem.classes)
    asked = [j for j, kind in enumerate(kinds) if kind.kind == GROUP]
    by_group = problem.validation.kind == GROUPS
    promising = [] if by_group else promising_groups(problem.inputs, kinds, given, *targets, problem.seed)
    places = asked + promising
    judged = [rows_of_groups(problem.inputs.columns[j].values, JUDGED_ROWS, problem.seed) for j in places]
    part = part_of_table(problem, judged)
    small = replace(problem, inputs=part.inputs, y=part.y)
    if places or proposed(small, kinds):
        same = same_categories(part.inputs, kinds, given, places)
        no_codes = [replace(kind, kind=NUMBER) if j in asked else kind for j, kind in enumerate(kinds)]
        no_codes = [replace(kind, kind=DROP) if c in same else kind for c, kind in enumerate(no_codes)]
        plain, x = fit_encoding(part.inputs, part.y, part.classes, kinds=no_codes, seed=problem.seed)
        x, rest = in_memory(x), (problem.seed, problem.clock.is_over)
        of_rows = RowsOf(part.rows, x)
        groups = useful_groups(problem.inputs, kinds, places, of_rows, *targets, *rest)
        for j, kind in lasting(problem, groups, plain, of_rows).items():
            kinds[j] = kind
        # Not where this duplicates an existing category.
        left = [j for j in places if kinds[j].kind == NUMBER and j not in same.values()]
        categories = useful_categories(part.inputs, kinds, left, plain, x, part.y, part.classes, *rest)
        for j, kind in lasting(problem, categories, plain, of_rows).items():
            kinds[j] = kind
        kinds = with_useful_proposals(small, kinds, plain, x)
        for c, j in same.items():
            if kinds[j].kind == GROUP:
                kinds[c] = replace(kinds[c], kind=DROP, reason=f"the same groups as {kinds[j].name!r}")
    return kinds, _judged_sample(problem, kinds)


def _judged_sample(problem: TableProblem, kinds: list[ColumnKind]) -> ArdSample:
    """Return the rows on which encodings are judged: one of each held-out group, whole groups of codes, or any."""
    n = len(problem.y)
    if problem.validation.kind == GROUPS:
        assert problem.validation.groups is not None
        rows = one_row_of_each(problem.validation.groups, JUDGED_ROWS, problem.seed)
        if len(rows) >= MIN_WEIGHTING_ROWS:
            return ArdSample(rows, coded_targets(problem.y[rows], problem.classes))
    groups = [column for column, kind in zip(problem.inputs.columns, kinds, strict=True) if kind.kind == GROUP]
    rows = rows_of_groups(groups[0].values, JUDGED_ROWS, problem.seed) if groups else np.zeros(0, dtype=np.intp)
    if len(rows) < MIN_GROUP_SAMPLE * min(JUDGED_ROWS, n):
        return make_sample(problem.y, problem.classes, problem.seed, JUDGED_ROWS)
    return ArdSample(rows, coded_targets(problem.y[rows], problem.classes), groups[0].values)


def useful_categories(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    places: Sequence[int],
    encoding: Encoding,
    x: Array,  # (n, d), all columns as they are encoded with numbers
    y: Array,  # (n,)
    classes: int,
    seed: int,
    out_of_time: Callable[[], bool],
) -> dict[int, ColumnKind]:
    """Return the columns of numbers that reduce the leave-one-out error as categories, such as codes of occupations."""
    useful: dict[int, ColumnKind] = {}
    sample = make_sample(y, classes, seed, JUDGED_ROWS)
    numbers = np.ones(x.shape[1], dtype=bool)  # the inputs that remain
    added: list[Array] = []
    error = loo_mean_square(x[sample.rows], sample) if places else 0.0
    for j in places:
        kind = replace(kinds[j], kind=CATEGORY)
        _, part = fit_column(table.columns[j], kind, y, classes, ROBUST, seed)
        others = numbers & np.isin(np.arange(len(numbers)), encoding.without(kind.name))
        replaced = [*added, part(sample.rows)]
        found = loo_mean_square(np.hstack([x[sample.rows][:, others], *replaced]), sample)
        if found < (1 - MIN_CATEGORY_GAIN) * error:
            useful[j], numbers, added, error = kind, others, replaced, found
        if out_of_time():
            break
    return useful


def try_scalings(problem: TableProblem, kinds: list[ColumnKind], sample: ArdSample) -> list[UnweightedEncoding]:
    """Return the encodings with different scalings, the one with the smallest leave-one-out error first."""
    part = part_of_table(problem, [sample.rows])
    whole = len(part.rows) == len(problem.y)
    places = np.searchsorted(part.rows, sample.rows)
    encodings: dict[str, Encoding] = {}
    first: list[tuple[Encoding, Array]] = []

    def tried(scaling: str) -> UnweightedEncoding:
        same = partial(fit_encoding, kinds=kinds, scaling=scaling, seed=problem.seed)
        encoding, x = same(part.inputs, part.y, problem.classes, like=first[0] if first else None)
        first[:] = first or [(encoding, x)]
        encodings[scaling] = encoding
        all_rows = partial(same, problem.inputs, problem.y, problem.classes)
        fit = partial(_itself, (encoding, x)) if whole else all_rows
        return UnweightedEncoding(loo_mean_square(x[places], sample), scaling, fit)

    found: list[UnweightedEncoding] = []
    for scaling in SCALINGS if len(kinds) <= MAX_SCALED_COLUMNS else (ROBUST,):
        if found and (not has_scalings(encodings[found[0].scaling]) or problem.clock.is_over()):
            break
        found.append(tried(scaling))
    found = sorted(found, key=lambda one: one.error)
    few_rows = len(problem.y) <= MOST_STEPPED_ROWS
    if few_rows and may_have_steps(encodings[found[0].scaling]) and not problem.clock.is_over():
        stepped = tried(found[0].scaling + AND_STEPS)
        if stepped.error < (1 - MIN_STEP_GAIN) * found[0].error:
            return [stepped, found[0]]
    return found[:2]


def may_have_steps(encoding: Encoding) -> bool:
    """Whether steps may be beside the numbers of an encoding: it has numbers, and not too many."""
    numbers = [e for e in encoding.encoders if isinstance(e, NumberEncoder) and not e.two_values]
    return 0 < len(numbers) * STEPS <= MAX_STEP_INPUTS


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class PartOfTable:
    """Some rows of a table, or all of them."""

    rows: Array  # their numbers in the table, sorted
    inputs: RawTable
    y: Array
    classes: int


def part_of_table(problem: TableProblem, judged: Sequence[Array]) -> PartOfTable:
    """Return the rows by which a large table is encoded for choices: random ones, and those that are judged.

    They have a row of each class, and some values of each column.
    """
    table, y, n = problem.inputs, problem.y, len(problem.y)
    if n <= CHOICE_ROWS:
        return PartOfTable(np.arange(n), table, y, problem.classes)
    rows = np.random.RandomState(problem.seed).randint(n, size=CHOICE_ROWS)
    more = [np.unique(y, return_index=True)[1]] if problem.classes else []
    missing = (column.missing for column in table.columns)
    more += [np.flatnonzero(~none)[:MIN_PRESENT] for none in missing if (~none[rows]).sum() < MIN_PRESENT]
    rows = np.unique(np.concatenate([rows, *judged, *more]))
    return PartOfTable(rows, table.some(rows), y[rows], problem.classes)


@dataclass(frozen=True, eq=False)
class RowsOf:
    """The inputs of some rows of a table, by the numbers of the rows in the table."""

    rows: Array  # sorted
    x: Array

    def __getitem__(self, wanted: Array) -> Array:
        found: Array = self.x[np.searchsorted(self.rows, wanted)]
        return found


def has_scalings(encoding: Encoding) -> bool:
    """Whether some column of numbers has more than two values, so that its scaling matters."""
    numbers = [encoder.number if isinstance(encoder, GroupEncoder) else encoder for encoder in encoding.encoders]
    stepped = any(isinstance(encoder, SteppedNumberEncoder) for encoder in encoding.encoders)
    return stepped or any(isinstance(e, NumberEncoder) and not e.two_values for e in numbers)


FAR = 0.1  # relative gap above which a last iterate is not usable


@dataclass(frozen=True, eq=False)
class EndsInTime(Callback):
    """Ends a fit when the time limit of the search is over."""

    clock: TimeBudget

    def step(self, run: Run) -> str | None:
        return Reason.TIME.value if self.clock.is_over() else None

    def __deepcopy__(self, memo: object) -> EndsInTime:
        return self  # scikit-learn copies the parameters of an estimator when it clones it


@dataclass(frozen=True, eq=False)
class RowsFit:
    """The fit of a model to some rows, with all that it needs in another process."""

    model: Any  # unfitted
    data: LabelledRows
    clock: TimeBudget
    once: bool = False  # whether its settings are those of a fit on many rows, which is usable as it ends

    def run(self) -> Any:
        """Fit the model, and return it, or one with random blocks in its place.

        A fit that ends far from the optimum has a last iterate that may be useless, however well the same settings do
        on fewer rows. Random blocks have a usable average after one epoch.
        """
        model, x = self.model, self.data[0]
        if self.once:
            return model.fit_sample(self.data).set_params(max_time=float("inf"))
        watch = [] if self.clock.limit == float("inf") else [EndsInTime(self.clock)]
        model.set_params(callbacks=watch).fit_sample(self.data)
        settings = random_blocks(model, x.shape[0], x.shape[1], MAX_EPOCHS)
        known = settings.items() <= model.get_params(deep=False).items()
        if model.gap_ > FAR and not known and not self.clock.stopped:
            model = clone(model).set_params(**settings).fit_sample(self.data)
        return model.set_params(callbacks=None)


def rows_fit(problem: TableProblem, model: Any, x: Any, y: Array, rows: Array) -> RowsFit:
    """Return the fit of a model to some rows."""
    return RowsFit(model, (pick(x, rows), y[rows], problem.given_weights(rows)), problem.clock)


def fit_rows(problem: TableProblem, model: Any, x: Any, y: Array, rows: Array) -> Any:
    """Fit a model to some rows, and return it, or one with random blocks in its place."""
    return rows_fit(problem, model, x, y, rows).run()


def random_blocks(model: Any, n: int, d: int, epochs: int, device: Any = None) -> dict[str, Any]:
    """Return the settings of a fit with random blocks, which has a usable model after one epoch.

    With the exact kernel, momentum lowers their gap faster.
    """
    place = torch.device(device or model.device or "cpu")
    kernel = kernels.get(model.kernel)
    exact = resolve.n_features(model.n_features, model.features, kernel, n, d, place) is None
    settings = {"max_epochs": epochs, "method": RANDOM_BLOCKS}
    return settings | ({"momentum": True} if exact else {})


def searched(
    problem: TableProblem,
    candidate: EncodingCandidate,
    y: Array,  # (n,) codes of classes, or scaled numbers
    rows: Array,  # that trials are drawn from
    estimator: Any,
    n_trials: int,
    *,
    quick: bool = False,
) -> tuple[Any, list[dict[str, Any]]]:
    """Return an unfitted model with the best settings that a search finds, and the trials.

    With very few rows, or one of each class, it has the default settings.
    """
    model, some = clone(estimator), y[rows]
    if len(rows) < MIN_TUNING_ROWS or (is_classifier(estimator) and len(np.unique(some)) == len(some)):
        return model, []
    model.set_params(random_state=problem.seed)
    stages = [len(rows)] if quick else None
    asked = Candidates(candidate.kernels, relevance=candidate.relevance, n_trials=n_trials, rows=stages)
    splits = problem.validation.search_splits(rows, problem.codes, problem.seed)
    weights = problem.given_weights(rows)
    x = in_memory(candidate.x) if len(rows) == len(y) else pick(candidate.x, rows)
    found = find_settings(x, some, weights, model, asked, scoring=problem.scoring, budget=problem.clock, splits=splits)
    return model, found.table


def best_of_other_kernels(model: Any, trials: Sequence[dict[str, Any]]) -> list[Any]:
    """Return a model with the best settings of each other kernel that a search has tried with the most rows."""
    best: dict[str, dict[str, Any]] = {}
    for trial in sorted(trials, key=lambda one: (-one["rows"], one["loss"])):
        best.setdefault(trial["kernel"], trial)
    settings = [{name: trial[name] for name in ("kernel", "bandwidth", "lam")} for trial in best.values()]
    return [clone(model).set_params(**given) for given in settings if given["kernel"] != model.kernel]
