"""A memory budget is kept by both classes: the growth of resident memory, measured in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from raw_tables import FAST, IGNORE_OPTIMISM, split

import joker
from joker.errors import BudgetTooSmall

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.usefixtures("few_trials"),
    IGNORE_OPTIMISM,
]

PROBE = """
import json, sys
import numpy as np, pandas as pd
import joker, joker.tables

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def growth(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    work()
    return status("VmHWM") - before

name, rows, budget = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(rows, 20)), columns=[f"c{j}" for j in range(20)])
X["w"] = rng.choice(list("abcdef"), rows)
X["person"] = rng.integers(0, 500, rows)
y = X["c0"] + X["c1"] ** 2
model = getattr(joker, name)(memory=budget, effort=1, random_state=0, columns={"person": "group"})
fit = growth(lambda: model.fit(X, y if name == "JokerRegressor" else y > 1))
print(json.dumps({"fit": fit, "predict": growth(lambda: model.predict(X))}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["JokerRegressor", "JokerClassifier"])
def test_the_budget_is_kept(name: str) -> None:
    budget = 160 * 2**20
    source = str(Path(joker.__file__).parents[1])
    command = [sys.executable, "-c", PROBE, name, "12000", str(budget)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment(source))
    grown = json.loads(done.stdout)
    assert grown["fit"] < budget
    assert grown["predict"] < budget


def environment(source: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": source}


def test_a_budget_that_is_too_small_names_a_sufficient_one() -> None:
    frame, y = split(100)
    with pytest.raises(BudgetTooSmall, match=r"memory must hold the table, 3 copies of its .* Use memory=\d+ "):
        joker.JokerRegressor(memory="10MB").fit(frame, y)


def test_one_member_with_a_budget() -> None:
    frame, y = split(240)
    model = joker.JokerRegressor(memory="300MB", **FAST).fit(frame, y)
    assert len(model.members_) == 1
    assert {trial["weights"] for trial in model.leaderboard_} == {"equal"}
    assert np.isfinite(model.predict(frame)).all()
