"""Fit a model of the paper on one of its data sets, and show the results beside those of the paper.

    python -m benchmarks.paper hepc --model krr --protocol joker --scale 0.01 --folder downloads
    python -m benchmarks.paper higgs --model klr --folder downloads --json

The files are the official ones, which docs/data-sets.md names. The time is that of the fit. The memory is that of the
GPU, or of the whole process on the CPU. Exit status: 0 success, 1 an error in the data or a file, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from joker.callbacks import Progress
from joker.cli.command import ReportOptions, explain
from joker.errors import JokerError
from joker.runtime import format_bytes

from .experiment import Outcome, Place, notes_on, run
from .protocol import PROTOCOLS, plan
from .rows import read
from .tables import FALLING, MODELS, SETS, set_named

NO_VALUE = "–"


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    found = argparse.ArgumentParser(
        "python -m benchmarks.paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("dataset", metavar="DATASET", help=", ".join(SETS))
    found.add_argument(
        "--model", required=True, metavar="NAME", help=f"{', '.join(MODELS)}; svm is svr on msd and hepc"
    )
    found.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default="paper",
        help="paper: its random blocks, steps and bandwidth, without averaging. joker: with averaging and momentum, "
        "until the score on held-out rows no longer rises",
    )
    found.add_argument(
        "--scale", type=float, default=1.0, help="the numbers of rows, steps and features, as a share of the paper's"
    )
    found.add_argument(
        "--halving",
        action="store_true",
        help="halve the radius of a step every 1,000 steps (times the scale), as the published code does",
    )
    rows = found.add_mutually_exclusive_group()
    rows.add_argument(
        "--generated",
        action="store_true",
        default=None,
        help="use generated rows of the same number and type; the default if no folder is named and the folder "
        "JOKER_DATA does not have the files",
    )
    rows.add_argument("--real", dest="generated", action="store_false", help="use only real rows")
    found.add_argument("--folder", type=Path, help="the folder of the official files; by default JOKER_DATA")
    found.add_argument("--dry-run", action="store_true", help="show the settings and exit")
    found.add_argument("--device", metavar="NAME", help="where to compute: cpu, cuda, cuda:1")
    found.add_argument("--precision", default="auto", metavar="NAME", help="mixed, float32, float64 or auto")
    found.add_argument("--memory", default="auto", metavar="SIZE", help="the memory to use, such as 500MB or 2GiB")
    found.add_argument("--seed", type=int, default=0, help="the seed of all random numbers")
    found.add_argument("--json", action="store_true", help="print the result as one JSON document and nothing else")
    found.add_argument("-q", "--quiet", action="store_true", help="show no progress and no notes, only errors")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment and return the exit status."""
    try:
        experiment(parser().parse_args(arguments))
    except JokerError as error:
        sentence, status = explain(error)
        print(sentence, file=sys.stderr)
        return status
    return 0


def experiment(options: argparse.Namespace) -> None:
    """Run an experiment, and print its results."""
    seed, scale, report = options.seed, options.scale, ReportOptions(options.json, options.quiet)
    made = plan(
        set_named(options.dataset), options.model, options.protocol, scale=scale, halving=options.halving, seed=seed
    )
    place = Place(options.device, options.precision, options.memory)
    place.check()
    if options.dry_run:
        where = {"device": str(place.where), "scratch_bytes": place.scratch(made), "type": str(place.types[0])}
        report.result({**made.facts, **where})
        return
    rows = read(made.data, scale=scale, seed=seed, folder=options.folder, generated=options.generated)
    for note in notes_on(made, rows.generated):
        report.note(note)
    outcome = run(made, rows, place, [] if options.quiet else [Progress()])
    if options.json:
        report.result(outcome.facts)
    else:
        print(comparison(outcome))


def comparison(outcome: Outcome) -> str:
    """Return the results of a run and of the paper as a table, with notes."""
    experiment, published = outcome.plan, outcome.published
    rows = f"{experiment.data.name}{' (generated rows)' if outcome.generated else ''}"
    size = "the exact kernel" if experiment.n_features is None else f"{experiment.n_features:,} features"
    title = (
        f"{rows}, {experiment.model}, protocol {experiment.protocol}: {outcome.rows:,} rows, {size}, "
        f"blocks of {experiment.choice.block_size}, {outcome.device}, {outcome.precision}"
    )
    lines = [("", "ours", "paper", "ours − paper"), *_scores(outcome)]
    lines += [
        ("seconds", f"{outcome.seconds:.1f}", f"{published.seconds:,.0f}", ""),
        ("peak memory", _bytes(outcome.peak_bytes), _bytes(published.peak_bytes), ""),
        ("steps", f"{outcome.steps:,}", f"{experiment.choice.steps:,}", ""),
        ("ms per step", f"{outcome.ms_per_step:.2f}", f"{1000 * published.seconds / experiment.choice.steps:.2f}", ""),
        ("test rows", f"{outcome.test_rows:,}", "", ""),
        ("relative gap", f"{outcome.gap:.2e}", NO_VALUE, ""),
        ("bandwidth", f"{outcome.bandwidth:.4g}", "", ""),
    ]
    return "\n".join([title, "", *_table(lines), "", outcome.reason, *outcome.notes])


def _scores(outcome: Outcome) -> list[tuple[str, str, str, str]]:
    """A line for each metric; scores of generated rows are not compared with those of the paper."""
    lines = []
    for name, value in outcome.scores.items():
        mean, deviation = outcome.published.scores[name]
        label = f"{name.replace('_', ' ')} ({'less' if name in FALLING else 'more'} is better)"
        published = NO_VALUE if outcome.generated else f"{mean:.6g} ± {deviation:.1g}"
        gain = f"{value - mean:+.2g}" if outcome.comparable and math.isfinite(value) else ""
        lines.append((label, f"{value:.6g}", published, gain))
    return lines


def _table(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]


def _bytes(size: Any) -> str:
    return NO_VALUE if size is None else format_bytes(size)


if __name__ == "__main__":
    sys.exit(main())
