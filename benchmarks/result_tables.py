"""Results files as tables in Markdown: one function for each file; no number is written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import mean, median, stdev
from typing import Any

import process
import table_summary
from cells import memory, seconds, settings, table

Results = dict[str, Any]
TO_REACH = "0.001"  # the relative distance to the optimum at which block solvers are compared
EPOCHS = (1, 3, 5)
LATE_FACTOR, LATE_SECONDS = 1.2, 1.0  # of a time limit, as in brake.py
COVERAGE, MARGINS = "coverage_of_0.9", "calibration_error_of_margins"  # names of scores of raw tables


def peers(results: Results) -> Iterator[str]:
    """The results of each set, and the verdict."""
    for name, entry in results["sets"].items():
        metric = entry["metric"]
        yield f"**{name}** ({metric})"
        measured = results.get("memory") == process.FROM_THE_FIRST_FIT
        rows = [_peer(peer, metric, found) for peer, found in entry["peers"].items()]
        head = ["peer", "kernel method", metric, "rows", "fit", "predict", "memory", "gap", "settings", ""]
        if not measured:
            column = head.index("memory")
            head, *rows = (row[:column] + row[column + 1 :] for row in (head, *rows))
        yield table(head, rows)
        if judged := results["summary"].get(name):
            yield _verdict(metric, judged)
    used = (
        found["version"]
        for entry in results["sets"].values()
        for found in entry["peers"].values()
        if found.get("curve")
    )
    yield (
        f"Versions: {', '.join(dict.fromkeys(used))}. The time limit of a fit was {results['limit_seconds']:g} s. One "
        "split: differences in the third digit are noise. The gap is that of joker's fit; one that is not small says "
        "that the fit was ended by a limit on the passes over the rows."
    )
    if results.get("memory") != process.FROM_THE_FIRST_FIT:
        yield "The memory of this run is left out: it was not measured from the first fit of each process."


def _peer(name: str, metric: str, found: Results) -> list[object]:
    note = ""
    if "did_not_finish_in_seconds" in found:
        note = f"did not finish in {found['did_not_finish_in_seconds']:g} s" + (
            " with more rows" if found.get("curve") else ""
        )
    elif "not_installed" in found:
        note = "not installed"
    elif "failed" in found:
        note = f"failed: {found['failed']}"
    elif found.get("most_rows") and found.get("rows") == found["most_rows"]:
        note = "too much time or memory with more rows"
    kind = "yes" if found["kernel"] else "no"
    if not found.get("curve"):
        return [name, kind, None, None, None, None, None, None, None, note]
    parameters = {key: value for key, value in found.get("parameters", {}).items() if key != "search"}
    return [
        name,
        kind,
        f"{found['scores'][metric]:.4f}",
        f"{found['rows']:,}",
        seconds(found["fit_seconds"]),
        seconds(found["predict_seconds"]),
        memory(found["peak_growth_bytes"]),
        f"{found['gap']:.2g}" if "gap" in found else None,
        settings({**parameters, **found.get("chosen", {})}),
        note,
    ]


def _verdict(metric: str, judged: Results) -> str:
    race = ", ".join(f"{peer} {seconds(value)}" for peer, value in judged["seconds_to_second_best"].items())
    ahead = ", ".join(judged["ahead_of_joker"]) or "none"
    return (
        f"Best kernel method: {judged['best_kernel_method']} ({judged['best_score']:.4f}). Seconds to reach the "
        f"{judged['second_best_score']:.4f} of {judged['second_best_kernel_method']}: {race}. "
        f"Programs with a better {metric} than joker: {ahead}."
    )


def higgs_gap(results: Results) -> Iterator[str]:
    """Variants, ordered by AUC."""
    found = sorted(results["variants"].items(), key=lambda item: -item[1]["auc"])
    rows = [
        [
            name,
            f"{v['auc']:.4f}",
            v["share_of_the_gap"],
            seconds(v["seconds"]),
            v.get("inputs"),
            v.get("bandwidth"),
            v.get("lam"),
        ]
        for name, v in found
    ]
    yield table(("inputs and model", "AUC", "share of the gap", "time", "inputs", "σ", "λ"), rows)
    yield f"{results['train']:,} training rows, {results['test']:,} test rows. Best kernel: {results['best_kernel']}."


def paper_gpu(results: Results) -> Iterator[str]:
    """Runs with the paper's settings, and the values of the paper."""
    rows = []
    for case in results["runs"].values():
        theirs, published = case["paper"], "" if case["generated"] else settings(case["paper"]["scores"])
        took = seconds(case["seconds_of_all_steps"]) + (" (estimate)" if case["estimate"] else "")
        rows.append(
            [
                f"{case['data']}, {case['model']}, {case['protocol']}",
                f"{case['rows']:,}",
                f"{case['steps']:,}",
                settings(case["scores"]) + (" (generated rows)" if case["generated"] else ""),
                took,
                memory(case["peak_bytes"]),
                published,
                seconds(theirs["seconds"]),
                memory(theirs["peak_bytes"]),
                "yes" if case["reached"] else "no",
            ]
        )
    paper = ("paper: scores", "paper: time", "paper: memory")
    yield table(
        ("set, model, protocol", "rows", "steps", "scores", "time", "memory", *paper, "within its limits"), rows
    )


def gpu_real(results: Results) -> Iterator[str]:
    """Whole fits on a GPU."""
    rows = [
        [
            name,
            f"{found['metric']} {found['score']:.5f}",
            found["score_to_reach"],
            seconds(found["fit_seconds"]),
            seconds(found["seconds_allowed"]),
            memory(found["peak_bytes"]),
            settings(found["settings"]),
            "yes" if found["reached"] else "no",
        ]
        for name, found in results["cases"].items()
    ]
    yield table(("problem", "score", "target", "fit", "time limit", "memory", "settings", "reached"), rows)


def gpu_gap(results: Results) -> Iterator[str]:
    """Fits to a gap on a GPU, and the price of a softmax."""
    cases = {name: found for name, found in results["cases"].items() if "ways" not in found}
    others = {f"{name}, random blocks with momentum": found.get("same_time") for name, found in cases.items()}
    rows = [
        [
            name,
            f"{found['rows']:,}",
            seconds(found["seconds"]),
            f"{found['gap']:.1e}",
            f"{found['metric']} {found['score']:.5f}",
            memory(found["peak_bytes"]),
            settings(found["settings"]),
        ]
        for name, found in (cases | others).items()
        if found
    ]
    yield table(("problem", "rows", "fit", "gap", "score", "memory", "settings"), sorted(rows))
    for found in results["cases"].values():
        if ways := found.get("ways"):
            first = next(iter(ways.values()))["seconds_per_epoch"]
            rows = [
                [way, seconds(one["seconds_per_epoch"]), f"{one['seconds_per_epoch'] / first:.2f}", f"{one['gap']:.3f}"]
                for way, one in ways.items()
            ]
            yield (
                f"The time of an epoch of ten classes of mnist with {found['settings']['n_features']:,} features, and "
                f"the gap after {found['settings']['max_epochs']} epochs:"
            )
            yield table(("classes", "epoch", "of the first", "gap"), rows)


def exact_scale(results: Results) -> Iterator[str]:
    """Fits with the exact kernel on a GPU, and boosting on the CPU cores beside it."""
    rows = [
        [
            name,
            seconds(found["seconds"]),
            memory(1e9 * found["gpu_gb"]) if found["gpu_gb"] else "",
            next((f"{key} {found[key]:.4f}" for key in ("accuracy", "rmse") if key in found), ""),
            f"{float(found['gap']):.1e}"
            if "gap" in found
            else ", ".join(one["gap"] for one in found.get("members", [])),
        ]
        for name, found in results["parts"].items()
        if "curves" not in found
    ]
    yield table(("problem", "fit", "GPU memory", "score", "gap"), rows)


def step(results: Results) -> Iterator[str]:
    """Single steps on a GPU."""
    rows = [
        [
            name,
            found["ms"],
            found["limit_ms"],
            found.get("of_floor"),
            memory(found["peak_bytes"]),
            found.get("synchronisations"),
        ]
        for name, found in results["cases"].items()
    ]
    yield table(("step", "ms", "limit in ms", "ratio to the floor", "memory", "synchronisations"), rows)


def same_problem(results: Results) -> Iterator[str]:
    """Yield the seconds of each program to each level of the gap."""
    levels = ("0.01", "0.001", "0.0001")
    rows = []
    for problem, programs in results["cells"].items():
        for program, found in programs.items():
            reached = found.get("reached", {})
            times = [f"{reached[level]:.1f} s" if level in reached else None for level in levels]
            end = [f"{found['gap']:.1e}", f"{found['megabytes']:,} MB"] if "gap" in found else ["failed", None]
            rows.append([problem, program, *times, *end, f"{found['work']:.1f} n²" if "work" in found else None])
    steps = (f"to {level}" for level in levels)
    yield table(("problem", "program", *steps, "gap at the end", "memory", "work"), rows)


def one_class(results: Results) -> Iterator[str]:
    """Yield the AUC, the gap and the seconds of each program on each set."""
    rows = [
        [
            name,
            program,
            f"{found['auc']:.4f}",
            f"{found['gap']:.1e}",
            f"{found['seconds']:.2f} s",
            f"{found['difference']:.1e}" if "difference" in found else None,
        ]
        for name, programs in results["cells"].items()
        for program, found in programs.items()
    ]
    yield table(("set", "program", "AUC", "gap", "fit", "difference of scores"), rows)


def named_tables(results: Results) -> Iterator[str]:
    """Yield the score and the CPU seconds of each model on each table."""
    rows = []
    for name, models in results["tables"].items():
        for model, found in models.items():
            metric = "R²" if "R²" in found else "log loss"
            value = f"{found[metric]:.4f}" if metric in found else "did not finish"
            rows.append([name, model, metric, value, f"{found['cpu_seconds']:.1f} s" if metric in found else None])
    yield table(("table", "model", "metric", "value", "CPU"), rows)


def hard_problems(results: Results) -> Iterator[str]:
    """Yield the seconds of joker and of the reference for each problem, and joker's gap."""
    rows = []
    for name, one in results["problems"].items():
        theirs = None if one["reference_gap"] is None else f"{one['reference_gap']:.1e}"
        times = (f"{one['seconds']:.3f} s", f"{one['reference']:.3f} s", f"{one['ratio']:.1f}")
        rows.append([name, *times, f"{one['gap']:.1e}", theirs])
    yield table(("problem", "joker", "reference", "ratio", "gap", "gap of the reference"), rows)


def intervals(results: Results) -> Iterator[str]:
    """Yield the coverage and the width of intervals of one width and of intervals that follow the data."""

    def mean(splits: list[Results], kind: str, what: str) -> float:
        return sum(one[kind][what] for one in splits) / len(splits)

    rows = []
    for name, splits in results["sets"].items():
        thirds = zip(*(one["adaptive"]["thirds"] for one in splits), strict=True)
        rows.append(
            [
                name,
                f"{mean(splits, 'one_width', 'coverage'):.3f}",
                f"{mean(splits, 'adaptive', 'coverage'):.3f}",
                f"{mean(splits, 'adaptive', 'width') / mean(splits, 'one_width', 'width'):.3f}",
                f"{mean(splits, 'adaptive', 'score') / mean(splits, 'one_width', 'score'):.3f}",
                ", ".join(f"{sum(third) / len(third):.3f}" for third in thirds),
            ]
        )
    columns = ("set", "coverage, one width", "coverage, adaptive", "ratio of widths", "ratio of interval scores")
    yield table((*columns, "coverage of small, middle and large widths"), rows)


def count_tables(results: Results) -> Iterator[str]:
    """Yield the scores of tables of counts without and with candidates that have a loss of the log of the mean."""

    def mean(splits: list[Results], kind: str, what: str) -> float:
        return sum(one[kind][what] for one in splits) / len(splits)

    rows = [
        [name, *(f"{mean(splits, kind, what):.3f}" for what in ("r2", "d2") for kind in ("without", "with"))]
        for name, splits in results["tables"].items()
    ]
    yield table(("table", "R² without", "R² with", "D² without", "D² with"), rows)


def brake(results: Results) -> Iterator[str]:
    """Yield the seconds of fits with a time limit, and whether they are those that are promised."""
    rows = []
    for name, limits in results["seconds"].items():
        for one in limits.values():
            late = one["seconds"] > LATE_FACTOR * one["limit"] + LATE_SECONDS
            rows.append(
                [
                    name,
                    f"{one['limit']:g} s",
                    f"{one['seconds']:.1f} s",
                    "late" if late else "",
                    "" if one["held_out_score"] is None else f"{one['held_out_score']:.3f}",
                    f"{one['score_on_training_rows']:.3f}",
                ]
            )
    yield table(("shape", "limit", "fit", "", "held-out score", "score on training rows"), rows)


def new_groups(results: Results) -> Iterator[str]:
    """Yield held-out scores beside those of new groups or later rows, and the warnings of fits that know of neither."""
    rows = [
        [
            name,
            seed,
            f"{one['held_out_score']:.3f} ± {one['held_out_error']:.3f}",
            f"{one['score']:.3f} ± {one['error']:.3f}",
            "" if one["within"] else "no",
            f"{one['coverage']:.1%}",
        ]
        for name, seeds in results["told"].items()
        for seed, one in seeds.items()
        if "score" in one
    ]
    head = ("table", "seed", "held-out R²", "R² of new groups or later rows", "within two errors", "coverage of 90%")
    yield table(head, [[*row[:4], row[4] or "yes", row[5]] for row in rows])
    rows = [
        [
            name,
            f"{one['held_out_score']:.3f}",
            one["warned_of"] or "none",
            f"{one['random_score']:.2f} and {one['other_score']:.2f}" if one["warned_of"] else "",
        ]
        for name, one in results["untold"].items()
        if "warned_of" in one
    ]
    yield table(("table, without groups or time", "held-out score", "warned of", "its two scores"), rows)


def certificate(results: Results) -> Iterator[str]:
    """Yield the number of wrong gaps, and the ends of the solves."""
    columns = ("problems on", "number", "float32", "wrong gaps", "at the tolerance", "refused", "largest excess")
    rows = [
        [
            kind,
            f"{one['problems']:,}",
            f"{one['dtype'].get('float32', 0):,}",
            str(one["wrong"]),
            f"{one['share_at_tolerance']:.1%}",
            f"{one['share_refused']:.1%}",
            f"{one['largest_excess']:.1e}",
        ]
        for kind, one in results.items()
    ]
    yield table(columns, rows)


def distributed(results: Results) -> Iterator[str]:
    """The step of one process against that of several."""
    rows = [
        [
            name,
            str(run["processes"]),
            f"{1e3 * run['seconds_per_step']:.0f} ms",
            f"{run['efficiency']:.2f}",
            f"{run['bytes_per_step']:,.0f}",
        ]
        for name, case in results["cases"].items()
        for run in case["runs"]
    ]
    yield table(("case", "processes", "step", "efficiency", "bytes that a process gives to a step"), rows)
    if "nccl" in results:
        yield "A step on a GPU, of one process alone and of one process that is a group on NCCL:"
        steps = results["nccl"]["steps"].items()
        cells = [[name, f"{s['alone_ms']:.3f} ms", f"{s['group_ms']:.3f} ms", s["ratio"]] for name, s in steps]
        yield table(("step", "alone", "group", "ratio"), cells)


def multiclass(results: Results) -> Iterator[str]:
    """Scores of the ways to fit several classes, and the seconds of an epoch."""
    rows = [
        [
            f"{name}, {found['classes']} classes",
            model,
            f"{found['log_loss']:.4f}",
            "{:+.4f} ± {:.4f}".format(*found["more_than_softmax"]) if "more_than_softmax" in found else "",
            f"{found['accuracy']:.4f}",
            f"{found['calibration_error']:.4f}",
            f"{found['lam']:.3g}",
            seconds(found["seconds"]),
        ]
        for name, models in results["cells"].items()
        for model, found in models.items()
        if "error" not in found
    ]
    yield table(("set", "model", "log loss", "more than softmax", "accuracy", "calibration error", "λ", "fit"), rows)
    if "price" in results:
        priced = [[m, seconds(found["seconds"]), f"{found['gap']:.1e}"] for m, found in results["price"].items()]
        yield "An epoch over 10,000 rows of mnist with 2,000 features and λ = 0.1, and the gap after three:"
        yield table(("model", "an epoch", "gap"), priced)


def tuning(results: Results) -> Iterator[str]:
    """Ways of choosing a bandwidth."""
    runs = results["runs"]
    rows = [
        [
            run["data"],
            way["way"],
            f"{run['metric']} {way[run['metric']]:.4f}",
            f"{way['kernel']}, σ {way['bandwidth']:g}, λ {way['lam']:g}",
            seconds(way["seconds"]),
            seconds(way["cpu_seconds"]),
        ]
        for run in (runs.values() if isinstance(runs, dict) else runs)
        for way in run["ways"]
    ]
    yield table(("set", "way", "test", "chosen", "seconds", "CPU seconds"), rows)


def out_of_core(results: Results) -> Iterator[str]:
    """Rows from a disk against rows in memory."""
    problem = results["problem"]
    rows = [
        [
            name,
            seconds(results[name]["seconds"]),
            memory(results[name]["growth_bytes"]),
            f"{results[name]['accuracy']:.4f}" if "accuracy" in results[name] else None,
        ]
        for name in ("convert", "disk", "memory")
    ]
    yield table(("step", "seconds", "growth of memory", "accuracy"), rows)
    yield (
        f"{problem['rows']:,} × {problem['inputs']} generated rows, m = {problem['features']:,}, budget "
        f"{problem['memory']}: {'within' if results['inside_budget'] else 'above'} the budget; from the disk it takes "
        f"{results['ratio']:.2f} times as long as from memory."
    )


def standardize(results: Results) -> Iterator[str]:
    """z-scores of inputs, on, off and chosen."""
    rows = [
        [name, f"{found['off']:.4f}", f"{found['on']:.4f}", "on" if found["auto"] else "off"]
        for name, found in results["sets"].items()
    ]
    means = results["summary"]
    rows.append(["mean", f"{means['mean_off']:.4f}", f"{means['mean_on']:.4f}", f"{means['mean_auto']:.4f}"])
    yield table(("set", "off", "on", '"auto" takes'), rows)


def path(results: Results) -> Iterator[str]:
    """Fifteen λ against one."""
    rows = [
        [
            device,
            loss,
            f"{1e3 * f['seconds_path']:.2f}",
            f"{1e3 * f['seconds_one']:.2f}",
            f["ratio"],
            f["ratio_to_dearest"],
            f["rows"],
        ]
        for device, entry in results.items()
        for loss, f in entry["losses"].items()
    ]
    yield table(("device", "loss", "ms, 15 λ", "ms, one λ", "ratio", "ratio to the slowest λ", "rows"), rows)


def block_solver(results: Results) -> Iterator[str]:
    """Matrix-vector products of a block solve, compared with the corrected published algorithm."""
    kinds = dict.fromkeys(case["kernel"] for case in results["cases"])
    losses = dict.fromkeys(case["loss"] for case in results["cases"])
    rows = []
    for loss in losses:
        cases = [case for case in results["cases"] if case["loss"] == loss]
        ours, theirs = ([case[who]["reached"].get(TO_REACH) for case in cases] for who in ("joker", "twin"))
        rows.append([loss, _middle(ours), _middle(theirs), f"{fewer(cases)} of {len(cases)}"])
    what = f"Matrix-vector products to a relative distance of {TO_REACH}"
    yield f"{what}, medians over {', '.join(kinds)} kernels and values of c:"
    yield table(("loss", "joker", "published, corrected", "joker needs fewer in"), rows)


def fewer(cases: Sequence[Results]) -> int:
    """Return the number of cases in which joker needs fewer products, or only joker converges."""
    pairs = [(case["joker"]["reached"].get(TO_REACH), case["twin"]["reached"].get(TO_REACH)) for case in cases]
    return sum(ours is not None and (theirs is None or ours < theirs) for ours, theirs in pairs)


def _middle(found: Sequence[float | None]) -> str:
    values = [value for value in found if value is not None]
    missed = f" ({len(found) - len(values)} not reached)" if len(values) < len(found) else ""
    return (f"{median(values):g}" if values else "") + missed


def ablations(results: Results) -> Iterator[str]:
    """Each choice on each set, and the verdicts."""
    for device, entry in results.items():
        plan = entry["plan"]
        yield f"**On {device}**: {plan['rows']:,} rows, m = {plan['features']:,}"
        yield from [entry["note"]] if "note" in entry else []
        rows = [
            [axis, found["verdict"]["default"], found["verdict"]["verdict"]] for axis, found in entry["axes"].items()
        ]
        yield table(("choice", "default", "verdict"), rows)
        bases = [base["data"] for base in entry["bases"]]
        rows = [
            _choice(axis, name, curves, found["verdict"], bases)
            for axis, found in entry["axes"].items()
            for name, curves in found["choices"].items()
        ]
        scored = "held-out" if "held_out" in plan else "test"
        yield f"Errors on the {scored} rows after {', '.join(map(str, EPOCHS))} epochs, and at the end:"
        yield table(("choice", "value", *bases, "total time", "error ratio at equal time"), rows)


def search_ablations(results: Results) -> Iterator[str]:
    """The error of each choice on each set."""
    for axis, found in results["axes"].items():
        names = list(dict.fromkeys(name for errors in found["choices"].values() for name in errors))
        rows = [
            [choice, *(f"{errors[name]['error']:.4f}" if "error" in errors[name] else "" for name in names), relative]
            for (choice, errors), relative in zip(found["choices"].items(), found["error_ratio"].values(), strict=True)
        ]
        yield table((axis, *names, "error ratio"), rows)


def solved(results: Results) -> Iterator[str]:
    """Errors of five epochs and of the default fit, and their difference with its standard error."""
    rows = []
    for name, found in results["problems"].items():
        ways = [found["five epochs"], found["default"]]
        more, error = found["difference"]
        lams = (" ".join(f"{cell['lam']:.2g}" for cell in way["splits"]) for way in ways)
        worst = max(cell["gap"] for cell in found["default"]["splits"])
        errors = (f"{way['error']:.4f}" for way in ways)
        rows.append([name.replace("/", ", "), *errors, f"{more:+.4f} ± {error:.4f}", *lams, f"{worst:.0e}"])
    names = ("problem", "five epochs", "default", "difference", "λ of five epochs", "λ of the default", "largest gap")
    yield table(names, rows)


def greedy_blocks(results: Results) -> Iterator[str]:
    """Seconds and steps of each choice of greedy blocks, and of few rows in one block and in several."""
    problems = results["problems"]
    choices = list(next(iter(problems.values())))
    rows = [
        [name, *(f"{seconds(cell['seconds'])}, {cell['steps']:,} steps" for cell in found.values())]
        for name, found in problems.items()
    ]
    yield table(("problem", *choices), rows)
    yield "Default fits of 2,000 rows, in one block and in blocks of 1,024 rows:"
    ways = ("one block", "blocks of 1,024")
    cells = [
        [name, *(f"{seconds(found[way]['seconds'])}, gap {found[way]['gap']:.0e}" for way in ways)]
        for name, found in results["few"].items()
    ]
    yield table(("fit", *ways), cells)


def default_fits(results: Results) -> Iterator[str]:
    """Where the default fit of each estimator ends, and the fits of the demo beside a busy process."""
    rows = [
        [name, kind, f"{found['rows']:,}", f"{found['gap']:.1e}", seconds(found["seconds"])]
        for name, fits in results["sets"].items()
        for kind, found in fits.items()
    ]
    yield table(("set", "estimator", "rows", "gap", "fit"), rows)
    if "busy" in results:
        yield "The fits of the demo, alone and beside a busy process on the same two cores:"
        cells = [[name, seconds(f["alone"]), seconds(f["busy"]), f["ratio"]] for name, f in results["busy"].items()]
        yield table(("fit", "alone", "beside a busy process", "ratio"), cells)


def _choice(axis: str, name: str, curves: Results, verdict: Results, bases: Sequence[str]) -> list[object]:
    def errors(curve: Sequence[Results]) -> str:
        shown = [e for e in EPOCHS if e < len(curve)] + [len(curve)]
        return " / ".join(f"{curve[e - 1]['error']:.4f}" for e in shown)

    cells = [errors(curves[data]) for data in bases]
    spent = seconds(sum(curve[-1]["seconds"] for curve in curves.values()))
    default = name == verdict["default"]
    return [axis, name, *cells, spent, "the default" if default else verdict["error_ratio_at_equal_time"][name]]


def scaling(results: Results) -> Iterator[str]:
    """Slopes of each axis on each device."""
    rows = []
    for device, entry in results.items():
        for name, axis in entry["axes"].items():
            first, last = axis["points"][0], axis["points"][-1]
            span = f"{first[name]:,} to {last[name]:,}"
            slopes = [axis["time_slope"], axis["memory_slope"]]
            rows.append(
                [device, f"{name}: {axis['what']}", span, *slopes, seconds(last["seconds"]), memory(last["peak_bytes"])]
            )
    yield table(
        ("device", "axis", "range", "slope of time", "slope of memory", "time, largest", "memory, largest"), rows
    )


FIRST_SPLIT_ONLY = {
    "SVM": "A support vector machine of scikit-learn with a grid of four C and three γ and three folds, "
    "on the encoding made by hand",
    "xRFM": "xRFM with its default settings and five rounds of feature learning, on the encoding made by hand",
    "xRFM, searched": "The same with a random search over the ranges of its authors, as long as the limit allows",
    "RealMLP": "RealMLP, a neural network, with its default settings, on categories as they are",
}


def tables(results: Results) -> Iterator[str]:
    """Mean ranks, joker against the best tree model of each set, intervals, calibration, and all scores."""
    found = table_summary.scores(results)
    if "effort" in results:
        yield f"joker had effort {results['effort']} and no limit, every other model {results['limit_seconds']:g} s."
    elif "limit_seconds" in results:
        yield f"The time limit of every fit was {results['limit_seconds']:g} s; a fit may exceed it by its last step."
    yield from _ranking(found)
    if cpu := table_summary.cpu_seconds(results):
        rows = [[model, f"{median(s):.1f} s", f"{max(s):.1f} s", len(s)] for model, s in cpu.items()]
        yield table(("model", "CPU time of a fit, median", "longest", "fits"), rows)
    for model, description in FIRST_SPLIT_ONLY.items():
        if first := table_summary.first_split(found, model):
            yield (
                f"{description}; on the first split of the sets where it ends within three times the limit. joker "
                "searches its settings:"
            )
            differences = [(name, ours, theirs, ours - theirs) for name, (ours, theirs) in first.items()]
            cells = [[name, f"{ours:.4f}", f"{theirs:.4f}", f"{more:+.4f}"] for name, ours, theirs, more in differences]
            yield table(("set", "joker", model, "difference"), cells)
    if pairs := table_summary.by_hand(found):
        yield (
            "The same rows with an encoding made by hand (one-hot, imputed and scaled) and `joker.tune`, beside joker "
            "on the raw table, with the deviation of joker's score over its splits:"
        )
        heads = ("set", "joker, raw", "joker.tune, by hand", "difference", "deviation over splits")
        yield table(
            heads,
            [
                [name, f"{raw:.4f}", f"{hand:.4f}", f"{raw - hand:+.4f}", f"{table_summary.spread(found, name):.4f}"]
                for name, (raw, hand) in pairs.items()
            ],
        )
    yield "Prediction intervals of joker, with a nominal coverage of 90%, and the calibration error of probabilities:"
    heads = ("set", "coverage", "lowest and highest of a split", "calibration error", "that of the margins")
    yield table(
        heads, [row for name, models in results["sets"].items() for row in _coverage_and_calibration(name, models)]
    )
    heads = ("set", "model", "log loss", "AUC", "RMSE", "fit", "predict", "memory")
    yield table(heads, [row for name, models in results["sets"].items() for row in _details(name, models)])


def _ranking(found: Any) -> Iterator[str]:
    """The mean rank of each model, and joker against the best tree model of each set."""
    compared = table_summary.compared(found)
    rows = [[model, f"{rank:.2f}", *_sign(found, model)] for model, rank in compared["mean_rank"].items()]
    yield table(("model", "mean rank", "sets won by joker", "95% interval of wins minus losses"), rows)
    yield table(
        ("set", "joker", "best tree model", "its score", "difference", "noise", "splits"),
        [
            [
                name,
                f"{entry['joker']:.4f}",
                entry["best_tree"],
                f"{entry['score_of_best_tree']:.4f}",
                f"{entry['difference']:+.4f}",
                f"{entry['noise']:.4f}",
                entry["splits"],
            ]
            for name, entry in compared["sets"].items()
        ],
    )
    yield (
        f"At least as good as the best tree model, up to noise, on "
        f"{compared['at_least_as_good_as_the_best_tree']} of {compared['number_of_sets']} sets. The score is accuracy "
        f"or R². The noise is twice the standard error of the difference, at least {table_summary.MIN_NOISE}."
    )


def _coverage_and_calibration(name: str, models: Results) -> Iterator[list[object]]:
    """Coverage of intervals, or calibration errors, of joker on a set."""
    done = [entry["scores"] for entry in models.get(table_summary.JOKER, {}).values() if "scores" in entry]
    if covered := [scores[COVERAGE] for scores in done if COVERAGE in scores]:
        yield [name, f"{mean(covered):.3f}", f"{min(covered):.3f}, {max(covered):.3f}", None, None]
    if margins := [scores[MARGINS] for scores in done if MARGINS in scores]:
        errors = [scores["calibration_error"] for scores in done]
        yield [name, None, None, f"{mean(errors):.3f}", f"{mean(margins):.3f}"]


def _sign(found: Any, model: str) -> list[str]:
    if model == table_summary.JOKER:
        return ["", ""]
    sign = table_summary.bootstrap(found, model)
    return [f"{sign['wins']} of {sign['sets']}", f"{sign['low']:+.2f} to {sign['high']:+.2f}"]


def _details(name: str, models: Results) -> Iterator[list[object]]:
    for model, splits in models.items():
        done = [entry for entry in splits.values() if "scores" in entry]
        if not done:
            yield [name, model, *[None] * 3, "did not finish", None, None]
            continue
        means = [
            _with_error([entry["scores"][metric] for entry in done]) if metric in done[0]["scores"] else None
            for metric in ("log_loss", "auc", "rmse")
        ]
        took = [median(entry[part] for entry in done) for part in ("fit_seconds", "predict_seconds")]
        yield [name, model, *means, *map(seconds, took), memory(max(e["peak_growth_bytes"] or 0 for e in done))]


def _with_error(values: list[float]) -> str:
    """Format a mean with its standard error over splits."""
    error = f" ± {stdev(values) / len(values) ** 0.5:.2g}" if len(values) > 1 else ""
    return f"{mean(values):.4f}{error}"


TABLES: dict[str, Callable[[Results], Iterator[str]]] = {
    found.__name__: found
    for found in (
        peers, higgs_gap, paper_gpu, gpu_real, gpu_gap, exact_scale, step, same_problem, default_fits, distributed,
        hard_problems, certificate, one_class, multiclass, tuning, standardize, out_of_core, path,
        block_solver, ablations, search_ablations, solved, greedy_blocks, scaling, tables,
        named_tables, intervals, count_tables, brake, new_groups,
    )
} | {"tables_effort1": tables}  # fmt: skip
