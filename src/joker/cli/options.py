"""Groups of options that several commands share; each field is one option."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from joker.cli import parse
from joker.data.readers.source import MAX_INPUTS
from joker.errors import InvalidParameter

table_option = partial(typer.Option, rich_help_panel="The table")
model_option = partial(typer.Option, rich_help_panel="The model")
solver_option = partial(typer.Option, rich_help_panel="The fit")
ensemble_option = partial(typer.Option, rich_help_panel="The search of --model table")
compute_option = partial(typer.Option, rich_help_panel="Device, memory and seed")


MultiClass = Literal["ovr", "softmax", "crammer_singer"]  # how more than two classes are fitted
Categories = Literal["one-hot", "refuse"]  # how columns of text are read
Missing = Literal["impute", "drop", "error"]  # what is done with missing values
# The model that is fitted: the best one for a raw table, or one kernel machine with given settings.
ModelChoice = Literal["auto", "table", "kernel"]
Task = Literal["classify", "regress"]  # the kind of the target
TASKS: dict[str | None, str] = {"classify": "classification", "regress": "regression"}  # the names in the library


DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: CSV (also .gz, .bz2, .xz), Parquet, LIBSVM, .npy, .npz, HDF5, or a row store (.rows).",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `joker fit` or `joker tune` wrote.")]
Memory = Annotated[str, compute_option(help="The memory to use, such as 500MB or 2GiB.", metavar="SIZE")]
Device = Annotated[str | None, compute_option(help="Where to compute: cpu, cuda, cuda:1.", metavar="NAME")]


@dataclass(frozen=True)
class TableFormat:
    """The format of a file of data."""

    delimiter: Annotated[
        str | None, table_option(help="The delimiter between the fields of a text file; detected by default.")
    ] = None
    header: Annotated[
        bool | None,
        table_option(
            "--header/--no-header",
            help="Whether the first line of a text file holds the names of the columns; detected by default.",
        ),
    ] = None
    inputs: Annotated[
        str | None,
        table_option(metavar="NAME", help="The array of inputs in a .npz or HDF5 file; detected by default."),
    ] = None
    decimal: Annotated[
        str | None,
        table_option(metavar="CHAR", help="The character before a fraction, as in 0,5; detected by default."),
    ] = None

    max_inputs: Annotated[
        int, table_option(metavar="N", min=1, help="The largest number of columns of LIBSVM text.")
    ] = MAX_INPUTS

    @property
    def raw(self) -> dict[str, Any]:
        """The keyword arguments of `read_raw_table`."""
        delimiter = {"\\t": "\t", "tab": "\t"}.get(self.delimiter or "", self.delimiter)
        header = "auto" if self.header is None else self.header
        return {"delimiter": delimiter, "header": header, "decimal": self.decimal}

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `open_source`."""
        return {**self.raw, "inputs": self.inputs, "max_inputs": self.max_inputs}


@dataclass(frozen=True)
class TableOptions(TableFormat):
    """The columns of a table to train on, and its format."""

    target: Annotated[
        str | None,
        table_option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="The column to predict: its name, -1 for the last, or its number (from 0) if columns have no names.",
        ),
    ] = None
    columns: Annotated[
        str | None,
        table_option(
            metavar="A,B,...", help='The inputs; by default all columns except the target. "A,B" is one name.'
        ),
    ] = None
    drop: Annotated[str | None, table_option(metavar="A,B,...", help="Columns that are no inputs.")] = None
    categories: Annotated[
        Categories, table_option(help="Columns of text: one 0/1 column for each distinct value, or an error.")
    ] = "refuse"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `open_source`."""
        chosen = {"target": self.target, "columns": parse.names(self.columns), "categories": self.categories}
        return {**super().keywords, **chosen, "drop": parse.names(self.drop)}


@dataclass(frozen=True)
class EnsembleOptions:
    """The search of the model for a raw table, and the rows that it holds out."""

    effort: Annotated[
        int | None,
        ensemble_option(metavar="1..5", help="How much is searched: 1 is quick, 3 the default, 5 the most."),
    ] = None
    groups: Annotated[
        str | None,
        ensemble_option(
            metavar="COLUMN", help="Hold out whole groups, such as persons; the column that names them is no input."
        ),
    ] = None
    time: Annotated[
        str | None, ensemble_option(metavar="COLUMN", help="Hold out the latest rows by a column of dates or numbers.")
    ] = None
    cv: Annotated[
        int | None, ensemble_option(metavar="K", min=2, help="Hold out each of K parts of the rows in turn.")
    ] = None


def changed(options: Any) -> list[str]:
    """Return the options of a group that differ from their defaults."""
    default = type(options)()
    names = [name for name in vars(options) if getattr(options, name) != getattr(default, name)]
    return [f"--{name.replace('_', '-')}" for name in names]


@dataclass(frozen=True)
class ModelOptions:
    """The task, the loss, and the features."""

    task: Annotated[
        Task | None, model_option(help="The kind of the target; --loss implies it, or it is guessed from the target.")
    ] = None
    loss: Annotated[
        str | None,
        model_option(
            metavar="NAME",
            help="For classes: squared_hinge (default), hinge, logistic, softmax, crammer_singer. For numbers: squared "
            "(default), huber, absolute, epsilon_insensitive, squared_epsilon_insensitive, quantile, expectile, lp, "
            "poisson, gamma, tweedie.",
        ),
    ] = None
    multi_class: Annotated[
        MultiClass | None,
        model_option(
            help="More than two classes: one-vs-rest (default), or one problem for all of them with the "
            "logistic loss (softmax) or the hinge (crammer_singer)."
        ),
    ] = None
    calibrate: Annotated[
        bool, model_option("--calibrate", help="Choose probabilities of classes on held-out rows, with any loss.")
    ] = False
    delta: Annotated[float | None, model_option(help="δ of the loss huber.")] = None
    epsilon: Annotated[float | None, model_option(help="ε of the ε-insensitive losses.")] = None
    p: Annotated[float | None, model_option("-p", help="The power of the loss lp.")] = None
    quantile: Annotated[
        str | None, model_option(metavar="Q,...", help="The level of the loss quantile, or several levels.")
    ] = None
    expectile: Annotated[float | None, model_option(help="The level of the loss expectile.")] = None
    power: Annotated[float | None, model_option(help="The power of the variance of the loss tweedie.")] = None
    class_weight: Annotated[
        str | None, model_option(metavar="WEIGHTS", help="'balanced', or the weights of classes: ham=1,spam=5.")
    ] = None
    standardize: Annotated[
        bool | None,
        model_option(
            "--standardize/--no-standardize",
            help="Whether to scale inputs by the mean and deviation of the training rows; by default, unless they are "
            "on one scale.",
        ),
    ] = None
    intercept: Annotated[bool, model_option("--intercept/--no-intercept", help="Whether to fit an intercept.")] = True
    m: Annotated[
        str,
        model_option("-m", metavar="N", help="Random features: their number, 'auto', or 'exact' for the exact kernel."),
    ] = parse.AUTO
    features: Annotated[str, model_option(metavar="KIND", help="The kind of features, such as fourier.")] = parse.AUTO


@dataclass(frozen=True)
class KernelOptions:
    """The kernel and the penalty."""

    kernel: Annotated[
        str,
        model_option(
            metavar="NAME", help="gaussian, laplacian, matern12, matern32, matern52, cauchy, linear, polynomial."
        ),
    ] = "gaussian"
    bandwidth: Annotated[
        str,
        model_option(
            metavar="SIGMA",
            help="A number, 'median', 'paper', 'auto' (half the median), or a list with one number for each input: "
            "0.5,2,1.",
        ),
    ] = parse.AUTO
    lam: Annotated[
        str,
        model_option(
            metavar="LAM",
            help="The penalty: a number, or several of which held-out rows choose one: a list 0.1,1,10, powers "
            "2^-7:2^7, or a number of values 0.001:10:5.",
        ),
    ] = "1"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of an estimator."""
        bandwidth = parse.bandwidth(self.bandwidth)
        return {"kernel": self.kernel, "bandwidth": bandwidth, "lam": parse.penalties(self.lam)}


@dataclass(frozen=True)
class SolverOptions:
    """The limits and methods of the solver."""

    block_size: Annotated[str, solver_option(metavar="N", help="The number of rows in a block, or 'auto'.")] = (
        parse.AUTO
    )
    max_epochs: Annotated[
        str, solver_option(metavar="N", help="The maximum number of passes over the rows, or 'auto'.")
    ] = parse.AUTO
    tol: Annotated[float, solver_option(help="The relative duality gap at which to stop.")] = 1e-3
    max_time: Annotated[
        float,
        solver_option(metavar="SECONDS", help="The time after which the fit ends with the best model so far."),
    ] = math.inf
    method: Annotated[
        str,
        solver_option(metavar="NAME", help="auto, random_blocks, greedy_blocks, column_blocks or conjugate_gradients."),
    ] = parse.AUTO
    averaging: Annotated[bool, solver_option("--averaging/--no-averaging", help="Average the iterates.")] = True
    momentum: Annotated[bool, solver_option("--momentum/--no-momentum", help="Accelerate the steps.")] = False
    early_stopping: Annotated[
        bool, solver_option("--early-stopping", help="Stop when the loss on held-out rows no longer falls.")
    ] = False
    validation_fraction: Annotated[
        float, solver_option(help="The share of rows that is held out to choose λ or the epoch.")
    ] = 0.1

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of an estimator."""
        max_epochs = parse.number_or_word(self.max_epochs, "--max-epochs")
        if not isinstance(max_epochs, str) and not max_epochs > 0:
            raise InvalidParameter(
                f"--max-epochs must be positive, else the model is not trained; got {max_epochs:g}. Use 5."
            )
        block_size = parse.whole(self.block_size, "--block-size", parse.AUTO)
        return {**vars(self), "block_size": block_size, "max_epochs": max_epochs}


@dataclass(frozen=True)
class ComputeOptions:
    """The device, the memory, the random numbers, and the folder for temporary files."""

    device: Device = None
    precision: Annotated[str, compute_option(help="mixed, float32, float64 or auto.", metavar="NAME")] = parse.AUTO
    memory: Memory = parse.AUTO
    seed: Annotated[int, compute_option(help="The seed of all random numbers.", min=0)] = 0
    scratch: Annotated[
        Path | None,
        compute_option(
            metavar="FOLDER", help="The folder for the temporary copy of a table; by default the folder of --out."
        ),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of an estimator."""
        return {"device": self.device, "precision": self.precision, "memory": self.memory, "random_state": self.seed}
