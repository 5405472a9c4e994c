"""The comparison with other programs, the ablations and the scaling study: verdicts, and small runs."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Script = Callable[[str], Any]


# Data sets


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data sets, each with 100 rows whose first input is the number of the row."""
    x = np.arange(300, dtype=np.float32).reshape(100, 3)
    x[:, 0] = np.arange(100)
    classes = np.arange(100) % 4
    np.savez(tmp_path / "kin40k.npz", X=x, y=2.0 * np.arange(100))
    np.savez(tmp_path / "covtype.npz", X=x, y=classes)
    np.savez(tmp_path / "mnist.npz", X_train=x, y_train=classes, X_test=x + 1000, y_test=classes)
    monkeypatch.setenv("JOKER_DATA", str(tmp_path))
    return tmp_path


def test_no_row_is_both_trained_and_tested_on(script: Script, data_folder: Path) -> None:
    sets = script("sets")
    for data in (sets.DataSet("some", "kin40k", "rmse", 10), sets.DataSet("part", "covtype", "accuracy", 10, 50, 2)):
        parts = sets.split(data)
        numbers = [set(np.unique(part[:, 0])) for part in (parts.x, parts.x_test)]
        assert not numbers[0] & numbers[1]
        assert (len(parts.x), len(parts.x_test)) == (data.train or 90, 10)


def test_scales_are_those_of_the_training_part(script: Script, data_folder: Path) -> None:
    sets = script("sets")
    parts = sets.split(sets.DataSet("some", "kin40k", "rmse", 40))
    np.testing.assert_allclose(parts.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(parts.x.std(0), 1, rtol=1e-4)
    assert (abs(parts.y.mean()), parts.y.std()) == pytest.approx((0, 1), abs=1e-9)
    assert abs(parts.x_test.mean()) > 1e-4


def test_one_class_against_the_rest_and_official_parts(script: Script, data_folder: Path) -> None:
    sets = script("sets")
    binary = sets.split(sets.DataSet("part", "covtype", "accuracy", 10, 50, 2))
    assert set(binary.y) == {-1, 1}
    official = sets.split(sets.SETS["mnist-10k"])
    assert set(official.y) == {0, 1, 2, 3}
    assert official.x_test[:, 0].min() > 999 / 255 > official.x[:, 0].max()  # pixels are divided by 255


# A separate process


WORK = """
import time
def partial(send, seconds):
    send({"first": 1})
    time.sleep(seconds)
    send({"second": 2})
def broken(send):
    send({"first": 1})
    raise ValueError("no")
"""


def test_what_was_sent_before_the_limit_is_kept(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work_of_a_test.py").write_text(WORK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    process, work = script("process"), script("work_of_a_test")
    assert process.apart(work.partial, (0.0,), 60) == {"first": 1, "second": 2}
    assert process.apart(work.partial, (60.0,), 0.2) == {"first": 1, "did_not_finish_in_seconds": 0.2}
    failed = process.apart(work.broken, (), 60)
    assert (failed["first"], failed["failed"]) == (1, "ValueError: no")


def test_a_memory_peak_is_measured_after_it_has_passed(script: Script) -> None:
    process = script("process")
    if process.resident("VmHWM") is None:
        pytest.skip("the growth of resident memory is read from /proc")
    before = process.forget_peak()
    np.ones(10_000_000).sum()
    assert process.growth(before) > 60e6


# Verdicts


def pair(score: float, seconds: float, kernel: bool = True, **more: Any) -> dict[str, Any]:
    point = {"rows": 10, "seconds": seconds, "rmse": score}
    return {"kernel": kernel, "scores": {"rmse": score}, "curve": [point], **more}


def judged(script: Script, **found: dict[str, Any]) -> dict[str, Any]:
    peers = {name.replace("_", " "): entry for name, entry in found.items()}
    return script("peers").summary({"set": {"metric": "rmse", "peers": peers}}).get("set", {})


def test_the_best_kernel_method_and_who_is_ahead(script: Script) -> None:
    found = judged(script, joker=pair(0.2, 9), SVR=pair(0.3, 5), SVC=pair(0.4, 1), trees=pair(0.1, 1, kernel=False))
    assert (found["best_kernel_method"], found["second_best_kernel_method"]) == ("joker", "SVR")
    assert found["ahead_of_joker"] == ["trees"]
    assert found["seconds_to_second_best"] == {"trees": 1, "SVR": 5, "joker": 9}
    assert found["fastest_kernel_method"] == "SVR"


def test_variants_of_joker_are_not_judged(script: Script) -> None:
    peers = script("peers")
    entry = {"metric": "rmse", "peers": {"joker": pair(0.3, 9), peers.NAMED: pair(0.1, 1), "SVR": pair(0.2, 5)}}
    found = peers.summary({"set": entry})["set"]
    assert (found["best_kernel_method"], found["second_best_kernel_method"]) == ("SVR", "joker")
    assert found["ahead_of_joker"] == ["SVR"]


def test_early_points_of_a_curve_count_for_time_only(script: Script) -> None:
    ours = pair(0.2, 9)
    ours["curve"].insert(0, {"rows": 5, "seconds": 2, "rmse": 0.1})
    found = judged(script, joker=ours, SVR=pair(0.25, 5), none={"kernel": True, "not_installed": "so"})
    assert found["best_score"] == 0.2
    assert found["seconds_to_second_best"] == {"joker": 2, "SVR": 5}


def test_every_pair_has_a_name_of_its_own(script: Script) -> None:
    peers = script("peers")
    pairs = [(name, peer.name) for name, peer in peers.chosen(None)]
    assert len(set(pairs)) == len(pairs) >= 60
    assert [peer.name for _, peer in peers.chosen("kin40k,SVR")] == ["SVR"]
    ((_, ridge),) = peers.chosen("kin40k,KernelRidge")
    assert ridge.settings["kernel"] == "rbf"  # and not the flag of kernel methods
    assert ridge.kernel is True
    assert [peer.name for peer in peers.peers_of("kin40k") if not peer.kernel] == ["HistGradientBoosting"]
    for wrong in ("nothing", "kin40k,nobody"):
        with pytest.raises(SystemExit, match="Use one of"):
            peers.chosen(wrong)


def test_results_of_another_machine_are_not_mixed(script: Script, tmp_path: Path) -> None:
    peers = script("peers")
    machine = script("common").machine(0)
    file = tmp_path / "peers.json"
    file.write_text(json.dumps({"note": "so", "machine": machine, "sets": {"kin40k": {}}}), encoding="utf-8")
    assert peers.read(file, machine, fresh=False) == ({"kin40k": {}}, {"note": "so"})
    with pytest.raises(SystemExit, match="another cores"):
        peers.read(file, {**machine, "cores": -1}, fresh=False)
    assert peers.read(file, {**machine, "cores": -1}, fresh=True) == ({}, {})


def test_the_time_of_scoring_joker_is_not_counted(script: Script) -> None:
    adapters, sets = script("adapters"), script("sets")
    data = sets.SETS["kin40k"]
    parts = sets.split(data, quick=True)
    model = adapters.Joker(data, {"n_features": 32, "block_size": 100, "max_epochs": 3, "tol": 0.0})
    model.watch = (parts.x_test, parts.y_test)
    model.fit(parts.x, parts.y)
    assert len(model.curve) == 3
    assert model.spent > 0
    final = sets.score(data, parts.y_test, model.predict(parts.x_test))
    assert model.curve[-1]["rmse"] == pytest.approx(final["rmse"], abs=2e-5)


def curves(errors: list[float], seconds: float = 1.0) -> dict[str, list[dict[str, float]]]:
    """The same error on each set after the last of two epochs, and twice that after the first."""
    return {
        str(j): [{"epoch": e, "seconds": seconds * e, "error": error * (3 - e)} for e in (1, 2)]
        for j, error in enumerate(errors)
    }


def test_a_default_gives_way_only_to_what_is_clearly_better(script: Script) -> None:
    verdict = script("ablations").verdict
    base = curves([0.1, 0.1, 0.1, 0.1])
    same = verdict({"a": base, "b": curves([0.099, 0.099, 0.099, 0.099])})
    assert same["verdict"] == "kept"
    better = verdict({"a": base, "b": curves([0.05, 0.05, 0.09, 0.11]), "c": curves([0.2] * 4)})
    assert better["verdict"] == "b is better"
    lucky = verdict({"a": base, "b": curves([0.001, 0.11, 0.11, 0.11])})
    assert lucky["verdict"] == "kept"


def test_what_takes_longer_is_compared_at_the_defaults_time(script: Script) -> None:
    found = script("ablations").verdict({"a": curves([0.1] * 3), "b": curves([0.08] * 3, seconds=2.0)})
    assert found["error_ratio_at_equal_epochs"]["b"] == pytest.approx(0.8)
    assert found["error_ratio_at_equal_time"]["b"] == pytest.approx(1.6)
    assert found["verdict"] == "kept"


def test_the_first_choice_of_every_axis_is_the_default(script: Script) -> None:
    from joker import kernels
    from joker.solvers import Settings

    ablations, defaults = script("ablations"), Settings()
    assert next(iter(ablations.AXES["order"].items())) == ("shuffled", {})
    for axis in ("averaging", "block_size", "momentum"):
        first = next(iter(ablations.AXES[axis].values()))
        assert first.get(axis, getattr(defaults, axis)) == getattr(ablations.Setup(), axis) == getattr(defaults, axis)
    assert next(iter(ablations.AXES["features"])) == kernels.get("gaussian").feature_kinds[0]


def test_a_setup_is_measured_once(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    ablations = script("ablations")
    measured = []
    monkeypatch.setattr(ablations, "measure", lambda setup, *rest: measured.append(setup) or [])
    bench = ablations.Bench(ablations.QUICK)
    for axis in ("averaging", "order", "momentum"):
        for change in ablations.AXES[axis].values():
            bench.curves(change)
    assert len(measured) == len(ablations.BASES) * (1 + 3)  # the base and one change of each


def test_a_slope_is_that_of_the_upper_half(script: Script) -> None:
    slope = script("scaling").slope
    assert slope([(x, 3 * x**1.5) for x in (1.0, 10.0, 100.0, 1000.0)]) == pytest.approx(1.5)
    assert slope([(1, 7.0), (10, 7.0), (100, 2.0), (1000, 20.0)]) == pytest.approx(1.0)


# The gap between kernels and boosting


def test_gradients_of_a_linear_function_are_its_weights(script: Script, rng: np.random.Generator) -> None:
    w = rng.normal(size=4)

    class Linear:
        def decision_function(self, x: np.ndarray) -> np.ndarray:
            return x @ w

    found = script("higgs_gap").gradients(Linear(), rng.normal(size=(5, 4)))
    np.testing.assert_allclose(found, np.tile(w, (5, 1)), rtol=1e-6)


def test_the_root_of_a_metric_squares_to_it(script: Script, rng: np.random.Generator) -> None:
    a = rng.normal(size=(4, 4))
    M = a @ a.T
    root_of = script("higgs_gap").root_of
    root = root_of(M, diagonal=False)
    np.testing.assert_allclose(root @ root, M / np.linalg.eigvalsh(M)[-1], atol=1e-12)
    np.testing.assert_allclose(root_of(M, diagonal=True) ** 2, np.diag(np.diag(M) / np.diag(M).max()), atol=1e-12)


def test_a_share_of_the_gap_runs_from_one_bandwidth_to_boosting(script: Script) -> None:
    gap = script("higgs_gap")
    found = gap.shares({gap.ONE: {"auc": 0.7}, gap.BOOSTING: {"auc": 0.8}, "half": {"auc": 0.75}})
    assert found == {gap.ONE: 0, gap.BOOSTING: 1, "half": 0.5}
    assert set(gap.shares({gap.ONE: {"auc": 0.9}, gap.BOOSTING: {"auc": 0.8}}).values()) == {None}


# On a small scale


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ablations", "scaling", "higgs_gap"])
def test_a_small_run_writes_its_figures(name: str, script: Script, tmp_path: Path) -> None:
    script(name).main(["--quick", "--out", str(tmp_path)])
    assert [file.name for file in tmp_path.iterdir()] == [f"{name}.json"]
    written = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    text = "\n".join(script("result_tables").TABLES[name](written))
    assert text.count("|") > 20


@pytest.mark.slow
def test_pairs_are_written_one_after_the_other(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peers = script("peers")
    for pair in ("higgs33k,joker", "higgs33k,SVC", "higgs33k,Falkon", "mnist-10k,HistGradientBoosting"):
        peers.main(["--quick", "--only", pair, "--out", str(tmp_path)])
    written = json.loads((tmp_path / "peers.json").read_text(encoding="utf-8"))
    found = written["sets"]["higgs33k"]["peers"]
    assert set(found) == {"joker", "SVC", "Falkon"}
    assert found["SVC"]["scores"].keys() == {"accuracy", "auc"}
    assert len(found["SVC"]["curve"]) == 3
    assert "chosen" in found["joker"]
    assert {"joker", "SVC"} >= {written["summary"]["higgs33k"]["best_kernel_method"]}
    capsys.readouterr()
    peers.main(["--list", "--only", "mnist-10k", "--out", str(tmp_path)])
    assert "accuracy" in capsys.readouterr().out
    text = "\n".join(script("result_tables").TABLES["peers"](written))
    assert "Best kernel method" in text


def test_no_ablation_reads_a_test_row(script: Script) -> None:
    ablations, sets = script("ablations"), script("sets")
    for base, parts in ablations.cut(ablations.QUICK).items():
        whole = sets.split(sets.SETS[base], quick=True)
        n = len(parts.y)
        np.testing.assert_array_equal(parts.x_test, whole.x[n : n + len(parts.y_test)])
        assert len(parts.y_test) == min(ablations.QUICK.held_out, len(whole.y) - n) > 0


def test_a_constant_that_a_search_ablation_changes_exists(script: Script) -> None:
    changes = [change for choices in script("search_ablations").AXES.values() for change in choices.values() if change]
    for module, constant, value in changes:
        present = getattr(importlib.import_module(module), constant)
        assert type(present) is type(value) or callable(present)
        assert present != value


def test_the_parts_of_a_certificate_add_up(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = script("certificate")
    monkeypatch.setattr(certificate, "ROWS", {"cpu": (20, 40)})
    out = tmp_path / "certificate.json"
    for part in ("1/2", "2/2", "1/1"):  # the last one has nothing to do
        arguments = ["certificate.py", "--count", "6", "--part", part, "--out", str(out)]
        monkeypatch.setattr("sys.argv", arguments)
        certificate.main()
    found = json.loads(out.read_text(encoding="utf-8"))["cpu"]
    assert list(found["seeds"]) == [str(seed) for seed in range(6)]
    assert found["problems"] == sum(found["ends"].values()) == 6
    assert found["wrong"] == 0
    lines = [list(line) for line in found["seeds"].values()]
    lines[2][certificate.FIELDS.index("wrong")] = True
    assert certificate.summary(lines)["wrong"] == 1
    capsys.readouterr()


def test_the_gap_of_a_reference_is_that_of_its_own_problem(script: Script) -> None:
    """It is near 0 at a small tolerance, and not at a large one."""
    hard = script("hard_problems")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=150)
    for problem, targets in (
        (hard.hinge(10.0), np.sign(y)),
        (hard.svr(10.0), y),
        (hard.linear(regression=True), hard.standard(y)),
    ):
        loose, tight = (
            problem["gap"](problem["reference"](x, targets, tol).fit(x, targets), x, targets) for tol in (1.0, 1e-7)
        )
        assert abs(tight) < 1e-5
        assert loose > 1e-3
