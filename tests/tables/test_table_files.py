"""Table models that were written once are read for ever: dates, categories, missing values and all."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from raw_tables import FAST

import joker
from joker.errors import InvalidData, InvalidFile, InvalidParameter
from joker.losses import Squared
from joker.models import files as model_files

pytestmark = pytest.mark.usefixtures("few_trials")
FIXTURES = Path(__file__).parent / "fixtures"
KERNEL_FIXTURES = Path(__file__).parents[1] / "estimators" / "fixtures"
# Never write these files again; where the format changes, a new file joins them.
FILES = ("version3_table_classifier", "version3_table_regressor", "version4_table_regressor")


@pytest.mark.parametrize("name", FILES)
def test_files_of_earlier_versions_are_read(name: str) -> None:
    """Rows with unknown categories, missing values and new dates; only the rounding of a processor may differ."""
    model = joker.load(FIXTURES / f"{name}.joker")
    expected = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    assert type(model).__name__ == expected["estimator"]
    assert model.columns_ == expected["columns"]
    assert {column["kind"] for column in model.columns_} == {"number", "category", "date"}
    for method, values in expected["values"].items():
        found = getattr(model, method)(expected["rows"])
        if method == "predict" and name.endswith("classifier"):
            assert found.tolist() == values
        else:
            assert_allclose(found, np.array(values), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_saved_again_has_the_same_bytes(name: str, tmp_path: Path) -> None:
    path = FIXTURES / f"{name}.joker"
    for again in (tmp_path / "one", tmp_path / "two"):
        joker.load(path).save(again)
        path = again
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@dataclass(frozen=True)
class Half(Squared):
    """A loss of the user's own."""

    share: float = 0.5


class OwnRegressor(joker.JokerRegressor):
    """A class of the user's own."""


ROWS = [{"a": a, "b": b} for a in range(12) for b in "uv"]
TARGETS = [float(row["a"]) for row in ROWS]


def test_a_loss_of_the_user_is_given_to_load(tmp_path: Path) -> None:
    model = joker.JokerRegressor(loss=Half(), **FAST).fit(ROWS, TARGETS)
    model.save(tmp_path / "m")
    with pytest.raises(InvalidParameter, match=r"loss must be the one that the model was created with, Half"):
        joker.load(tmp_path / "m")
    again = joker.load(tmp_path / "m", loss=Half())
    assert np.array_equal(again.predict(ROWS), model.predict(ROWS))


def test_a_file_says_nothing_of_the_processes_of_the_fit(tmp_path: Path) -> None:
    model = joker.JokerRegressor(n_jobs=1, **FAST).fit(ROWS, TARGETS)
    model.save(tmp_path / "m")
    assert joker.load(tmp_path / "m").n_jobs is None


def test_a_model_without_held_out_score_has_none_after_loading(tmp_path: Path) -> None:
    model = joker.JokerRegressor(**FAST).fit(ROWS, TARGETS)
    model.held_out_score_ = None
    model.save(tmp_path / "m")
    again = joker.load(tmp_path / "m")
    assert again.held_out_score_ is None
    assert "on held-out rows" not in again.card() + model.card()


def test_a_class_of_the_user_is_refused(tmp_path: Path) -> None:
    model = OwnRegressor(**FAST).fit(ROWS, TARGETS)
    with pytest.raises(InvalidParameter, match=r"a class of your own\. Use JokerRegressor\."):
        model.save(tmp_path / "m")


def test_a_table_model_is_no_member_of_a_table_model(tmp_path: Path) -> None:
    document, tensors = model_files.read(FIXTURES / f"{FILES[1]}.joker")
    inner = {name: value for name, value in document.items() if name not in ("format", "version", "sha256")}
    outer = {**inner, "members": [{**inner["members"][0], "model": inner}]}
    model_files.write(tmp_path / "m", outer, {f"0.{name}": t for name, t in tensors.items()}, version=3)
    with pytest.raises(InvalidFile, match="members of a table model must be kernel estimators; got JokerRegressor"):
        joker.load(tmp_path / "m")


@pytest.mark.parametrize("path", [FIXTURES / f"{FILES[1]}.joker", *KERNEL_FIXTURES.glob("version1_ridge.joker")])
def test_a_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = model_files.read
    monkeypatch.setattr(model_files, "read", lambda path: reads.append(path) or read(path))
    joker.load(path)
    assert reads == [path]


def test_names_of_any_length_are_saved(tmp_path: Path) -> None:
    long = "n" * 100_000
    rows = [{"a": float(a), long: b} for a in range(12) for b in "uv"]
    model = joker.JokerRegressor(effort=1, random_state=0).fit(rows, TARGETS)
    model.save(tmp_path / "m")
    again = joker.load(tmp_path / "m")
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert again.feature_names_in_.tolist() == ["a", long]


def test_values_of_another_size_are_refused_with_the_name_of_the_column() -> None:
    rows = [{"a": 1e-300 * number, "b": float(number)} for number in range(40)]
    model = joker.JokerRegressor(effort=1, random_state=0).fit(rows, [row["b"] for row in rows])
    with pytest.raises(InvalidData, match=r"the values of a column must be of the size .*; column 'a' has others"):
        model.predict([{"a": 1e140, "b": 1.0}])
