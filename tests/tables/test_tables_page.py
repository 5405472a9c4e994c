"""The numbers of the page about raw tables are those of the code."""

import re
from importlib import import_module

import pytest
from repository import ROOT

PAGE = ROOT / "docs" / "tables.md"
# Parts of sentences, with N at the place of a number, and the constant; % is a hundredth.
STATED = {
    "the code of the group, N inputs": "tables.encoders.CODE_INPUTS",
    "direction in N inputs as its code": "tables.encoders.DIRECTIONS",
    "with at least N values and": "tables.columns.MIN_GROUPS",
    "values and N rows of each on average": "tables.columns.MIN_GROUP_ROWS",
    "regression on N rows of whole groups": "tables.columns.JUDGED_ROWS",
    "rows of whole groups by N%": "tables.columns.MIN_CODE_GAIN",
    "soft-clipped to (−3, N)": "tables.encoders.CLIP",
    "kernel ridge regression on N rows is used": "tuning.ard.SAMPLE_ROWS",
    "leave-one-out error on samples of N rows": "tuning.ard.SAMPLE_ROWS",
    "by N steps of Adam": "tuning.ard.STEPS",
    "With at most N levels each": "tables.encoding.MAX_ONE_HOT",
    "with more, the N most frequent ones": "tables.encoding.FREQUENT_LEVELS",
    "text that differs in at least N% of the rows": "tables.columns.IDENTIFIER_SHARE",
    "which differs in at least N% of the rows": "tables.columns.IDENTIFIER_SHARE",
    "absolute skewness above N)": "tables.targets.MAX_SKEW",
    "for the Laplacian, with at most N rows": "tables.plan.SEARCH_ROWS",
    "need at least N rows, two columns": "tables.search.MIN_WEIGHTING_ROWS",
    "two columns, and at most N inputs": "tables.search.MAX_WEIGHTED_INPUTS",
    "With at most N rows five folds": "tables.plan.MANY_ROWS",
    "and with at most N rows one fifth": "tables.plan.SEARCH_ROWS",
    "a tenth of them, at most N, is held out": "tables.plan.MAX_HELD_OUT",
    "the search has a sample of N rows": "tables.plan.SEARCH_ROWS",
    "the loss of the held-out rows falls by N%": "tables.refit.MIN_NARROWER_GAIN",
    "a relative duality gap of N%": "tables.refit.TOL_OF_MANY_ROWS",
    "for at most N times their part": "tables.plan.MOST_TIMES",
    "With more than N rows, or 5,000": "tables.plan.SEARCH_ROWS",
    "With more than 10,000 rows, or N if": "tables.plan.FEW_ROWS",
    "fewer, but at least N.": "tables.plan.MIN_SEARCH_ROWS",
    "more | N random features, on all rows": "tables.refit.GPU_FEATURES",
    "The default is N s and a further millisecond": "tables.estimators.BASE_SECONDS",
    "for each row, at most N s": "tables.estimators.MAX_SECONDS",
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
