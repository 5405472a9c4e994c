"""The scripts of the benchmarks as modules."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """A function that imports a script; afterwards all are unloaded and the number of threads is restored."""
    if not FOLDER.is_dir():
        pytest.skip(f"needs the scripts in {FOLDER}, which an installed package does not have")
    monkeypatch.syspath_prepend(str(FOLDER))
    threads, before = torch.get_num_threads(), set(sys.modules)
    yield importlib.import_module
    torch.set_num_threads(threads)
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent == FOLDER:
            del sys.modules[name]
