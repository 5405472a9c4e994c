"""Small raw tables with words, categories, dates and missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

FAST = {"effort": 1, "random_state": 0}  # settings of a quick fit
# Prices have a trend, and new persons a level of their own: fits of these tables warn of optimism.
IGNORE_OPTIMISM = pytest.mark.filterwarnings("ignore:.*(orders the rows in time|names groups of rows)")


def raw_frame(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Return a table with a price that depends on size, city, age and date."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(3, 0.8, n)
    city = rng.choice(["Bern", "Basel", "Genf", "Zug"], n, p=[0.5, 0.3, 0.15, 0.05])
    age = rng.integers(0, 90, n).astype(float)
    day = np.datetime64("2021-01-01") + rng.integers(0, 900, n).astype("timedelta64[D]")
    worth = {"Bern": 1.0, "Basel": 2.0, "Genf": 3.0, "Zug": 4.0}
    trend = (day - np.datetime64("2021-01-01")).astype(int) / 900
    price = np.log(size) + np.array([worth[c] for c in city]) - 0.02 * age + 2 * trend + 0.1 * rng.normal(size=n)
    frame = pd.DataFrame({"size": size, "city": city, "age": age, "sold": day.astype(str), "new": age < 10})
    frame["code"] = [f"h{j:05d}" for j in range(n)]
    frame["country"] = "CH"
    frame.loc[rng.random(n) < 0.15, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    frame["price"] = price
    return frame


def split(n: int = 240, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return the inputs and the price."""
    frame = raw_frame(n, seed)
    return frame.drop(columns="price"), frame["price"].to_numpy()


PERSONS = 80


def panel(seed: int = 0, rows: int = 640) -> tuple[pd.DataFrame, Any]:
    """Return rows of persons and their targets; the level of a person does not depend on its number in a smooth way."""
    level = np.random.default_rng(7).normal(size=PERSONS)
    rng = np.random.default_rng(seed)
    person = rng.permutation(np.arange(rows) % PERSONS)
    frame = pd.DataFrame(
        {"person": 100_000_000 + 3 * person, "age": rng.integers(20, 60, rows), "hours": rng.random(rows)}
    )
    return frame, level[person] + np.sin(frame["age"].to_numpy() / 8) + 0.3 * rng.normal(size=rows)


WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def texts(rng: np.random.Generator, rows: int) -> list[str]:
    """Return texts of six words each."""
    return [" ".join(rng.choice(WORDS, 6)) for _ in range(rows)]


def counted(values: list[str]) -> Any:
    """Return a target that depends on two of the words."""
    return np.array([float(text.split().count("alpha") - 2 * text.split().count("zeta")) for text in values])
