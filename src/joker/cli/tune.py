"""``joker tune``: choose kernel, bandwidth and λ on samples of the rows, and fit a model with them on all rows."""

from __future__ import annotations

import itertools
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from joker.callbacks import Callback, Run
from joker.cli import parse
from joker.cli.command import Command, ReportOptions
from joker.cli.data_files import check_output
from joker.cli.fit import Out, make_estimator, progress, sole_writer, training_store
from joker.cli.model_files import KernelModel
from joker.cli.options import ComputeOptions, DataFile, ModelOptions, SolverOptions, TableOptions

MAX_TRIAL_ROWS = 100_000  # more rows change the choice little and take long
search_option = partial(typer.Option, rich_help_panel="The search")


@dataclass(frozen=True)
class SearchOptions:
    """The candidates and the limits of the search."""

    kernels: Annotated[
        str | None,
        search_option(metavar="A,B", help="The kernels to try; by default gaussian, matern12 and laplacian."),
    ] = None
    bandwidths: Annotated[str | None, search_option(metavar="A,B", help="The only bandwidths to try.")] = None
    lam: Annotated[str | None, search_option(metavar="LAM", help="The only λ to try, written as in `joker fit`.")] = (
        None
    )
    relevance: Annotated[
        bool | None,
        search_option(
            "--relevance/--no-relevance",
            help="Whether to weight inputs by their relevance (ARD), always or never; by default both are tried.",
        ),
    ] = None
    sample: Annotated[
        int, search_option(metavar="N", min=10, help="The maximum number of rows of a trial; they are in memory.")
    ] = MAX_TRIAL_ROWS
    trials: Annotated[
        int | None,
        search_option(
            metavar="N", min=1, help="The most candidates to try; by default the search ends where nothing improves."
        ),
    ] = None
    search_time: Annotated[
        float | None,
        search_option(
            metavar="SECONDS",
            help="A brake: the time after which the search ends with the best candidate so far; by default none.",
        ),
    ] = None

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `joker.tune`, without those that are not given."""
        bandwidths = [parse.number_or_word(word, "--bandwidths") for word in parse.names(self.bandwidths) or []]
        given = {
            "kernels": parse.names(self.kernels),
            "bandwidths": bandwidths or None,
            "lam": None if self.lam is None else parse.penalties(self.lam),
            "relevance": self.relevance,
            "n_trials": self.trials,
            "max_time": self.search_time,
        }
        return {name: value for name, value in given.items() if value is not None}


def tune(
    data: DataFile,
    out: Out = None,
    table: TableOptions = TableOptions(),  # noqa: B008
    model: ModelOptions = ModelOptions(),  # noqa: B008
    search: SearchOptions = SearchOptions(),  # noqa: B008
    solver: SolverOptions = SolverOptions(),  # noqa: B008
    compute: ComputeOptions = ComputeOptions(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Choose kernel, bandwidth and λ on samples of the rows, and fit a model with them on all rows.

    Many candidates are tried on few rows, and few candidates on many rows. --json prints every trial.
    """
    from joker import tuning
    from joker.tuning.halving import stage_rows

    settings, keywords = {**solver.keywords, **compute.keywords}, search.keywords
    if out is not None:
        check_output(out, data)
    warnings.filterwarnings("ignore", "max_time=.* has ended the search")  # this program has a sentence of its own
    with (
        sole_writer(out),
        training_store(data, table, model, _candidates(settings, keywords), compute, out, report) as store,
    ):
        estimator = make_estimator(model, str(store.task), store.classes, **settings)
        with ExitStack() as bar:
            update, count = bar.enter_context(report.progress_bar("tune", "trials")), itertools.count(1)
            tuned = tuning.tune(
                store,
                estimator=estimator.set_params(callbacks=[CloseBar(bar), *progress(report)]),
                rows=stage_rows(min(search.sample, len(store))),
                callback=lambda _: update(next(count), None),
                **keywords,
            )
        if out is not None:
            tuned.estimator.save(out)
    if tuned.stopped_by_time:
        warnings.warn(
            f"--search-time {search.search_time:g} has ended the search after {len(tuned.table)} trials. Use a longer "
            "time, or --trials, with which the search is repeatable.",
            stacklevel=1,
        )
    trials = tuned.table if report.as_json else len(tuned.table)
    chosen = {"relevance": tuned.best["relevance"], "score_of_trial": tuned.best["score"]}
    chosen["stopped_by_time"] = tuned.stopped_by_time
    report.result({**KernelModel(tuned.estimator).facts(out), **chosen, "trials": trials})


def _candidates(settings: dict[str, Any], keywords: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings of estimators with the given kernels, bandwidths and λ, to be checked before the table is read."""
    lam = {"lam": keywords["lam"]} if "lam" in keywords else {}
    kernels, bandwidths = keywords.get("kernels", ["gaussian"]), keywords.get("bandwidths", [parse.AUTO])
    return [{**settings, **lam, "kernel": k, "bandwidth": b} for k, b in itertools.product(kernels, bandwidths)]


class CloseBar(Callback):
    """Closes the progress bar of the trials when the fit on all rows begins, which has its own."""

    def __init__(self, bar: ExitStack) -> None:
        self.bar = bar

    def start(self, run: Run) -> None:
        self.bar.close()

    def __deepcopy__(self, memo: object) -> CloseBar:
        return self  # scikit-learn copies the parameters of an estimator when it clones it


TUNE = Command("tune", tune, ("joker tune mail.csv --target spam --task classify --out model.joker",))
