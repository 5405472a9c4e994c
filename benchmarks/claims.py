"""Every number with a unit or a percent sign in the README and the pages, and what proves it.

    python benchmarks/claims.py            # the list; fails if a number has no proof

Proofs are of three kinds. A number between the marks of a script is written by that script from a results file, or
from the code, and a test compares both. A block of output below a block of code is compared with a run by a test. Every
other number is in CLAIMS, with a constant of the code, whose value must be the number, or a test. Settings and examples
in code are no claims. The page of results is written from the results files as a whole.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import common

UNITS = {
    "%": 0.01, "s": 1, "ms": 1e-3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "terabytes": 1e12, "MiB": 2**20, "GiB": 2**30,
    "times": 1, "second": 1, "seconds": 1, "minute": 60, "minutes": 60, "hour": 3600, "hours": 3600,
}  # fmt: skip
CLAIM = re.compile(rf"(?<![\w.,/])(\d[\d,.]*\d|\d) ?({'|'.join(map(re.escape, UNITS))})(?![\w])")
WRITTEN = re.compile(
    r"<!-- (?P<what>(?!end)[^>]*?) -->.*?<!-- end of [^>]*? -->|<!-- counts: begin -->.*?<!-- counts: end -->",
    re.DOTALL,
)
GENERATED = {"results.md"}  # as a whole
TOLERANCE = 1e-3
# Who writes the numbers between marks: the results files, or the code, and the test that compares.
WRITERS = {
    "benchmarks/readme.py": "results/tables.json, peers.json, out_of_core.json; tests/test_docs.py",
    "benchmarks/step_model.py": "results/step.json; tests/benchmarks/test_step_model.py",
    "docs/search_plans.py": "src/joker/tables/plan.py; tests/tables/test_tables_page.py",
    "counts": "tests/faults/results.json; tests/faults/test_campaign.py",
}
SHARES = "paper.datasets:SETS[{!r}].share"
# For each page: words with N at the place of the number, and the constant ("module:expression") or the test.
CLAIMS: dict[str, dict[str, str]] = {
    "README.md": {"pass over the kernel matrix takes N": "joker.estimators.resolve:EXACT_SECONDS"},
    "docs/choosing.md": {"pass over its matrix takes N": "joker.estimators.resolve:EXACT_SECONDS"},
    "docs/data-sets.md": {
        "| `hepc` | N": SHARES.format("hepc"),
        "| `susy`, `higgs` | N": SHARES.format("susy"),
        "| `cifar5m` | N": SHARES.format("cifar5m"),
        "| `covtype`, `higgs33k` | N": SHARES.format("covtype"),
        "| `kin40k`, `protein` | N": SHARES.format("kin40k"),
    },
    "docs/estimators.md": {
        "limited to N on the CPU": "joker.runtime.devices:DEFAULT_BUDGET",
        "on the CPU and N on a GPU": "joker.estimators.resolve:GPU_BUDGET",
        "kernel cache to N": "joker.estimators.resolve:KERNEL_ROOM",
        "is at most N the smallest": "joker.data.arrays:MAX_DEVIATION_RATIO",
        "wrong side are at most N of all": "tests/estimators/test_nu.py",
        "support vectors at least N:": "tests/estimators/test_nu.py",
        "finds the ε with N of the rows": "tests/estimators/test_nu.py",
    },
    "docs/exact-kernels.md": {
        "entries: N for": "math:1_840_000**2 * 4",
        "matrix takes at most N (": "joker.estimators.resolve:EXACT_SECONDS",
        "pass takes more than N,": "joker.estimators.resolve:EXACT_SECONDS",
    },
    "docs/faq.md": {"On the CPU N of it are libraries": "joker.planning.plan:CPU_LIBRARIES"},
    "docs/faults.md": {
        "file may take N of the processor": "faults.campaign:SECONDS",
        "a test of many of them N.": "faults.campaign:MEMORY",
    },
    "docs/first-steps.md": {"smallest possible objective is at most N lower": "tests/test_random_problems.py"},
    "docs/memory.md": {
        "| N of code and buffers": "joker.planning.plan:CPU_LIBRARIES",
        "| 8 to N |": "joker.planning.plan:MAX_GAPS",
        "[N on the CPU": "joker.runtime.devices:DEFAULT_BUDGET",
        "on the CPU and N on a GPU": "joker.estimators.resolve:GPU_BUDGET",
        "tiles take N of it": "joker.runtime.devices:CPU_TILE",
    },
    "docs/paper.md": {"CIFAR-5M needs N": "paper.datasets:6_002_688 * 3_072"},
    "docs/serving.md": {"must be smaller than N": "joker.export.estimators:MAX_BYTES"},
    "docs/solver.md": {"ends with a gap of more than N": "joker.solvers.report:FAR"},
    "docs/tabarena.md": {
        "is N of it; without time": "benchmarks/tabarena/joker_model.py:TIME_SHARE",
        "` of AutoGluon | `max_time` is N": "benchmarks/tabarena/joker_system.py:TIME_SHARE",
    },
    "docs/tables.md": {
        "12 or N or 3.5 kg": "tests/tables/test_text_values.py",
        "If that reduces the error by N, and": "joker.tables.search:MIN_STEP_GAIN",
        "encodings whose losses are within N": "joker.tables.refit:MAX_EXCESS",
        "category reduce the leave-one-out error by N": "joker.tables.search:MIN_CATEGORY_GAIN",
        "of whole groups by N": "joker.tables.columns:MIN_CODE_GAIN",
        "in at most N of the rows, are then missing": "joker.tables.parsing:1 - MIN_SHARE",
        "text that differs in at least N of the rows": "joker.tables.columns:IDENTIFIER_SHARE",
        "reduces the leave-one-out error by N is a number": "joker.tables.choices:GAINS[NUMBER]",
        "A column that differs in at least N of the rows": "joker.tables.columns:IDENTIFIER_SHARE",
        "becomes text if that reduces the leave-one-out error by N": "joker.tables.choices:GAINS[TEXT]",
        "if it reduces the leave-one-out error by N, else": "joker.tables.search:MIN_WEIGHTING_GAIN",
        "and are narrower by N on average": "joker.tables.spread:MIN_GAIN",
        "a relative duality gap of N": "joker.tables.refit:TOL_OF_MANY_ROWS",
        "held-out rows falls by N": "joker.tables.refit:MIN_NARROWER_GAIN",
        "kernel matrix takes at most N": "joker.estimators.resolve:EXACT_SECONDS",
    },
    "docs/tuning.md": {
        "more than N the best loss": "joker.tuning.halving:HOPELESS_LOSS",
        "If more than N of the rows are of one class": "joker.tuning.splits:MAX_COMMON_SHARE",
        "must be better by N of its loss": "joker.tuning.halving:MIN_WEIGHTING_GAIN",
    },
}


@dataclass(frozen=True)
class Claim:
    """A number of a page, and its proof; empty where there is none."""

    page: str
    line: int
    text: str
    proof: str


def pages() -> list[Path]:
    """Return the README and the pages of the site that are written by hand."""
    docs = sorted((common.ROOT / "docs").glob("*.md"))
    return [common.ROOT / "README.md", *(page for page in docs if page.name not in GENERATED)]


def claims(page: Path) -> Iterator[Claim]:
    """Yield the numbers of a page with a unit, and their proofs."""
    name = page.relative_to(common.ROOT).as_posix()
    text = page.read_text(encoding="utf-8")
    plain = _without_code(text)
    proofs = [(span, proof) for phrase, proof in CLAIMS.get(name, {}).items() for span in _places(phrase, plain)]
    written = [(found.span(), found.group("what") or "counts") for found in WRITTEN.finditer(text)]
    for found in CLAIM.finditer(plain):
        by_hand = (proof for (start, end), proof in proofs if start <= found.start() < end)
        by_script = (_writer(what) for (start, end), what in written if start <= found.start() < end)
        yield Claim(name, plain.count("\n", 0, found.start()) + 1, found[0], next(by_script, None) or next(by_hand, ""))


def _writer(what: str) -> str:
    return next((proof for script, proof in WRITERS.items() if script in what), "")


def _without_code(text: str) -> str:
    """Return a text of the same length with blanks in place of code."""
    for pattern in (r"^```.*?^```", r"^    [^\n]*$"):
        text = re.sub(pattern, _blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", _hidden, text)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _hidden(found: re.Match[str]) -> str:
    return re.sub(r"[\d%]", "#", found[0])


def _places(phrase: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of a phrase whose N is a number with its unit."""
    hidden = re.sub(r"`[^`\n]*`", _hidden, phrase)
    parts = [r"\s+".join(map(re.escape, part.split())) for part in hidden.split("N", 1)]
    between = [r"\s*" if part else "" for part in parts]
    pattern = f"{parts[0]}{between[0]}(?:{CLAIM.pattern}){between[1]}{parts[1]}"
    yield from (found.span() for found in re.finditer(pattern, text))


def wrong(claim: Claim) -> str:
    """Say what is wrong with a claim; empty if it is proved."""
    if not claim.proof:
        return "has no proof"
    if claim.proof.startswith("tests/"):
        file = common.ROOT / claim.proof.split(";")[0]
        return "" if file.is_file() else f"names {claim.proof}, which does not exist"
    if ";" in claim.proof:  # written by a script, which a test checks
        return ""
    value, stated = value_of(claim.proof), number(claim.text)
    return "" if abs(value - stated) <= TOLERANCE * abs(stated) + _rounding(claim.text) else f"is {value:g} in the code"


def number(text: str) -> float:
    """Return the number in its unit."""
    found = CLAIM.fullmatch(text)
    assert found is not None
    return float(found[1].replace(",", "")) * UNITS[found[2]]


def _rounding(text: str) -> float:
    """Return half a unit of the last digit, where a number is a rounded product."""
    found = CLAIM.fullmatch(text)
    assert found is not None
    return 0.6 * UNITS[found[2]] if found[2] in ("GB", "terabytes") else 0.0


def value_of(proof: str) -> float:
    """Return the value of a constant, or of an expression of constants, of a module, or of a file that needs others."""
    module, _, expression = proof.partition(":")
    if module.endswith(".py"):
        text = (common.ROOT / module).read_text(encoding="utf-8")
        return float(re.findall(rf"^{expression} = ([\d.]+)", text, re.MULTILINE)[0])
    return float(eval(expression, dict(vars(import_module(module)))))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every claim with its proof, and fail if one has none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    found: list[Any] = [claim for page in pages() for claim in claims(page)]
    faults = [(claim, fault) for claim in found if (fault := wrong(claim))]
    for claim in found:
        print(f"{claim.page}:{claim.line}: {claim.text}  <-  {claim.proof or 'nothing'}")
    for claim, fault in faults:
        print(f"unsupported: {claim.page}:{claim.line}: {claim.text} {fault}")
    print(f"{len(found)} numbers; unsupported: {len(faults)}")
    if faults:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
