"""Where joker is behind: sentences computed from each results file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import result_tables as tables
import table_summary

LOWER = ("rmse", "relative_error")  # metrics for which lower is better


def behind_peers(results: dict[str, Any]) -> Iterator[str]:
    """Sets where another program has a better score, or reaches the score of the second-best kernel method sooner."""
    for name, judged in results["summary"].items():
        entry = results["sets"][name]
        for peer in judged["ahead_of_joker"]:
            theirs, ours = (entry["peers"][who]["scores"][entry["metric"]] for who in (peer, "joker"))
            kind = "" if entry["peers"][peer]["kernel"] else " (not a kernel method)"
            yield f"{name}: {peer}{kind} has {entry['metric']} {theirs:.4f}, joker {ours:.4f}."
        if not judged["fastest_kernel_method"].startswith("joker"):
            target = f"{judged['second_best_score']:.4f}"
            yield f"{name}: {judged['fastest_kernel_method']} is the first kernel method that reaches {target}."


def behind_cpu_peers(results: dict[str, Any]) -> Iterator[str]:
    """Sets where a model of scikit-learn has a better score than joker with given settings."""
    for name, contenders in results["sets"].items():
        ours = contenders.get("joker", {})
        for peer, found in contenders.items():
            if peer != "joker" and "score" in found and "score" in ours and _ahead(found, ours):
                yield f"{name}: {peer} has {found['metric']} {found['score']:.4f}, joker {ours['score']:.4f}."


def _ahead(found: dict[str, Any], ours: dict[str, Any]) -> bool:
    lower = found["metric"] == "rmse"
    return bool(found["score"] < ours["score"] if lower else found["score"] > ours["score"])


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
    """Sets where the softmax does not have the best log loss or the best accuracy, and an epoch that is too slow."""
    for name, models in results["cells"].items():
        found = {model: scores for model, scores in models.items() if "error" not in scores}
        ours = found.get("softmax")
        if ours is None:
            continue
        for metric, words, sign in (("log_loss", "log loss", 1), ("accuracy", "accuracy", -1)):
            others = [model for model in found if not model.startswith("softmax")]
            best = min(others, key=lambda model, metric=metric, sign=sign: sign * found[model][metric])
            if sign * found[best][metric] < sign * ours[metric]:
                yield f"{name}: {best} has {words} {found[best][metric]:.4f}, softmax {ours[metric]:.4f}."


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


def behind_demo(results: dict[str, Any]) -> Iterator[str]:
    """Problems where scikit-learn has a better score."""
    best = {m["problem"]: m["score"] for m in results["models"] if m["model"].startswith("joker")}
    for m in results["models"]:
        if m["score"] > best[m["problem"]]:
            yield f"{m['problem']}: {m['model']} has {m['metric']} {m['score']:.4f}, joker {best[m['problem']]:.4f}."


def behind_tables(results: dict[str, Any]) -> Iterator[str]:
    """Sets where a tree model has a better score than joker on the raw table, by more than the noise."""
    for name, entry in table_summary.compared(table_summary.scores(results))["sets"].items():
        if not entry["at_least_as_good"]:
            yield f"{name}: {entry['best_tree']} has {entry['score_of_best_tree']:.4f}, joker {entry['joker']:.4f}."


BEHIND: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    found.__name__.removeprefix("behind_"): found
    for found in (
        behind_peers, behind_cpu_peers, behind_higgs_gap, behind_paper_gpu, behind_gpu_real, behind_multiclass,
        behind_step, behind_out_of_core, behind_ablations, behind_block_solver, behind_demo,
        behind_tables,
    )
} | {"tables_10s": behind_tables}  # fmt: skip
