"""The code of the README and of the pages runs as it stands, and so does the demo."""

import json
import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import joker

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "docs/data.md",
    "docs/estimators.md",
    "docs/files.md",
    "docs/memory.md",
    "docs/paper.md",
    "docs/solver.md",
    "docs/tuning.md",
]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    names: dict[str, object] = {"__name__": "page"}  # a page is read from top to bottom
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\bmake \w+", text) == ["make test", "make demo"]


def demo() -> dict[str, Any]:
    """The names of the demo, which is not run."""
    return runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="demo")


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    names, text = demo(), (ROOT / "README.md").read_text(encoding="utf-8")
    results = json.loads(names["RESULTS"].read_text(encoding="utf-8"))
    assert text.count(names["MARKS"][0]) == text.count(names["MARKS"][1]) == 1
    assert names["readme"](text, results) == text, "Run python examples/demo.py --readme."
    assert "--quick" not in results["machine"]["command"]
    assert not {"host", "hostname", "node", "user"} & results["machine"].keys()


def test_the_results_are_those_of_the_demo_as_it_is() -> None:
    names = demo()
    models = json.loads(names["RESULTS"].read_text(encoding="utf-8"))["models"]
    assert [(m["problem"], m["rows"]) for m in models] == [(c.problem, c.rows) for c in names["contenders"](False)]
    assert all(m["rows"] >= 100_000 for m in models if m["model"].startswith("joker"))


def test_the_demo_prints_a_table_and_draws(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--quick"]
    place = {**os.environ, "PYTHONPATH": str(Path(joker.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 6
    linear, peer, ours = (float(row[3].split()[1]) for row in rows[5:])
    assert ours > max(linear, peer)
    assert all(row[6].strip().endswith("%") for row in rows[2:] if "joker" in row[1])
    assert all("MB" in row[5] for row in rows[2:]) or sys.platform != "linux"
    assert done.stderr.count("The relative duality gap reached") == 2  # the progress of both
    if find_spec("matplotlib"):
        assert {file.name for file in (tmp_path / "demo").iterdir()} == {"convergence.png", "decision.png"}
