"""The numbers of the page about raw tables are those of the code."""

import re
from importlib import import_module

import pytest
from repository import ROOT

PAGE = ROOT / "docs" / "tables.md"
# Parts of sentences, with N at the place of a number, and the constant of joker.tables; % is a hundredth.
STATED = {
    "the code of the group, N inputs": "group_encoder.CODE_INPUTS",
    "direction in N inputs as its code": "group_encoder.DIRECTIONS",
    "with at least N values and": "group_columns.MIN_GROUPS",
    "values and N rows of each on average": "group_columns.MIN_GROUP_ROWS",
    "regression on N rows of whole groups": "group_columns.JUDGED_ROWS",
    "rows of whole groups by N%": "group_columns.MIN_CODE_GAIN",
    "bent smoothly into (−3, N)": "encoders.CLIP",
    "kernel ridge regression on N rows is used": "leave_one_out.SAMPLE_ROWS",
    "leave-one-out error on samples of N rows": "leave_one_out.SAMPLE_ROWS",
    "by N steps of Adam": "leave_one_out.STEPS",
    "With at most N levels each": "encoding.MAX_ONE_HOT",
    "with more, the N most frequent ones": "encoding.FREQUENT_LEVELS",
    "text that differs in at least N% of the rows": "columns.IDENTIFIER_SHARE",
    "which differs in at least N% of the rows": "columns.IDENTIFIER_SHARE",
    "absolute skewness above N)": "targets.MAX_SKEW",
    "for the Laplacian, with at most N rows": "problem.SEARCH_ROWS",
    "need at least N rows, two columns": "variants.MIN_WEIGHTING_ROWS",
    "two columns, and at most N inputs": "variants.MAX_WEIGHTED_INPUTS",
    "With at most N rows five folds": "validation.MANY_ROWS",
    "and with at most N rows one fifth": "problem.SEARCH_ROWS",
    "a tenth of them, at most N, is held out": "problem.MAX_HELD_OUT",
    "the search has a sample of N rows": "problem.SEARCH_ROWS",
    "the loss of the held-out rows falls by N%": "final_fit.MIN_NARROWER_GAIN",
    "a relative duality gap of N%": "learner.TOL_OF_MANY_ROWS",
    "for at most N times their part": "search.MOST_TIMES",
    "With more than N rows, or 5,000": "problem.SEARCH_ROWS",
    "With more than 10,000 rows, or N if": "problem.FEW_ROWS",
    "fewer, but at least N.": "problem.MIN_SEARCH_ROWS",
    "more | N random features, on all rows": "final_fit.GPU_FEATURES",
    "The default is N s and a further millisecond": "base.BASE_SECONDS",
    "for each row, at most N s": "base.MAX_SECONDS",
}

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason=f"needs {PAGE}")


def stated(text: str, phrase: str) -> float:
    """The number at the place of N in the one sentence of the page that has these words."""
    pattern = re.escape(phrase).replace("N", r"([\d.,]*\d)", 1)
    (found,) = re.findall(pattern, " ".join(text.split()))
    return float(found.replace(",", "")) / (100 if "N%" in phrase else 1)


@pytest.mark.parametrize("phrase", STATED)
def test_a_number_of_the_page_is_that_of_the_code(phrase: str) -> None:
    module, _, constant = STATED[phrase].partition(".")
    value = getattr(import_module(f"joker.tables.{module}"), constant)
    assert stated(PAGE.read_text(encoding="utf-8"), phrase) == pytest.approx(value)
