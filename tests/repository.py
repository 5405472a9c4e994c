"""The text files of the repository, for tests that read all of them."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".cff", ".md", ".py", ".toml", ".txt", ".yml"}
NAMES = {"Makefile", "run"}  # .ci/run has no suffix
# Folders at the top that hold what is written by hand, with the files beside them.
FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "src", "tests")


def text_files(root: Path = ROOT) -> Iterator[Path]:
    """Return every text file that is written by hand; results of benchmarks are not."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))]
    for path in [*sorted(root.iterdir()), *files]:
        if path.is_file() and (path.suffix in SUFFIXES or path.name in NAMES):
            yield path
