"""The page of results is generated from the results files; nothing on it is written by hand."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT

Script = Callable[[str], Any]
ORIGIN = {
    "cpu": "a", "cores": 2, "threads": 1, "python": "3.11", "torch": "2.4", "version": "0.1.0", "commit": "abc",
    "date": "2026-01-01", "command": "python benchmarks/step.py",
}  # fmt: skip


def test_the_committed_page_is_that_of_the_committed_results(script: Script) -> None:
    page = script("page")
    text = page.PAGE.read_text(encoding="utf-8") if page.PAGE.is_file() else ""
    assert text == page.page(), "The results have changed. Run make results and commit the page."


def test_every_results_file_is_on_the_page(script: Script) -> None:
    page, common = script("page"), script("common")
    known = {section.name for section in page.SECTIONS}
    assert {file.stem for file in common.RESULTS.glob("*.json")} <= known
    assert known == set(script("result_tables").TABLES)
    assert set(script("behind").BEHIND) <= known


def test_every_table_has_its_origin(script: Script) -> None:
    page, common = script("page"), script("common")
    text = page.page()
    for section in page.SECTIONS:
        there = (common.RESULTS / f"{section.name}.json").is_file()
        assert (f"\n## {section.title}\n" in text) == there
        assert (f"- {section.title}: `{section.command}`, " in text) != there
        assert (f"(../benchmarks/results/{section.name}.json), written by `{section.command}`" in text) == there


def test_every_script_says_how_long_it_takes(script: Script) -> None:
    page = script("page")
    assert not [section.name for section in page.SECTIONS if not page.expected_time(section)]


def test_pictures_are_there_for_the_results_they_are_drawn_from(script: Script) -> None:
    page, common = script("page"), script("common")
    for section in page.SECTIONS:
        if (common.RESULTS / f"{section.name}.json").is_file():
            for picture in (name for name in section.pictures if name.startswith("figures/")):
                file = page.PAGE.parent / picture
                assert file.is_file(), f"{picture} is missing. Run make results."
                assert file.stat().st_size < 400_000


def test_results_of_quick_runs_are_refused(script: Script, tmp_path: Path) -> None:
    page = script("page")
    quick = {"cpu": {"machine": ORIGIN | {"command": "python benchmarks/scaling.py --quick"}, "axes": {}}}
    (tmp_path / "scaling.json").write_text(json.dumps(quick), encoding="utf-8")
    with pytest.raises(SystemExit, match="quick run"):
        page.page(tmp_path)


def test_a_page_without_results_names_all_of_them_as_missing(script: Script, tmp_path: Path) -> None:
    page = script("page")
    text = page.page(tmp_path)
    assert all(section.title in text for section in page.SECTIONS)
    assert "|" not in text


@pytest.mark.parametrize("name", ["commit", "version", "command", "date", "cpu"])
def test_results_without_their_origin_are_refused(name: str, script: Script, tmp_path: Path) -> None:
    page = script("page")
    machine = {key: value for key, value in ORIGIN.items() if key != name}
    (tmp_path / "step.json").write_text(json.dumps({"machine": machine, "cases": {}}), encoding="utf-8")
    with pytest.raises(SystemExit, match=rf"step.json lacks {name}"):
        page.page(tmp_path)
    (tmp_path / "step.json").write_text(json.dumps({"cases": {}}), encoding="utf-8")
    with pytest.raises(SystemExit, match="no machine"):
        page.page(tmp_path)


def test_a_command_with_a_folder_of_a_computer_is_refused(script: Script, tmp_path: Path) -> None:
    machine = ORIGIN | {"command": "python benchmarks/step.py /home/someone"}
    (tmp_path / "step.json").write_text(json.dumps({"machine": machine, "cases": {}}), encoding="utf-8")
    with pytest.raises(SystemExit, match="no folder"):
        script("page").page(tmp_path)


def test_no_page_names_a_folder_of_a_computer() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        assert not re.search(r"(?<![\w.<])/(?:tmp|root|home|work|Users)/", page.read_text(encoding="utf-8")), page.name


def test_the_origin_of_a_run_is_recorded(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    common, page = script("common"), script("page")
    monkeypatch.setenv(common.COMMIT_VARIABLE, "abc1234")
    monkeypatch.setattr("sys.argv", ["/home/me/benchmarks/step.py", "--out", "/tmp/x", "--only", "a b"])
    machine = common.machine(0)
    assert set(page.ORIGIN) <= machine.keys()
    assert machine["commit"] == "abc1234"
    assert machine["command"] == "python benchmarks/step.py --only a b"
    monkeypatch.delenv(common.COMMIT_VARIABLE)
    monkeypatch.setattr(common, "ROOT", Path(__file__).parent / "no folder")
    assert common.commit() == common.NOT_RECORDED


def test_who_is_ahead_is_computed(script: Script) -> None:
    behind = script("behind")
    missed = {"ms": 2.0, "limit_ms": 1.0}
    assert list(behind.behind_step({"cases": {"slow": missed, "fast": {"ms": 0.5, "limit_ms": 1.0}}})) == [
        'Step "slow" takes 2.0 ms; the limit is 1.0 ms.'
    ]
    variants = {"boosting": {"auc": 0.8, "kernel": False}, "kernel": {"auc": 0.7, "kernel": True}}
    assert len(list(behind.behind_higgs_gap({"variants": variants, "best_kernel": "kernel"}))) == 1


def test_times_and_other_scores_of_tables_are_told_where_joker_is_behind(script: Script) -> None:
    def entry(accuracy: float, log_loss: float, fit: float, predict: float) -> dict[str, Any]:
        scores = {"accuracy": accuracy, "log_loss": log_loss, "auc": 0.5}
        return {"scores": scores, "fit_seconds": fit, "predict_seconds": predict}

    results = {"sets": {"a": {"joker": {"0": entry(0.9, 0.3, 20, 1)}, "LightGBM": {"0": entry(0.8, 0.2, 2, 2)}}}}
    assert list(script("behind").behind_tables(results)) == [
        "a: LightGBM has a log loss of 0.2000, joker 0.3000.",
        "Time of a fit: faster are (medians) LightGBM by a factor of 10 on 1 of 1 sets.",
    ]


def test_the_softmax_is_counted_not_listed(script: Script) -> None:
    cell = {"softmax": {"log_loss": 0.2, "accuracy": 0.8}, "hinge": {"log_loss": 0.3, "accuracy": 0.9}}
    assert list(script("behind").behind_multiclass({"cells": {"a": cell, "b": cell}})) == [
        "The softmax does not have the best accuracy on 2 of 2 sets: hinge on 2."
    ]


def test_memory_that_was_not_measured_from_the_first_fit_is_left_out(script: Script) -> None:
    found = {
        "kernel": True, "version": "1", "scores": {"rmse": 1.0}, "rows": 5, "fit_seconds": 1, "predict_seconds": 1,
        "peak_growth_bytes": 7_000_000, "gap": 0.8, "curve": [{}],
    }  # fmt: skip
    results = {"limit_seconds": 1, "summary": {}, "sets": {"a": {"metric": "rmse", "peers": {"joker": found}}}}
    tables = script("result_tables")
    assert "7 MB" not in "".join(tables.peers(results))
    text = "".join(tables.peers(results | {"memory": script("process").FROM_THE_FIRST_FIT}))
    assert "7 MB" in text
    assert "| 0.8 " in text


def test_a_run_of_the_paper_stands_beside_its_row(script: Script) -> None:
    case = {
        "data": "hepc", "model": "krr", "protocol": "joker", "rows": 10, "steps": 5, "generated": False,
        "estimate": True, "scores": {"rmse": 0.05}, "seconds_of_all_steps": 30.0, "peak_bytes": 10**9,
        "difference": {"rmse": 0.003},
        "paper": {"scores": {"rmse": 0.047}, "seconds": 20.0, "peak_bytes": 10**9},
        "seconds_allowed": 20.0, "bytes_allowed": None, "rmse_allowed": 0.0472, "reached": False,
    }  # fmt: skip
    (text,) = script("result_tables").paper_gpu({"runs": {"hepc krr joker": case}})
    assert "30.0 s (estimate)" in text
    said = list(script("behind").behind_paper_gpu({"runs": {"hepc krr joker": case}}))
    assert len(said) == 3  # outside its limits, slower, and worse
    kept = {**case, "reached": True, "seconds_of_all_steps": 10.0, "difference": {"rmse": -0.003}}
    assert not list(script("behind").behind_paper_gpu({"runs": {"hepc krr joker": kept}}))


def test_cells_of_a_table_stay_in_their_columns(script: Script) -> None:
    text = script("cells").table(("a", "b"), [["x|y", None], [1, 2.5]])
    assert [line.count("|") for line in text.splitlines()] == [3, 3, 3, 3]


@pytest.mark.slow
def test_pictures_and_page_of_a_small_run(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn with matplotlib: pip install 'joker-kernels[plot]'")
    charts, page = script("charts"), script("page")
    script("scaling").main(["--quick", "--out", str(tmp_path)])
    charts.main(["--results", str(tmp_path), "--pictures", str(tmp_path / "figures")])
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"memory.png", "scaling.png"}
    file = tmp_path / "scaling.json"
    file.write_text(file.read_text(encoding="utf-8").replace("--quick", ""), encoding="utf-8")
    assert page.page(tmp_path, tmp_path).count("](figures/") == 2


def test_the_chart_of_the_start_page_shows_every_table(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures are drawn with matplotlib: pip install 'joker-kernels[plot]'")
    charts = script("charts")
    results = json.loads((script("common").RESULTS / "tables.json").read_text(encoding="utf-8"))
    assert charts.draw_start(results, tmp_path).stat().st_size > 10_000
    assert charts.relative_error({"joker": 0.9, "score_of_best_tree": 0.8, "noise": 0.02}) == pytest.approx((0.5, 0.1))
