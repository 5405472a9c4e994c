"""Model cards state what is true of the model."""

import re

import numpy as np
import pandas as pd
import pytest
from raw_tables import IGNORE_OPTIMISM, split
from sklearn.exceptions import NotFittedError

import joker
from joker.errors import InvalidParameter
from joker.estimators.card import code


def cells(text: str) -> dict[str, list[str]]:
    """The rows of all tables of a page, by their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows}


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal([5, 100], [1, 30], (60, 2)), columns=["a", "b|c"])


def test_a_classifier(frame: pd.DataFrame) -> None:
    model = joker.KernelLogistic(lam=[0.1, 1.0, 10.0], random_state=0).fit(frame, np.where(frame["a"] > 5, "x", "y"))
    text = model.card({"accuracy on new rows": 0.9375})
    found = cells(text)
    assert text.startswith("# Model card: KernelLogistic\n\n## Data\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        f"## {name}" for name in ("Data", "Model", "Settings", "Scores", "Environment")
    ]
    assert found["classes"] == ["`x`, `y`"]
    assert found["`a`"] == [f"{model.mean_[0]:.6g}", f"{model.scale_[0]:.6g}"]
    assert "`b\\|c`" in found
    assert found["relative gap"] == [f"{model.gap_:.2e}"]
    assert found["accuracy on new rows"] == ["0.9375"]
    assert found[f"minus the mean loss on held-out rows, λ = {model.lam_:.4g}"] == [f"{max(model.path_.scores):.6g}"]
    assert found["`lam`"] == ["`[0.1, 1.0, 10.0]`", "`1.0`"]
    assert found["joker"] == [joker.__version__]


def test_settings_that_differ_come_first(frame: pd.DataFrame) -> None:
    text = joker.KernelRidge(lam=0.5).fit(frame, frame["a"]).card()
    rows = text[text.index("| setting |") :].splitlines()
    assert rows[2].startswith("| `lam` |")
    assert "## Scores" not in text


def test_scores_of_a_path_have_the_name_of_their_scorer(frame: pd.DataFrame) -> None:
    model = joker.KernelLogistic(lam=[0.1, 1.0], early_stopping="accuracy", random_state=0)
    assert "accuracy on held-out rows, λ = 1" in cells(model.fit(frame, frame["a"] > 5).card())


def test_a_model_card_says_whether_the_model_contains_training_rows(frame: pd.DataFrame) -> None:
    for features, expected in ((None, "60, which the model contains"), (20, "the model contains none")):
        model = joker.KernelRidge(n_features=features, random_state=0).fit(frame, frame["a"])
        assert cells(model.card())["training rows"] == [expected]


def test_numbers_without_names() -> None:
    x = np.random.default_rng(0).normal(size=(80, 60))
    text = joker.KernelRidge(bandwidth=np.full(60, 2.0), standardize=True).fit(x, x[:, :2]).card()
    assert cells(text)["outputs"] == ["2"]
    assert cells(text)["49"][-1] == "2"
    assert "10 more inputs are not listed." in text


@IGNORE_OPTIMISM
@pytest.mark.usefixtures("few_trials")
def test_a_table_model() -> None:
    frame, y = split(120)
    model = joker.JokerRegressor(effort=1, random_state=0).fit(frame, y)
    text = model.card({"R² on new rows": 0.5})
    found = cells(text)
    assert found["columns"] == ["7"]
    assert found["country"][:2] == ["left out", "constant"]
    assert found["training rows"] == ["120, which the model contains"]
    assert found["R² on held-out rows"] == [f"{model.held_out_score_:.6g}"]
    assert found["R² on new rows"] == ["0.5"]


def test_errors(frame: pd.DataFrame) -> None:
    with pytest.raises(NotFittedError):
        joker.KernelRidge().card()
    with pytest.raises(NotFittedError):
        joker.JokerRegressor().card()
    with pytest.raises(InvalidParameter, match="scores must be a dictionary from names to numbers; got"):
        joker.KernelRidge().fit(frame, frame["a"]).card(0.9)  # type: ignore[arg-type]


HOSTILE = "a`b<script>alert(1)</script>|[x](http://y)\n# b\x1b[2J"


@pytest.mark.parametrize("kind", [joker.KernelRidge, joker.JokerRegressor])
def test_names_are_shown_and_nothing_else(kind: type) -> None:
    """A name may be HTML or Markdown."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=[HOSTILE, "b"])
    settings = {"effort": 1, "random_state": 0} if kind is joker.JokerRegressor else {}
    model = kind(**settings).fit(frame, frame["b"])
    model.target_name_ = HOSTILE
    text = model.card({HOSTILE: 1.0})
    assert "\n# b" not in text
    assert "\x1b" not in text + model._summary_html() + str(model)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))  # without code
    assert "<" not in outside
    assert not re.search(r"(?<!\\)\[", outside)


def test_backticks_do_not_end_code() -> None:
    assert code("a") == "`a`"
    assert code("a``b`") == "``` a``b` ```"
    assert code("a\n b") == "`a b`"
