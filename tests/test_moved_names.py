"""Former import paths work for one release, and a warning names the new path."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import joker

MOVED = [
    ("joker.data.sets", "joker.paper.datasets", ["SETS", "DataSet", "generate", "load"]),
    ("joker.estimators", "joker.tuning", ["Tuned", "tune"]),
    ("joker.training", "joker.prepare", ["Training", "prepare"]),
]
CASES = [(old, new, name) for old, new, names in MOVED for name in names]


@pytest.mark.parametrize(("old", "new", "name"), CASES)
def test_a_name_is_found_at_its_former_path(old: str, new: str, name: str) -> None:
    message = rf"{old}\.{name} has moved\. Use: from {new} import {name}\."
    with pytest.warns(DeprecationWarning, match=message) as caught:
        found = getattr(import_module(old), name)
    assert found is getattr(import_module(new), name)
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=f"from {new} import"):
        exec(f"from {old} import {name}", {})


@pytest.mark.parametrize("old", [old for old, _, _ in MOVED])
def test_other_names_are_not_found(old: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'absent'"):
        _ = import_module(old).absent


def test_the_former_modules_import_nothing() -> None:
    """`import joker.data.sets` works as documented, and neither it nor joker.data imports the paper's experiments."""
    script = """
import sys, warnings
warnings.simplefilter("error")
import joker.data, joker.data.sets, joker.training
assert not any(name.startswith("joker.paper") for name in sys.modules)
warnings.simplefilter("ignore")
assert joker.data.sets.generate("higgs", 5).rows == 5
"""
    place = {"PYTHONPATH": str(Path(joker.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", script], env=place, check=True, timeout=120)
