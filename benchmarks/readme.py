"""The table of the README, written from benchmarks/results/peers.json.

    python benchmarks/readme.py

Each cell is the score on test rows and the time of the fit. A test compares the README with the output of this script.
"""

from __future__ import annotations

import json
from typing import Any

import common
from cells import seconds, table

RESULTS = common.RESULTS / "peers.json"
README = common.ROOT / "README.md"
MARKS = "<!-- the table of benchmarks/readme.py -->", "<!-- end of the table -->"
OURS = "joker"
# The columns: their heading, and the programs in the order in which they are looked for.
COLUMNS = {
    "joker, tuned": (OURS,),
    "SVC, SVR": ("SVC", "SVR"),
    "Nyström + linear": ("Nystroem + LinearSVC", "Nystroem + Ridge"),
    "xRFM": ("xRFM",),
    "boosting": ("HistGradientBoosting",),
}
LOWER_IS_BETTER = {"rmse"}


def readme(text: str, results: dict[str, Any]) -> str:
    """Return the text of the README with the table of these results between its marks."""
    start, end = MARKS
    head, _, rest = text.partition(start)
    _, _, tail = rest.partition(end)
    rows = [_row(name, entry) for name, entry in results["sets"].items()]
    machine = results["machine"]
    note = (
        f"Score on test rows (the best in bold) and time of the fit on {machine['cores']} cores, {machine['date']}. "
        "joker searches its settings, and its time includes the search; the other programs have fixed settings. "
        f"A star: fitted on the largest part of the rows that took less than {results['limit_seconds']:g} s. "
        "[All programs, memory and settings](docs/results.md)."
    )
    return f"{head}{start}\n{table(('data', 'score', *COLUMNS), rows)}\n\n{note}\n{end}{tail}"


def _row(name: str, entry: dict[str, Any]) -> list[str]:
    metric, peers = entry["metric"], entry["peers"]
    found = [
        next((peers[peer] for peer in names if peers.get(peer, {}).get("curve")), None) for names in COLUMNS.values()
    ]
    scores = [one["scores"][metric] for one in found if one is not None]
    best = min(scores) if metric in LOWER_IS_BETTER else max(scores)
    whole = peers[OURS]["rows"]
    return [f"{name}, {whole:,} rows", metric, *(_cell(one, metric, best, whole) for one in found)]


def _cell(found: dict[str, Any] | None, metric: str, best: float, whole: int) -> str:
    if found is None:
        return ""
    score = found["scores"][metric]
    text = f"{score:.3f}"
    star = "*" if found["rows"] < whole else ""
    return f"{f'**{text}**' if score == best else text}{star} · {seconds(found['fit_seconds'])}"


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    README.write_text(readme(README.read_text(encoding="utf-8"), results), encoding="utf-8")
    print("table: README.md")


if __name__ == "__main__":
    main()
