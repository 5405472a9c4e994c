"""From a table and its targets to a blend: the search for members, and where there are many rows the final fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from joker.data.array_rows import pick
from joker.tables.blend import Member
from joker.tables.candidates import Candidate, Learnt, blended
from joker.tables.encoding import fit_encoding
from joker.tables.ensemble import MIN_GAIN
from joker.tables.final_fit import fit_on_many_rows
from joker.tables.frames import RawTable
from joker.tables.leave_one_out import Sample, best_errors, make_sample, sample_rows
from joker.tables.memory import is_limited, memory_of_models
from joker.tables.problem import Layout, Problem, make_layout
from joker.tables.search import held_out_values, tuned
from joker.tables.targets import IDENTITY, fit_number_target, forms_to_try, residual_quantiles
from joker.tables.variants import Variant, variants

TOL_OF_MANY_ROWS = 0.01  # of the gap; the axis "settings" of benchmarks/search_ablations.py compares a tenth of it
MIN_GAIN_OF_MANY_ROWS = 0.02  # share of the loss: two members on all rows have half of the time each


def learn(problem: Problem) -> Learnt:
    """Search, validate and weight the members of a blend."""
    search = make_layout(problem)
    limited = is_limited(problem.estimator.memory)
    form = None if problem.classes else IDENTITY if limited else choose_form(problem)
    encodings: list[Any] = []
    candidates: list[Candidate] = []
    leaderboard: list[dict[str, Any]] = []
    for variant in variants(_in_form(problem, form)):
        encodings.append(variant.encoding)
        started = problem.clock.spent
        candidates.append(_candidate(problem, len(encodings) - 1, variant, form, search, leaderboard))
        left = problem.clock.left
        if left < search.least_share * problem.clock.limit or left < problem.clock.spent - started:
            break
    gain = MIN_GAIN if search.all_rows else MIN_GAIN_OF_MANY_ROWS
    learnt = blended(problem, encodings, candidates, search.folds, leaderboard, gain)
    return learnt if search.all_rows else fit_on_many_rows(problem, learnt, candidates, search)


def _in_form(problem: Problem, form: str | None) -> Problem:
    """Return the problem with targets in a form: a few huge targets would decide on the encoding of all rows."""
    if form is None or form == IDENTITY:
        return problem
    return replace(problem, y=fit_number_target(problem.y, form).encode(problem.y))


def choose_form(problem: Problem) -> str:
    """Return the form of the target with the smallest squared error in its own unit, left one out, on a sample."""
    forms = forms_to_try(problem.y)
    if len(forms) == 1 or not isinstance(problem.inputs, RawTable):
        return forms[0]
    sample = make_sample(problem.y, 0, problem.seed, sample_rows(problem.clock.limit))
    y = problem.y[sample.rows]
    losses = {}
    for form in forms:
        target = fit_number_target(y, form)
        coded = target.encode(y)
        _, x = fit_encoding(problem.inputs.some(sample.rows), coded, 0, given=problem.columns, seed=problem.seed)
        wrong = best_errors(x, Sample(sample.rows, torch.from_numpy(coded)[:, None]))[:, 0].numpy()
        found = target.decode(coded - wrong, residual_quantiles(wrong))
        losses[form] = float(np.mean((found - y) ** 2))
    return min(losses, key=lambda form: losses[form])


def _candidate(
    problem: Problem,
    number: int,
    variant: Variant,
    form: str | None,
    search: Layout,
    leaderboard: list[dict[str, Any]],
) -> Candidate:
    """Tune one member on the rows of the search, and predict held-out rows with its settings."""
    target = None if form is None else fit_number_target(problem.y, form)
    y = problem.targets(target)
    x, share, options = variant.x, variant.share * search.share, {**search.options, **variant.search}
    rows, estimator = search.rows, clone(problem.estimator)
    estimator.set_params(memory=memory_of_models(estimator.memory, problem.inputs, x.shape[1]))
    if not search.all_rows:
        estimator.set_params(tol=TOL_OF_MANY_ROWS)
    some_x, some_y = (x, y) if rows is None else (pick(x, rows), y[rows])
    found = tuned(some_x, some_y, estimator, problem.clock, problem.seed, problem.scoring, share, **options)
    facts = {"scaling": variant.scaling, "weights": variant.weights, "target": form or "classes"}
    leaderboard += [{**facts, **trial} for trial in found.trials]
    if not search.folds:
        return Candidate(Member(number, found.model, 1.0, target), np.zeros((0, 1)), None, x)
    first = variant.encoding
    if search.all_rows:
        limit = max(2.0, 0.6 * share * problem.clock.left)
        folds = search.folds[: max(1, int(limit / max(found.fit_seconds, 1e-3)))]
        encoded = [variant.of_fold(fold.train) for fold in folds]
        held, models = held_out_values(found.model, [x for _, x in encoded], y, folds, problem.values, limit)
        first = encoded[0][0]
    else:
        folds, models = search.folds, [found.model]
        held = problem.values(found.model, pick(x, folds[0].held))
    held, residuals = problem.decoded(held, np.concatenate([fold.held for fold in folds]), target)
    member = Member(number, found.model, 1.0, target, residuals)
    return Candidate(member, held, models[0], x, found.fit_seconds, first)
