"""Loading a data set by its name."""

from __future__ import annotations

import os
import sys

from joker.data.sources import Source
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.paper.datasets.files import data_folder
from joker.paper.datasets.parts import RandomPart, Span, joined, part_of
from joker.paper.datasets.table import SETS, DataSet

SPLITS = ("train", "test", "all")
RULES = ("paper", "official")


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
