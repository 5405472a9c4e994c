"""The plan of a table fit: it follows from the shape, and a smaller effort has the first steps of a larger one."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from joker.errors import InvalidParameter
from joker.tables.plan import (
    EFFORTS,
    EQUAL,
    MANY_ROWS,
    MIN_FOLD_ROWS,
    QUICK_ROWS,
    REFIT,
    SEARCH,
    SEARCH_ROWS,
    SearchPlan,
    Step,
    check_effort,
    make_search_plan,
)
from joker.tuning.ard import LAPLACIAN

ROWS = (20, 29, 30, 400, 2_048, 6_000, 6_001, 10_000, 10_001, 60_000, 2_000_000)
FLAGS = [
    {},
    {"gpu": True},
    {"n_features": 700},
    {"n_features": None, "gpu": True},
    {"one_encoding": True},
    {"weightable": False},
    {"laplacian": False},
    {"scalings": False, "weightable": False},
    {"folds": 3},
    {"folds": 1, "held_out": 7},
]


def plans(rows: int, classes: int = 0, **flags: Any) -> list[SearchPlan]:
    return [make_search_plan(effort, rows, 12, classes, **flags) for effort in EFFORTS]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("rows", ROWS)
def test_the_steps_of_a_smaller_effort_are_the_first_ones(rows: int, flags: dict[str, Any]) -> None:
    for classes in (0, 2, 7, 500):
        found = plans(rows, classes, **flags)
        for less, more in pairwise(found):
            assert more.steps[: len(less.steps)] == less.steps
            assert all(step.effort == more.effort for step in more.steps[len(less.steps) :])
            same = ("rows", "classes", "folds", "held_out", "sample")
            assert [getattr(less, name) for name in same] == [getattr(more, name) for name in same]
            assert more.seconds >= less.seconds
        assert found[0].steps
        assert not any(plan.all_rows and not plan.folds for plan in found)  # the members have all rows then
        assert all(step.seconds > 0 and 0 < step.rows <= rows and step.fits >= 1 for step in found[-1].steps)


@pytest.mark.parametrize("rows", ROWS)
def test_an_encoding_is_searched_once_after_the_first_step(rows: int) -> None:
    steps = plans(rows)[-1].steps
    searches = [step.encoding for step in steps if step.kind == SEARCH]
    assert len(set(searches[1:])) == len(searches) - 1
    assert len(searches) >= 6


def test_few_rows_are_all_fitted_and_many_rows_have_held_out_ones() -> None:
    def facts(rows: int) -> tuple[int, int, int]:
        plan = make_search_plan(3, rows, 5, 0)
        return plan.folds, plan.held_out, plan.sample

    assert facts(MIN_FOLD_ROWS - 1) == (0, 0, MIN_FOLD_ROWS - 1)
    assert facts(MIN_FOLD_ROWS) == (5, MIN_FOLD_ROWS, MIN_FOLD_ROWS)
    assert facts(MANY_ROWS) == (5, MANY_ROWS, MANY_ROWS)
    assert facts(MANY_ROWS + 1_000) == (1, 1_400, 5_600)
    assert facts(SEARCH_ROWS + 10_000) == (1, 2_000, SEARCH_ROWS)
    assert facts(1_000_000) == (1, 4_000, SEARCH_ROWS)


def test_the_first_step_is_quick() -> None:
    first = make_search_plan(1, 9_000, 5, 0).steps[0]
    second = make_search_plan(2, 9_000, 5, 0).steps[1]
    assert first.rows == QUICK_ROWS
    assert second.rows > QUICK_ROWS
    assert first.fits < second.fits
    assert first.seconds < second.seconds


def test_what_the_flags_leave_out() -> None:
    def encodings(**flags: Any) -> list[Any]:
        return [step.encoding for step in make_search_plan(5, 2_000, 5, 0, **flags).steps]

    assert any(one.weights == LAPLACIAN for one in encodings())
    assert not any(one.weights == LAPLACIAN for one in encodings(laplacian=False))
    assert {one.weights for one in encodings(weightable=False)} == {EQUAL}
    assert any(one.scaling for one in encodings(weightable=False))
    assert not any(one.scaling for one in encodings(scalings=False))
    assert len(encodings(one_encoding=True)) == 2  # the quick search, and the whole one


def refits(rows: int, **flags: Any) -> list[Step]:
    return [step for step in make_search_plan(5, rows, 5, 0, **flags).steps if step.kind == REFIT]


@pytest.mark.parametrize(
    ("train", "given", "gpu", "expected"),
    [
        (36_000, "auto", False, [(20_000, None), (36_000, None)]),
        (396_000, "auto", False, [(20_000, None), (50_000, None), (396_000, 4_000)]),
        (396_000, None, False, [(20_000, None), (50_000, None)]),  # the exact kernel, as asked
        (396_000, 700, False, [(396_000, None)]),  # the number of the estimator
        (396_000, np.int64(700), False, [(396_000, None)]),
        (36_000, "auto", True, [(36_000, None)]),
        (396_000, "auto", True, [(200_000, None), (396_000, None)]),
        (19_996_000, "auto", True, [(19_996_000, 60_000)]),
        (396_000, 700, True, [(396_000, None)]),
        (396_000, None, True, [(200_000, None), (396_000, None)]),
    ],
)
def test_the_kernel_itself_on_some_rows_and_features_on_all(
    train: int, given: Any, gpu: bool, expected: list[tuple[int, int | None]]
) -> None:
    """A tenth of the rows, at most 4,000, is held out."""
    rows = 40_000 if train == 36_000 else train + 4_000
    steps = refits(rows, n_features=given, gpu=gpu)
    assert list(dict.fromkeys((step.rows, step.n_features) for step in steps)) == expected
    assert all(3 <= step.epochs <= 40 for step in steps)


def test_only_many_rows_are_fitted_again_and_more_effort_has_more_epochs() -> None:
    assert not refits(SEARCH_ROWS)
    exact = [step.epochs for step in refits(400_000) if step.rows == 50_000]
    assert exact == sorted(exact)
    assert exact[-1] > exact[0]


def test_many_classes_take_longer() -> None:
    assert plans(2_000, 500)[2].seconds > plans(2_000, 7)[2].seconds > plans(2_000, 0)[2].seconds


@pytest.mark.parametrize(("rows", "classes"), [(20, 0), (500, 3), (8_000, 0), (90_000, 3)])
def test_the_plan_is_a_table(rows: int, classes: int) -> None:
    plan = make_search_plan(4, rows, 12, classes)
    head, names, *lines = str(plan).splitlines()
    assert f"effort 4: {rows:,} rows, 12 inputs" in head
    assert ("3 classes" in head) == bool(classes)
    held = {0: "no row is held out", 1: f"{plan.held_out:,} rows are held out", 5: "cross-validation with 5 folds"}
    assert held[plan.folds] in head
    assert names.split()[:4] == ["step", "effort", "what", "rows"]
    assert len(lines) == len(plan.steps) + 2
    for line, step in zip(lines, plan.steps, strict=False):
        assert str(step) in line
        assert f"{step.rows:,}" in line
    assert ("members fitted on all rows" in lines[-2]) == plan.all_rows
    assert lines[-1] == f"about {plan.seconds:.0f} s on two cores"


@pytest.mark.parametrize("effort", [0, 6, -1, 2.5, "3", None, True, np.float64(3)])
def test_an_effort_that_is_none(effort: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"effort must be a whole number from 1 to 5; got .*\. Use 3"):
        check_effort(effort)


def test_efforts_are_whole_numbers() -> None:
    assert [check_effort(effort) for effort in (1, np.int32(5))] == [1, 5]
