"""Processes that differ in any setting, in the data or in the version end with a sentence that names the difference."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import differing_ranks
import numpy as np
import pytest
import torch
from group_processes import run
from group_worker import X, y

import joker
from joker.data import Scaling
from joker.distributed.facts import described, fingerprint, first_difference
from joker.planning import FitSpec
from joker.planning.plan import OWN_FIELDS
from joker.solvers.methods.choice import methods_named

SENTENCE = "ProcessesDiffer: all processes of a group must have the same "


@pytest.mark.parametrize("part", ["quick", pytest.param("all", marks=pytest.mark.slow)])
def test_every_process_names_the_difference(tmp_path: Path, part: str) -> None:
    ended = run(2, "differ", tmp_path / "said.json", part, seconds=300)
    assert [status for status, _ in ended] == [0, 0], ended
    first, last = json.loads((tmp_path / "said.json").read_text(encoding="utf-8"))
    assert first == last
    alike = {name: said for name, said in first.items() if name not in differing_ranks.MODES}
    assert set(alike.values()) == {""}, alike
    for name in first.keys() - alike.keys():
        assert first[name].startswith(SENTENCE + differing_ranks.MODES[name][1]), (name, first[name])
        assert "; process 0 has " in first[name]
    assert part == "quick" or len(first) - len(alike) >= 40


def a_spec() -> FitSpec:
    """Return the spec of a fit, without rows."""
    kernel, loss = joker.kernels.Gaussian(1.0), joker.losses.get("squared")
    (method,) = methods_named("random_blocks")
    return FitSpec(
        rows=300,
        inputs=4,
        targets=1,
        device=torch.device("cpu"),
        dtype=torch.float32,
        kernel=kernel,
        loss=loss,
        method=method,
        settings=joker.Settings(),
        scaling=Scaling(torch.zeros(4), torch.ones(4)),
    )


def changed(value: Any) -> Any:
    return not value if isinstance(value, bool) else (value or 0) + 1


OTHER: dict[str, Any] = {
    "device": torch.device("cuda:0"),
    "dtype": torch.float64,
    "kernel": joker.kernels.Gaussian(1.001),
    "loss": joker.losses.get("huber"),
    "method": methods_named("greedy_blocks")[0],
    "settings": joker.Settings(seed=1),
    "n_features": 1_000,
    "features": "structured",
    "scaling": Scaling(torch.zeros(4), torch.tensor([1.0, 1.0, 2.0, 1.0])),
}


@pytest.mark.parametrize("name", [field.name for field in fields(FitSpec) if field.name not in OWN_FIELDS - {"device"}])
def test_every_field_of_a_spec_is_compared(name: str) -> None:
    spec = a_spec()
    other = OTHER[name] if name in OTHER else changed(getattr(spec, name))
    found = first_difference(described(spec.facts), described(replace(spec, **{name: other}).facts))
    assert found is not None
    assert found.name.split(".")[0] == name


@pytest.mark.parametrize("name", [field.name for field in fields(joker.Settings)])
def test_every_setting_is_compared(name: str) -> None:
    settings = joker.Settings(max_time=9.0)
    others = {"method": "newton", "block": joker.solvers.BlockSolver(tol=0.5)}
    other = others[name] if name in others else changed(getattr(settings, name))
    found = first_difference(described(settings), described(replace(settings, **{name: other})))
    assert found is not None
    assert found.name.split(".")[0] == name


@pytest.mark.parametrize("columns", [1, 3, 64, 100, 1_000])
def test_a_fingerprint_knows_the_order_of_rows_and_columns(columns: int) -> None:
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(50, columns)))
    whole = described(values.tolist()), fingerprint(values)
    assert len(whole[1]) <= 64
    swaps = [values.flip(0), values.roll(1, 0), *([values.flip(1), values.roll(1, 1)] if columns > 1 else [])]
    for other in swaps:
        assert first_difference(whole[1], fingerprint(other))
    in_parts = fingerprint(values, [slice(0, 20), slice(20, 50)])
    assert first_difference(whole[1], in_parts) is None
    assert first_difference(whole[1], [value * (1 + 1e-9) for value in whole[1]]) is None


def test_what_cannot_be_compared_is_named_by_its_type() -> None:
    assert described(np.random.RandomState(0)) == described(np.random.RandomState(1)) == {"type": "RandomState"}
    assert described(len) == "builtins.len"
    circle: list[Any] = []
    circle.append(circle)
    assert "list" in json.dumps(described(circle))


@pytest.mark.parametrize("kind", ["text", "dates", "booleans", "missing"])
def test_long_arrays_are_compared_by_sums(kind: str) -> None:
    n = 2_000
    arrays = {
        "text": np.array([f"t{i % 7}" for i in range(n)], dtype=object),
        "dates": np.arange(n).astype("datetime64[us]"),
        "booleans": np.arange(n) % 3 == 0,
        "missing": np.where(np.arange(n) % 5 == 0, np.nan, np.arange(n, dtype=float)),
    }
    array = arrays[kind]
    other = array.copy()
    other[9], other[10] = array[10], array[9]
    assert described(array)["shape"] == [n]
    assert first_difference(described(array), described(array.copy())) is None
    assert first_difference(described(array), described(other))


def test_long_values_are_shown_where_they_differ() -> None:
    found = first_difference("a" * 500 + "b" + "c" * 500, "a" * 500 + "d" + "c" * 500)
    assert found is not None
    assert found.first.startswith("…aaaa")
    assert "b" in found.first
    assert len(found.first) < 100


def test_one_process_compares_nothing() -> None:
    assert joker.KernelRidge(n_features=20).fit(X, y).n_iter_ > 0
