"""``joker tune``: kernel, bandwidth and λ chosen on a sample, and a model fitted with them on all rows."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from joker.callbacks import Callback, Run
from joker.cli import parse
from joker.cli.command import Command
from joker.cli.console import Telling
from joker.cli.fit import Out, opened, progress
from joker.cli.model_files import facts_of
from joker.cli.options import Data, Loss, Place, Reading, Solving
from joker.cli.prediction_files import check_place
from joker.kernels import get as get_kernel

SEARCH = "The search"
MOST = 100_000  # rows that are searched on: more change the choice little, and take long


@dataclass(frozen=True)
class Searching:
    """What to try."""

    kernels: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="The kernels to try; gaussian and laplacian.", rich_help_panel=SEARCH),
    ] = None
    bandwidths: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Bandwidths to try, and no others.", rich_help_panel=SEARCH),
    ] = None
    lam: Annotated[
        str | None,
        typer.Option(metavar="LAM", help="λ to try, and no others; as in `joker fit`.", rich_help_panel=SEARCH),
    ] = None
    relevance: Annotated[
        bool | None,
        typer.Option(
            "--relevance/--no-relevance",
            help="Weigh inputs by how much they matter, always or never; by default where that does better.",
            rich_help_panel=SEARCH,
        ),
    ] = None
    sample: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=10,
            help="Rows of a trial, which are held in memory, at most.",
            rich_help_panel=SEARCH,
        ),
    ] = MOST
    search_time: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Seconds after which nothing more is tried.", rich_help_panel=SEARCH),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """What `joker.tune` calls them, those that are given."""
        bandwidths = [parse.number_or_word(word, "--bandwidths") for word in parse.names(self.bandwidths) or []]
        given = {
            "kernels": parse.names(self.kernels),
            "bandwidths": bandwidths or None,
            "lam": None if self.lam is None else parse.penalties(self.lam),
            "relevance": self.relevance,
            "max_time": self.search_time,
        }
        return {name: value for name, value in given.items() if value is not None}


def tune(
    data: Data,
    out: Out = None,
    reading: Reading = Reading(),  # noqa: B008
    loss: Loss = Loss(),  # noqa: B008
    searching: Searching = Searching(),  # noqa: B008
    solving: Solving = Solving(),  # noqa: B008
    place: Place = Place(),  # noqa: B008
    telling: Telling = Telling(),  # noqa: B008
) -> None:
    """Choose kernel, bandwidth and λ on samples of the rows, and fit a model with them on all rows.

    Many candidates are tried on few rows, and few on many. --json prints every trial.
    """
    from joker.cli import build_estimator
    from joker.tuning import tune as search
    from joker.tuning.halving import sizes

    settings, wanted = {**solving.keywords, **place.keywords}, searching.keywords
    if out is not None:
        check_place(out, data)
    for name in wanted.get("kernels", ()):
        get_kernel(name)
    with opened(data, reading, loss, settings, place, out, telling) as store:
        model = build_estimator.estimator(loss, str(store.task), store.classes, **settings)
        stages = sizes(min(searching.sample, len(store)))
        with ExitStack() as bar:
            update, count = bar.enter_context(telling.bar("tune", "trials")), itertools.count(1)
            found = search(
                store,
                estimator=model.set_params(callbacks=[Closing(bar), *progress(telling)]),
                rows=stages,
                callback=lambda _: update(next(count), None),
                **wanted,
            )
        if out is not None:
            found.estimator.save(out)
    trials = found.table if telling.as_json else len(found.table)
    facts = facts_of(found.estimator, out)
    chosen = {"relevance": found.best["relevance"], "score_of_trial": found.best["score"]}
    telling.result({**facts, **chosen, "trials": trials})


class Closing(Callback):
    """Takes the bar of the trials away when the fit on all rows begins, which has its own."""

    def __init__(self, bar: ExitStack) -> None:
        self.bar = bar

    def start(self, run: Run) -> None:
        self.bar.close()

    def __deepcopy__(self, memo: object) -> Closing:
        return self  # scikit-learn copies what an estimator is made with


TUNE = Command("tune", tune, ("joker tune mail.csv --target spam --task classify --out model.joker",))
