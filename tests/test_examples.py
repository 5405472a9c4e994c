"""Every example runs with few rows, and prints the expected results."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import joker

FOLDER = Path(__file__).resolve().parents[1] / "examples"
DEMO = "demo.py"  # tested in test_docs.py

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs the scripts in {FOLDER}")


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run an example in a folder; the figures that it shows are saved there and checked."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib")
    plt.switch_backend("agg")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name, "--quick"])
    monkeypatch.setattr(plt, "show", lambda: check_figures(plt, folder))
    plt.close("all")  # of an example that failed
    with plt.rc_context():
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def check_figures(plt: Any, folder: Path) -> None:
    """Save all figures; each panel must have labels of its own or of the figure, and lines a legend or a title."""
    numbers = plt.get_fignums()
    assert numbers, "an example shows a figure"
    for number in numbers:
        figure = plt.figure(number)
        for ax in (ax for ax in figure.axes if ax.axison and ax.has_data()):
            shared = figure.get_supxlabel() or len(ax.get_shared_x_axes().get_siblings(ax)) > 1
            assert ax.get_xlabel() or shared, "the horizontal axis has no label"
            assert ax.get_ylabel() or figure.get_supylabel() or ax.get_yticklabels()[0].get_text(), "no vertical label"
            if len(ax.lines) > 1:
                assert ax.get_legend() is not None or ax.get_title() or len(figure.axes) > 4, "no legend"
        figure.savefig(folder / f"figure{number}.png")
    plt.close("all")


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


def boundaries(out: str) -> None:
    accuracies = numbers("accuracy N", out)
    assert len(accuracies) == 6
    assert accuracies[-1] < 0.65  # the kernel is linear
    assert max(accuracies) > 0.75


def intervals(out: str) -> None:
    before, after = numbers("promised 95% +before N%   calibrated N%", out)
    assert before < 92 < after


def converged(out: str) -> None:
    gaps = numbers("gap N after", out)
    assert len(gaps) == 3
    assert max(gaps) < 0.05


def calibrated(out: str) -> None:
    logistic, svc = numbers("Brier score N", out)
    assert logistic < svc


def bandwidths(out: str) -> None:
    one, each = numbers("R² N", out)
    assert each > one + 0.1


def dependence(out: str) -> None:
    assert numbers("R² N with", out)[0] > 0.9


def curve(out: str) -> None:
    kernel, boosting = numbers("RMSE N with", out)
    assert kernel < boosting


def raw(out: str) -> None:
    score, inside = numbers("R² N on new houses, N% inside", out)
    assert score > 0.7
    assert inside > 75
    assert "house  left out  an identifier" in out


def on_disk(out: str) -> None:
    for budget, planned in zip(numbers("budget +N MB", out), numbers("planned +N MB", out), strict=True):
        assert planned <= budget
    assert min(numbers("R² N", out)) > 0.5


def serving(out: str) -> None:
    assert max(numbers("probability N", out)) < 1e-4


CHECKS = {
    "calibration_curve": calibrated,
    "convergence": converged,
    "decision_boundaries": boundaries,
    "input_bandwidths": bandwidths,
    "larger_than_memory": on_disk,
    "learning_curve": curve,
    "onnx_serving": serving,
    "partial_dependence": dependence,
    "prediction_intervals": intervals,
    "raw_table": raw,
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


# These take some seconds even with few rows.
SLOW = {"convergence", "decision_boundaries", "input_bandwidths", "prediction_intervals", "raw_table"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CHECKS]
)
def test_an_example_prints_what_it_should(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(name, tmp_path, monkeypatch, capsys)
    CHECKS[name](out)
    assert [file.name for file in tmp_path.iterdir()] == ["figure1.png"]  # the gallery runs them beside the scripts
    assert (tmp_path / "figure1.png").stat().st_size > 5_000


def test_the_gallery_has_an_order_for_every_script() -> None:
    order = runpy.run_path(str(FOLDER.parent / "docs" / "gallery_order.py"))["ORDER"]
    assert CHECKS.keys() <= set(order)


def test_every_script_is_tested() -> None:
    assert {file.name for file in FOLDER.glob("*.py")} == {f"{name}.py" for name in CHECKS} | {DEMO}


def test_an_example_starts_from_a_shell(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore:FigureCanvasAgg",
        str(FOLDER / "save_and_load.py"),
        "--quick",
    ]
    package = str(Path(joker.__file__).parents[1])  # the package under test
    place = {**os.environ, "PYTHONPATH": package, "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    saving(done.stdout)
