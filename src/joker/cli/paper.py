"""``joker paper``: an experiment of the paper, with its results beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli.command import Command
from joker.cli.console import ReportOptions
from joker.cli.fit import progress
from joker.cli.options import Device, Memory, Precision, Seed
from joker.paper import MODELS, SETS, Outcome, Place, notes_on, plan, read, run
from joker.paper.table import FALLING, set_named
from joker.runtime import format_bytes

experiment_option = partial(typer.Option, rich_help_panel="The experiment")
NO_VALUE = "–"


class Protocol(StrEnum):
    """The settings of the fit: those of the paper, or the defaults of joker."""

    PAPER = "paper"
    JOKER = "joker"


def paper(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=f"{', '.join(SETS)}.")],
    model: Annotated[str, experiment_option(metavar="NAME", help=f"{', '.join(MODELS)}; svm is svr on msd and hepc.")],
    protocol: Annotated[
        Protocol,
        experiment_option(
            help="paper: its random blocks, steps and bandwidth, without averaging. joker: with averaging and "
            "momentum, until the score on held-out rows no longer rises.",
        ),
    ] = Protocol.PAPER,
    scale: Annotated[
        float, experiment_option(help="The numbers of rows, steps and features, as a share of those in the paper.")
    ] = 1.0,
    halving: Annotated[
        bool,
        experiment_option(
            "--halving",
            help="Halve the radius of a step every 1,000 steps (times the scale), as the published code does.",
        ),
    ] = False,
    generated: Annotated[
        bool | None,
        experiment_option(
            "--generated/--real",
            help="Use generated rows of the same number and type, or only real rows. By default rows are generated if "
            "no folder is named and the folder JOKER_DATA does not have the files.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, experiment_option(help="The folder of the official files; by default JOKER_DATA.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the settings and exit.")] = False,
    device: Device = None,
    precision: Precision = "auto",
    memory: Memory = "auto",
    seed: Seed = 0,
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Fit a model of the paper on one of its data sets, and show the results beside those of the paper.

    The files are the official ones, which `docs/data.md` names. The time is that of the fit. The memory is that of the
    GPU, or of the whole process on the CPU.
    """
    experiment = plan(set_named(dataset), model, protocol.value, scale=scale, halving=halving, seed=seed)
    place = Place(device, precision, memory)
    place.check()
    if dry_run:
        where = {"device": str(place.where), "scratch_bytes": place.scratch(experiment), "type": str(place.types[0])}
        report.result({**experiment.facts, **where})
        return
    rows = read(experiment.data, scale=scale, seed=seed, folder=folder, generated=generated)
    for note in notes_on(experiment, rows.generated):
        report.note(note)
    outcome = run(experiment, rows, place, progress(report))
    if report.as_json:
        report.result(outcome.facts)
    else:
        print(comparison(outcome))


def comparison(outcome: Outcome) -> str:
    """Return the results of a run and of the paper as a table, with notes."""
    experiment, published = outcome.plan, outcome.published
    rows = f"{experiment.data.name}{' (generated rows)' if outcome.generated else ''}"
    size = "the kernel itself" if experiment.n_features is None else f"{experiment.n_features:,} features"
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


PAPER = Command(
    "paper",
    paper,
    (
        "joker paper hepc --model krr --protocol joker --scale 0.01 --folder downloads",
        "joker paper higgs --model klr --folder downloads --json",
    ),
)
