"""Groups of options that commands share; each field is one option."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import parse

READING, LEARNING, SOLVING, PLACE = "The table", "The model", "The fit", "Where and how"


class Categories(StrEnum):
    """What becomes of columns of text."""

    ONE_HOT = "one-hot"
    REFUSE = "refuse"


class Task(StrEnum):
    """What the target is."""

    CLASSIFY = "classify"
    REGRESS = "regress"

    @property
    def noun(self) -> str:
        """What the library calls it."""
        return "classification" if self is Task.CLASSIFY else "regression"


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: CSV (also .gz, .bz2, .xz), Parquet, LIBSVM, .npy, .npz, HDF5, or a row store (.rows).",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `joker fit` or `tune` has written.")]
Memory = Annotated[
    str,
    typer.Option(help="The memory to use, such as 500MB or 2GiB.", metavar="SIZE", rich_help_panel=PLACE),
]
Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: cpu, cuda, cuda:1.", metavar="NAME", rich_help_panel=PLACE),
]


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    delimiter: Annotated[
        str | None,
        typer.Option(help="What is between the fields of a text file; found by itself.", rich_help_panel=READING),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a text file names the columns; found by itself.",
            rich_help_panel=READING,
        ),
    ] = None

    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The array of inputs in a .npz or HDF5 file; found by itself.", rich_help_panel=READING
        ),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """What `open_source` calls them."""
        delimiter = {"\\t": "\t", "tab": "\t"}.get(self.delimiter or "", self.delimiter)
        return {"delimiter": delimiter, "header": "auto" if self.header is None else self.header, "inputs": self.inputs}


@dataclass(frozen=True)
class Reading(Layout):
    """Which columns of a table to train on."""

    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="The column to predict: its name, or its number (from 0; -1 is the last) where there are no names.",
            rich_help_panel=READING,
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="The inputs; by default all but the target.", rich_help_panel=READING),
    ] = None
    categories: Annotated[
        Categories,
        typer.Option(help="Columns of text: a 0/1 column for each level, or an error.", rich_help_panel=READING),
    ] = Categories.REFUSE

    @property
    def keywords(self) -> dict[str, Any]:
        """What `open_source` calls them."""
        chosen = {"target": self.target, "columns": parse.names(self.columns), "categories": self.categories.value}
        return {**super().keywords, **chosen}

    @property
    def given(self) -> list[str]:
        """The options that say something."""
        default = Reading()
        return [f"--{name}" for name in vars(self) if getattr(self, name) != getattr(default, name)]


@dataclass(frozen=True)
class Loss:
    """Which error counts."""

    task: Annotated[
        Task | None,
        typer.Option(help="What the target is; told by --loss, or by a target of text.", rich_help_panel=LEARNING),
    ] = None
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="squared_hinge (default), hinge, logistic; squared (default), huber, absolute, epsilon_insensitive, "
            "squared_epsilon_insensitive, quantile, lp.",
            rich_help_panel=LEARNING,
        ),
    ] = None
    delta: Annotated[float | None, typer.Option(help="δ of huber.", rich_help_panel=LEARNING)] = None
    epsilon: Annotated[float | None, typer.Option(help="ε of the ε-insensitive losses.", rich_help_panel=LEARNING)] = (
        None
    )
    p: Annotated[float | None, typer.Option("-p", help="The power of lp.", rich_help_panel=LEARNING)] = None
    quantile: Annotated[
        str | None,
        typer.Option(metavar="Q,...", help="The level of quantile, or several.", rich_help_panel=LEARNING),
    ] = None
    class_weight: Annotated[
        str | None,
        typer.Option(
            metavar="WEIGHTS", help="'balanced', or weights of classes: ham=1,spam=5.", rich_help_panel=LEARNING
        ),
    ] = None
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize/--no-standardize",
            help="Whether inputs are z-scored by the figures of the training rows.",
            rich_help_panel=LEARNING,
        ),
    ] = True
    intercept: Annotated[
        bool,
        typer.Option("--intercept/--no-intercept", help="Whether to fit a constant too.", rich_help_panel=LEARNING),
    ] = True
    m: Annotated[
        str,
        typer.Option(
            "-m",
            metavar="N",
            help="Random features: a number, 'auto', or 'exact' for the kernel itself.",
            rich_help_panel=LEARNING,
        ),
    ] = parse.AUTO
    features: Annotated[
        str,
        typer.Option(metavar="KIND", help="The kind of features, such as fourier.", rich_help_panel=LEARNING),
    ] = parse.AUTO


@dataclass(frozen=True)
class Kernel:
    """How alike two rows are, and how much is penalised."""

    kernel: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="gaussian, laplacian, matern12, matern32, matern52, cauchy, linear, polynomial.",
            rich_help_panel=LEARNING,
        ),
    ] = "gaussian"
    bandwidth: Annotated[
        str,
        typer.Option(
            metavar="SIGMA",
            help="A number, 'median', 'paper', 'auto' (half the median), or a list of one for each input: 0.5,2,1.",
            rich_help_panel=LEARNING,
        ),
    ] = parse.AUTO
    lam: Annotated[
        str,
        typer.Option(
            metavar="LAM",
            help="The penalty: a number; or a path, of which held-out rows choose one: a list 0.1,1,10, powers "
            "2^-7:2^7, or a count of values 0.001:10:5.",
            rich_help_panel=LEARNING,
        ),
    ] = "1"

    @property
    def keywords(self) -> dict[str, Any]:
        """What an estimator calls them."""
        bandwidth = parse.bandwidth(self.bandwidth)
        return {"kernel": self.kernel, "bandwidth": bandwidth, "lam": parse.penalties(self.lam)}


@dataclass(frozen=True)
class Solving:
    """How long and how well to solve."""

    block_size: Annotated[
        str, typer.Option(metavar="N", help="Rows of a block: a number or 'auto'.", rich_help_panel=SOLVING)
    ] = parse.AUTO
    max_epochs: Annotated[float, typer.Option(help="Passes over the rows, at most.", rich_help_panel=SOLVING)] = 5
    tol: Annotated[float, typer.Option(help="The relative duality gap at which it ends.", rich_help_panel=SOLVING)] = (
        1e-3
    )
    max_time: Annotated[float, typer.Option(metavar="SECONDS", help="Seconds, at most.", rich_help_panel=SOLVING)] = (
        math.inf
    )
    averaging: Annotated[
        bool, typer.Option("--averaging/--no-averaging", help="Average the iterates.", rich_help_panel=SOLVING)
    ] = True
    momentum: Annotated[
        bool, typer.Option("--momentum/--no-momentum", help="Accelerate the steps.", rich_help_panel=SOLVING)
    ] = False
    early_stopping: Annotated[
        bool,
        typer.Option("--early-stopping", help="End when held-out rows gain no more.", rich_help_panel=SOLVING),
    ] = False
    validation_fraction: Annotated[
        float,
        typer.Option(help="The share of rows held out to choose λ or the epoch.", rich_help_panel=SOLVING),
    ] = 0.1

    @property
    def keywords(self) -> dict[str, Any]:
        """What an estimator calls them."""
        return {**vars(self), "block_size": parse.whole(self.block_size, "--block-size", parse.AUTO)}


@dataclass(frozen=True)
class Place:
    """Where to compute, with how much memory and which random numbers."""

    device: Device = None
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="mixed, float32, float64 or auto.", rich_help_panel=PLACE)
    ] = parse.AUTO
    memory: Memory = parse.AUTO
    seed: Annotated[int, typer.Option(help="Of everything that is random.", min=0, rich_help_panel=PLACE)] = 0
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where a table is put in random order for the fit, for as long as it lasts; beside --out by default.",
            rich_help_panel=PLACE,
        ),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """What an estimator calls them."""
        return {
            "device": self.device,
            "precision": self.precision,
            "memory": self.memory,
            "random_state": self.seed,
        }
