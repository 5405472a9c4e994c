"""From a raw file to predictions with two commands: words, dates, missing values, and levels that are new."""

import gzip
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from program import refused, run, well
from raw_tables import panel, raw_frame

import joker
from joker.tables import plan

FAST = ("--effort", 1, "--seed", 0)


@pytest.fixture(scope="module", autouse=True)
def few_trials() -> Iterator[None]:
    """One candidate is enough: these tests are about the program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "QUICK_TRIALS", 1)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a raw table and the model that was fitted on it."""
    where = tmp_path_factory.mktemp("raw")
    raw_frame().to_csv(where / "train.csv", index=False)
    new = raw_frame(50, seed=1).drop(columns="price")
    new.loc[0, "city"] = "Lugano"
    new.to_csv(where / "new.csv", index=False)
    done = run("fit", where / "train.csv", "--target", "price", *FAST, "--out", where / "m.joker")
    assert done.status == 0, done.err
    (where / "printed.txt").write_text(done.out + done.err, encoding="utf-8")
    return where


def predictions(path: Path) -> Any:
    return pd.read_csv(path)["prediction"].to_numpy()


def test_two_commands(folder: Path, tmp_path: Path) -> None:
    well("predict", folder / "m.joker", folder / "new.csv", "--out", tmp_path / "p.csv", "-q")
    found = predictions(tmp_path / "p.csv")
    truth = raw_frame(50, seed=1)["price"]
    assert np.corrcoef(found, truth)[0, 1] > 0.8
    printed = (folder / "printed.txt").read_text(encoding="utf-8")
    for words in ("held out r2", "leaderboard", "an identifier", "means regression", "bandwidth"):
        assert words in printed


def test_the_model_is_that_of_python(folder: Path) -> None:
    model = joker.load(folder / "m.joker")
    assert isinstance(model, joker.JokerRegressor)
    frame = pd.read_csv(folder / "new.csv")
    expected = model.predict(frame)
    assert np.allclose(model.predict(frame[frame.columns[::-1]]), expected)
    assert model.target_name_ == "price"


@pytest.mark.parametrize("kind", ["reordered", "semicolons", "gz", "parquet", "tabs", "extra column", "with target"])
def test_files_of_other_forms_give_the_same_predictions(kind: str, folder: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(folder / "new.csv")
    well("predict", folder / "m.joker", folder / "new.csv", "--out", tmp_path / "expected.csv", "-q")
    path = tmp_path / "same.csv"
    if kind == "reordered":
        frame[frame.columns[::-1]].to_csv(path, index=False)
    elif kind == "semicolons":
        frame.to_csv(path, index=False, sep=";", decimal=",")
    elif kind == "gz":
        path = tmp_path / "same.csv.gz"
        path.write_bytes(gzip.compress((folder / "new.csv").read_bytes()))
    elif kind == "parquet":
        path = tmp_path / "same.parquet"
        frame.to_parquet(path)
    elif kind == "tabs":
        frame.to_csv(path, index=False, sep="\t", quoting=1)
    elif kind == "extra column":
        frame.assign(more=1).to_csv(path, index=True)
    else:
        frame.assign(price=1.0).to_csv(path, index=False)
    well("predict", folder / "m.joker", path, "--out", tmp_path / "p.csv", "-q")
    assert np.allclose(predictions(tmp_path / "p.csv"), predictions(tmp_path / "expected.csv"))


def test_missing_columns_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(folder / "new.csv").rename(columns={"size": "area"})
    frame.to_csv(tmp_path / "bad.csv", index=False)
    said = refused("predict", folder / "m.joker", tmp_path / "bad.csv", "--out", tmp_path / "p.csv")
    assert "missing: 'size'; unknown: 'area'" in said
    assert not (tmp_path / "p.csv").exists()


def test_evaluate_and_info(folder: Path) -> None:
    found = well("evaluate", folder / "m.joker", folder / "train.csv", "--json").document
    assert found["rows"] == 240
    assert found["r2"] > 0.9
    facts = well("info", folder / "m.joker", "--json").document
    assert [row["name"] for row in facts["columns"]] == ["size", "city", "age", "sold", "new", "code", "country"]
    shown = well("info", folder / "m.joker").out
    assert "an identifier: 240 distinct values" in shown
    assert "importance" in shown


def test_info_shows_columns_of_groups(tmp_path: Path) -> None:
    frame, y = panel(rows=160)
    frame.assign(wage=y).to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "wage", *FAST, "--kinds", "person=group", "-q")
    well("fit", tmp_path / "d.csv", *options, "--out", tmp_path / "m.joker")
    facts = well("info", tmp_path / "m.joker", "--json").document
    assert facts["columns"][0]["kind"] == "group"
    assert "group codes" in well("info", tmp_path / "m.joker").out
    frame.assign(person=-1).to_csv(tmp_path / "new.csv", index=False)
    well("predict", tmp_path / "m.joker", tmp_path / "new.csv", "--out", tmp_path / "p.csv", "-q")
    assert np.isfinite(predictions(tmp_path / "p.csv")).all()


def test_classes_with_probabilities(tmp_path: Path) -> None:
    frame = raw_frame(150)
    frame["price"] = np.where(frame["price"] > 4.5, "high", "low")
    frame.to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "-1", *FAST, "--class-weight", "balanced", "--json", "-q", "--out", tmp_path / "m.joker")
    facts = json.loads(well("fit", tmp_path / "d.csv", *options).out)
    assert facts["classes"] == ["high", "low"]
    assert facts["target"] == "price"
    well("predict", tmp_path / "m.joker", tmp_path / "d.csv", "--proba", "--out", tmp_path / "p.csv", "-q")
    table = pd.read_csv(tmp_path / "p.csv")
    assert np.allclose(table["probability=high"] + table["probability=low"], 1)
    assert well("evaluate", tmp_path / "m.joker", tmp_path / "d.csv", "--json").document["accuracy"] > 0.8


# What new users ran into


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a saved index, a name with a comma, missing values and a target in the middle."""
    frame = raw_frame(60)[["size", "price", "age"]].rename(columns={"age": "age, in years"})
    frame.to_csv(tmp_path / "d.csv")
    return tmp_path / "d.csv"


def test_a_saved_index_is_no_input(table: Path, tmp_path: Path) -> None:
    well("fit", table, "-t", "price", *FAST, "-q", "--out", tmp_path / "m.joker")
    assert [row["name"] for row in joker.load(tmp_path / "m.joker").columns_] == ["size", "age, in years"]
    options = ("--loss", "squared", "-m", 10, "--drop", '"age, in years"', "-q", "--out", tmp_path / "k.joker")
    well("fit", table, "-t", "price", *options)
    assert joker.load(tmp_path / "k.joker").schema_.names == ("size",)


def test_names_with_commas(table: Path, tmp_path: Path) -> None:
    well("fit", table, "-t", "price", "--columns", 'size,"age, in years"', *FAST, "-q", "--out", tmp_path / "m.joker")
    well("fit", table, "-t", "age, in years", "--drop", "price", *FAST, "-q", "--out", tmp_path / "m.joker")
    assert [row["name"] for row in joker.load(tmp_path / "m.joker").columns_] == ["size"]


@pytest.mark.parametrize("missing", ["impute", "drop", "error"])
def test_missing_values(missing: str, table: Path, tmp_path: Path) -> None:
    options = ("-t", "price", "--missing", missing, *FAST, "--out", tmp_path / "m.joker")
    if missing == "error":
        assert "--missing impute or --missing drop" in refused("fit", table, *options)
        return
    done = well("fit", table, *options)
    assert ("rows with missing values are left out" in done.err) == (missing == "drop")


def test_a_kernel_machine_takes_no_missing_values(table: Path, tmp_path: Path) -> None:
    options = ("-t", "price", "--loss", "squared", "--missing", "impute", "--out", tmp_path / "m.joker")
    assert "Use --model table" in refused("fit", table, *options, status=2)
    options = ("-t", "price", "--loss", "squared", "--model", "table", "--out", tmp_path / "m.joker")
    assert "--loss must not be given" in refused("fit", table, *options, status=2)


def test_kinds_of_columns(table: Path, tmp_path: Path) -> None:
    options = ("-t", "price", "--kinds", "size=drop", *FAST, "-q", "--out", tmp_path / "m.joker")
    well("fit", table, *options)
    assert joker.load(tmp_path / "m.joker").columns_[0]["kind"] == "left out"
    bad = ("-t", "price", "--kinds", "size", *FAST, "-q", "--out", tmp_path / "m.joker")
    assert "--kinds must be names with kinds" in refused("fit", table, *bad, status=2)


def test_the_last_column_of_a_named_table(table: Path, tmp_path: Path) -> None:
    well("fit", table, "-t", "-1", "--drop", "size", *FAST, "-q", "--out", tmp_path / "m.joker")
    assert joker.load(tmp_path / "m.joker").target_name_ == "age, in years"


@pytest.mark.parametrize("model", [FAST, ("--loss", "squared", "-m", 10)])
def test_files_with_spaces_and_decimal_commas(model: tuple[object, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).round(3)
    lines = ["a   b  y", *(f"{a} {b}    {a + b:.3f}" for a, b in x)]
    (tmp_path / "d.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    well("fit", tmp_path / "d.txt", "-t", "y", *model, "-q", "--out", tmp_path / "m.joker")
    well("predict", tmp_path / "m.joker", tmp_path / "d.txt", "-q", "--out", tmp_path / "p.csv")
    expected = predictions(tmp_path / "p.csv")
    assert np.corrcoef(expected, x.sum(axis=1))[0, 1] > 0.8
    text = "\n".join(";".join(line.split()) for line in lines).replace(".", ",")
    (tmp_path / "e.csv").write_text(text + "\n", encoding="utf-8")
    for decimal in ((), ("--decimal", ",")):
        well("predict", tmp_path / "m.joker", tmp_path / "e.csv", *decimal, "-q", "--out", tmp_path / "p.csv")
        assert np.allclose(predictions(tmp_path / "p.csv"), expected)
    said = refused("fit", tmp_path / "e.csv", "-t", "y", "--decimal", "x", "--out", tmp_path / "m.joker", status=2)
    assert "--decimal must be" in said or "decimal must be" in said


def test_a_model_of_the_program_matches_names_in_python(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    frame.assign(y=frame["a"] > 0).to_csv(tmp_path / "d.csv", index=False)
    well("fit", tmp_path / "d.csv", "-t", "y", "--task", "classify", "-m", 50, "-q", "--out", tmp_path / "m.joker")
    model = joker.load(tmp_path / "m.joker")
    expected = model.predict(frame)
    assert np.array_equal(model.predict(frame[["c", "a", "b"]]), expected)
    with pytest.raises(joker.errors.InvalidData, match="missing: 'b'"):
        model.predict(frame.rename(columns={"b": "z"}))


def test_codes_and_marks_of_missing_values_in_a_file(tmp_path: Path) -> None:
    rows = [f"{7 * i:05d},{'-' if i % 4 == 0 else i},{'.' if i % 9 == 0 else i}" for i in range(1, 80)]
    (tmp_path / "d.csv").write_text("zip,age,y\n" + "\n".join(rows), encoding="utf-8")
    options = ("--target", "y", *FAST, "--json", "-q", "--out", tmp_path / "m.joker")
    facts = json.loads(well("fit", tmp_path / "d.csv", *options).out)
    assert facts["estimator"] == "JokerRegressor"
    kinds = {row["name"]: (row["kind"], row["encoding"]) for row in facts["columns"]}
    assert kinds["zip"] == ("left out", "an identifier: 71 distinct values")
    assert kinds["age"][0] == "number"
    assert "indicator" in kinds["age"][1]
    found = well("evaluate", tmp_path / "m.joker", tmp_path / "d.csv", "--json").document
    assert found["rows"] == 71


def test_a_target_of_written_numbers_is_regression(tmp_path: Path) -> None:
    rows = [f'{i},"${1_000 + 10 * i:,}"' for i in range(80)]
    (tmp_path / "d.csv").write_text("size,price\n" + "\n".join(rows), encoding="utf-8")
    options = ("--target", "price", *FAST, "-q", "--out", tmp_path / "m.joker")
    well("fit", tmp_path / "d.csv", *options)
    found = well("evaluate", tmp_path / "m.joker", tmp_path / "d.csv", "--json").document
    assert found["r2"] > 0.9


def test_a_target_of_distinct_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("size,name\n" + "\n".join(f"{i},n{i}" for i in range(60)), encoding="utf-8")
    said = refused("fit", tmp_path / "d.csv", "--target", "name", *FAST, "--out", tmp_path / "m.joker")
    assert "text with 60 distinct values in 60 rows, such as 'n0'" in said


# The search: effort, splits, plan and time


@pytest.fixture(scope="module")
def persons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with the rows of persons, whose levels differ, and with days."""
    path = tmp_path_factory.mktemp("persons") / "persons.csv"
    frame, y = panel(rows=160)
    hired = [f"20{year:02d}-01-15" for year in np.arange(160) % 20]
    frame.assign(hired=hired, wage=y).to_csv(path, index=False)
    return path


def test_the_summary_of_a_fit(persons: Path, tmp_path: Path) -> None:
    fit = ("fit", persons, "-t", "wage", "--groups", "person", *FAST, "--out", tmp_path / "m.joker", "--json")
    done = well(*fit)
    assert "1/2 search" in done.err
    assert "2/2 members on all rows" in done.err
    assert "whole groups of 'person'" in done.err
    assert "(standard error)" in done.err
    facts = done.document
    assert facts["splits"] == "whole groups of 'person'"
    assert facts["effort"] == 1
    assert facts["stopped_by_time"] is False
    assert facts["seconds"] > 0
    assert facts["held_out_error"] > 0
    assert facts["columns_left_out"] == ["person"]
    assert well(*fit, "-q").err == ""
    assert joker.load(tmp_path / "m.joker").get_params()["verbose"] == 0


def test_the_same_command_gives_the_same_model(tmp_path: Path) -> None:
    rows = raw_frame(24)
    rows.to_csv(tmp_path / "d.csv", index=False)
    fit = ("fit", tmp_path / "d.csv", "-t", "price", *FAST, "-q", "--out")
    well(*fit, tmp_path / "a.joker")
    well(*fit, tmp_path / "b.joker")
    one, two = (joker.load(tmp_path / name) for name in ("a.joker", "b.joker"))
    assert np.array_equal(one.predict(rows), two.predict(rows))


@pytest.mark.parametrize(
    ("options", "held_out"),
    [
        ((), "cross-validation with 5 folds"),
        (("--cv", 3), "cross-validation with 3 folds"),
        (("--time", "hired"), "32 rows are held out"),
        (("--time", "hired", "--columns", "person,hired"), "32 rows are held out"),
    ],
)
def test_a_dry_run_prints_the_plan_of_the_search(options: tuple[object, ...], held_out: str, persons: Path) -> None:
    before = sorted(persons.parent.iterdir())
    shown = well("fit", persons, "-t", "wage", *options, "--effort", 2, "--dry-run").out
    assert held_out in shown
    assert "effort 2: 160 rows" in shown
    assert "in all, at most" in shown
    assert sorted(persons.parent.iterdir()) == before


def test_the_plan_as_json(persons: Path) -> None:
    found = [
        well("fit", persons, "-t", "wage", "--effort", effort, "--dry-run", "--json", "-q").document
        for effort in (1, 2)
    ]
    assert [one["effort"] for one in found] == [1, 2]
    assert found[1]["steps"][: len(found[0]["steps"])] == found[0]["steps"]
    assert 0 < found[0]["seconds"] < found[1]["seconds"]
    assert found[0]["total"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--effort", 9), "effort must be a whole number from 1 to 5; got 9"),
        (("--effort", 3, "--loss", "squared"), "--effort needs the model for raw tables"),
        (("--groups", "person", "--kernel", "laplacian"), "--groups needs the model for raw tables"),
        (("--time", "hired", "--cv", 3, "--model", "kernel"), "--time, --cv needs the model for raw tables"),
        (("--groups", "person", "--time", "hired"), "time holds out later rows, and cannot be combined with groups"),
        (("--groups", "persn"), "Did you mean 'person'?"),
        (("--groups", "person", "--drop", "person"), "--groups must name a column that is neither the target nor left"),
        (("--time", "wage"), "--time must name a column that is neither the target nor left out; got 'wage'"),
        (("--cv", 500), "cv must be a number of folds"),
        (("--max-epochs", 3, "--model", "table"), "--model table finds its own settings; --max-epochs must not be"),
    ],
)
def test_options_that_do_not_belong_together(
    options: tuple[object, ...], said: str, persons: Path, tmp_path: Path
) -> None:
    assert said in refused("fit", persons, "-t", "wage", *options, "-q", "--out", tmp_path / "m.joker", status=2)


def test_a_fit_that_time_ends_says_so(persons: Path, tmp_path: Path) -> None:
    fit = ("fit", persons, "-t", "wage", "--max-time", 0, "--json", "-q", "--out", tmp_path / "m.joker")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = well(*fit)
    assert done.err.startswith("joker: warning: --max-time 0 ended the fit before the work of --effort 3 was done")
    assert done.document["stopped_by_time"] is True
    assert np.isfinite(joker.load(tmp_path / "m.joker").predict(pd.read_csv(persons))).all()


@pytest.mark.parametrize("option", ["--resume", "--no-resume"])
@pytest.mark.parametrize("kind", ["text", "numbers", "named"])
def test_a_table_fit_is_not_resumed(kind: str, option: str, folder: Path, tmp_path: Path) -> None:
    """The option once made a kernel machine of a table of numbers, and failed on the first word of a raw table."""
    path, options = folder / "train.csv", ["--model", "table"] if kind == "named" else []
    if kind == "numbers":
        path = tmp_path / "n.csv"
        raw_frame()[["price", "size"]].to_csv(path, index=False)
    out = tmp_path / "m.joker"
    said = refused("fit", path, "--target", "price", *FAST, *options, "--out", out, option, status=2)
    assert f"{option} must be used with a kernel machine, which writes checkpoints" in said
    assert not list(tmp_path.glob("m.joker*"))
