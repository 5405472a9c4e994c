"""What a table model says of itself: the summary, the progress of the fit and the importance of columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from raw_tables import FAST, IGNORE_OPTIMISM, split

import joker
from joker.tables import report
from joker.tables.encoding import fit_encoding
from joker.tables.report import MAX_SHOWN, column_associations, column_importances, held_out_error
from joker.tables.table import NUMBER, RawColumn, RawTable, read_table

pytestmark = [pytest.mark.usefixtures("few_trials"), IGNORE_OPTIMISM]


# Importances


def table_of(*columns: Any) -> RawTable:
    named = tuple(RawColumn(name, NUMBER, values) for name, values in zip("abcdefgh", columns, strict=False))
    return RawTable(named, len(columns[0]), named=True)


def never() -> bool:
    return False


def test_a_column_is_important_if_its_own_order_matters(rng: np.random.Generator) -> None:
    y, other, third = rng.normal(size=(3, 60))

    def losses(some: RawTable, rows: Any) -> Any:
        return (some.columns[0].values + 0.5 * some.columns[2].values - y[rows] - 0.5 * third[rows]) ** 2

    found = column_importances(table_of(y, other, third), ["a", "b", "c"], losses, np.ones(3), 1.0, 0, never)
    assert found is not None
    assert found[1] == 0
    assert found[0] + found[2] == pytest.approx(1)
    assert found[0] == pytest.approx(0.8, abs=0.1)  # the mean square of a difference is 4 times as large


def test_too_much_work_is_for_the_columns_with_the_largest_correlations(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction may be made for 200 rows in all: fifty rows of each of four columns."""
    x = rng.normal(size=(8, 300))
    asked: list[int] = []

    def losses(some: RawTable, rows: Any) -> Any:
        asked.append(len(rows))
        return sum((column.values - x[j, rows]) ** 2 for j, column in enumerate(some.columns))

    monkeypatch.setattr(report, "IMPORTANCE_ENTRIES", 2e5)
    associations = np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6])
    found = column_importances(table_of(*x), list("abcdefgh"), losses, associations, 1e3, 0, never)
    assert found is not None
    assert (np.flatnonzero(found) == [1, 3, 5, 7]).all()
    assert found.sum() == pytest.approx(1)
    assert asked == [50] * 5


def test_importances_end_when_time_is_up(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 40))
    answers = iter([False, True])

    def out_of_time() -> bool:
        return next(answers)

    assert column_importances(table_of(*x), ["a", "b"], lambda t, r: x[0], np.ones(2), 1.0, 0, out_of_time) is None


@pytest.mark.parametrize("classes", [0, 3])
def test_associations_are_shares_of_squared_correlations(classes: int, rng: np.random.Generator) -> None:
    a, b, c = rng.normal(size=(3, 400))
    y = np.digitize(a + 0.5 * b, [-0.5, 0.5]) if classes else a + 0.5 * b
    table = read_table({"a": a, "b": b, "c": c, "same": np.ones(400)})
    encoding, _ = fit_encoding(table, y, classes, seed=0)
    found = column_associations(encoding, table, y, classes)
    assert len(found) == 3  # the constant column is left out
    assert found.sum() == pytest.approx(1)
    assert found[0] > 2 * found[1] > 10 * found[2]


def test_a_target_without_correlations_has_no_importances() -> None:
    table = read_table({"a": np.arange(40.0)})
    encoding, _ = fit_encoding(table, np.ones(40), 0, seed=0)
    assert column_associations(encoding, table, np.ones(40), 0).tolist() == [0.0]


def importances(X: Any, y: Any, **settings: Any) -> Any:
    kind = joker.JokerRegressor if np.asarray(y).dtype.kind == "f" else joker.JokerClassifier
    return kind(**{**FAST, **settings}).fit(X, y).feature_importances_


@pytest.mark.filterwarnings("ignore:max_time=0 ended the fit")
@pytest.mark.parametrize("case", ["no time", "no time for classes", "wide", "no held-out rows", "constant target"])
def test_importances_are_numbers(case: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rng.normal(size=(60, 4))
    x[:, 3] = 1.0
    y = x[:, 0] + 0.1 * rng.normal(size=60)
    if case == "wide":
        monkeypatch.setattr(report, "IMPORTANCE_ENTRIES", 1e8)  # else it takes long
        wide = rng.normal(size=(60, 150))
        found = importances(wide, wide[:, 7])
        assert found.argmax() == 7
    elif case == "constant target":
        assert importances(x, np.ones(60)).tolist() == [0.0] * 4
        return
    else:
        target = y > 0 if case.endswith("classes") else y
        few = slice(25) if case == "no held-out rows" else slice(60)
        settings = {"max_time": 0} if case.startswith("no time") else {}
        found = importances(x[few], target[few], **settings)
        assert found.argmax() == 0
        assert found[3] == 0
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)


# Summary and progress


@pytest.fixture(scope="module")
def model(few_trials: None) -> joker.JokerRegressor:
    return joker.JokerRegressor(**FAST).fit(*split(100))


def test_print_shows_what_a_fit_decided_and_found(model: joker.JokerRegressor) -> None:
    lines = str(model).splitlines()
    assert lines[0] == "JokerRegressor, fitted"
    facts = dict(line.strip().split(": ", 1) for line in lines[1:])
    score, error = model.held_out_score_, model.held_out_error_
    assert facts["held-out score"] == f"R² {score:.4f} ± {error:.4f} (standard error)"
    assert facts["held out"] == "random rows"
    assert facts["columns left out"] == "code (an identifier: 100 distinct values), country (constant)"
    assert "city (category: " in facts["columns recoded"]
    assert "sold (date: " in facts["columns recoded"]
    assert "size" not in facts["columns recoded"]
    assert facts["effort"] == f"1, {model.seconds_:.1f} s"
    members = [line for line in lines if line.strip().startswith("member of weight")]
    assert len(members) == len(model.members_)
    for line, member in zip(members, model.members_, strict=True):
        for fact in (f"{member['weight']:.2f}", member["kernel"], f"gap {member['gap']:.2g}"):
            assert fact in line


def test_the_standard_error_is_that_of_a_mean(model: joker.JokerRegressor) -> None:
    """An R² of 0.9 on 100 rows has an error of some hundredths."""
    assert 0.003 < model.held_out_error_ < 0.06
    frame, y = split(100)
    classifier = joker.JokerClassifier(**FAST).fit(frame, y > np.median(y))
    p = classifier.held_out_score_
    assert classifier.held_out_error_ == pytest.approx((p * (1 - p) / 99) ** 0.5)
    assert "accuracy" in str(classifier)


def test_the_rows_of_a_group_count_as_one_in_the_standard_error(rng: np.random.Generator) -> None:
    """Each row four times: the error is that of the rows, not half of it."""
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + rng.normal(size=40)
    group = np.repeat(np.arange(40), 4)
    grouped = joker.JokerRegressor(**FAST).fit(x[group], y[group], groups=group)
    rows = joker.JokerRegressor(**FAST).fit(x, y)
    assert grouped.held_out_error_ == pytest.approx(rows.held_out_error_, rel=0.5)


def test_groups_of_one_row_have_the_standard_error_of_rows() -> None:
    """Few groups have a larger one than many: their mean is known less well."""
    scores, seen = np.array([0.2, 0.9, 0.4, 1.0]), []
    for groups in (None, np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4)):
        problem = SimpleNamespace(validation=SimpleNamespace(blocks=lambda groups=groups: groups))
        fitted: Any = SimpleNamespace(held_rows=np.arange(4))
        seen.append(held_out_error(fitted, problem, lambda *_: scores))  # type: ignore[arg-type]
    assert seen[1] == pytest.approx(seen[0])
    assert seen[2] == pytest.approx(np.std([0.55, 0.7], ddof=1) / 2**0.5)
    assert seen[3] is None


def test_the_summary_of_a_fit_that_time_ended() -> None:
    with pytest.warns(UserWarning, match="max_time=0 ended the fit"):
        model = joker.JokerRegressor(max_time=0, random_state=0).fit(*split(60))
    text = str(model)
    assert "ended by max_time" in text
    assert "held out: no row is held out" in text
    assert "held-out score" not in text


def test_a_summary_names_some_columns_only(rng: np.random.Generator) -> None:
    frame = {f"constant{j}": [1] * 40 for j in range(MAX_SHOWN + 5)} | {"x": rng.normal(size=40)}
    text = str(joker.JokerRegressor(**FAST).fit(frame, frame["x"]))
    assert "constant0 (constant)" in text
    assert text.count("(constant)") == MAX_SHOWN
    assert "and 5 more" in text


def test_an_unfitted_model_prints_as_its_representation() -> None:
    for model in (joker.JokerRegressor(effort=2), joker.JokerClassifier(groups="person")):
        assert str(model) == repr(model)
        assert str(model).startswith(type(model).__name__ + "(")


def test_verbose_writes_the_steps_and_the_summary(
    model: joker.JokerRegressor, capfd: pytest.CaptureFixture[str]
) -> None:
    frame, y = split(100)
    again = joker.JokerRegressor(verbose=1, **FAST).fit(frame, y)
    printed, said = capfd.readouterr()
    assert printed == ""
    steps = again.plan_.steps
    expected = [f"{number}/{len(steps) + 1} {step}" for number, step in enumerate(steps, start=1)]
    assert said.splitlines()[: len(steps) + 1] == [*expected, f"{len(steps) + 1}/{len(steps) + 1} members on all rows"]
    assert str(again) in said
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert model.verbose == 0
    joker.JokerRegressor(**FAST).fit(frame[:40], y[:40])
    assert capfd.readouterr() == ("", "")


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with report.progress_of(joker.JokerRegressor(verbose=1)) as progress:
        progress(0, 2, "search, equal feature weights")
        progress(1, 2, "members on all rows")
    said = capfd.readouterr().err
    assert "members on all rows" in said


def test_the_html_and_the_card_have_the_same_facts(model: joker.JokerRegressor) -> None:
    for text in (model._repr_html_(), model.card()):
        assert "standard error" in text
        assert "random rows" in text
        assert f"1, {model.seconds_:.1f} s" in text
