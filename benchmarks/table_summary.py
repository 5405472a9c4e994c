"""Mean ranks, wins and paired differences of the models of `tables.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import table_models

JOKER, BY_HAND = "joker", "joker.tune"
# Fitted on the first split only: see `by_hand` and `first_split`.
APART = (BY_HAND, "SVM", "xRFM", "xRFM, searched", "RealMLP")
PRIMARY = ("accuracy", "r2")  # larger is better
BOOTSTRAP, SEED = 10_000, 0
MIN_NOISE = 0.001  # of accuracy or R²: smaller differences are noise on every set
TIE = 1e-12
Scores = dict[str, dict[str, dict[int, float]]]  # of a set, a model and a split


def scores(results: dict[str, Any], metrics: tuple[str, ...] = PRIMARY, sign: int = 1) -> Scores:
    """Return accuracy or R², or other metrics, of each finished fit, times ``sign``: larger is better."""
    found: Scores = {}
    for name, models in results["sets"].items():
        for model, splits in models.items():
            for seed, entry in splits.items():
                values = [sign * entry["scores"][metric] for metric in metrics if metric in entry.get("scores", {})]
                if values:
                    found.setdefault(name, {}).setdefault(model, {})[int(seed)] = values[0]
    return found


def cpu_seconds(results: dict[str, Any]) -> dict[str, list[float]]:
    """Return the CPU seconds of all finished fits of each model; fits of earlier versions have none."""
    found: dict[str, list[float]] = {}
    for models in results["sets"].values():
        for model, splits in models.items():
            found.setdefault(model, []).extend(
                entry["fit_cpu_seconds"] for entry in splits.values() if "fit_cpu_seconds" in entry
            )
    return {model: values for model, values in found.items() if values}


def known_cpu_seconds(splits: dict[str, Any]) -> float | None:
    """Return the mean CPU seconds of the finished fits of a model on a set; None if none is known."""
    found = [entry["fit_cpu_seconds"] for entry in splits.values() if "fit_cpu_seconds" in entry]
    return float(np.mean(found)) if found else None


def compared(found: Scores) -> dict[str, Any]:
    """Return the mean rank of each model, and joker against the best tree model of each set.

    Only splits that joker has finished are used. A model without a result on a split has the last rank there.
    Models that are fitted on the first split only have no rank.
    """
    models = sorted({model for by_model in found.values() for model in by_model} - set(APART))
    ranks: dict[str, list[float]] = {model: [] for model in models}
    sets: dict[str, Any] = {}
    for name, by_model in found.items():
        for seed in by_model.get(JOKER, {}):
            values = [by_model.get(model, {}).get(seed) for model in models]
            for model, rank in zip(models, _ranks(values), strict=True):
                ranks[model].append(rank)
        if (against := _against_trees(by_model)) is not None:
            sets[name] = against
    mean = {model: float(np.mean(values)) for model, values in ranks.items() if values}
    return {
        "mean_rank": dict(sorted(mean.items(), key=lambda item: item[1])),
        "sets": sets,
        "at_least_as_good_as_the_best_tree": sum(entry["at_least_as_good"] for entry in sets.values()),
        "number_of_sets": len(sets),
    }


def middle_seconds(results: dict[str, Any], model: str, part: str) -> dict[str, float]:
    """Return the median seconds of the finished fits (or predictions) of a model on each set."""
    found = {}
    for name, models in results["sets"].items():
        if values := [entry[part] for entry in models.get(model, {}).values() if part in entry]:
            found[name] = float(np.median(values))
    return found


def by_hand(found: Scores) -> dict[str, tuple[float, float]]:
    """Return joker's score and that of `joker.tune` on an encoding made by hand, over the splits that both have."""
    pairs = {}
    for name, by_model in found.items():
        ours, theirs = by_model.get(JOKER, {}), by_model.get(BY_HAND, {})
        if both := sorted(ours.keys() & theirs.keys()):
            pairs[name] = float(np.mean([ours[k] for k in both])), float(np.mean([theirs[k] for k in both]))
    return pairs


def first_split(found: Scores, model: str) -> dict[str, tuple[float, float]]:
    """Return the scores of joker and of another model on the first split of the sets that this one has."""
    both = {n: (m[JOKER].get(0), m[model].get(0)) for n, m in found.items() if JOKER in m and model in m}
    return {name: (ours, theirs) for name, (ours, theirs) in both.items() if ours is not None and theirs is not None}


def spread(found: Scores, name: str) -> float:
    """Return the standard deviation of joker's score over the splits of a set; 0 with one split."""
    values = list(found[name][JOKER].values())
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _ranks(values: list[float | None]) -> list[float]:
    """The rank of each score, the best first; equal scores share their ranks, and a missing score is the last."""
    known = [-1e300 if value is None else value for value in values]
    better = [sum(other > value + TIE for other in known) for value in known]
    equal = [sum(abs(other - value) <= TIE for other in known) for value in known]
    return [1 + above + (same - 1) / 2 for above, same in zip(better, equal, strict=True)]


def _against_trees(by_model: dict[str, dict[int, float]]) -> dict[str, Any] | None:
    """Compare joker with the tree model of the best mean score.

    The noise is twice the standard error of the difference, at least MIN_NOISE.
    """
    ours = by_model.get(JOKER, {})
    trees = {
        model: by_model[model]
        for model in table_models.TREES
        if model in by_model and set(ours) <= set(by_model[model])
    }
    if not ours or not trees:
        return None
    best = max(trees, key=lambda model: float(np.mean([trees[model][seed] for seed in ours])))
    differences = np.array([ours[seed] - trees[best][seed] for seed in ours])
    noise = max(MIN_NOISE, 2 * _error(differences))
    return {
        "joker": float(np.mean(list(ours.values()))),
        "best_tree": best,
        "score_of_best_tree": float(np.mean([trees[best][seed] for seed in ours])),
        "difference": float(differences.mean()),
        "noise": noise,
        "at_least_as_good": bool(differences.mean() >= -noise),
        "splits": len(differences),
    }


def _error(differences: Any) -> float:
    """The standard error of the mean difference over splits; 0 with one split, whose noise is not known."""
    return float(differences.std(ddof=1) / len(differences) ** 0.5) if len(differences) > 1 else 0.0


def bootstrap(found: Scores, model: str) -> dict[str, Any]:
    """Return the mean difference of ranks between joker and a model, with a 95% interval over sets."""
    means = {
        name: {one: float(np.mean(list(values.values()))) for one, values in by_model.items()}
        for name, by_model in found.items()
        if JOKER in by_model and model in by_model
    }
    signs = np.array([np.sign(values[JOKER] - values[model]) for values in means.values()])
    draws = np.random.default_rng(SEED).integers(len(signs), size=(BOOTSTRAP, len(signs)))
    low, high = np.quantile(signs[draws].mean(axis=1), [0.025, 0.975])
    wins = int(np.sum(signs > 0))
    return {"sets": len(signs), "wins": wins, "mean_sign": float(signs.mean()), "low": float(low), "high": float(high)}


def _cpu(seconds: list[float] | None) -> str:
    if not seconds:
        return ""
    return f"  CPU seconds of a fit: median {np.median(seconds):.1f}, longest {max(seconds):.1f}"


def text(results: dict[str, Any]) -> str:
    """Return the comparison as lines."""
    found, cpu = scores(results), cpu_seconds(results)
    result = compared(found)
    lines = [f"{model:24s} mean rank {rank:.2f}{_cpu(cpu.get(model))}" for model, rank in result["mean_rank"].items()]
    for name, entry in result["sets"].items():
        mark = "" if entry["at_least_as_good"] else "  <- behind"
        lines.append(
            f"{name:12s} joker {entry['joker']:.4f}  {entry['best_tree']:22s} {entry['score_of_best_tree']:.4f}  "
            f"{entry['difference']:+.4f} (noise {entry['noise']:.4f}, {entry['splits']} splits){mark}"
        )
    lines.append(
        f"at least as good on {result['at_least_as_good_as_the_best_tree']} of {result['number_of_sets']} sets"
    )
    return "\n".join(lines)
