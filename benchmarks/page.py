"""The results page: docs/results.md, written from whatever results files are there.

    python benchmarks/page.py              # write it
    python benchmarks/page.py --check      # say whether it is what would be written

`make results` draws the pictures and writes the page. Nothing on it is written by hand: a test compares it with what
this script makes of the committed results, and results of quick runs are refused.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import behind
import common
import tables

PAGE = common.ROOT / "docs" / "results.md"


@dataclass(frozen=True)
class Section:
    """A part of the page: what it is about, the file it comes from, the command that makes it, its pictures.

    Pictures are named from the folder of the page, and shown where they are there.
    """

    name: str  # of the results file and of the table
    title: str
    about: str
    command: str
    pictures: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "peers",
        "joker against others on the CPU",
        "One split and one machine for all, every pair in a process of its own; joker's time has its tuning in it. "
        "The other programs have the parameters named. HistGradientBoosting is no kernel method, "
        "but what one might use instead. Scores are those of the largest fit that was finished in time.",
        "python benchmarks/peers.py",
        ("figures/peers_time.png",),
    ),
    Section(
        "higgs_gap",
        "What separates kernels from boosting on higgs33k",
        "The same kernel machine on inputs that were changed in one way or another. The share of the gap is how far "
        "a variant gets from one bandwidth (0) to boosting (1).",
        "python benchmarks/higgs_gap.py",
    ),
    Section(
        "cpu_peers",
        "joker with named settings against scikit-learn",
        "Settings of joker chosen beforehand on a part of the training rows.",
        "python benchmarks/cpu_peers.py",
    ),
    Section(
        "paper_gpu",
        "The paper's settings on a card",
        "Iterations, time and memory beside the paper's row, which was measured on another card.",
        "python benchmarks/paper_gpu.py",
    ),
    Section(
        "gpu_real",
        "Whole fits on a card",
        "Real data sets, with the score to reach and the seconds allowed.",
        "python benchmarks/gpu_real.py",
    ),
    Section(
        "step",
        "One step on a card",
        "The floor is what a step cannot do without, in plain torch calls. A block is made ready (features and K_BB, "
        'on a second stream) while the one before it is solved, where memory has room; "alone" is without that.',
        "python benchmarks/step.py",
    ),
    Section(
        "scaling",
        "Growth with rows, features, inputs and columns",
        "Slopes on logarithmic scales over the upper half of the sizes; 1 is linear. Generated rows. "
        "The first epoch of a card, that of 10,000 rows, has the compiling of kernels in it.",
        "python benchmarks/scaling.py [--device cuda]",
        ("figures/scaling.png", "figures/memory.png"),
    ),
    Section(
        "ablations",
        "The defaults, one changed at a time",
        "Errors are RMSE, or the share of wrong classes. A default is kept unless an alternative has an error that is "
        "lower by more than 2% on average at equal time, and on more than half of the sets.",
        "python benchmarks/ablations.py [--device cuda]",
    ),
    Section(
        "figures",
        "Model size, time and objectives",
        "Parts of kin40k and covtype, the Gaussian kernel.",
        "python benchmarks/figures.py --measure",
        ("figures/model_size.png", "figures/models_time.png", "figures/objectives.png"),
    ),
    Section(
        "tuning",
        "What tuning is worth",
        "`joker.tune` against the median bandwidth with a path of λ.",
        "python benchmarks/tuning.py",
        ("../benchmarks/results/tuning.png",),
    ),
    Section(
        "out_of_core",
        "Training from a disk",
        "The same fit from a row store on the disk, inside a memory budget, and from memory.",
        "python benchmarks/out_of_core.py",
    ),
    Section(
        "path",
        "A path of fifteen λ",
        "A step with fifteen λ as columns against a step with one.",
        "python benchmarks/path.py [--device cuda]",
    ),
    Section(
        "averaging",
        "Averaged iterates",
        "The average over half an epoch against the last iterate.",
        "python benchmarks/averaging.py",
        ("../benchmarks/results/averaging.png",),
    ),
    Section(
        "block_solver",
        "The block solver",
        "Against the published algorithm, with its errors mended so that it arrives at all.",
        "python benchmarks/block_solver.py",
        ("../benchmarks/results/block_solver.png",),
    ),
    Section("demo", "The demo", "Two generated problems with 100,000 rows.", "python examples/demo.py --results"),
)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The results files that the page knows, by name; quick ones are refused."""
    found = {}
    for section in SECTIONS:
        file = folder / f"{section.name}.json"
        if file.is_file():
            found[section.name] = json.loads(file.read_text(encoding="utf-8"))
            if any("--quick" in machine["command"] for machine in machines(found[section.name])):
                raise SystemExit(f"{file} is of a quick run, which shows nothing. Run `{section.command}`.")
    return found


def machines(results: Any) -> list[dict[str, Any]]:
    """Every machine that a results file names, wherever it does."""
    if isinstance(results, list):
        return [machine for part in results for machine in machines(part)]
    if not isinstance(results, dict):
        return []
    own = [results["machine"]] if isinstance(results.get("machine"), dict) else []
    return own + [machine for name, part in results.items() if name != "machine" for machine in machines(part)]


def origin(section: Section, results: dict[str, Any]) -> str:
    """Machine, versions, date and command of a table, what is to be known of the run, and where its figures are."""
    lines = dict.fromkeys(_machine(machine) for machine in machines(results))
    noted = [f"{results['note']}  "] if "note" in results else []
    return "\n".join(
        [*lines, *noted, f"[All figures](../benchmarks/results/{section.name}.json); made by `{section.command}`."]
    )


def _machine(machine: dict[str, Any]) -> str:
    card = f"{machine['card']} (CUDA {machine['cuda']}), " if "card" in machine else ""
    return (
        f"On {card}{machine['cores']} cores ({machine['cpu']}), threads: {machine['threads']}, Python "
        f"{machine['python']}, torch {machine['torch']}, {machine['date']}: `{machine['command']}`.  "
    )


def blocks(results: dict[str, dict[str, Any]], folder: Path) -> Iterator[str]:
    """The page, block by block."""
    yield "# Results"
    yield (
        "Written by `benchmarks/page.py` from the files in `benchmarks/results`; `make results` rebuilds it and its "
        "pictures. Every table names the machine, the versions, the date and the command it comes from. Memory is what "
        "a fit adds to the peak of its process, or the peak of what a card holds."
    )
    yield "## Where joker is behind"
    found = [(section, line) for section in SECTIONS if section.name in results for line in against(section, results)]
    yield "\n".join(f"- {line} ([{section.title}](#{anchor(section)}))" for section, line in found) or "Nowhere yet."
    if missing := [section for section in SECTIONS if section.name not in results]:
        yield "## Not measured yet"
        yield "\n".join(f"- {section.title}: `{section.command}`" for section in missing)
    for section in SECTIONS:
        if section.name in results:
            yield from _section(section, results[section.name], folder)


def against(section: Section, results: dict[str, dict[str, Any]]) -> list[str]:
    """What a results file has to say against joker."""
    return list(behind.BEHIND[section.name](results[section.name])) if section.name in behind.BEHIND else []


def anchor(section: Section) -> str:
    """The name under which a heading can be linked to."""
    kept = "".join(c for c in section.title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _section(section: Section, results: dict[str, Any], folder: Path) -> Iterator[str]:
    yield f"## {section.title}"
    yield section.about
    yield from tables.TABLES[section.name](results)
    for picture in section.pictures:
        if (folder / picture).is_file():
            yield f"![{section.title}]({picture})"
    yield origin(section, results)


def page(results: Path = common.RESULTS, folder: Path = PAGE.parent) -> str:
    """The whole page."""
    return "\n\n".join(blocks(read(results), folder)) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where the page is not up to date")
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="folder of the results")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args(arguments)
    text = page(options.results, options.out.parent)
    if not options.check:
        options.out.write_text(text, encoding="utf-8")
        print(options.out)
    elif not options.out.is_file() or options.out.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{options.out} is not what the results say. Run make results.")


if __name__ == "__main__":
    main()
