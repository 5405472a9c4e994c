"""The encodings that a search tries, and their order."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
from raw_tables import panel

import joker
from joker.tables import search as module
from joker.tables.encoding import Encoding
from joker.tables.plan import TableProblem
from joker.tables.search import MAX_FOLD_ROWS, MAX_LAPLACIAN_INPUTS, EncodingCandidate, encoding_candidates
from joker.tables.table import read_table
from joker.tuning.ard import GAUSSIAN, MATERN12
from joker.tuning.halving import TimeBudget

LONG = 1e6  # seconds


def problem(x: Any, y: Any) -> TableProblem:
    return TableProblem(read_table(x), y, 0, joker.KernelRidge(standardize=False), TimeBudget(LONG), 0)


def test_the_inputs_of_a_fold_have_its_weights_alone(rng: np.random.Generator) -> None:
    plain = rng.normal(size=(20, 3)).astype(np.float32)
    weights, of_fold = np.array([1.0, 0.5, 0.1]), np.array([0.2, 1.0, 3.0])
    candidate = EncodingCandidate(
        Encoding((), (), True, weights), plain * weights.astype(np.float32), "robust", "for matern12", 1.0, {},
        lambda train: Encoding((), (), True, of_fold),
    )  # fmt: skip
    encoding, x = candidate.of_fold(np.arange(10))
    assert encoding is not None
    assert encoding.weights is of_fold
    np.testing.assert_allclose(x, plain * of_fold, rtol=1e-5)


def test_weights_come_first_where_few_columns_matter(rng: np.random.Generator) -> None:
    x = rng.normal(size=(400, 8))
    found = list(encoding_candidates(problem(x, np.sin(2 * x[:, 0]))))
    assert [one.weights for one in found] == ["for matern12", "for laplacian", "equal"]
    weights = found[0].encoding.weights  # type: ignore[union-attr]
    assert weights is not None
    assert weights.argmax() == 0
    assert weights[1:].max() < 0.5


def test_equal_weights_come_first_where_all_columns_matter(rng: np.random.Generator) -> None:
    x = rng.normal(size=(400, 4))
    assert next(encoding_candidates(problem(x, np.sin(x.sum(axis=1))))).weights == "equal"


def test_columns_without_enough_rows_have_equal_weights(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 100))
    assert [one.weights for one in encoding_candidates(problem(x, x[:, 0]))] == ["equal"]


def test_many_inputs_have_no_laplacian(rng: np.random.Generator) -> None:
    x = rng.normal(size=(60, MAX_LAPLACIAN_INPUTS + 1))
    (found,) = encoding_candidates(problem(x, x[:, 0]))
    assert found.search == {"kernels": (GAUSSIAN, MATERN12), "relevance": False}


def test_every_step_of_the_weights_has_other_rows(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most half of the rows; whole groups if a column names groups."""
    steps: list[np.ndarray] = []

    def capture(x: Any, groups: Any, samples: Any, kernel: str, out_of_time: Any) -> None:
        steps[:] = [sample.rows for sample in islice(samples, 2)]

    monkeypatch.setattr(module, "fit_ard", capture)
    x = rng.normal(size=(400, 4))
    list(encoding_candidates(problem(x, x[:, 0])))
    assert [len(rows) for rows in steps] == [200, 200]
    assert len(np.intersect1d(*steps)) == 0

    frame, y = panel()
    list(encoding_candidates(problem(frame, np.asarray(y))))
    persons = frame["person"].to_numpy()
    assert not np.array_equal(*steps)
    for rows in steps:
        counts = [np.sum(persons[rows] == person) / np.sum(persons == person) for person in np.unique(persons[rows])]
        assert len(rows) <= len(y) // 2
        assert np.mean(np.array(counts) == 1) > 0.9  # all but the last group, of which a part had room


def test_folds_of_few_rows_have_weights_of_their_own(rng: np.random.Generator) -> None:
    for rows, own in ((300, True), (MAX_FOLD_ROWS + 1, False)):
        x = rng.normal(size=(rows, 5))
        candidate = next(encoding_candidates(problem(x, np.sin(3 * x[:, 0]) + 0.5 * rng.normal(size=rows))))
        encoding, inputs = candidate.of_fold(np.arange(rows // 2))
        assert (encoding is not candidate.encoding) == own
        assert np.array_equal(inputs, candidate.x) != own
        if own:
            table = read_table(x)
            assert np.allclose(inputs, encoding.transform(table), rtol=1e-5, atol=1e-6)  # type: ignore[union-attr]


def test_held_out_rows_of_noise_are_not_predicted(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(300, 30)), rng.normal(size=300)
    model = joker.JokerRegressor(max_time=3, random_state=0).fit(x, y)
    assert model.held_out_score_ < 0.05
