"""``joker fit`` and ``tune``: the options are those of the library, and the only file they leave is the model."""

import re
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import refused, run, well, write_table

import joker
from joker.callbacks import Callback, Run
from joker.cli import data_files
from joker.data import convert, open_source

FAST = ("-m", "30", "--max-epochs", "2", "--quiet")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "train.csv", colour=True)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_fit_equals_that_of_the_library(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "model.joker"
    options = ("--columns", "a,b,c", "--loss", "logistic", "--lam", "2^-2:2^1", "--class-weight", "in=2", "--seed", 3)
    well("fit", table, "-t", "place", *options, "-m", 30, "--block-size", 64, "--momentum", "--out", out)
    store = convert(open_source(table, target="place", columns=["a", "b", "c"]), tmp_path / "same.rows", seed=3)
    same = joker.KernelClassifier(
        loss="logistic",
        lam=[0.25, 0.5, 1.0, 2.0],
        class_weight={"in": 2.0},
        n_features=30,
        block_size=64,
        momentum=True,
        standardize=True,
        random_state=3,
    ).fit(store)
    model = joker.load(out)
    assert np.array_equal(model.coef_, same.coef_)
    assert model.lam_ == same.lam_
    assert model.schema_ == store.schema
    assert files(tmp_path) == {"train.csv", "model.joker", "same.rows"}


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        (["--multi-class", "softmax"], "softmax"),
        (["--multi-class", "softmax", "--loss", "logistic"], "softmax"),
        (["--loss", "softmax"], "softmax"),
        (["--multi-class", "crammer_singer", "--loss", "hinge"], "crammer_singer"),
        (["--multi-class", "ovr"], "squared_hinge"),
    ],
)
def test_several_classes_as_one_problem(tmp_path: Path, options: list[str], loss: str) -> None:
    out, table = tmp_path / "model.joker", tmp_path / "three.csv"
    x = np.random.default_rng(0).normal(size=(150, 2))
    lines = [f"{a},{b},{('low', 'middle', 'top')[int(a > -0.5) + int(a > 0.5)]}" for a, b in x]
    table.write_text("\n".join(["a,b,place", *lines]), encoding="utf-8")
    well("fit", table, "-t", "place", *options, "--calibrate", *FAST, "--out", out)
    model = joker.load(out)
    assert isinstance(model, joker.KernelClassifier)
    assert model.loss == loss
    assert model.calibrate
    well("predict", out, table, "--out", tmp_path / "p.csv", "--proba", "-q")
    header, first, *_ = (tmp_path / "p.csv").read_text().splitlines()
    assert header.split(",") == ["prediction", *(f"probability={label}" for label in model.classes_)]
    assert sum(map(float, first.split(",")[1:])) == pytest.approx(1)


def test_a_row_store_gives_the_model_of_the_table(tmp_path: Path, table: Path) -> None:
    reading = ("-t", "size", "--columns", "a,b,colour", "--categories", "one-hot")
    well("convert", table, tmp_path / "train.rows", *reading, "--seed", 0, "--quiet")
    well("fit", table, *reading, "--task", "regress", *FAST, "--out", tmp_path / "1.joker")
    well("fit", tmp_path / "train.rows", *FAST, "--out", tmp_path / "2.joker")
    first, second = joker.load(tmp_path / "1.joker"), joker.load(tmp_path / "2.joker")
    assert np.array_equal(first.coef_, second.coef_)
    assert first.schema_ == second.schema_
    said = refused("fit", tmp_path / "train.rows", "--columns", "a", "--out", tmp_path / "3.joker", status=2)
    assert "--columns must not be given with a row store" in said
    assert "--loss hinge is for classification, and the target is for regression" in refused(
        "fit", tmp_path / "train.rows", "--loss", "hinge", "--out", tmp_path / "3.joker", status=2
    )


def test_options_that_are_not_keywords_of_the_library(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "m.joker"
    common = ("fit", table, "-t", "size", "--columns", "a,b", "--quiet", "--out", out)
    well(*common, "--loss", "huber", "--delta", 0.5, "-m", "exact", "--no-standardize", "--bandwidth", 2)
    model = joker.load(out)
    assert (model.loss, model.delta, model.n_features, model.standardize) == ("huber", 0.5, None, False)
    assert (model.bandwidth_, hasattr(model, "mean_")) == (2.0, False)
    well(*common, "--loss", "quantile", "--quantile", "0.1,0.9", "-m", 20, "--no-intercept")
    assert list(joker.load(out)._levels) == [0.1, 0.9]
    assert not joker.load(out).fit_intercept
    well(*common, "--quantile", "0.3", "-m", 20)  # which implies the loss
    assert (joker.load(out).loss, joker.load(out).quantile) == ("quantile", 0.3)
    well(*common, "--delta", "0.3", "-m", 20)
    assert (joker.load(out).loss, joker.load(out).delta) == ("huber", 0.3)


@pytest.mark.filterwarnings("default::joker.errors.GuessedTask")
@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (np.linspace(0, 1, 60), joker.KernelRegressor, ""),
        (np.tile([0, 1, 2], 20), joker.KernelClassifier, ""),
        (np.tile(np.arange(3000, 3300, 10), 2), joker.KernelRegressor, "is a target for regression, because it has 30"),
        (
            np.tile(np.arange(3, 9), 10),
            joker.KernelClassifier,
            "Use --task regress if that is wrong, or --task classify",
        ),
    ],
)
def test_the_task_is_guessed_from_the_target(tmp_path: Path, values: Any, kind: type, said: str) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "m.joker"
    table.write_text("a,y\n" + "".join(f"{i},{y}\n" for i, y in enumerate(values)), encoding="utf-8")
    done = well("fit", table, "-t", "y", *FAST, "--out", out)
    assert isinstance(joker.load(out), kind)
    assert said in done.err
    assert bool(said) == ("warning" in done.err)


def test_what_is_printed(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "m.joker"
    common = ("fit", table, "-t", "place", "--columns", "a,b", "-m", 20, "--lam", "0.1,1", "--out", out)
    facts = well(*common, "--json", "--quiet").document
    assert (facts["model"], facts["features"], facts["classes"]) == (str(out), 20, ["in", "out"])
    assert set(facts["scores_held_out"]) == {"0.1", "1"}
    assert 0 <= facts["gap"] < 1
    shown = well(*common)
    assert "lam" in shown.out
    assert "KernelClassifier: epoch" in shown.err  # the last line of the progress
    assert well(*common, "--quiet") == type(shown)(0, "", "")
    assert well("info", out, "--json").document["columns"] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["-t", "place", "--task", "regress"],
            "--task regress is for regression, and the target is for class",
        ),
        (["-t", "size", "--task", "regress", "--loss", "hinge"], "For regression use one of the losses squared, huber"),
        (["-t", "size", "--loss", "sqared"], "Did you mean 'squared'?"),
        (["-t", "size", "--loss", "squared", "--delta", "1"], "parameters of the loss 'squared' must be among none"),
        (["-t", "place", "--epsilon", "1"], "--epsilon is for regression, and the target is for classification"),
        (["-t", "size", "--epsilon", "1", "--delta", "1"], "parameters of the loss 'squared' must be among none"),
        (["-t", "size", "--class-weight", "on=1", "--quantile", "0.5"], "--class-weight must be used with classes"),
        (["-t", "size", "--loss", "huber", "--quantile", ".1,.2"], "parameters of the loss 'huber' must be"),
        (["-t", "size", "--loss", "huber", "--class-weight", "balanced"], "--class-weight must be used with classes"),
        (["-t", "place", "--class-weight", "on=1"], "some of the classes in, out"),
        (["-t", "size", "--task", "regress", "--multi-class", "ovr"], "--multi-class must be used with classes"),
        (
            ["-t", "size", "--task", "regress", "--multi-class", "softmax"],
            "--multi-class softmax is for classification",
        ),
        (["-t", "size", "--task", "regress", "--calibrate"], "--calibrate must be used with classes"),
        (
            ["-t", "place", "--multi-class", "softmax", "--loss", "hinge"],
            "--multi-class softmax must be used with one of the losses logistic, softmax; got --loss hinge",
        ),
        (
            ["-t", "place", "--multi-class", "ovr", "--loss", "softmax"],
            "--multi-class ovr must be used with a loss of two classes, such as logistic; got --loss softmax",
        ),
        (["-t", "place", "--lam", "1:2"], "a range of lam must be of powers"),
        (["-t", "place", "--lam", "-1"], "lam must be a positive finite number"),
        (["-t", "place", "--kernel", "gauss"], "Did you mean 'gaussian'?"),
        (["-t", "place", "--bandwidth", "mean"], "bandwidth"),
        (["-t", "place", "--block-size", "big"], "--block-size must be a whole number or 'auto'"),
        (["-t", "place", "--memory", "much"], "memory must be a positive number of bytes"),
        (["-t", "place", "--device", "cuda:99"], "device"),
        (["-t", "place", "--scratch", "nowhere"], "--scratch must be a folder"),
        (["-t", "place", "--validation-fraction", "2", "--early-stopping"], "--validation-fraction must be a number"),
        (["-t", "place", "--tol", "-1"], "tol must be a number of at least 0"),
        (["-t", "place", "-m", "0"], "-m must be a whole number of at least 1"),
        (["-t", "place", "--features", "fourrier", "-m", "9"], "Did you mean 'fourier'?"),
        (["-t", "place", "--features", "fourier_pairs", "-m", "9"], "-m must be even"),
        (["-t", "place", "--features", "fourier", "-m", "exact"], "features need their number"),
        (["-t", "place", "--features", "tensor_sketch"], "needs a polynomial kernel"),
        (["-t", "place", "--kernel", "linear", "-m", "99"], "-m must be the number of inputs"),
        (["-t", "place", "--bandwidth", "1,2"], "bandwidth must have shape (6,)"),
        (["-t", "place", "--bandwidth", "1,2,3,-4,5,6"], "found -4 for input 3"),
        (["-t", "place", "--kernel", "linear", "--bandwidth", "0"], "bandwidth must be a positive finite number"),
        (["-t", "place", "--precision", "half"], "precision must be one of"),
        (["-t", "place", "--max-epochs", "-1"], "--max-epochs must be positive"),
        (["-t", "place", "--max-epochs", "0"], "--max-epochs must be positive, else the model is not trained"),
        (["-t", "place", "--max-time", "nan"], "--max-time must be a number of at least 0"),
        (["-t", "place", "--block-size", "0"], "--block-size must be a whole number of at least 1"),
        (["-t", "place", "--validation-fraction", "0"], "--validation-fraction must be a number"),
        (["-t", "size", "--loss", "huber", "--delta", "0"], "delta must be positive"),
        (["-t", "size", "--loss", "quantile", "--quantile", "0.1,2"], "quantile must be"),
        ([], "--target must name the column to predict"),
    ],
)
def test_bad_options_are_refused_before_the_table_is_read(
    tmp_path: Path, table: Path, options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(tmp_path)
    if "some of the classes" not in said:  # the classes are known only after the table is read
        monkeypatch.setattr(data_files, "convert", None)
    assert said in refused(
        "fit", table, "--categories", "one-hot", *options, "--out", tmp_path / "m.joker", "-q", status=2
    )
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kernels", "gaussian,gauss"], "Did you mean 'gaussian'?"),
        (["--bandwidths", "1,mean"], "bandwidth (where it is not a positive number) must be one of"),
        (["--lam", "1,0"], "lam must be a positive finite number"),
        (["--kernels", "polynomial", "--features", "fourier", "-m", "9"], "needs a stationary kernel"),
        (["--tol", "-1"], "tol must be a number of at least 0"),
    ],
)
def test_bad_options_of_a_search_are_refused_before_the_table_is_read(
    tmp_path: Path, table: Path, options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "convert", None)
    assert said in refused("tune", table, "-t", "place", "--columns", "a,b", *options, "-q", status=2)


def test_a_search_takes_features_that_only_its_kernels_have(tmp_path: Path, table: Path) -> None:
    search = ("--kernels", "polynomial", "--features", "tensor_sketch", "-m", 16, "--lam", 1, "--bandwidths", 1)
    found = well("tune", table, "-t", "place", "--columns", "a,b", *search, "--sample", 50, "--json", "-q").document
    assert {trial["kernel"] for trial in found["trials"]} == {"polynomial"}


def test_a_model_needs_an_output_file(tmp_path: Path, table: Path) -> None:
    said = refused("fit", table, "-t", "place", "--columns", "a", status=2)
    assert "Use --out model.joker" in said
    assert "in a folder that exists" in refused("fit", table, "-t", "place", "--out", tmp_path / "none" / "m.joker")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where this process was started with SIGINT ignored (nohup, cron)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def stop_at(monkeypatch: pytest.MonkeyPatch, epoch: int, error: BaseException) -> None:
    """Make a fit fail in the middle: the callback that shows its progress raises."""

    class Failing(Callback):
        def step(self, run: Run) -> None:
            if run.epoch > epoch and isinstance(error, KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            elif run.epoch > epoch:
                raise error

    monkeypatch.setattr("joker.cli.fit.Progress", Failing)


FIT = (
    "-t",
    "place",
    "--columns",
    "a,b,c",
    "-m",
    "30",
    "--block-size",
    "50",
    "--max-epochs",
    "6",
    "--tol",
    "0",
    "--lam",
    "1,4",
)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")], ids=["Ctrl-C", "an error"])
def test_an_interrupted_fit_continues_bit_for_bit(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    out, kept = tmp_path / "m.joker", tmp_path / "m.joker.checkpoint"
    well("fit", table, *FIT, "--out", tmp_path / "whole.joker", "-q")
    with monkeypatch.context() as patched:
        stop_at(patched, 2, error)
        done = run("fit", table, *FIT, "--out", out)
    assert done.status == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert f"is in {kept}; the same command with --resume continues" in done.err
    assert files(tmp_path) == {"train.csv", "whole.joker", kept.name}
    with monkeypatch.context() as patched:
        patched.setattr(data_files, "convert", None)  # the error comes before the table is read
        said = refused("fit", table, *FIT, "--out", out, "-q", status=2)
    assert "--resume to continue from it, or --no-resume" in said
    said = refused("fit", table, *FIT, "--out", out, "-q", "--resume", "--seed", 1)
    assert "seed differ" in said
    assert "the same command" not in said  # the same command would fail again
    assert kept.exists()
    well("fit", table, *FIT, "--out", out, "-q", "--resume")
    whole, resumed = joker.load(tmp_path / "whole.joker"), joker.load(out)
    assert np.array_equal(whole.coef_, resumed.coef_)
    assert len(whole.history_) == len(resumed.history_)
    assert not kept.exists()


@pytest.mark.usefixtures("interruptible")
def test_a_fit_that_was_started_with_sigint_ignored_ignores_it(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what nohup and a background job of a script do
    stop_at(monkeypatch, 2, KeyboardInterrupt())
    well("fit", table, *FIT, "--out", tmp_path / "m.joker")
    assert files(tmp_path) == {"train.csv", "m.joker"}


@pytest.mark.usefixtures("interruptible")
def test_beginning_anew(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "m.joker"
    with monkeypatch.context() as patched:
        stop_at(patched, 1, KeyboardInterrupt())
        assert run("fit", table, *FIT, "--out", out).status == 130
    (tmp_path / "m.joker.checkpoint.123.part").touch()  # as of a process that was killed while it wrote
    well("fit", table, *FIT, "--seed", 5, "--out", out, "-q", "--no-resume")
    assert files(tmp_path) == {"train.csv", "m.joker"}
    assert joker.load(out).random_state == 5
    assert "starts from the beginning" in well("fit", table, *FIT, "--out", out, "--resume").err


def test_an_interrupt_while_reading_leaves_no_files(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert_and_stop(*args: Any, **options: Any) -> Any:
        options["progress"] = interrupt
        return convert(*args, **options)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data_files, "convert", convert_and_stop)
    done = run("fit", table, *FIT, "--out", tmp_path / "m.joker")
    assert (done.status, done.err) == (130, "Interrupted.\n")
    assert files(tmp_path) == {"train.csv"}


def test_the_folder_of_the_temporary_store(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def look(source: Any, path: Path, **options: Any) -> Any:
        seen.append(path)
        return convert(source, path, **options)

    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(data_files, "convert", look)
    well("fit", table, *FIT, "--out", tmp_path / "m.joker", "-q")
    well("fit", table, *FIT, "--out", tmp_path / "m.joker", "-q", "--scratch", tmp_path / "scratch")
    assert [path.parent for path in seen] == [tmp_path, tmp_path / "scratch"]
    assert not list((tmp_path / "scratch").iterdir())


def test_a_dry_run_prints_the_memory_plan_and_leaves_no_files(tmp_path: Path, table: Path) -> None:
    fit = ("fit", table, "-t", "place", "--columns", "a,b,c", "-m", 30, "--dry-run")
    shown = well(*fit, "--out", tmp_path / "m.joker")
    assert "in all, at most" in shown.out
    assert "300 rows of 3 inputs" in shown.out
    plan = well(*fit, "--json", "--memory", "1GB").document
    assert (plan["budget"], plan["block_size"]) == (10**9, 300)
    assert 0 < plan["total"] <= 10**9
    said = refused(*fit, "--memory", "1kB", "--scratch", tmp_path)
    least = re.search(r"Use --memory (\d+)", said)
    assert least
    assert well(*fit, "--memory", least[1], "--json").document["total"] <= int(least[1])
    assert files(tmp_path) == {"train.csv"}


def test_tuning_writes_the_best_model(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "m.joker"
    options = ("--kernels", "gaussian", "--lam", "2^-3:2^1", "--bandwidths", "0.5,median", "--sample", 200, "-m", 40)
    found = well("tune", table, "-t", "place", "--columns", "a,b,c", *options, "--out", out, "--json", "-q").document
    assert {trial["kernel"] for trial in found["trials"]} == {"gaussian"}
    assert {trial["lam"] for trial in found["trials"]} <= {2.0**k for k in range(-3, 2)}
    assert max(trial["rows"] for trial in found["trials"]) <= 200
    model = joker.load(out)
    assert (model.lam_, model.bandwidth_) == (found["lam"], found["bandwidth"])
    assert model.schema_.target == "place"
    assert well("evaluate", out, table, "--json").document["accuracy"] > 0.8
    assert files(tmp_path) == {"train.csv", "m.joker"}
    shown = well("tune", table, "-t", "place", "--columns", "a,b", "--lam", 1, "--bandwidths", 1, "-m", 20, "-q")
    assert "trials" in shown.out


def test_tuning_ends_after_a_number_of_candidates_or_by_its_time(table: Path) -> None:
    tune = ("tune", table, "-t", "place", "--columns", "a,b,c", "--sample", 100, "-m", 20, "--json", "-q")
    done = well(*tune, "--trials", 1)
    assert done.document["stopped_by_time"] is False
    tried = {(trial["kernel"], trial["bandwidth"]) for trial in done.document["trials"]}
    assert len(tried) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = well(*tune, "--search-time", 0)
    assert done.document["stopped_by_time"] is True
    assert done.err.startswith("joker: warning: --search-time 0 has ended the search after")
    assert done.err.count("\n") == 1
