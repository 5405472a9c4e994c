"""The reference of the site: each public name has a page, and its docstring has parameters, result and example."""

import enum
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from repository import ROOT

MODULES = (
    "joker",
    "joker.losses",
    "joker.kernels",
    "joker.features",
    "joker.callbacks",
    "joker.data",
    "joker.export",
    "joker.distributed",
    pytest.param("joker.ray", marks=pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")),
)
PAGES = ROOT / "docs" / "api"
SECTION = re.compile(r"^(\w+)\n-+$", re.MULTILINE)
# A class whose fields are described as attributes, because users read them and never call the class.
READ_ONLY = {"joker.Tuned"}

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason=f"needs {PAGES}")


def page_of(module: str) -> str:
    return (PAGES / f"{module.rpartition('.')[2]}.rst").read_text(encoding="utf-8")


def listed(text: str) -> list[str]:
    """The names in the lists of a page, and those that the page describes itself."""
    names = []
    for block in re.findall(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   \w+\n)+)", text, re.MULTILINE):
        names += block.split()
    return names + re.findall(r"^\.\. py:data:: (\w+)$", text, re.MULTILINE)


def public(module: str) -> list[str]:
    """The public names of a module, without the modules in it."""
    if module == "joker.ray":
        pytest.importorskip("ray")
    names = import_module(module)
    return [name for name in names.__all__ if not inspect.ismodule(getattr(names, name))]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_page(module: str) -> None:
    assert sorted(listed(page_of(module))) == sorted(public(module))


def test_every_public_module_has_a_page() -> None:
    names = import_module("joker")
    modules = {name for name in names.__all__ if inspect.ismodule(getattr(names, name))}
    contents = (PAGES / "index.rst").read_text(encoding="utf-8")
    assert all(re.search(rf"^   {name}$", contents, re.MULTILINE) for name in modules | {"data"})


def sections(docstring: str) -> dict[str, str]:
    """The text of each section of a docstring in the form of NumPy."""
    parts = SECTION.split(docstring)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(text: str) -> set[str]:
    """The names in a section of parameters."""
    lines = re.findall(r"^(\*{0,2}\w+(?:, \w+)*)(?: :.*)?$", text, re.MULTILINE)
    return {name.strip("*") for line in lines for name in line.split(", ")}


def faults(name: str, value: Any) -> list[str]:
    """Return one sentence for each part that a docstring lacks."""
    text = inspect.getdoc(value) or ""
    found = sections(text)
    result = []
    if ">>>" not in text:
        result.append(f"{name} has no example.")
    if isinstance(value, enum.EnumMeta) or name in READ_ONLY:
        return result
    parameters = inspect.signature(value).parameters
    missing = set(parameters) - documented(found.get("Parameters", ""))
    result += [f"{name} does not describe {parameter}." for parameter in sorted(missing)]
    returns = inspect.isfunction(value) and inspect.signature(value).return_annotation not in (None, "None")
    if returns and not {"Returns", "Yields"} & found.keys():
        result.append(f"{name} does not describe what it returns.")
    return result


@pytest.mark.parametrize("module", MODULES)
def test_every_docstring_is_whole(module: str) -> None:
    values = {name: getattr(import_module(module), name) for name in public(module)}
    described = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert not [line for name, value in described.items() for line in faults(f"{module}.{name}", value)]
    page = page_of(module)
    for name in values.keys() - described.keys():  # a value has no docstring: its page has the example
        assert ">>>" in page[page.index(f".. py:data:: {name}") :]


def test_a_docstring_that_lacks_something_is_found() -> None:
    def f(a: int, b: int) -> int:
        """Return a.

        Parameters
        ----------
        a : int
            A number.
        """
        return a + b

    assert faults("f", f) == ["f has no example.", "f does not describe b.", "f does not describe what it returns."]
