"""The data sets: their files, how each is read, and generated rows of the same shape."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from joker.data.readers import Source, open_source
from joker.data.schema import Schema
from joker.errors import InvalidData, InvalidParameter, MissingFile, UnknownName

from .sources import RandomPart, Span, generate, joined, open_packed_power, open_power, part_of

__all__ = ["SETS", "DataSet", "generate", "load"]

FOLDER_VARIABLE = "JOKER_DATA"  # an environment variable
SPLITS = ("train", "test", "all")
RULES = ("paper", "official")
UCI = "https://archive.ics.uci.edu/dataset/"
CIFAR_PARTS = 6
A9A_INPUTS = 123
Opener = Callable[[Path, str], Source]  # of (folder, split), where the split is "train", "test" or "all"


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Return ``folder``, or without it the folder that the environment variable JOKER_DATA names."""
    named = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    if named is None:
        raise InvalidParameter(
            f"folder or the environment variable {FOLDER_VARIABLE} must name the folder of the data sets; neither is "
            f"given. Use --folder or folder, or set {FOLDER_VARIABLE}."
        )
    place = Path(named)
    if not place.is_dir():
        raise MissingFile(f"the folder of data sets must exist; {place} does not. Check folder or {FOLDER_VARIABLE}.")
    return place


def find(folder: Path, names: tuple[str, ...], where: str) -> Path:
    """Return the first of these files that exists; ``where`` says where to get it."""
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise MissingFile(f"{folder} must contain {' or '.join(names)}; it does not. Get it from {where}.")


@dataclass(frozen=True)
class DataSet:
    """A data set: how it is opened, and which of its rows are training rows."""

    task: str  # "regression" or "classification"
    open: Opener
    share: float | None = None  # of the rows that are drawn for training; None if the split is official
    rows: int | None = None  # of the official file, if their number is checked
    held_out: int | None = None  # the number of official test rows at the end
    schema: Schema | None = None  # replaces the names in the file


def _uci(
    task: str, page: str, name: str, width: int, target: str, *, rows: int, held_out: int, share: float | None = None
) -> DataSet:
    """Return a data set of UCI: a text file without a header, whose first column is the target."""

    def opener(folder: Path, split: str) -> Source:
        return open_source(find(folder, (name, f"{name}.gz"), UCI + page), target=0, header=False)

    schema = Schema.numbers([f"x{j}" for j in range(1, width + 1)], target)
    return DataSet(task, opener, share, rows, held_out, schema)


def _cifar5m(folder: Path, split: str) -> Source:
    where = "https://github.com/preetum/cifar5m"
    parts = [find(folder, (f"cifar5m_part{i}.npz", f"part{i}.npz"), where) for i in range(CIFAR_PARTS)]
    return joined(f"{folder}, CIFAR-5M", tuple(open_source(part, inputs="X", target="Y") for part in parts))


def _hepc(folder: Path, split: str) -> Source:
    names = ("household_power_consumption.txt", "hepc.bin.xz")
    path = find(folder, names, f"{UCI}235/individual+household+electric+power+consumption")
    return open_packed_power(path) if path.name == names[1] else open_power(path)


def _a9a(folder: Path, split: str) -> Source:
    name = "a9a" if split == "train" else "a9a.t"
    path = find(folder, (f"{name}.svm.xz", name), "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/")
    return open_source(path, schema=Schema.numbers([str(j) for j in range(1, A9A_INPUTS + 1)], "label"))


def _mnist(folder: Path, split: str) -> Source:
    path = find(folder, ("mnist.npz",), "https://yann.lecun.com/exdb/mnist, as arrays X_train, y_train, X_test, y_test")
    return open_source(path, inputs=f"X_{split}", target=f"y_{split}")


def _npz(name: str) -> Opener:
    where = "the address in docs/data-sets.md, as arrays X and y"
    return lambda folder, split: open_source(find(folder, (f"{name}.npz",), where), inputs="X", target="y")


SETS: dict[str, DataSet] = {
    # The five data sets of the paper, with its shares. The official split of msd is 90% to 10%, too.
    "msd": _uci(
        "regression", "203/yearpredictionmsd", "YearPredictionMSD.txt", 90, "year", rows=515_345, held_out=51_630
    ),
    "hepc": DataSet("regression", _hepc, share=0.9, rows=2_049_280),
    "susy": _uci("classification", "279/susy", "SUSY.csv", 18, "label", rows=5_000_000, held_out=500_000, share=0.8),
    "higgs": _uci(
        "classification", "280/higgs", "HIGGS.csv", 28, "label", rows=11_000_000, held_out=500_000, share=0.8
    ),
    "cifar5m": DataSet("classification", _cifar5m, share=0.8),
    # Smaller data sets.
    "covtype": DataSet("classification", _npz("covtype"), share=0.8),
    "higgs33k": DataSet("classification", _npz("higgs33k"), share=0.8),
    "kin40k": DataSet("regression", _npz("kin40k"), share=0.9),
    "protein": DataSet("regression", _npz("protein"), share=0.9),
    "mnist": DataSet("classification", _mnist),
    "a9a": DataSet("classification", _a9a),
}


def load(
    name: str, folder: str | os.PathLike[str] | None = None, split: str = "train", *, rule: str = "paper", seed: int = 0
) -> Source:
    """Return a data set of the literature, read from its official files in bounded memory.

    Parameters
    ----------
    name : str
        msd, hepc, susy, higgs or cifar5m, which the paper uses, or covtype, higgs33k, kin40k, protein, mnist or a9a.
    folder : path, optional
        The folder of the files; by default the folder that the environment variable JOKER_DATA names.
    split : {"train", "test", "all"}
        The rows to return.
    rule : {"paper", "official"}
        The rule of the split. The paper draws 80% (susy, higgs, cifar5m) or 90% of the rows (hepc) for training. The
        official test rows of susy and higgs are the last 500,000. For msd both rules are the official split. mnist and
        a9a have separate files or arrays for training and test.
    seed : int
        The seed of the draw.

    Returns
    -------
    Source
        Inputs and targets as in the files, not scaled.
    """
    for what, value, allowed in (("name", name, SETS), ("split", split, SPLITS), ("rule", rule, RULES)):
        if value not in allowed:
            raise UnknownName.among(what, value, allowed)
    data, place = SETS[name], data_folder(folder)
    if data.share is None and data.held_out is None:
        if split != "all":
            return data.open(place, split)
        return joined(f"{place}, {name}", (data.open(place, "train"), data.open(place, "test")))
    whole = data.open(place, split)
    if data.schema is not None and data.schema.width != whole.schema.width:
        raise InvalidData(
            f"{whole.name} must have the {data.schema.width} inputs of {name}; it has {whole.schema.width}. "
            "Download it again."
        )
    return part_of(whole, _part(name, data, split, rule, seed), data.rows, data.schema)


def _part(name: str, data: DataSet, split: str, rule: str, seed: int) -> Span | RandomPart:
    if split == "all":
        return Span(0, sys.maxsize)
    if rule == "official" and data.held_out is None:
        raise InvalidParameter(
            f"rule must be 'paper' for {name}, which has no official split; got {rule!r}. Leave it out."
        )
    if data.held_out is not None and data.rows is not None and (rule == "official" or data.share is None):
        border = data.rows - data.held_out
        return Span(0, border) if split == "train" else Span(border, data.rows)
    return RandomPart(data.share or 1.0, seed, split == "train")
