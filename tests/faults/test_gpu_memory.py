"""GPU memory: a budget is kept over random shapes, and memory that runs out in a fit is said in a sentence."""

from __future__ import annotations

import os
from datetime import date
from typing import Any

import numpy as np
import pytest
import torch
from random_shapes import random_case

import joker
from joker.errors import BudgetTooSmall

SHAPES, MOMENTS = 50, 16


def rows(n: int, d: int, classes: int, dtype: str) -> tuple[Any, Any]:
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    limits = np.quantile(X[:, 0], np.linspace(0, 1, classes + 1)[1:-1]) if classes else []
    return X, np.digitize(X[:, 0], limits) if classes else X[:, 0]


def smallest(work: Any) -> int:
    with pytest.raises(BudgetTooSmall) as caught:
        work()
    return int(str(caught.value).split("memory=")[1].split()[0])


def growth(work: Any) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::joker.errors.ConvergenceWarning")
def test_random_shapes_keep_their_budget() -> None:
    """The seed changes by the date, so that in time many shapes are tried; a failure names it."""
    seed = int(os.environ.get("JOKER_SEED", date.today().toordinal()))
    rng = np.random.default_rng(seed)
    X, y = rows(4_000, 5, 0, "float32")
    for warm in (50, None):  # what the libraries take comes first
        joker.KernelRidge(device="cuda", n_features=warm, max_epochs=1).fit(X, y)
    over = []
    for case in range(SHAPES):
        kind, settings, shape, factor = random_case(rng)
        X, y = rows(shape["n"], min(shape["d"], 300), shape["classes"], shape["dtype"])
        model = getattr(joker, kind)(device="cuda", memory=1, max_epochs=1, random_state=0, **settings)
        for what, ask, work in (
            ("fit", lambda: model.plan(X, y), lambda: model.fit(X, y)),  # noqa: B023
            ("predict", lambda: model.predict(X), lambda: model.predict(X)),  # noqa: B023
        ):
            model.memory = 1
            model.memory = int(factor * smallest(ask))
            if (grown := growth(work)) > model.memory:
                over.append(
                    f"seed {seed}, case {case}, {what}: {grown:,} of {model.memory:,}; {kind} {settings} {shape}"
                )
    assert not over, "\n".join(over)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::joker.errors.ConvergenceWarning")
def test_memory_that_runs_out_at_any_moment() -> None:
    """A fit ends as it does with all the memory, or with a sentence, and the next fit works.

    joker plans with the memory that is free, and a smaller limit of torch is a process that took the rest after that.
    """
    X, y = rows(20_000, 28, 0, "float32")
    kinds: tuple[dict[str, Any], ...] = (
        {"n_features": 20_000},
        {"n_features": None},
        {"n_features": 5_000, "momentum": True},
        {"n_features": 5_000, "lam": [0.1, 1.0]},
    )
    rng, ended = np.random.default_rng(date.today().toordinal()), 0
    total, refused = torch.cuda.get_device_properties(0).total_memory, []
    for moment in range(MOMENTS):
        model = joker.KernelHuber(device="cuda", max_epochs=2, random_state=0, **kinds[moment % len(kinds)])
        needed = growth(lambda: model.fit(X, y))  # noqa: B023
        alone = model.predict(X[:100])
        torch.cuda.empty_cache()
        limit = torch.cuda.memory_reserved() + rng.uniform(0.02, 1.3) * needed
        torch.cuda.set_per_process_memory_fraction(limit / total)
        try:
            model.fit(X, y)
            ended += 1
        except BudgetTooSmall as error:
            refused.append(str(error))
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        np.testing.assert_allclose(model.fit(X, y).predict(X[:100]), alone, atol=0.02)
    assert len(refused) + ended == MOMENTS
    assert refused
    assert ended
    assert all("memory" in sentence or "are missing" in sentence for sentence in refused), refused
