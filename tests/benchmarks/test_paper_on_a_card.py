"""The benchmark of the paper's experiments works on a CPU, a few rows at a time, and marks what it estimates."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    if not FOLDER.is_dir():
        pytest.skip(f"needs the scripts in {FOLDER}, which an installed package does not have")
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("paper_gpu")
    for name in ("paper_gpu", "common"):
        del sys.modules[name]


def test_a_quick_run_has_every_case_and_marks_estimates(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main(["--quick", "--only", "higgs", "--out", str(tmp_path)])
    document = json.loads((tmp_path / "paper_gpu.json").read_text(encoding="utf-8"))
    cases = document["cases"]
    assert list(cases) == [f"higgs {model} paper" for model in ("krr", "huber", "svm", "klr")]
    assert document["quick"] is True
    assert [case["estimate"] for case in cases.values()] == [False, False, False, True]
    assert [case["steps"] for case in cases.values()] == [20, 20, 20, 8]
    assert all(case["generated"] and case["rows"] == 3_520 and case["test_rows"] == 1_000 for case in cases.values())
    klr = cases["higgs klr paper"]
    assert klr["seconds_of_all_steps"] > klr["seconds"]
    assert capsys.readouterr().out.count("(estimate)") == 1


def test_hepc_by_both_protocols(script: ModuleType, tmp_path: Path) -> None:
    script.main(["--quick", "--only", "hepc krr", "--out", str(tmp_path)])
    cases = json.loads((tmp_path / "paper_gpu.json").read_text(encoding="utf-8"))["cases"]
    assert list(cases) == ["hepc krr joker", "hepc krr paper"]
    assert cases["hepc krr paper"]["steps"] == 10
    assert cases["hepc krr joker"]["averaging"] is True


def test_it_needs_a_card(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="needs a CUDA card"):
        script.main([])
