"""joker against other programs on the CPU: score, seconds and memory, with one split and one machine for all.

    python benchmarks/peers.py                          # two hours or more on two cores
    python benchmarks/peers.py --only kin40k            # one set; kin40k,SVR is one pair
    python benchmarks/peers.py --missing                # only pairs that have no result yet
    python benchmarks/peers.py --list                   # the pairs and their results
    python benchmarks/peers.py --quick                  # shows that it runs

Sets: covtype-50k (class 2 one-vs-rest; 50,000 rows to train, 20,000 to test), kin40k and protein (90/10), a9a
(official), mnist-10k (10,000 of the training rows, official test), higgs33k (80/20, scored by AUC). z-scores by mean
and deviation of the training rows, except for a9a and mnist. Every pair of a set and a program ("peer") runs in its own
process, on a sixteenth, a quarter and all of the training rows, which gives a curve of score against time. Each of
these fits has --limit seconds; a peer that does not finish keeps its earlier results. Peers whose time or memory is
quadratic or cubic in the rows get at most the stated number of rows. Memory is the growth of the peak resident memory
over that before the last fit.

"joker" is joker.tune with its default settings; its time includes the search. Only this entry is compared with the
other programs. Its variants are listed as well: "in a hurry" searches for two seconds, "named settings" does not
search. The parameters of the other programs are common choices for these sets and are listed below (torchkm tunes C,
xRFM its number of rounds). joker's curve also has its epochs. Results are written after every pair. torchkm, xrfm,
falkon and scikit-learn-extra (EigenPro) are left out, with a note, where they are not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import adapters
import common
import process
import sets

LIMIT = 300.0  # seconds for one fit
HURRY = 2.0  # seconds of search
SHARES = (1 / 16, 1 / 4, 1.0)  # of the training rows
NAMES = ("covtype-50k", "kin40k", "protein", "a9a", "mnist-10k", "higgs33k")
JOKER, NAMED = "joker", "joker, named settings"  # the former, tuned with all defaults, is compared with the others
SAME = ("cpu", "cores", "threads", "python", "torch")  # two runs with the same values are of one machine


@dataclass(frozen=True)
class Peer:
    """A program on one set."""

    name: str
    adapter: str
    path: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    kernel: bool = True  # whether it is a kernel method
    most_rows: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters as keywords."""
        return dict(self.parameters)


@dataclass(frozen=True)
class Choice:
    """The parameters of the programs on one set; gamma = 1/(2σ²) of the Gaussian kernel."""

    gamma: float
    C: float
    linear_C: float = 1.0
    alpha: float = 0.1  # of ridge regression
    named: tuple[tuple[str, Any], ...] = ()  # settings of joker, where they are given


EXACT = {"n_features": None, "block_size": 2_048}
RANDOM = {"method": "random_blocks"}  # a pass over the rows is an epoch, and a usable model
CHOICES = {
    "covtype-50k": Choice(
        0.1,
        32,
        named=tuple({"kernel": "matern12", "bandwidth": 4.0, "lam": 0.03, "max_epochs": 1, **EXACT, **RANDOM}.items()),
    ),
    "kin40k": Choice(
        1 / 8,
        10,
        named=tuple({"kernel": "gaussian", "bandwidth": 1.41, "lam": 0.03, "max_epochs": 1, **EXACT, **RANDOM}.items()),
    ),
    "protein": Choice(0.5, 4),
    "a9a": Choice(
        0.03,
        1,
        named=tuple(
            {"kernel": "gaussian", "bandwidth": 4.1, "lam": 1.0, "n_features": 1_000, "max_epochs": 2, **RANDOM}.items()
        ),
    ),
    "mnist-10k": Choice(
        0.02,
        10,
        named=tuple(
            {
                "kernel": "gaussian",
                "bandwidth": 5.0,
                "lam": 2.0**-5,
                "max_epochs": 3,
                "n_features": None,
                **RANDOM,
            }.items()
        ),
    ),
    "higgs33k": Choice(1 / 56, 1),
}


def peers_of(name: str) -> list[Peer]:
    """Return the programs that run on a set, joker first."""
    data, choice = sets.SETS[name], CHOICES[name]
    return [
        *_jokers(data, choice),
        *_sklearn(data, choice),
        *_others(data, choice),
    ]


def _peer(
    name: str, adapter: str, path: str = "", *, boosting: bool = False, most: int | None = None, **parameters: Any
) -> Peer:
    return Peer(name, adapter, path, tuple(parameters.items()), not boosting, most)


def _jokers(data: sets.DataSet, choice: Choice) -> Iterator[Peer]:
    search = {"random_state": sets.SEED, **({"scoring": "roc_auc"} if data.metric == "auc" else {})}
    yield _peer(JOKER, "joker.tune", search=search)
    yield _peer("joker, in a hurry", "joker.tune", search=search | {"max_time": HURRY})
    if choice.named:
        yield Peer(NAMED, "joker", "", choice.named)


def _sklearn(data: sets.DataSet, choice: Choice) -> Iterator[Peer]:
    gamma, seed = choice.gamma, sets.SEED
    if data.regression:
        linear, path, exact = {"alpha": choice.alpha}, "sklearn.linear_model.Ridge", "Ridge"
        yield _peer("SVR", "sklearn", "sklearn.svm.SVR", C=choice.C, gamma=gamma, cache_size=1_000)
        ridge = {"kernel": "rbf", "gamma": gamma, "alpha": choice.alpha}
        yield _peer("KernelRidge", "sklearn", "sklearn.kernel_ridge.KernelRidge", most=10_000, **ridge)
    else:
        linear, path, exact = {"C": choice.linear_C}, "sklearn.svm.LinearSVC", "LinearSVC"
        yield _peer("SVC", "sklearn", "sklearn.svm.SVC", C=choice.C, gamma=gamma, cache_size=1_000)
    yield _peer(f"Nystroem + {exact}", "pipeline", f"Nystroem+{path}", gamma=gamma, components=3_000, **linear)
    yield _peer(f"RBFSampler + {exact}", "pipeline", f"RBFSampler+{path}", gamma=gamma, components=4_000, **linear)
    kind = "Regressor" if data.regression else "Classifier"
    settings = {"max_iter": 300, "early_stopping": True, "random_state": seed}
    path = f"sklearn.ensemble.HistGradientBoosting{kind}"
    yield _peer("HistGradientBoosting", "sklearn", path, boosting=True, **settings)


def _others(data: sets.DataSet, choice: Choice) -> Iterator[Peer]:
    sigma = (2 * choice.gamma) ** -0.5
    yield _peer("torchkm", "torchkm", most=2_000 if data.regression else 4_000)
    yield _peer("torchkm, Nyström", "torchkm", low_rank=True, num_landmarks=2_000, nys_k=1_000)
    yield _peer("xRFM", "xrfm", max_leaf_size=10_000, time_limit_s=0.8 * LIMIT)
    yield _peer("Falkon", "falkon", sigma=sigma, penalty=1e-6, centres=3_000)
    yield _peer("EigenPro", "eigenpro", gamma=choice.gamma, n_epoch=5)


def shrunk(peer: Peer) -> Peer:
    """Return a smaller version of a program, for a run that only shows that it works."""
    small = {"components": 50, "num_landmarks": 60, "nys_k": 30, "max_iter": 10, "centres": 50}
    kept = {name: small.get(name, value) for name, value in peer.parameters}
    if peer.adapter == "torchkm":
        kept |= {"nC": 3, "cv": 2, "max_iter": 30}
    if peer.adapter == "joker.tune":
        kept["search"] = {**kept["search"], "rows": [100], "kernels": ["gaussian"]}
    return replace(peer, parameters=tuple(kept.items()), most_rows=peer.most_rows and 300)


# One pair, in its own process


def contend(send: process.Send, name: str, peer: Peer, quick: bool) -> None:
    """Fit and predict on growing parts of the rows, and send the result of each."""
    warnings.simplefilter("ignore")  # LinearSVC warns about its number of iterations
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (some programs print)
    data = sets.SETS[name]
    parts = sets.split(data, quick)
    try:
        adapters.build(peer.adapter, peer.path, data, peer.settings)
    except (ImportError, ValueError) as error:
        send({"not_installed": f"{type(error).__name__}: {error}"[:200]})
        return
    send({"parameters": {key: value for key, value in peer.parameters if value is not None}})
    curve: list[dict[str, Any]] = []
    before = process.forget_peak()  # memory that a smaller fit has left to the process counts, too
    for rows in ladder(len(parts.x), peer.most_rows):
        found = fitted(data, peer, parts.first(rows), before, last=rows == ladder(len(parts.x), peer.most_rows)[-1])
        curve += found.pop("curve")
        send({**found, "rows": rows, "curve": curve})


def ladder(n: int, most: int | None) -> list[int]:
    """Return the numbers of rows to fit, ascending."""
    return sorted({min(round(share * n), most or n) for share in SHARES})


def fitted(data: sets.DataSet, peer: Peer, parts: sets.Split, before: int | None, *, last: bool) -> dict[str, Any]:
    """Fit and predict once; the growth of the memory is that from ``before``."""
    model = adapters.build(peer.adapter, peer.path, data, peer.settings)
    ours = isinstance(model, adapters.Joker)
    if isinstance(model, adapters.Joker) and last:
        model.watch = (parts.x_test, parts.y_test)
    started = time.perf_counter()
    model.fit(parts.x, parts.y)
    seconds = time.perf_counter() - started - (model.spent if isinstance(model, adapters.Joker) else 0)
    peak, started = process.growth(before), time.perf_counter()
    found = model.predict(parts.x_test)
    predicting = time.perf_counter() - started
    scores = sets.score(data, parts.y_test, found, model.decide(parts.x_test) if data.metric == "auc" else None)
    point = {"rows": len(parts.x), "seconds": round(seconds, 2), **scores}
    epochs = [{"rows": len(parts.x), **entry} for entry in model.curve] if isinstance(model, adapters.Joker) else []
    return {
        "scores": scores,
        "fit_seconds": round(seconds, 2),
        "predict_seconds": round(predicting, 2),
        "peak_growth_bytes": peak,
        **(model.found if ours else {}),  # type: ignore[attr-defined]
        "curve": [*epochs[:-1], point],
    }


# All pairs


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """Return for each set the two best kernel methods, and the time of each program to the score of the second-best.

    A score is that of the largest completed fit; a time is that of the first fit or epoch that reaches the score.
    """
    return {name: found for name, entry in results.items() if (found := _judged(entry))}


def _judged(entry: dict[str, Any]) -> dict[str, Any] | None:
    metric = entry["metric"]
    best = {peer: found["scores"][metric] for peer, found in entry["peers"].items() if found.get("curve")}
    rank = sorted(best, key=lambda peer: best[peer], reverse=metric != "rmse")
    kernels = [peer for peer in rank if entry["peers"][peer]["kernel"]]
    others = [peer for peer in kernels if not peer.startswith("joker")]
    if JOKER not in kernels or not others:
        return None
    # Only one variant of joker takes part: to choose the best of them would use the test rows.
    families = sorted((JOKER, others[0]), key=kernels.index)
    target = best[families[1]]
    soon = {peer: _soonest(metric, found, target) for peer, found in entry["peers"].items() if found.get("curve")}
    reached = {peer: seconds for peer, seconds in soon.items() if seconds is not None}
    racing = [peer for peer in reached if entry["peers"][peer]["kernel"]]
    ahead = [peer for peer in rank if not peer.startswith("joker") and sets.better(metric, best[peer], best[JOKER])]
    return {
        "best_kernel_method": families[0],
        "best_score": best[families[0]],
        "second_best_kernel_method": families[1],
        "second_best_score": target,
        "seconds_to_second_best": dict(sorted(reached.items(), key=lambda item: item[1])),
        "fastest_kernel_method": min(racing, key=lambda peer: reached[peer]),
        "ahead_of_joker": ahead,
    }


def _soonest(metric: str, found: dict[str, Any], target: float) -> float | None:
    """Return the seconds of the fastest fit whose score is at least as good as the target."""
    reached = [point["seconds"] for point in found["curve"] if not sets.better(metric, target, point[metric])]
    return min(reached, default=None)


def line(name: str, peer: str, metric: str, found: dict[str, Any]) -> str:
    """Format a result as one line."""
    head = f"{name:12s} {peer:24s} "
    ended = next((f"{key} {found[key]}" for key in ("not_installed", "failed") if key in found), "")
    if "did_not_finish_in_seconds" in found:
        ended = f"did not finish in {found['did_not_finish_in_seconds']:g} s"
    if not found.get("curve"):
        return head + ended
    growth = found["peak_growth_bytes"]
    memory = "?" if growth is None else f"+{growth / 1e6:.0f} MB"
    return (
        f"{head}{metric} {found['scores'][metric]:.4f}  rows {found['rows']:6d}  fit {found['fit_seconds']:8.2f} s  "
        f"predict {found['predict_seconds']:6.2f} s  memory {memory}  {ended}"
    )


def read(file: Path, machine: dict[str, Any], fresh: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results so far, if they are of this machine, and the note on them."""
    if fresh or not file.is_file():
        return {}, {}
    before: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if differing := [name for name in SAME if before["machine"].get(name) != machine[name]]:
        raise SystemExit(
            f"All results must be of one machine; {file} was measured with another {', '.join(differing)}. "
            "Use --fresh to drop it, or another --out."
        )
    return before["sets"], {name: text for name, text in before.items() if name == "note"}


def chosen(only: str | None) -> list[tuple[str, Peer]]:
    """Return the pairs to run: of all sets, of one set, or one pair."""
    name, _, peer = (only or "").partition(",")
    if name and name not in NAMES:
        raise SystemExit(f"There is no set {name!r}. Use one of {', '.join(NAMES)}.")
    pairs = [(s, p) for s in NAMES if name in ("", s) for p in peers_of(s) if peer.strip() in ("", p.name)]
    if not pairs:
        raise SystemExit(f"There is no peer {peer!r} on {name}. Use one of {[p.name for p in peers_of(name)]}.")
    return pairs


def run(name: str, peer: Peer, quick: bool, limit: float) -> dict[str, Any]:
    """Return the results of a program, with its version and the date."""
    found = process.apart(contend, (name, shrunk(peer) if quick else peer, quick), limit)
    about = {"kernel": peer.kernel, "version": adapters.version(peer.adapter), "most_rows": peer.most_rows}
    return about | {"date": common.machine(sets.SEED)["date"]} | found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every pair in turn, and write the results after each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SET[,PEER]", help="one set, or one pair")
    parser.add_argument("--missing", action="store_true", help="skip pairs that have a result")
    parser.add_argument("--list", action="store_true", help="show the pairs and their results")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each fit")
    parser.add_argument("--fresh", action="store_true", help="drop the existing results")
    parser.add_argument("--quick", action="store_true", help="a few generated rows")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    file, machine = options.out / "peers.json", common.machine(sets.SEED)
    results, note = read(file, machine, options.fresh)
    for name, peer in chosen(options.only):
        entry = results.setdefault(name, {"metric": sets.SETS[name].metric, "peers": {}})
        if options.list or (options.missing and peer.name in entry["peers"]):
            print(line(name, peer.name, entry["metric"], entry["peers"].get(peer.name, {})), flush=True)
            continue
        found = entry["peers"][peer.name] = run(name, peer, options.quick, options.limit)
        print(line(name, peer.name, entry["metric"], found), flush=True)
        about = {"limit_seconds": options.limit, "memory": process.FROM_THE_FIRST_FIT}
        shown = {**about, "generated": options.quick, "sets": results}
        common.write_json(file, note | {"machine": machine, **shown, "summary": summary(results)})
    for name, judged in summary(results).items():
        print(
            f"{name}: best kernel method {judged['best_kernel_method']} ({judged['best_score']:.4f}); "
            f"{judged['second_best_kernel_method']}'s {judged['second_best_score']:.4f} is reached first by "
            f"{judged['fastest_kernel_method']}; ahead of joker: {', '.join(judged['ahead_of_joker']) or 'none'}"
        )


if __name__ == "__main__":
    main()
