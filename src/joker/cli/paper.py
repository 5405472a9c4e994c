"""``joker paper``: an experiment of the paper, and its figures beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli.command import Command
from joker.cli.console import Telling
from joker.cli.fit import progress
from joker.cli.options import PLACE, Device, Memory
from joker.paper import MODELS, SETS, Outcome, Place, notes_on, plan, read, run
from joker.paper.table import FALLING, set_named
from joker.runtime import format_bytes

RUN = "The experiment"
NOTHING = "–"


class Protocol(StrEnum):
    """How a model is fitted."""

    PAPER = "paper"
    JOKER = "joker"


def paper(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=f"{', '.join(SETS)}.")],
    model: Annotated[
        str, typer.Option(metavar="NAME", help=f"{', '.join(MODELS)}; svm is svr on msd and hepc.", rich_help_panel=RUN)
    ],
    protocol: Annotated[
        Protocol,
        typer.Option(
            help="paper: its random blocks, steps and bandwidth, without averaging. joker: averaged, accelerated, "
            "until held-out rows gain no more.",
            rich_help_panel=RUN,
        ),
    ] = Protocol.PAPER,
    scale: Annotated[
        float, typer.Option(help="Rows, steps and features as a share of the paper's.", rich_help_panel=RUN)
    ] = 1.0,
    halving: Annotated[
        bool,
        typer.Option(
            "--halving",
            help="Halve the radius of a step every 1,000 steps (times the scale), as the published code does.",
            rich_help_panel=RUN,
        ),
    ] = False,
    generated: Annotated[
        bool | None,
        typer.Option(
            "--generated/--real",
            help="Use generated rows of the same number and type, or insist on real ones. By default rows are "
            "generated where no folder is named and JOKER_DATA does not lead to the files.",
            rich_help_panel=RUN,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the official files are; by default JOKER_DATA.", rich_help_panel=RUN),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the settings and end.")] = False,
    device: Device = None,
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="mixed, float32, float64 or auto.", rich_help_panel=PLACE)
    ] = "auto",
    memory: Memory = "auto",
    seed: Annotated[int, typer.Option(help="Of everything that is random.", min=0, rich_help_panel=PLACE)] = 0,
    telling: Telling = Telling(),  # noqa: B008
) -> None:
    """Fit a model of the paper on one of its data sets, and show what it reaches beside the paper's row.

    The files are the official ones, which `docs/data.md` names. Time is that of the fit; memory is that of the card, or
    of the whole process on the CPU.
    """
    made = plan(set_named(dataset), model, protocol.value, scale=scale, halving=halving, seed=seed)
    place = Place(device, precision, memory)
    place.check()
    if dry_run:
        where = {"device": str(place.where), "scratch_bytes": place.scratch(made), "type": str(place.types[0])}
        telling.result({**made.facts, **where})
        return
    rows = read(made.data, scale=scale, seed=seed, folder=folder, generated=generated)
    for note in notes_on(made, rows.generated):
        telling.note(note)
    found = run(made, rows, place, progress(telling))
    if telling.as_json:
        telling.result(found.facts)
    else:
        print(shown(found))


def shown(found: Outcome) -> str:
    """Return a run and the paper's row as a table, with what has to be known of them."""
    made, theirs = found.plan, found.published
    size = "the kernel itself" if made.n_features is None else f"{made.n_features:,} features"
    title = (
        f"{made.data.name}{' (generated rows)' if found.generated else ''}, {made.model}, protocol {made.protocol}: "
        f"{found.rows:,} rows, {size}, blocks of {made.choice.block_size}, {found.device}, {found.precision}"
    )
    lines = [("", "ours", "paper", "ours − paper"), *_scores(found)]
    lines += [
        ("seconds", f"{found.seconds:.1f}", f"{theirs.seconds:,.0f}", ""),
        ("peak memory", _bytes(found.peak_bytes), _bytes(theirs.peak_bytes), ""),
        ("steps", f"{found.steps:,}", f"{made.choice.steps:,}", ""),
        ("ms per step", f"{found.ms_per_step:.2f}", f"{1000 * theirs.seconds / made.choice.steps:.2f}", ""),
        ("test rows", f"{found.test_rows:,}", "", ""),
        ("relative gap", f"{found.gap:.2e}", NOTHING, ""),
        ("bandwidth", f"{found.bandwidth:.4g}", "", ""),
    ]
    return "\n".join([title, "", *_table(lines), "", found.reason, *found.notes])


def _scores(found: Outcome) -> list[tuple[str, str, str, str]]:
    """A line for each metric; generated rows are not set beside real ones."""
    lines = []
    for name, value in found.scores.items():
        mean, deviation = found.published.scores[name]
        label = f"{name.replace('_', ' ')} ({'less' if name in FALLING else 'more'} is better)"
        theirs = NOTHING if found.generated else f"{mean:.6g} ± {deviation:.1g}"
        gain = f"{value - mean:+.2g}" if found.comparable and math.isfinite(value) else ""
        lines.append((label, f"{value:.6g}", theirs, gain))
    return lines


def _table(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]


def _bytes(size: Any) -> str:
    return NOTHING if size is None else format_bytes(size)


PAPER = Command(
    "paper",
    paper,
    (
        "joker paper hepc --model krr --protocol joker --scale 0.01 --folder downloads",
        "joker paper higgs --model klr --folder downloads --json",
    ),
)
