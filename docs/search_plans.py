"""Write the plans of a table fit, for efforts 1 to 5, into docs/tables.md.

python docs/search_plans.py
"""

from __future__ import annotations

from pathlib import Path

from joker.tables.plan import EFFORTS, SearchPlan, make_search_plan

PAGE = Path(__file__).resolve().parent / "tables.md"
MARKS = "<!-- the plans of docs/search_plans.py -->", "<!-- end of the plans -->"
SHAPES = ((5_000, "with cross-validation"), (30_000, "with a search on a sample"))  # rows
INPUTS, CLASSES = 20, 2


def table(rows: int, title: str) -> str:
    """Return the plans for so many rows as one table; the plan of a smaller effort is the beginning."""
    plans = [make_search_plan(effort, rows, INPUTS, CLASSES) for effort in EFFORTS]
    lines = [
        f"{rows:,} rows, {INPUTS} inputs, two classes, on a CPU ({title}):",
        "",
        "| from effort | step | rows | trials or fits, at most | seconds, about |",
        "| --- | --- | --- | --- | --- |",
    ]
    for step in plans[-1].steps:
        lines.append(
            f"| {step.effort} | {step} | {step.rows:,} | {step.fits} | {step.seconds:.0f} |"
        )
    lines.append(f"| 1 | weights by greedy selection, members fitted on all rows | {rows:,} | | |")
    return "\n".join([*lines, "", _in_all(plans)])


def _in_all(plans: list[SearchPlan]) -> str:
    seconds = [f"{plan.seconds:.0f}" for plan in plans]
    return f"In all about {', '.join(seconds[:-1])} and {seconds[-1]} s on two cores, for efforts 1 to {plans[-1].effort}."


def page(text: str) -> str:
    """Return the page with the plans of the present code."""
    start, end = MARKS
    head, _, rest = text.partition(start)
    _, _, tail = rest.partition(end)
    tables = "\n\n".join(table(rows, title) for rows, title in SHAPES)
    return f"{head}{start}\n{tables}\n{end}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
