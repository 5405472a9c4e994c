"""Words that the text of the repository avoids: in docstrings, comments, messages, help texts and pages.

CONTRIBUTING.md gives the reason: a reader whose first language is not English must understand every sentence at the
first reading, and one who knows scikit-learn, LIBSVM or Gaussian processes must find each idea under its usual name
(docs/glossary.md). The list has only words that can be found without false alarms.
"""

import io
import re
import token
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from repository import ROOT, text_files


@dataclass(frozen=True)
class Rule:
    """Words to avoid, a sentence with them, and what to write instead."""

    words: str  # a regular expression of whole words
    example: str
    instead: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A space matches any white space, so that a phrase may span two lines."""
        return re.compile(rf"\b(?:{self.words})\b".replace(" ", r"\s+"), re.IGNORECASE)


RULES = (
    Rule("(?<!model.)(?<!grid-item-)cards?", "It runs on a card.", "GPU"),
    Rule("(?:on|of|in|to) the host(?! memory)", "Rows stay on the host.", "host memory, or CPU"),
    Rule("looks? at the gap", "It looks at the gap.", "evaluate the gap"),
    Rule("(?:a|each|every|first|last|next|one|no|per) look", "A look takes a pass over the rows.", "evaluation"),
    Rule("looks (?:between|of)", "The looks between steps are left out.", "evaluations"),
    Rule("how many", "How many rows there are.", "the number of"),
    Rule("tells?|(?:is|are|was|were|be|been) told", "It tells the number of rows.", "says, returns, shows, decides"),
    Rule("hears?", "A loss never hears of a kernel.", "gets, knows"),
    Rule("brings?", "A store brings its own targets.", "has, contains"),
    Rule("what (?:\\S+ ){1,4}(?:makes?|made) of", "What a model makes of a row.", "the exact noun, such as prediction"),
    Rule("(?:hands?|handed|handing) out", "Rows are scaled as they are handed out.", "return, read"),
    Rule("lets? go|letting go", "It lets go of the tensor.", "free, release"),
    Rule("(?:takes?|taking|took|taken) over", "The machine takes over the rows.", "copy, keep, replace"),
    Rule("no more than", "It holds no more than this.", "at most"),
    Rule("beyond", "With 4,000 features beyond.", "more than, larger than, else"),
    Rule("what (?:it|this|that|they) comes? to", "What it comes to for this problem.", "the value used when"),
    # The field's words for what has a name there.
    Rule("kernel itself", "A fit with the kernel itself.", "exact kernel"),
    Rule("kept (?:kernel )?rows|rows that are kept", "The product with kept kernel rows.", "kernel cache, cached rows"),
    Rule("greedy rows|promises? (?:most|more)", "Blocks of the rows that promise most.", "rows with the largest gain"),
    Rule("gram gradients", "Gram gradients with features.", "PCG on the normal equations"),
    Rule(
        "weights of (?:the )?columns|column weights",
        "It fits weights of columns.",
        "ARD, feature weights, lengthscales",
    ),
    Rule("against (?:the rest|all others)", "Each class against the rest.", "one-vs-rest"),
    Rule("blend(?:s|ed|ing)?", "A blend of three models.", "ensemble"),
    Rule("members are (?:found|blended)", "Up to three members are found.", "ensemble members, ensemble selection"),
    Rule("share below", "The optimum is at most this share below it.", "relative duality gap"),
    Rule("folds of them", "Folds of them say more.", "cross-validation"),
    Rule("mean targets", "Mean targets of the levels.", "target encoding"),
    Rule("must not meet", "They must not meet.", "leakage"),
    Rule("follows? (?:its|their|the) (?:training )?rows", "A model that follows its training rows.", "overfits"),
    Rule("form (?:is|was) undone|undo(?:es)? (?:its|the) form", "When its form is undone.", "inverse transform"),
    Rule("bends? values|bent (?:smoothly )?(?:in)?to", "It bends values.", "soft-clip"),
    Rule(
        "time (?:that )?is left|time left",
        "As many rows as the time that is left allows.",
        "remaining time, time limit",
    ),
    Rule("first process", "It is done by the first process alone.", "rank 0"),
    Rule("no process waits", "No process waits for it.", "without a barrier"),
    Rule("telling rows", "It counts the telling rows.", "effective rows"),
    Rule("says already what", "A column says already what this one would.", "duplicates"),
    Rule("as (?:it is|they are),? with words", "A table as it is, with words.", "tabular data, mixed-type DataFrame"),
    Rule("fit decides the kind", "The fit decides the kind of a column.", "column types are inferred"),
    Rule("further columns", "It ignores further columns.", "extra columns"),
)
# Text that only looks like prose: (end of the path, exact literal).
EXCEPTIONS = {
    ("benchmarks/page.py", '"kernel itself"'),  # names in results files of earlier runs
    ("benchmarks/page.py", '"each against the rest"'),
    ("benchmarks/page.py", '"against the rest"'),
    ("benchmarks/page.py", '"time that is left"'),
}
CODE = re.compile(r"``[^`]+``|`[^`\n]+`")
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
# Since Python 3.12 the text of an f-string has its own tokens.
IN_STRINGS = {token.STRING, getattr(token, "FSTRING_MIDDLE", token.STRING)}


def blank(pattern: re.Pattern[str], text: str) -> str:
    """Return the text without what the pattern matches; every line keeps its number."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", "·", found[0]), text)


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Return the pieces of prose in a file, each with its first line: all of a page; strings and comments of code.

    A string without white space is a name or a key, not prose.
    """
    if path.suffix != ".py":
        yield 1, text
        return
    for piece in tokenize.generate_tokens(io.StringIO(text).readline):
        if piece.type == token.COMMENT:
            yield piece.start[0], piece.string
        elif piece.type in IN_STRINGS and re.search(r"\s", piece.string):
            formatted = re.match(r"[rR]?[fF]", piece.string) is not None
            yield piece.start[0], blank(PLACEHOLDER, piece.string) if formatted else piece.string


def violations(path: Path, text: str) -> Iterator[str]:
    """Return one sentence for each forbidden word, with file and line; code in backticks is allowed."""
    for line, piece in prose(path, text):
        if any(path.as_posix().endswith(end) and piece == literal for end, literal in EXCEPTIONS):
            continue
        plain = blank(CODE, piece)
        for rule in RULES:
            for found in rule.pattern.finditer(plain):
                where = line + plain.count("\n", 0, found.start())
                yield f"{path.as_posix()}:{where}: {' '.join(found[0].split())!r}. Write: {rule.instead}."


def checked() -> list[Path]:
    """Return the files whose text users and contributors read: all pages, the package, benchmarks and examples."""
    folders = ("src", "benchmarks", "examples")
    return [
        path
        for path in text_files()
        if path.suffix == ".md" or (path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders)
    ]


def test_no_text_has_a_forbidden_word() -> None:
    files = checked()
    assert len(files) > 100
    found = [line for path in files for line in violations(path.relative_to(ROOT), path.read_text(encoding="utf-8"))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("page.md", "# Page\n\nOn a card,\nafter looks\nat the gap.\n", [3, 4]),
        ("page.md", "No `card` in code, no discard, and the host memory.\n", []),
        ("a.py", '"""The rows.\n\nHow\nmany there are.\n"""\n', [3]),
        ("a.py", "CARD = 'card'  # the card\n", [1]),
        ("a.py", 'text = f"{card} cards are\\n on {host}"\n', [1]),
        ("a.py", "raise ValueError(\n    'm must be small; '\n    'got no more than 3.'\n)\n", [3]),
        ("a.py", "tell = hears(card)\n", []),
    ],
)
def test_a_forbidden_word_is_found_with_its_line(name: str, text: str, lines: list[int]) -> None:
    found = list(violations(Path("docs") / name, text))
    assert [line.split(": ")[0] for line in found] == [f"docs/{name}:{line}" for line in lines]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.words)
def test_every_rule_finds_its_example(rule: Rule) -> None:
    (found,) = violations(Path("page.md"), rule.example)
    assert rule.instead in found
