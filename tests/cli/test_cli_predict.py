"""``joker predict`` and ``evaluate`` give the results of the library, for files of any size and kind."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import refused, run, well, write_table

import joker
from joker.cli import predict as command
from joker.data import convert, open_source


def rows_of(path: Path, target: str, columns: list[str]) -> tuple[Any, Any, Any]:
    source = open_source(path, target=target, columns=columns, categories="one-hot")
    (batch,) = source.batches(10_000)
    return batch.x, batch.y, source.schema


@pytest.fixture
def classifier(tmp_path: Path) -> Any:
    x, y, schema = rows_of(write_table(tmp_path / "train.csv", colour=True), "place", ["a", "b", "c", "colour"])
    model = joker.KernelLogistic(standardize=True, lam=0.1, n_features=50, random_state=0).fit(x, y)
    model.schema_ = schema
    model.save(tmp_path / "model.joker")
    return model


def test_the_size_of_batches_has_no_effect(tmp_path: Path, classifier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions equal those of the library, in the order of the rows."""
    test = write_table(tmp_path / "test.csv", rows=100, seed=1, colour=True)
    x, _, _ = rows_of(test, "place", ["a", "b", "c", "colour"])
    monkeypatch.setattr(command, "MAX_BATCH_ROWS", 7)
    summary = well("predict", tmp_path / "model.joker", test, "--out", tmp_path / "p.csv", "--proba", "--json").document
    with (tmp_path / "p.csv").open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["prediction", "probability=in", "probability=out"] == summary["columns"]
    assert summary["rows"] == 100
    assert np.array_equal([row[0] for row in rows], classifier.predict(x))
    assert np.allclose(np.array([row[1:] for row in rows], float), classifier.predict_proba(x), atol=1e-6)


def test_parquet_in_and_out(tmp_path: Path, classifier: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    test = write_table(tmp_path / "test.csv", rows=50, seed=1, colour=True)
    parquet.write_table(arrow_csv.read_csv(test), tmp_path / "test.parquet")
    done = well("predict", tmp_path / "model.joker", tmp_path / "test.parquet", "-o", tmp_path / "p.parquet")
    assert "50" in done.out
    well("predict", tmp_path / "model.joker", test, "-o", tmp_path / "p.csv", "--quiet")
    predicted = parquet.read_table(tmp_path / "p.parquet").column("prediction")
    assert predicted.type == pyarrow.string()
    assert predicted.to_pylist() == (tmp_path / "p.csv").read_text().split()[1:]


def test_columns_are_found_by_their_names(tmp_path: Path, classifier: Any) -> None:
    test = write_table(tmp_path / "test.csv", rows=20, colour=True)
    with test.open(encoding="utf-8") as file:
        turned = [",".join(reversed(line.rstrip("\n").split(","))) for line in file]
    (tmp_path / "turned.csv").write_text("\n".join(turned))
    for name in ("test", "turned"):
        well("predict", tmp_path / "model.joker", tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}.out.csv")
    assert (tmp_path / "test.out.csv").read_text() == (tmp_path / "turned.out.csv").read_text()


def test_metrics_of_a_classifier(tmp_path: Path, classifier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    test = write_table(tmp_path / "test.csv", rows=100, seed=1, colour=True)
    x, y, _ = rows_of(test, "place", ["a", "b", "c", "colour"])
    monkeypatch.setattr(command, "MAX_BATCH_ROWS", 7)
    found = well("evaluate", tmp_path / "model.joker", test, "--json").document
    assert found["accuracy"] == pytest.approx(classifier.score(x, y))
    assert found["rows"] == 100
    assert {"auc", "log_loss"} <= found.keys()
    assert "accuracy" in well("evaluate", tmp_path / "model.joker", test, "--target", "place", "--quiet").out


def test_a_store_is_evaluated_and_not_predicted(tmp_path: Path, classifier: Any) -> None:
    test = write_table(tmp_path / "test.csv", rows=100, seed=1, colour=True)
    model, store = tmp_path / "model.joker", tmp_path / "test.rows"
    convert(open_source(test, target="place", schema=classifier.schema_), store)
    figures = [well("evaluate", model, data, "--json").document for data in (test, store)]
    assert figures[0]["accuracy"] == figures[1]["accuracy"]
    assert figures[0]["auc"] == pytest.approx(figures[1]["auc"])
    assert "random order" in refused("predict", model, store, "-o", tmp_path / "p.csv", status=2)
    assert "the target is 'place'" in refused("evaluate", model, store, "--target", "a", status=2)
    convert(open_source(test, target="place", columns=["a", "b"]), store)
    assert "must be those of the training data" in refused("evaluate", model, store)


def test_a_model_of_arrays_takes_a_table_of_as_many_columns(tmp_path: Path) -> None:
    x, _, _ = rows_of(write_table(tmp_path / "train.csv"), "size", ["a", "b", "c"])
    model = joker.KernelRidge(n_features=20, random_state=0).fit(x, x[:, 0])
    model.save(tmp_path / "model.joker")
    np.save(tmp_path / "x.npy", x)
    well("predict", tmp_path / "model.joker", tmp_path / "x.npy", "-o", tmp_path / "p.csv")
    assert np.allclose(np.loadtxt(tmp_path / "p.csv", skiprows=1), model.predict(x), atol=1e-6)
    np.save(tmp_path / "wide.npy", np.ones((4, 5)))
    said = refused("predict", tmp_path / "model.joker", tmp_path / "wide.npy", "-o", tmp_path / "p.csv")
    assert "the 3 inputs that the model was fitted on" in said


def test_a_model_of_a_frame_takes_its_names(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(write_table(tmp_path / "train.csv"))
    model = joker.KernelQuantile(quantile=[0.1, 0.9], n_features=20, random_state=0)
    model.fit(frame[["c", "a"]], frame["size"]).save(tmp_path / "model.joker")
    done = well("predict", tmp_path / "model.joker", tmp_path / "train.csv", "-o", tmp_path / "p.csv")
    assert done.err == ""  # no warning about missing names of inputs
    assert (tmp_path / "p.csv").read_text().startswith("prediction=0.1,prediction=0.9\n")
    found = well("evaluate", tmp_path / "model.joker", tmp_path / "train.csv", "--target", "size", "--json").document
    assert len(found["pinball_loss"]) == 2


def test_arguments_that_contradict_one_another_are_refused(tmp_path: Path, classifier: Any) -> None:
    model, test = tmp_path / "model.joker", write_table(tmp_path / "test.csv", rows=20, colour=True)
    joker.KernelSVC().fit(np.eye(4), [0, 0, 1, 1]).save(tmp_path / "svc.joker")
    said = refused("predict", tmp_path / "svc.joker", test, "-o", tmp_path / "p.csv", "--proba", status=2)
    assert "fit with --loss logistic" in said
    text = test.read_text(encoding="utf-8")
    test.write_text(text.replace("place", "where"), encoding="utf-8")
    assert "Name it with --target" in refused("evaluate", model, test)
    assert well("evaluate", model, test, "--target", "where").status == 0
    assert run("predict", model, test).status == 2  # without --out
    assert not (tmp_path / "p.csv").exists()


def test_memory_bounds_the_batches() -> None:
    assert command.batch_rows("1GB", 10, 1) == command.MAX_BATCH_ROWS
    few = command.batch_rows("1MB", 1000, 1)
    assert 1 <= few * 1000 * 8 <= 1e6 / 4
    assert command.batch_rows("1kB", 1000, 1) == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_of_the_input_are_kept(
    suffix: str, tmp_path: Path, classifier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identifiers stay as they are written, in the order of the rows, whatever the size of batches."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(write_table(tmp_path / "plain.csv", rows=100, seed=1, colour=True))
    frame.insert(0, "id", [f"{i:04d}" for i in range(100)])
    frame["note"] = ['a "quoted", note' if i % 3 else None for i in range(100)]
    frame.to_csv(tmp_path / "test.csv", index=False)
    monkeypatch.setattr(command, "MAX_BATCH_ROWS", 7)
    out = tmp_path / f"p{suffix}"
    arguments = ("predict", tmp_path / "model.joker", tmp_path / "test.csv", "-o", out)
    summary = well(*arguments, "--keep", "note, id", "--proba", "--json").document
    found = pandas.read_csv(out, dtype={"id": str}) if suffix == ".csv" else pandas.read_parquet(out)
    assert found.columns.tolist() == ["note", "id", "prediction", "probability=in", "probability=out"]
    assert summary["columns"] == found.columns.tolist()
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["note"].isna().tolist() == frame["note"].isna().tolist()
    assert found["note"].dropna().tolist() == frame["note"].dropna().tolist()
    well(*arguments)
    alone = pandas.read_csv(out) if suffix == ".csv" else pandas.read_parquet(out)
    assert alone["prediction"].tolist() == found["prediction"].tolist()


def test_kept_columns_of_parquet_have_their_types(tmp_path: Path, classifier: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(write_table(tmp_path / "plain.csv", rows=20, colour=True))
    frame["day"] = pandas.date_range("2024-01-01", periods=20).date
    frame["number"] = range(20)
    frame.to_parquet(tmp_path / "test.parquet")
    arguments = ("predict", tmp_path / "model.joker", tmp_path / "test.parquet", "--keep", "day,number")
    well(*arguments, "-o", tmp_path / "p.parquet")
    found = pandas.read_parquet(tmp_path / "p.parquet")
    assert found["day"].tolist() == frame["day"].tolist()
    assert found["number"].tolist() == list(range(20))
    well(*arguments, "-o", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()[1].startswith("2024-01-01,0,")


def test_columns_that_cannot_be_kept(tmp_path: Path, classifier: Any) -> None:
    test = write_table(tmp_path / "test.csv", rows=20, colour=True)
    text = test.read_text(encoding="utf-8").replace("place", "prediction", 1)
    (tmp_path / "twice.csv").write_text(text, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.zeros((3, 4)))
    for data, keep, said, status in (
        ("test.csv", "nothing", "nothing", 2),
        ("twice.csv", "prediction", "must not name a column of predictions", 2),
        ("x.npy", "a", "must be delimited text, Parquet or Arrow", 1),
    ):
        out = tmp_path / "p.csv"
        said_by = refused(
            "predict", tmp_path / "model.joker", tmp_path / data, "-o", out, "--keep", keep, status=status
        )
        assert said in said_by
        assert not out.exists()
