"""The page of results is generated from the results files; nothing on it is written by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Script = Callable[[str], Any]


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
        assert (f"- {section.title}: `{section.command}`" in text) != there
        assert (f"(../benchmarks/results/{section.name}.json), written by `{section.command}`" in text) == there


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
    quick = {"cpu": {"machine": {"command": "python benchmarks/scaling.py --quick"}, "axes": {}}}
    (tmp_path / "scaling.json").write_text(json.dumps(quick), encoding="utf-8")
    with pytest.raises(SystemExit, match="quick run"):
        page.page(tmp_path)


def test_a_page_without_results_names_all_of_them_as_missing(script: Script, tmp_path: Path) -> None:
    page = script("page")
    text = page.page(tmp_path)
    assert all(section.title in text for section in page.SECTIONS)
    assert "|" not in text


def test_who_is_ahead_is_computed(script: Script) -> None:
    behind = script("behind")
    ours, theirs = ({"metric": "rmse", "score": score} for score in (0.2, 0.1))
    assert list(behind.behind_cpu_peers({"sets": {"kin40k": {"joker": ours, "SVR": theirs}}})) == [
        "kin40k: SVR has rmse 0.1000, joker 0.2000."
    ]
    assert not list(behind.behind_cpu_peers({"sets": {"kin40k": {"joker": theirs, "SVR": ours}}}))
    missed = {"ms": 2.0, "limit_ms": 1.0}
    assert list(behind.behind_step({"cases": {"slow": missed, "fast": {"ms": 0.5, "limit_ms": 1.0}}})) == [
        'Step "slow" takes 2.0 ms; the limit is 1.0 ms.'
    ]
    variants = {"boosting": {"auc": 0.8, "kernel": False}, "kernel": {"auc": 0.7, "kernel": True}}
    assert len(list(behind.behind_higgs_gap({"variants": variants, "best_kernel": "kernel"}))) == 1


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
    figures, page = script("figures"), script("page")
    script("scaling").main(["--quick", "--out", str(tmp_path)])
    figures.main(["--quick", "--measure", "--out", str(tmp_path), "--pictures", str(tmp_path / "figures")])
    drawn = {file.name for file in (tmp_path / "figures").iterdir()}
    assert drawn == {"model_size.png", "models_time.png", "objectives.png", "memory.png", "scaling.png"}
    for name in ("figures", "scaling"):
        file = tmp_path / f"{name}.json"
        file.write_text(file.read_text(encoding="utf-8").replace("--quick", ""), encoding="utf-8")
    text = page.page(tmp_path, tmp_path)
    assert text.count("](figures/") == len(drawn)
