"""The benchmark of the paper's experiments runs on a CPU with a few rows, and marks its estimates."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Script = Callable[[str], Any]


def test_a_quick_run_has_every_case_and_marks_estimates(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script("paper_gpu").main(["--quick", "--only", "higgs", "--out", str(tmp_path)])
    document = json.loads((tmp_path / "paper_gpu.json").read_text(encoding="utf-8"))
    cases = document["runs"]
    assert list(cases) == [f"higgs {model} paper" for model in ("krr", "huber", "svm", "klr")]
    assert document["quick"] is True
    assert [case["estimate"] for case in cases.values()] == [False, False, False, True]
    assert [case["steps"] for case in cases.values()] == [20, 20, 20, 8]
    assert all(case["generated"] and case["rows"] == 3_520 and case["test_rows"] == 1_000 for case in cases.values())
    klr = cases["higgs klr paper"]
    assert klr["seconds_of_all_steps"] > klr["seconds"]
    assert capsys.readouterr().out.count("(estimate)") == 1


def test_the_page_of_results_marks_estimates_and_generated_rows(script: Script, tmp_path: Path) -> None:
    script("paper_gpu").main(["--quick", "--only", "klr", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "paper_gpu.json").read_text(encoding="utf-8"))
    shown = "\n".join(script("result_tables").paper_gpu(results))
    assert "(estimate)" in shown
    assert "(generated rows)" in shown
    assert "0.82" not in shown  # the paper's AUC is not beside that of generated rows


def test_hepc_by_both_protocols(script: Script, tmp_path: Path) -> None:
    script("paper_gpu").main(["--quick", "--only", "hepc krr", "--out", str(tmp_path)])
    cases = json.loads((tmp_path / "paper_gpu.json").read_text(encoding="utf-8"))["runs"]
    assert list(cases) == ["hepc krr joker", "hepc krr paper"]
    assert cases["hepc krr paper"]["steps"] == 10
    assert cases["hepc krr joker"]["averaging"] is True


def test_it_needs_a_gpu(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="needs a CUDA GPU"):
        script("paper_gpu").main([])
