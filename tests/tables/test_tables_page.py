"""The numbers of the page about raw tables are those of the code."""

import re
import runpy
from importlib import import_module

import pytest
from repository import ROOT

from joker.tables.plan import EFFORTS
from joker.tuning.validation import LAST_SHARE

PAGE = ROOT / "docs" / "tables.md"
SCRIPT = ROOT / "docs" / "search_plans.py"
# Parts of sentences, with N at the place of a number, and the constant; % is a hundredth.
STATED = {
    "the code of the group, N inputs": "tables.encoders.CODE_INPUTS",
    "direction in N inputs as its code": "tables.encoders.DIRECTIONS",
    "with at least N values and": "tables.columns.MIN_GROUPS",
    "values and N rows of each on average": "tables.columns.MIN_GROUP_ROWS",
    "regression on N rows of whole groups": "tables.columns.JUDGED_ROWS",
    "rows of whole groups by N%": "tables.columns.MIN_CODE_GAIN",
    "soft-clipped to (−3, N)": "tables.encoders.CLIP",
    "kernel ridge regression on N rows is used": "tables.columns.JUDGED_ROWS",
    "leave-one-out error on samples of N rows": "tables.plan.ARD_ROWS",
    "rows (N in the quick search,": "tables.plan.QUICK_ARD_ROWS",
    "quick search, N of many rows on a GPU)": "tables.plan.GPU_ARD_ROWS",
    "and there are at most N rows, each number": "tables.search.MOST_STEPPED_ROWS",
    "if it reduces the leave-one-out error by N%, else": "tables.search.MIN_WEIGHTING_GAIN",
    "by N steps of Adam": "tuning.ard.STEPS",
    "With at most N levels each": "tables.encoding.MAX_ONE_HOT",
    "with more, the N most frequent ones": "tables.encoding.FREQUENT_LEVELS",
    "text that differs in at least N% of the rows": "tables.columns.IDENTIFIER_SHARE",
    "A column that differs in at least N% of the rows": "tables.columns.IDENTIFIER_SHARE",
    "absolute skewness above N)": "tables.targets.MAX_SKEW",
    "ARD for the Laplacian, with at most N rows": "tables.plan.SEARCH_ROWS",
    "10,000 rows and N inputs": "tables.search.MAX_LAPLACIAN_INPUTS",
    "ARD needs at least N rows": "tables.search.MIN_WEIGHTING_ROWS",
    "200 rows, N rows for each column": "tables.search.MIN_ROWS_OF_WEIGHT",
    "two columns, and at most N inputs": "tables.search.MAX_WEIGHTED_INPUTS",
    "With at most N rows every fold has": "tables.search.MAX_FOLD_ROWS",
    "With fewer than N rows nothing is held out": "tables.plan.MIN_FOLD_ROWS",
    "With at most N rows five folds": "tables.plan.MANY_ROWS",
    "and with at most N rows one fifth": "tables.plan.SEARCH_ROWS",
    "a tenth of them, at most N, is held out": "tables.plan.MAX_HELD_OUT",
    "the search has a sample of N rows": "tables.plan.SEARCH_ROWS",
    "the loss of the held-out rows falls by N%": "tables.refit.MIN_NARROWER_GAIN",
    "a relative duality gap of N%": "tables.refit.TOL_OF_MANY_ROWS",
    "With more than N rows the hyperparameters": "tables.plan.SEARCH_ROWS",
    "With more than N rows the kinds of columns": "tables.search.CHOICE_ROWS",
    "a column with more than N": "tables.encoders.SCALED_ROWS",
    "on at most N rows with effort 1": "tables.plan.QUICK_REFIT_ROWS",
    "the same on at most N rows": "estimators.resolve.EXACT_ROWS",
    "also N random features on all rows": "estimators.resolve.FEATURES",
    "from 1 to 5, sets how much is searched; the default is N.": "tables.plan.DEFAULT_EFFORT",
    "more | N random features, on all rows": "tables.plan.GPU_FEATURES",
    "a pass over the kernel matrix takes at most N s": "estimators.resolve.EXACT_SECONDS",
    "or with effort 1 on N": "tables.plan.QUICK_GPU_ROWS",
}

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason=f"needs {PAGE}")


def stated(text: str, phrase: str) -> float:
    """The number at the place of N in the one sentence of the page that has these words."""
    pattern = re.escape(phrase).replace("N", r"([\d.,]*\d)", 1)
    (found,) = re.findall(pattern, " ".join(text.split()))
    return float(found.replace(",", "")) / (100 if "N%" in phrase else 1)


@pytest.mark.parametrize("phrase", STATED)
def test_a_number_of_the_page_is_that_of_the_code(phrase: str) -> None:
    module, _, constant = STATED[phrase].rpartition(".")
    value = getattr(import_module(f"joker.{module}"), constant)
    assert stated(PAGE.read_text(encoding="utf-8"), phrase) == pytest.approx(value)


def test_the_plans_of_the_page_are_those_of_the_code() -> None:
    names, text = runpy.run_path(str(SCRIPT), run_name="search_plans"), PAGE.read_text(encoding="utf-8")
    assert [text.count(mark) for mark in names["MARKS"]] == [1, 1]
    assert names["page"](text) == text, "Run python docs/search_plans.py."


def test_efforts_of_the_page_are_those_of_the_code() -> None:
    assert (EFFORTS[0], EFFORTS[-1]) == (1, 5)
    assert LAST_SHARE == 0.2
    assert "the latest fifth of the rows" in PAGE.read_text(encoding="utf-8")
