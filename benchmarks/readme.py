"""The numbers of the README, written from benchmarks/results/tables.json, peers.json and out_of_core.json.

    python benchmarks/readme.py

Nothing between the marks is written by hand: a test compares the README with the output of this script.
"""

from __future__ import annotations

import json
from typing import Any

import common
import table_summary
from cells import seconds, table

README = common.ROOT / "README.md"
OURS, BOOSTING = "joker", "HistGradientBoosting"
# The columns: their heading, and the programs in the order in which they are looked for.
COLUMNS = {
    "joker, tuned": (OURS,),
    "SVC, SVR": ("SVC", "SVR"),
    "Nyström + linear": ("Nystroem + LinearSVC", "Nystroem + Ridge"),
    "xRFM": ("xRFM",),
    "boosting": (BOOSTING,),
}
UNFINISHED = 0.1  # a relative gap above which a fit is called unfinished


def trees(results: dict[str, Any]) -> str:
    """Say on which part of the tables joker is better and worse than the best tree model."""
    sets = table_summary.compared(table_summary.scores(results))["sets"]
    better = [entry for entry in sets.values() if entry["difference"] > entry["noise"]]
    worse = [entry for entry in sets.values() if not entry["at_least_as_good"]]
    splits = sorted({entry["splits"] for entry in sets.values()})
    effort = f", effort {results['effort']} of joker" if "effort" in results else ""
    return (
        f"The error (share of wrong classes, or 1 − R²) of `JokerClassifier` and `JokerRegressor` on {len(sets)} "
        "tables, divided by that of the best of five tree models: HistGradientBoosting, LightGBM, CatBoost with and "
        "without its categories, and a random forest, all with their defaults, the best one chosen by its test score. "
        f"The bars are two standard errors over {_span(splits)} splits. joker is better on "
        f"{len(better)} tables (blue), worse on {len(worse)} (red), and on the other "
        f"{len(sets) - len(better) - len(worse)} the difference is noise. The limit of a fit was "
        f"{results['limit_seconds']:g} s{effort}. [All scores, times and settings]"
        "(docs/results.md#raw-tables-joker-against-tree-models)."
    )


def price(results: dict[str, Any]) -> str:
    """Say what a fit of joker takes in time."""
    both = [(entry["peers"][OURS], entry["peers"][BOOSTING]) for entry in results["sets"].values()]
    fits, predictions = (
        [[found[part] for found in column] for column in zip(*both, strict=True)]
        for part in ("fit_seconds", "predict_seconds")
    )
    rows = [found["rows"] for found, _ in both]
    return (
        f"- **You train in seconds, or predict millions of rows often.** On the {len(both)} tables below, of "
        f"{min(rows):,} to {max(rows):,} rows, the search and the fit of joker took {_times(fits[0])}, where gradient "
        f"boosting of scikit-learn took {_times(fits[1])}; to predict the test rows joker took "
        f"{_times(predictions[0])}, boosting {_times(predictions[1])}."
    )


def peers(results: dict[str, Any]) -> str:
    """Return the table of kernel methods, with a note."""
    rows = [_row(name, entry) for name, entry in results["sets"].items()]
    machine = results["machine"]
    unfinished = sum(entry["peers"][OURS]["gap"] > UNFINISHED for entry in results["sets"].values())
    note = (
        f"Score on test rows and time of the fit on {machine['cores']} cores, {machine['date']}; one split, so that "
        "differences in the third digit are noise. joker searches its settings, and its time includes the search; the "
        "other programs have fixed settings. The gap is the relative duality gap of joker's fit: the "
        f"{unfinished} fits with more than {UNFINISHED:.0%} are unfinished, ended by a limit on the passes over the "
        f"rows. A star: fitted on the largest part of the rows that took less than {results['limit_seconds']:g} s. "
        "[All programs, memory and settings](docs/results.md)."
    )
    return f"{table(('data', 'score', *COLUMNS, 'gap'), rows)}\n\n{note}"


def disk(results: dict[str, Any]) -> str:
    """Say what a fit from a disk took."""
    problem, found = results["problem"], results["disk"]
    return (
        f'- **Memory.** `memory="{problem["memory"]}"` is a promise: `fit` plans its memory before it begins, or says '
        f"what is needed. {problem['rows']:,} generated rows of {problem['inputs']} inputs, read from a disk, took "
        f"{found['growth_bytes'] / 1e6:.0f} MB and {results['ratio']:.2f} times as long as from memory."
    )


def _row(name: str, entry: dict[str, Any]) -> list[str]:
    metric, all_peers = entry["metric"], entry["peers"]
    found = [
        next((all_peers[peer] for peer in names if all_peers.get(peer, {}).get("curve")), None)
        for names in COLUMNS.values()
    ]
    whole = all_peers[OURS]["rows"]
    gap = f"{all_peers[OURS]['gap']:.1%}"
    return [f"{name}, {whole:,} rows", metric, *(_cell(one, metric, whole) for one in found), gap]


def _cell(found: dict[str, Any] | None, metric: str, whole: int) -> str:
    if found is None:
        return ""
    star = "*" if found["rows"] < whole else ""
    return f"{found['scores'][metric]:.3f}{star} · {seconds(found['fit_seconds'])}"


def _times(values: list[float]) -> str:
    return f"{seconds(min(values))} to {seconds(max(values))}"


def _span(counts: list[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


WRITTEN = {"tables": (trees,), "peers": (price, peers), "out_of_core": (disk,)}


def marks(name: str) -> tuple[str, str]:
    """Return the marks around a part of the README."""
    return f"<!-- {name}, by benchmarks/readme.py -->", f"<!-- end of {name} -->"


def readme(text: str, results: dict[str, dict[str, Any]]) -> str:
    """Return the text of the README with the numbers of these results between its marks."""
    for file, writers in WRITTEN.items():
        for write in writers:
            start, end = marks(write.__name__)
            head, _, rest = text.partition(start)
            _, _, tail = rest.partition(end)
            text = f"{head}{start}\n{write(results[file])}\n{end}{tail}"
    return text


def read() -> dict[str, dict[str, Any]]:
    """Read the results files."""
    return {name: json.loads((common.RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in WRITTEN}


def main() -> None:
    README.write_text(readme(README.read_text(encoding="utf-8"), read()), encoding="utf-8")
    print("numbers: README.md")


if __name__ == "__main__":
    main()
