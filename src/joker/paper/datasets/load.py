"""A data set by its name."""

from __future__ import annotations

import os
import sys

from joker.data.sources import Source
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.paper.datasets.files import data_folder
from joker.paper.datasets.parts import Draw, Span, joined, part_of
from joker.paper.datasets.table import SETS, DataSet

SPLITS = ("train", "test", "all")
RULES = ("paper", "official")


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    split: str = "train",
    *,
    rule: str = "paper",
    seed: int = 0,
) -> Source:
    """Return a data set of the literature, read from its official files in bounded memory.

    Parameters
    ----------
    name : str
        msd, hepc, susy, higgs or cifar5m (those of the paper), or covtype, higgs33k, kin40k, protein, mnist or a9a.
    folder : path, optional
        Where the files are; by default the folder that the variable JOKER_DATA names.
    split : {"train", "test", "all"}
        Which rows.
    rule : {"paper", "official"}
        Who splits. The paper draws 80% (susy, higgs, cifar5m) or 90% of the rows (hepc) for training. The makers of
        susy and higgs keep the last 500,000 rows for testing. For msd both are the makers' split, and mnist and a9a
        come in two parts.
    seed : int
        Of the draw.

    Returns
    -------
    Source
        Inputs and targets as they are: standardise them with the figures of the training rows.
    """
    for what, value, known in (("name", name, SETS), ("split", split, SPLITS), ("rule", rule, RULES)):
        if value not in known:
            raise UnknownName.among(what, value, known)
    found, place = SETS[name], data_folder(folder)
    if found.share is None and found.held_out is None:
        if split != "all":
            return found.open(place, split)
        return joined(f"{place}, {name}", (found.open(place, "train"), found.open(place, "test")))
    whole = found.open(place, split)
    if found.schema is not None and found.schema.width != whole.schema.width:
        raise InvalidData(
            f"{whole.name} must have the {found.schema.width} inputs of {name}; it has {whole.schema.width}. "
            "Download it again."
        )
    return part_of(whole, _part(name, found, split, rule, seed), found.rows, found.schema)


def _part(name: str, found: DataSet, split: str, rule: str, seed: int) -> Span | Draw:
    if split == "all":
        return Span(0, sys.maxsize)
    if rule == "official" and found.held_out is None:
        raise InvalidParameter(
            f"rule must be 'paper' for {name}, which has no official split; got {rule!r}. Leave it out."
        )
    if found.held_out is not None and found.rows is not None and (rule == "official" or found.share is None):
        border = found.rows - found.held_out
        return Span(0, border) if split == "train" else Span(border, found.rows)
    return Draw(found.share or 1.0, seed, split == "train")
