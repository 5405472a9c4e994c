"""The memory budget that an error names is enough: as a number of bytes, and as the text of the same sentence."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from random_shapes import random_case

import joker
from joker.errors import BudgetTooSmall
from joker.runtime import format_least, parse_bytes

SHAPES = 100


def refusal(work: Callable[[Any], Any], memory: Any) -> BudgetTooSmall:
    with pytest.raises(BudgetTooSmall) as caught:
        work(memory)
    return caught.value


def named(error: BudgetTooSmall) -> tuple[int, str]:
    """Return both budgets that a sentence names: in bytes, and with a unit."""
    found = re.search(
        r"(?:at least|and) ([\d.e+]+ [kMG]?B)(?:,| are needed|\.).*Use memory=(\d+) \(bytes\)", str(error)
    )
    assert found, error
    assert int(found[2]) == error.least
    return int(found[2]), found[1]


def check(work: Callable[[Any], Any], *, smallest: bool = True) -> None:
    """Check that both named budgets are enough and, where the smallest one is named, that a byte less is not."""
    least, text = named(refusal(work, 1))
    if smallest:
        refusal(work, least - 1)
    work(least)
    work(text)


def data(shape: dict[str, Any], rng: np.random.Generator) -> tuple[Any, Any]:
    n, d = min(shape["n"], 400), min(shape["d"], 300)
    X: Any = rng.standard_normal((n, d)).astype(shape["dtype"]) * shape.get("scales", 1.0)
    if "density" in shape:
        X = sp.random(n, d, shape["density"], format="csr", dtype=shape["dtype"], random_state=0)
    y = rng.standard_normal(n)
    return X, np.arange(n) % shape["classes"] if shape["classes"] else y


@pytest.mark.parametrize("part", range(4))
def test_a_plan_accepts_the_budget_that_it_names(part: int) -> None:
    rng = np.random.default_rng(part)
    for _ in range(SHAPES // 4):
        name, settings, shape, _ = random_case(rng)
        X, y = data(shape, rng)
        model = getattr(joker, name)(random_state=0, **settings)
        check(lambda memory, model=model, X=X, y=y: model.set_params(memory=memory).plan(X, y))


@pytest.mark.parametrize("settings", [{"n_features": 2_000}, {"kernel": "laplacian"}, {"kernel": "matern12"}], ids=str)
def test_a_problem_of_tensors_accepts_the_budget_that_it_names(settings: dict[str, Any]) -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 6)))
    problem = {**settings, "settings": joker.Settings(max_epochs=1, tol=1.0)}
    check(lambda memory: joker.prepare(x, x[:, 0], memory=memory, **problem).run(), smallest=False)


@pytest.mark.parametrize("shapes", [2, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_search_accepts_the_budget_that_it_names(shapes: int) -> None:
    """Its fits have several λ and kernels, and weights of inputs."""
    rng = np.random.default_rng(shapes)
    for _ in range(shapes):
        name, settings, shape, _ = random_case(rng)
        X, y = data(shape, rng)
        model = getattr(joker, name)(random_state=0, **{**settings, "kernel": "gaussian", "lam": 1.0})
        check(
            lambda memory, model=model, X=X, y=y: joker.tune(X, y, estimator=model, memory=memory, n_trials=2),
            smallest=False,
        )


def table(n: int, words: int, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"c{j}": rng.normal(size=n) for j in range(4)}
    columns["word"] = rng.choice([f"level {i}" for i in range(words)], n)
    return columns, columns["c0"] + columns["c1"] ** 2


TABLES = [(60, 3, 0), (400, 20, 8), (3_000, 90, 200)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["JokerRegressor", "JokerClassifier"])
@pytest.mark.parametrize("n_features", ["auto", 40])
@pytest.mark.parametrize(("n", "words", "seed"), TABLES)
def test_a_table_accepts_the_budget_that_it_names(kind: str, n_features: Any, n: int, words: int, seed: int) -> None:
    X, y = table(n, words, seed)
    labels = y if kind == "JokerRegressor" else np.digitize(y, [0, 1])

    def fit(memory: Any) -> None:
        model = getattr(joker, kind)(memory=memory, effort=1, n_features=n_features, random_state=0)
        model.fit(X, labels).predict(X)

    check(fit, smallest=False)


def test_the_fit_of_a_table_names_what_its_models_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel model needs more than the table has left for it, the whole is named, and not its part."""
    monkeypatch.setattr("joker.tables.table.MIN_LEFT", 10**6)
    X, y = table(200, 5, 0)
    fit = lambda memory: joker.JokerRegressor(memory=memory, effort=1, random_state=0).fit(X, y)  # noqa: E731
    first, _ = named(refusal(fit, 10**6))
    error = refusal(fit, first - 10**6)
    assert error.least == first
    assert "the table, 3 copies of its" in str(error)
    fit(first)


@pytest.mark.parametrize("size", [1, 999, 1_000, 119_100_000, 119_100_001, 2_500_001, 50_299_008, 999_999_999])
def test_a_size_in_words_is_as_large_or_larger(size: int) -> None:
    assert size <= parse_bytes(format_least(size)) <= size * 1.001
