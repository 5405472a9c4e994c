"""The table of expected step times is that of the model, and the model has the measured steps as a special case."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Script = Callable[[str], Any]


@pytest.fixture
def model(script: Script) -> Any:
    return script("step_model")


@pytest.fixture
def results(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(model.RESULTS.read_text(encoding="utf-8"))
    return found


def test_the_page_has_the_table_of_the_committed_results(model: Any, results: dict[str, Any]) -> None:
    text = model.PAGE.read_text(encoding="utf-8")
    assert all(text.count(mark) == 1 for mark in model.MARKS)
    assert text == model.page(text, results), "The results have changed. Run make results and commit the page."


def test_one_gpu_takes_the_measured_time(model: Any, results: dict[str, Any]) -> None:
    for m, name in model.MEASURED.items():
        assert model.step_seconds(results, m, 1) == pytest.approx(results["cases"][name]["ms"] / 1e3)


def test_the_sum_of_a_ring(model: Any) -> None:
    """Two GPUs exchange the numbers once in each direction; 16 GPUs are on two machines."""
    numbers = 4 * (512 * 512 + 512)
    assert model.sum_seconds(1) == 0
    assert model.sum_seconds(2) == pytest.approx(10e-6 + numbers / 450e9)
    assert model.sum_seconds(16) == pytest.approx(30e-6 + 20e-6 + numbers * 15 / 8 / 50e9)


def test_no_model_is_faster_than_its_parts_or_slower_than_one_gpu(model: Any, results: dict[str, Any]) -> None:
    fixed, _ = model.step_parts(results)
    for m in model.FEATURES[1:]:
        alone = model.step_seconds(results, m, 1)
        assert all(max(fixed, alone / p) < model.step_seconds(results, m, p) < alone for p in model.GPUS[1:])
