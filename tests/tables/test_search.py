"""The encodings of a plan's steps, the trials on them, and the fits of a search."""

from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from raw_tables import FAST, panel

import joker
from joker.errors import ConvergenceWarning
from joker.solvers import Reason
from joker.solvers.methods.random_blocks import RANDOM
from joker.tables import search as module
from joker.tables.columns import DROP
from joker.tables.encoding import Encoding
from joker.tables.plan import AUTO, EQUAL, EncodingStep
from joker.tables.problem import TableProblem, validation_of
from joker.tables.search import (
    FAR,
    MAX_FOLD_ROWS,
    MAX_LAPLACIAN_INPUTS,
    EncodingCandidate,
    Encodings,
    EndsInTime,
    best_of_other_kernels,
    fit_rows,
    one_row_of_each,
    searched,
)
from joker.tables.table import read_table
from joker.tuning.ard import GAUSSIAN, LAPLACIAN, MATERN12, ArdFit
from joker.tuning.halving import TimeBudget

AUTOMATIC = EncodingStep(AUTO, 600)


class Over(TimeBudget):
    """Time that is up."""

    def is_over(self) -> bool:
        self.stopped = True
        return True


def problem(x: Any, y: Any, groups: Any = None, **settings: Any) -> TableProblem:
    table = read_table(x)
    validation = validation_of(table, y, 0, None, groups, None)
    return TableProblem(table, y, 0, joker.KernelRidge(standardize=False), validation=validation, **settings)


# Encodings


def test_the_inputs_of_a_fold_have_its_weights_alone(rng: np.random.Generator) -> None:
    plain = rng.normal(size=(20, 3)).astype(np.float32)
    weights, of_fold = np.array([1.0, 0.5, 0.1]), np.array([0.2, 1.0, 3.0])
    candidate = EncodingCandidate(
        Encoding((), (), True, weights), plain * weights.astype(np.float32), "robust", "for matern12",
        fold_encoding=lambda train: Encoding((), (), True, of_fold),
    )  # fmt: skip
    encoding, x = candidate.of_fold(None, np.arange(10))
    assert encoding is not None
    assert encoding.weights is of_fold
    np.testing.assert_allclose(x, plain * of_fold, rtol=1e-5)


def test_weights_are_chosen_where_few_columns_matter(rng: np.random.Generator) -> None:
    x = rng.normal(size=(400, 8))
    encodings = Encodings(problem(x, np.sin(2 * x[:, 0])))
    assert encodings.weightable
    found = [encodings.candidate(step) for step in (AUTOMATIC, EncodingStep(LAPLACIAN), EncodingStep(EQUAL))]
    assert [one.weights for one in found if one] == ["for matern12", "for laplacian", "equal"]
    assert [one.kernels for one in found if one] == [(MATERN12, GAUSSIAN), (LAPLACIAN,), None]
    weights = found[0].encoding.weights  # type: ignore[union-attr]
    assert weights is not None
    assert weights.argmax() == 0
    assert weights[1:].max() < 0.5


def test_equal_weights_are_chosen_where_all_columns_matter(rng: np.random.Generator) -> None:
    x = rng.normal(size=(400, 4))
    encodings = Encodings(problem(x, np.sin(x.sum(axis=1))))
    assert encodings.candidate(AUTOMATIC).weights == EQUAL  # type: ignore[union-attr]
    assert encodings.candidate(EncodingStep(MATERN12)).weights == "for matern12"  # type: ignore[union-attr]


def test_columns_without_enough_rows_have_equal_weights(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 100))
    assert not Encodings(problem(x, x[:, 0])).weightable
    assert not Encodings(problem(x[:, :1], x[:, 0])).weightable  # one column has nothing to be weighted against


def test_many_inputs_have_no_laplacian(rng: np.random.Generator) -> None:
    x = rng.normal(size=(60, MAX_LAPLACIAN_INPUTS + 1))
    found = Encodings(problem(x, x[:, 0])).candidate(EncodingStep(EQUAL))
    assert found is not None
    assert found.kernels == (GAUSSIAN, MATERN12)
    assert found.relevance is False


def test_a_wide_sparse_matrix_is_searched_without_the_laplacian() -> None:
    for inputs, kernels in ((MAX_LAPLACIAN_INPUTS, None), (MAX_LAPLACIAN_INPUTS + 1, (GAUSSIAN, MATERN12))):
        x = sp.random(50, inputs, density=0.1, format="csr", random_state=0)
        given = TableProblem(x, np.arange(50.0), 0, joker.KernelRidge())
        assert Encodings(given).only.kernels == kernels


def test_the_second_scaling_is_another_one(rng: np.random.Generator) -> None:
    x = rng.lognormal(sigma=2, size=(100, 2))
    encodings = Encodings(problem(x, np.log(x[:, 0])))
    one, other = (encodings.candidate(EncodingStep(EQUAL, scaling=number)) for number in (0, 1))
    assert one is not None
    assert other is not None
    assert one.scaling != other.scaling
    assert encodings.scaled[0].error <= encodings.scaled[1].error


def test_without_weights_a_step_has_nothing_and_the_automatic_one_has_equal_weights(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fit_ard", lambda *given, **device: None)  # as if time was up
    x = rng.normal(size=(300, 4))
    encodings = Encodings(problem(x, x[:, 0]))
    assert encodings.candidate(EncodingStep(MATERN12)) is None
    assert encodings.candidate(AUTOMATIC).weights == EQUAL  # type: ignore[union-attr]


def test_weights_of_large_samples_begin_with_those_of_small_ones(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small ones are those of the quick search, which are fitted once."""
    seen: list[tuple[int, str, Any]] = []

    def capture(x: Any, groups: Any, samples: Any, kernel: str, out_of_time: Any, begin: Any, device: str) -> Any:
        seen.append((len(next(samples).rows), kernel, begin))
        return ArdFit(torch.zeros(int(groups.max()) + 1), float(len(seen)), 0.0)

    monkeypatch.setattr(module, "fit_ard", capture)
    x = rng.normal(size=(2_600, 3))
    encodings = Encodings(problem(x, x[:, 0]))
    for step in (AUTOMATIC, EncodingStep(MATERN12), EncodingStep(LAPLACIAN)):
        encodings.candidate(step)
    assert [(rows, kernel, begin and begin.share) for rows, kernel, begin in seen] == [
        (600, MATERN12, None),
        (1_200, MATERN12, 1.0),
        (1_200, LAPLACIAN, 1.0),
    ]


@pytest.fixture
def steps_of_ard(monkeypatch: pytest.MonkeyPatch) -> list[list[np.ndarray]]:
    """The rows of the first two steps of each fit of weights, which are equal."""
    seen: list[list[np.ndarray]] = []

    def capture(x: Any, groups: Any, samples: Any, kernel: str, out_of_time: Any, begin: Any, device: str) -> Any:
        seen.append([sample.rows for sample in islice(samples, 2)])
        return ArdFit(torch.zeros(int(groups.max()) + 1), 1.0, 0.0)

    monkeypatch.setattr(module, "fit_ard", capture)
    return seen


def test_other_kernels_have_their_best_trial_with_the_most_rows() -> None:
    trials = [
        {"rows": rows, "loss": loss, "kernel": kernel, "bandwidth": float(number), "lam": 0.1}
        for number, (rows, loss, kernel) in enumerate(
            [(100, 0.1, "gaussian"), (400, 0.3, "gaussian"), (400, 0.2, "gaussian"), (400, 0.1, "matern12")]
        )
    ]
    (other,) = best_of_other_kernels(joker.KernelRidge(kernel="matern12"), trials)
    assert (other.kernel, other.bandwidth, other.lam) == ("gaussian", 2.0, 0.1)


def test_every_step_of_the_weights_has_other_rows(
    rng: np.random.Generator, steps_of_ard: list[list[np.ndarray]]
) -> None:
    """At most half of the rows; whole groups if a column names groups, and one row of each if groups are held out."""
    x = rng.normal(size=(400, 4))
    Encodings(problem(x, x[:, 0])).candidate(EncodingStep(MATERN12))
    assert [len(rows) for rows in steps_of_ard[0]] == [200, 200]
    assert len(np.intersect1d(*steps_of_ard[0])) == 0

    frame, y = panel()
    persons = frame["person"].to_numpy()
    Encodings(problem(frame, np.asarray(y))).candidate(EncodingStep(MATERN12))
    assert not np.array_equal(*steps_of_ard[-1])
    for rows in steps_of_ard[-1]:
        counts = [np.sum(persons[rows] == person) / np.sum(persons == person) for person in np.unique(persons[rows])]
        assert len(rows) <= len(y) // 2
        assert np.mean(np.array(counts) == 1) > 0.9  # all but the last group, of which a part had room

    Encodings(problem(frame, np.asarray(y), groups="person")).candidate(EncodingStep(MATERN12))
    assert not np.array_equal(*steps_of_ard[-1])
    for rows in steps_of_ard[-1]:
        assert len(np.unique(persons[rows])) == len(rows)


def test_draws_have_other_rows_and_a_step_is_fitted_once(
    rng: np.random.Generator, steps_of_ard: list[list[np.ndarray]]
) -> None:
    x = rng.normal(size=(MAX_FOLD_ROWS + 100, 3))
    encodings = Encodings(problem(x, x[:, 0]))
    for step in (EncodingStep(MATERN12), EncodingStep(MATERN12, draw=1), EncodingStep(MATERN12)):
        encodings.candidate(step)
    assert len(steps_of_ard) == 2
    assert not np.array_equal(steps_of_ard[0][0], steps_of_ard[1][0])


def test_folds_of_few_rows_have_weights_of_their_own(rng: np.random.Generator) -> None:
    for rows, own in ((300, True), (MAX_FOLD_ROWS + 1, False)):
        x = rng.normal(size=(rows, 5))
        some = problem(x, np.sin(3 * x[:, 0]) + 0.5 * rng.normal(size=rows))
        candidate = Encodings(some).candidate(EncodingStep(MATERN12))
        assert candidate is not None
        encoding, inputs = candidate.of_fold(some.inputs, np.arange(rows // 2))
        assert (encoding is not candidate.encoding) == own
        assert np.array_equal(inputs, candidate.x) != own
        if own:
            assert np.allclose(inputs, encoding.transform(some.inputs), rtol=1e-5, atol=1e-6)  # type: ignore[union-attr]


def test_folds_of_groups_have_encodings_of_their_training_rows(rng: np.random.Generator) -> None:
    """The mean target of a level that only held-out rows have tells nothing of their targets."""
    group = np.repeat(np.arange(20), 6)
    frame = {"town": [f"t{g % 10}" for g in group], "x": rng.normal(size=120), "group": group}
    y = 10.0 * (group % 10) + rng.normal(size=120)
    some = problem(frame, y, groups="group")
    candidate = Encodings(some).candidate(EncodingStep(EQUAL))
    assert candidate is not None
    assert candidate.encoding is not None
    assert [kind.kind == DROP for kind in candidate.encoding.kinds] == [False, False, True]
    train = np.flatnonzero(group % 10 != 3)
    _, x = candidate.of_fold(some.inputs, train)
    other = problem(frame, np.where(group % 10 == 3, -500.0, y), groups="group")
    again = Encodings(other).candidate(EncodingStep(EQUAL))
    assert again is not None
    assert not np.allclose(again.x, candidate.x)
    np.testing.assert_array_equal(again.of_fold(other.inputs, train)[1], x)


def test_one_row_of_each_group() -> None:
    groups = np.array([3, 3, 3, 1, 1, 8, 8, 8, 8, 2])
    rows = one_row_of_each(groups, 3, 0)
    assert len(set(groups[rows])) == len(rows) == 3
    assert sorted(groups[one_row_of_each(groups, 9, 1)]) == [1, 2, 3, 8]
    assert any(not np.array_equal(rows, one_row_of_each(groups, 3, seed)) for seed in range(1, 5))


@pytest.mark.usefixtures("few_trials")
def test_held_out_rows_of_noise_are_not_predicted(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(210, 30)), rng.normal(size=210)
    model = joker.JokerRegressor(**FAST).fit(x, y)
    assert model.held_out_score_ < 0.05


# Trials


def matrix(x: Any, y: Any, clock: TimeBudget | None = None) -> TableProblem:
    return TableProblem(x, y, 0, joker.KernelRidge(standardize=False), clock=clock or TimeBudget())


def settings_of(trials: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(trial[name] for name in ("stage", "rows", "kernel", "bandwidth", "lam", "loss")) for trial in trials]


def test_fewer_trials_are_the_first_ones_and_a_quick_search_has_one_stage(rng: np.random.Generator) -> None:
    x = rng.normal(size=(150, 2)).astype(np.float32)
    y = np.sin(2 * x[:, 0])
    some, rows = matrix(x, y), np.arange(100)
    candidate = EncodingCandidate(None, x, "none", EQUAL, kernels=(GAUSSIAN, MATERN12))

    def trials(count: int, quick: bool) -> list[dict[str, Any]]:
        return searched(some, candidate, y, rows, some.estimator, count, quick=quick)[1]

    whole = trials(8, False)
    assert settings_of(trials(2, True))[:8] == settings_of(whole)[:8]  # two candidates with four λ each
    assert {trial["stage"] for trial in trials(8, True)} == {0}
    assert len({trial["stage"] for trial in whole}) > 1
    assert len({(t["stage"], t["kernel"], t["bandwidth"]) for t in whole}) <= 8 + 1  # and the default
    assert max(trial["rows"] for trial in whole) < 100


def test_very_few_rows_have_the_default_settings(rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 2)).astype(np.float32)
    some = matrix(x, x[:, 0])
    candidate = EncodingCandidate(None, x, "none", EQUAL)
    model, trials = searched(some, candidate, x[:, 0], np.arange(5), some.estimator, 6)
    assert trials == []
    assert model.get_params() == some.estimator.get_params()
    each = np.arange(40)  # one row of each class
    classes = TableProblem(x, each, 40, joker.KernelClassifier())
    assert searched(classes, candidate, each, each, classes.estimator, 6)[1] == []


# Fits


@pytest.fixture
def smooth(rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.normal(size=(1_200, 3)).astype(np.float32)
    return x, np.sin(2 * x[:, 0]) * x[:, 1]


FAR_SETTINGS = {"kernel": "matern12", "lam": 1e-3, "method": "conjugate_gradients", "max_epochs": 1, "random_state": 0}


def test_a_fit_that_ends_far_from_its_optimum_is_repeated_with_random_blocks(smooth: tuple[Any, Any]) -> None:
    x, y = smooth
    with pytest.warns(ConvergenceWarning):
        far = joker.KernelRidge(**FAR_SETTINGS).fit(x[:800], y[:800])
    assert far.gap_ > FAR
    found = fit_rows(matrix(x, y), joker.KernelRidge(**FAR_SETTINGS), x, y, np.arange(800))
    assert (found.method, found.lam, found.kernel) == (RANDOM, far.lam, far.kernel)
    assert found.score(x[800:], y[800:]) > max(0.8, far.score(x[800:], y[800:]))


def test_a_fit_that_ends_near_its_optimum_is_kept(smooth: tuple[Any, Any]) -> None:
    x, y = smooth
    near = joker.KernelRidge(lam=1e-2, random_state=0, standardize=False)
    rows = np.arange(800)
    found = fit_rows(matrix(x, y), near, x, y, rows)
    assert found is near
    assert found.method != RANDOM
    assert len(found.dual_coef_) == 800
    assert found.callbacks is None


def test_the_rows_of_a_fit_have_their_weights(rng: np.random.Generator) -> None:
    """A row of weight two counts as two rows."""
    x = rng.normal(size=(60, 2)).astype(np.float32)
    y, w = np.sin(2 * x[:, 0]), rng.integers(1, 4, 60)
    model = joker.KernelRidge(lam=0.1, bandwidth=1.0, standardize=False, scale_target=False, tol=1e-8, random_state=0)
    weighted = TableProblem(x, y, 0, model, sample_weight=w.astype(float))
    found = fit_rows(weighted, joker.KernelRidge(**model.get_params()), x, y, np.arange(60))
    twice = np.repeat(np.arange(60), w)
    expected = fit_rows(matrix(x[twice], y[twice]), model, x[twice], y[twice], np.arange(len(twice)))
    np.testing.assert_allclose(found.predict(x), expected.predict(x), atol=1e-4)


def test_a_fit_ends_when_time_is_up_and_is_not_repeated(smooth: tuple[Any, Any]) -> None:
    x, y = smooth
    clock = Over(60.0)
    watch = EndsInTime(matrix(x, y, clock).clock)
    assert watch.step(SimpleNamespace()) == Reason.TIME.value
    assert EndsInTime(matrix(x, y).clock).step(SimpleNamespace()) is None
    model = joker.KernelRidge(**{**FAR_SETTINGS, "max_epochs": 1_000, "tol": 0.0})
    found = fit_rows(matrix(x, y, clock), model, x, y, np.arange(800))
    assert found is model
    assert found.n_iter_ <= 2
