"""Every example runs with few rows, and prints the expected results."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import joker

FOLDER = Path(__file__).resolve().parents[1] / "examples"
DEMO = "demo.py"  # tested in test_docs.py

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs the scripts in {FOLDER}")


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name, "--quick"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def numbers(pattern: str, text: str) -> list[float]:
    """Return all numbers at the place of each N in a pattern."""
    number = r"(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"
    found = re.findall(pattern.replace("N", number), text)
    return [float(n.replace(",", "")) for groups in found for n in ([groups] if isinstance(groups, str) else groups)]


def bands(out: str) -> None:
    (share,) = numbers("90 % band: N%", out)
    assert 85 < share < 95
    narrow, wide = numbers("the band is N wide", out)
    assert narrow < 0.7 * wide


def robust(out: str) -> None:
    squared, huber = numbers("surface by N", out)
    assert huber < 0.2 * squared


def rare(out: str) -> None:
    (plain, _), (balanced, _) = (numbers(rf"{name} +N% +N%", out) for name in ("plain", "balanced"))
    assert plain < 50 < balanced
    (found,) = numbers("finds N% of the faults", out)
    assert found > 80


def path(out: str) -> None:
    scores = numbers(r"(?m)^ *[\d.]+ +N +[\d.]+(?:  <- chosen)?$", out)
    assert len(scores) == 15
    assert numbers(r"(?m)^ *[\d.]+ +N +[\d.]+  <- chosen$", out) == [max(scores)]


def loss(out: str) -> None:
    squared, own = numbers("cost N ", out)
    assert own < squared
    mean, high = numbers("sold out N%", out)
    assert high < mean - 10
    assert max(numbers("at most N of", out)) < 0.1


def kernel(out: str) -> None:
    (off,) = numbers("features: off by N at most", out)
    assert off < 0.05
    (gaussian,), (mixture,) = (numbers(rf"{name} .* N$", out) for name in ("(?m)Gaussian", "(?m)Quadratic"))
    assert mixture < gaussian


def svc(out: str) -> None:
    accuracies = numbers("accuracy N", out)
    assert len(accuracies) == 4
    assert abs(accuracies[0] - accuracies[1]) < 0.01
    (same,) = numbers("same prediction on N%", out)
    assert same > 99


def saving(out: str) -> None:
    assert "predictions are the same, bit for bit" in out
    assert "damaged: the bytes" in out
    before, after = numbers("(?:fitted|loaded):  R² N", out)
    assert before == after > 0.8


def classes(out: str) -> None:
    losses = numbers(r"(?m)^[^:\n]+ +[\d.]+ +N$", out)
    assert len(losses) == 4
    assert max(losses) < 0.7
    for given, right in zip(*(numbers(pattern, out) for pattern in ("probability N:", ": N of the rows")), strict=True):
        assert abs(given - right) < 0.1


CHECKS = {
    "custom_kernel": kernel,
    "custom_loss": loss,
    "from_svc": svc,
    "lambda_path": path,
    "quantile_bands": bands,
    "rare_class": rare,
    "robust_regression": robust,
    "save_and_load": saving,
    "several_classes": classes,
}
PLOTTING = ("lambda_path", "quantile_bands", "robust_regression", "several_classes")


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_prints_what_it_should(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(name, tmp_path, monkeypatch, capsys)
    CHECKS[name](out)
    written = sorted(file.name for file in tmp_path.iterdir())
    plots = [f"{name}.png"] if name in PLOTTING and "plot:" in out else []
    assert written == ["model.joker"] * (name == "save_and_load") + plots
    assert all((tmp_path / plot).stat().st_size > 5_000 for plot in plots)


def test_every_script_is_tested() -> None:
    assert {file.name for file in FOLDER.glob("*.py")} == {f"{name}.py" for name in CHECKS} | {DEMO}


def test_an_example_starts_from_a_shell(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(FOLDER / "save_and_load.py"), "--quick"]
    place = {**os.environ, "PYTHONPATH": str(Path(joker.__file__).parents[1])}  # the package under test
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    saving(done.stdout)
