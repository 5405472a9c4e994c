"""Decisions on columns: rules propose, and errors on held-out rows decide."""

from typing import Any

import numpy as np
from raw_tables import counted, texts

import joker
from joker.tables.choices import KEPT, lasting, later_mean_square, proposed, with_useful_proposals
from joker.tables.columns import decide_kinds
from joker.tables.encoding import fit_encoding
from joker.tables.problem import TableProblem
from joker.tables.search import choose_kinds
from joker.tables.table import read_table
from joker.tuning.ard import ArdSample, coded_targets

ROWS = 600


def problem_of(frame: dict[str, Any], y: Any, **settings: Any) -> TableProblem:
    return TableProblem(read_table(frame), y, 0, joker.KernelRidge(standardize=False), **settings)


def kinds_of(frame: dict[str, Any], y: Any, **settings: Any) -> dict[str, Any]:
    return {kind.name: kind for kind in choose_kinds(problem_of(frame, y, **settings))[0]}


def test_an_identifier_is_a_number_where_that_lowers_the_error(rng: np.random.Generator) -> None:
    order, a = rng.permutation(10 * ROWS)[:ROWS], rng.normal(size=ROWS)
    kinds = kinds_of({"id": order, "a": a}, order / 1e3 + a)
    assert (kinds["id"].kind, kinds["id"].reason) == ("number", KEPT)
    assert kinds_of({"id": order, "a": a}, a + 0.1 * rng.normal(size=ROWS))["id"].kind == "drop"
    assert kinds_of({"rownames": order, "a": a}, order / 1e3 + a)["rownames"].kind == "drop"
    assert kinds_of({"id": order, "a": a}, order / 1e3 + a, columns={"id": "drop"})["id"].kind == "drop"


def test_text_is_left_out_where_it_does_not_help(rng: np.random.Generator) -> None:
    note, a = [f"{text} {j}" for j, text in enumerate(texts(rng, ROWS))], rng.normal(size=ROWS)
    helpful = kinds_of({"note": note, "a": a}, counted(note) + a)
    assert helpful["note"].kind == "text"
    useless = kinds_of({"note": note, "a": a}, a + 0.1 * rng.normal(size=ROWS))
    assert (useless["note"].kind, useless["note"].reason) == ("drop", "text that does not lower the held-out error")
    assert kinds_of({"note": note, "a": a}, a, columns={"note": "text"})["note"].kind == "text"


def test_categories_of_many_words_become_text(rng: np.random.Generator) -> None:
    remarks = texts(rng, 300)
    note = [remarks[j] for j in rng.integers(300, size=ROWS)]
    problem = problem_of({"note": note, "a": rng.normal(size=ROWS)}, counted(note))
    kinds = decide_kinds(problem.inputs)
    assert kinds[0].kind == "category"
    assert [kind.kind for kind in proposed(problem, kinds).values()] == ["text"]
    encoding, x = fit_encoding(problem.inputs, problem.y, 0, kinds=kinds)
    assert with_useful_proposals(problem, kinds, encoding, x)[0].kind == "text"


def test_codes_that_later_rows_refute_are_not_used(rng: np.random.Generator) -> None:
    """The effect of a group turns into its opposite."""
    day, group = np.arange(ROWS), rng.integers(60, size=ROWS)
    of_group = rng.normal(size=60)
    noise = 0.1 * rng.normal(size=ROWS)
    for changes in (False, True):
        effect = np.where(changes & (day >= 0.7 * ROWS), -1, 1) * of_group[group]
        problem = problem_of({"group": group, "day": day, "size": rng.normal(size=ROWS)}, effect + noise)
        kinds = decide_kinds(problem.inputs)
        encoding, x = fit_encoding(problem.inputs, problem.y, 0, kinds=kinds)
        proposal = {0: decide_kinds(problem.inputs, {"group": "group"})[0]}
        assert list(lasting(problem, proposal, encoding, x)) == ([] if changes else [0])


def test_the_error_of_later_rows_is_that_of_a_kernel_ridge_regression(rng: np.random.Generator) -> None:
    x = rng.normal(size=(80, 2))
    y = coded_targets(x[:, 0] + 0.05 * rng.normal(size=80), 0)
    assert later_mean_square(x, ArdSample(np.arange(80), y)) < 0.1
    drift = coded_targets(np.where(np.arange(80) < 60, x[:, 0], -x[:, 0]), 0)
    assert later_mean_square(x, ArdSample(np.arange(80), drift)) > 1
