"""The table of the data sets, and how each is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from joker.data.schema import Schema
from joker.data.sources import Source, open_source
from joker.paper.datasets.files import find
from joker.paper.datasets.parts import joined
from joker.paper.datasets.power import open_packed_power, open_power

UCI = "https://archive.ics.uci.edu/dataset/"
CIFAR_PARTS = 6
A9A_INPUTS = 123
Opener = Callable[[Path, str], Source]  # of (folder, split), where the split is "train", "test" or "all"


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
