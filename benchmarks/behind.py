"""Where joker is behind: sentences computed from each results file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import result_tables as tables
import table_models
import table_summary

# Scores of tables: their names, the words, and the sign with which larger is better.
SCORES = ((table_summary.PRIMARY, "a score of", 1), (("log_loss",), "a log loss of", -1), (("auc",), "an AUC of", 1))
PARTS = {"fit_seconds": "a fit", "predict_seconds": "a prediction of the test rows"}
LOWER = ("rmse", "relative_error")  # metrics for which lower is better


def behind_peers(results: dict[str, Any]) -> Iterator[str]:
    """Where another program has a better score, reaches that of the second-best kernel method sooner, or is faster."""
    for name, judged in results["summary"].items():
        entry = results["sets"][name]
        for peer in judged["ahead_of_joker"]:
            theirs, ours = (entry["peers"][who]["scores"][entry["metric"]] for who in (peer, "joker"))
            kind = "" if entry["peers"][peer]["kernel"] else " (not a kernel method)"
            yield f"{name}: {peer}{kind} has {entry['metric']} {theirs:.4f}, joker {ours:.4f}."
        if not judged["fastest_kernel_method"].startswith("joker"):
            target = f"{judged['second_best_score']:.4f}"
            yield f"{name}: {judged['fastest_kernel_method']} is the first kernel method that reaches {target}."
    yield from _faster_peers(results["sets"])


def _faster_peers(sets: dict[str, Any]) -> Iterator[str]:
    """Programs that fit all rows, or predict, in less time than joker."""
    for part, words in PARTS.items():
        ratios: dict[str, list[float]] = {}
        for entry in sets.values():
            ours = entry["peers"]["joker"]
            for peer, theirs in entry["peers"].items():
                if theirs.get("rows") == ours["rows"] and not peer.startswith("joker"):
                    ratios.setdefault(peer, []).append(ours[part] / theirs[part])
        yield from _times(words, ratios)


def _times(words: str, ratios: dict[str, list[float]]) -> Iterator[str]:
    """Say which models take less time, on how large a part of the sets, and by which factor."""
    faster = {model: [one for one in values if one > 1] for model, values in ratios.items()}
    found = [
        f"{model} by a factor of {median(values):.0f} on {len(values)} of {len(ratios[model])} sets"
        for model, values in sorted(faster.items(), key=lambda item: -median(item[1] or [0]))
        if values and round(median(values)) > 1
    ]
    if found:
        yield f"Time of {words}: faster are (medians) {'; '.join(found)}."


def behind_higgs_gap(results: dict[str, Any]) -> Iterator[str]:
    """Whether boosting has a better score than every kernel."""
    best = results["variants"][results["best_kernel"]]["auc"]
    top = max((found["auc"], name) for name, found in results["variants"].items() if not found["kernel"])
    if top[0] > best:
        yield f"higgs33k: {top[1]} has AUC {top[0]:.4f}, the best kernel ({results['best_kernel']}) {best:.4f}."


def behind_gpu_real(results: dict[str, Any]) -> Iterator[str]:
    """Fits that missed their target score or took too long."""
    for name, found in results["cases"].items():
        if not found["reached"]:
            yield (
                f"{name}: {found['metric']} {found['score']} in {found['fit_seconds']} s; the target was "
                f"{found['score_to_reach']} in {found['seconds_allowed']:g} s."
            )


def behind_multiclass(results: dict[str, Any]) -> Iterator[str]:
    """The number of sets where the softmax does not have the best log loss or the best accuracy."""
    cells = [
        {model: scores for model, scores in found.items() if "error" not in scores}
        for found in results["cells"].values()
    ]
    cells = [found for found in cells if "softmax" in found]
    for metric, words, sign in (("log_loss", "log loss", 1), ("accuracy", "accuracy", -1)):
        better: dict[str, int] = {}
        for found in cells:
            others = [model for model in found if not model.startswith("softmax")]
            best = min(others, key=lambda model, found=found: sign * found[model][metric])  # type: ignore[misc]
            if sign * found[best][metric] < sign * found["softmax"][metric]:
                better[best] = better.get(best, 0) + 1
        if better:
            worse, counts = sum(better.values()), ", ".join(f"{model} on {count}" for model, count in better.items())
            yield f"The softmax does not have the best {words} on {worse} of {len(cells)} sets: {counts}."


def behind_step(results: dict[str, Any]) -> Iterator[str]:
    """Steps that take longer than their limit."""
    for name, found in results["cases"].items():
        if found["ms"] > found["limit_ms"]:
            yield f'Step "{name}" takes {found["ms"]} ms; the limit is {found["limit_ms"]} ms.'


def behind_paper_gpu(results: dict[str, Any]) -> Iterator[str]:
    """Runs that exceed their limits, take longer than the paper, or have a worse score on comparable rows."""
    for name, case in results["runs"].items():
        theirs, took = case["paper"], case["seconds_of_all_steps"]
        if not case["reached"]:
            yield f"{name}: {took:.1f} s and {tables.memory(case['peak_bytes'])}; {_limits(case)}."
        if took > theirs["seconds"]:
            yield f"{name}: {took:.0f} s, the paper {theirs['seconds']:.0f} s."
        for metric, difference in (case["difference"] or {}).items():
            if difference is not None and (difference > 0 if metric in LOWER else difference < 0):
                yield f"{name}: {metric} {case['scores'][metric]:.5g}, the paper {theirs['scores'][metric]:.5g}."


def _limits(case: dict[str, Any]) -> str:
    """Return the limits of a run in words."""
    room = case["bytes_allowed"]
    parts = {
        "s": case["seconds_allowed"],
        "of memory": None if room is None else tables.memory(room),
        "RMSE": case["rmse_allowed"],
    }
    return "the limits are " + ", ".join(f"{value} {unit}" for unit, value in parts.items() if value is not None)


def behind_out_of_core(results: dict[str, Any]) -> Iterator[str]:
    """A budget or a time limit that was exceeded."""
    if not results["inside_budget"]:
        yield f"Training from a disk took more memory than its budget of {results['problem']['memory']}."
    if not results["fast_enough"]:
        yield f"Training from a disk took {results['ratio']:.2f} times as long as from memory."


def behind_ablations(results: dict[str, Any]) -> Iterator[str]:
    """Defaults for which an alternative is better."""
    for device, entry in results.items():
        for axis, found in entry["axes"].items():
            if found["verdict"]["verdict"] != "kept":
                yield f"The default {axis} = {found['verdict']['default']} on {device}: {found['verdict']['verdict']}."


def behind_block_solver(results: dict[str, Any]) -> Iterator[str]:
    """Cases in which the published algorithm needs at most as many matrix-vector products."""
    cases = results["cases"]
    if others := len(cases) - tables.fewer(cases):
        yield (
            f"In {others} of {len(cases)} block problems the corrected published algorithm needs at most as many "
            f"matrix-vector products as joker to a relative distance of {tables.TO_REACH} (a factorisation counts as "
            f"{results['cholesky_in_products']:.0f} products)."
        )


def behind_tables(results: dict[str, Any]) -> Iterator[str]:
    """Sets where a tree model has a better score than joker by more than the noise, and the times of both."""
    for metrics, words, sign in SCORES:
        found = table_summary.compared(table_summary.scores(results, metrics, sign))["sets"]
        for name, entry in found.items():
            if not entry["at_least_as_good"]:
                theirs, ours = sign * entry["score_of_best_tree"], sign * entry["joker"]
                yield f"{name}: {entry['best_tree']} has {words} {theirs:.4f}, joker {ours:.4f}."
    for part, words in PARTS.items():
        ours = table_summary.middle_seconds(results, table_summary.JOKER, part)
        theirs = {model: table_summary.middle_seconds(results, model, part) for model in table_models.TREES}
        yield from _times(
            words,
            {model: [ours[name] / took[name] for name in ours if took.get(name)] for model, took in theirs.items()},
        )


BEHIND: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    found.__name__.removeprefix("behind_"): found
    for found in (
        behind_peers, behind_higgs_gap, behind_paper_gpu, behind_gpu_real, behind_multiclass,
        behind_step, behind_out_of_core, behind_ablations, behind_block_solver,
        behind_tables,
    )
} | {"tables_effort1": behind_tables}  # fmt: skip
