"""What the pages say of names, kinds, settings and defaults is what the code has."""

import inspect
import re
import tomllib
from dataclasses import fields
from importlib import import_module

import pytest
from faults.campaign import PARTS
from repository import ROOT

import joker
from joker import features, kernels, losses
from joker.losses import Loss
from joker.planning import plan as plan_module

DOCS = ROOT / "docs"
ESTIMATORS = [name for name in joker.__all__ if name.startswith(("Joker", "Kernel"))]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason=f"needs {DOCS}")


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def first_cells(text: str, header: str) -> list[list[str]]:
    """The rows of the tables whose first heading is ``header``, each as its cells."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        if head[0] == header:
            found += rows
    return found


def words(cell: str) -> list[str]:
    """The code in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def loss_of(call: str) -> str:
    """The name of the loss of an estimator that a page writes, such as ``KernelSVC(loss="hinge")``."""
    call = re.sub(r",? with .*", "", call)
    model = eval(f"joker.{call}" if "(" in call else f"joker.{call}()", {"joker": joker})
    found: Loss = model._loss()
    found = found.two_classes if isinstance(found, losses.RowLoss) else found
    return next(name for name, kind in losses.NAMES.items() if kind is type(found))


def test_the_page_of_losses_lists_all_with_their_estimators_and_parameters() -> None:
    rows = first_cells(read("losses.md"), "name")
    assert {words(row[0])[0] for row in rows} == losses.NAMES.keys()
    for row in rows:
        (name,) = words(row[0])
        assert loss_of(words(row[-1])[0]) == name
        if len(row) == 5:  # of numbers
            assert words(row[2]) == [field.name for field in fields(losses.NAMES[name])]


def test_the_page_of_kernels_lists_all_with_their_features() -> None:
    text = read("kernels.md")
    rows = first_cells(text, "name")
    assert [words(row[0])[0] for row in rows] == list(kernels.KERNELS)
    gaussian = list(kernels.KERNELS["gaussian"].feature_kinds)
    for row in rows:
        (name,) = words(row[0])
        listed = gaussian if words(row[-1]) == ["gaussian"] else words(row[-1])
        assert listed == list(kernels.KERNELS[name].feature_kinds)
    assert [words(row[0])[0] for row in first_cells(text, "kind")] == list(features.KINDS)
    assert "The default bandwidth is half the median distance" in text
    assert kernels.Kernel.usual_share == 0.5


def test_the_table_of_the_mathematics_has_every_loss() -> None:
    rows = first_cells(read("mathematics.md"), "loss")
    assert len(rows) == len(losses.NAMES)


def test_the_page_of_the_installation_lists_the_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"dev", "docs", "test"}
    text = read("install.md")
    assert {words(row[0])[0] for row in first_cells(text, "extra")} == extras
    python = project["requires-python"].removeprefix(">=")
    torch = next(need for need in project["dependencies"] if need.startswith("torch")).removeprefix("torch>=")
    assert f"It needs Python {python} or later and PyTorch {torch} or later" in text


def settings() -> set[str]:
    """The parameters of all estimators, of kernels, and of `joker.tune`."""
    others = [joker.tune, joker.load, joker.KernelRidge.fit, *kernels.KERNELS.values()]
    callables = [getattr(joker, name) for name in ESTIMATORS] + others
    return {name for one in callables for name in inspect.signature(one).parameters}


@pytest.mark.parametrize("name", ["svc", "xgboost", "falkon", "thundersvm"])
def test_pages_for_users_of_other_programs_name_settings_that_exist(name: str) -> None:
    text = read(f"coming-from-{name}.md")
    (head,) = re.findall(r"^\| .*\| joker \| \|$", text, re.MULTILINE)
    rows = first_cells(text, head.strip("| ").split(" | ")[0].strip())
    assert len(rows) > 8
    known = settings()
    for row in rows:
        for code in words(row[1]):
            assert set(re.findall(r"(\w+)\s?=", code)) <= known, code
            for word in re.findall(r"\b(?:Kernel|Joker)\w+", code):
                assert word in ESTIMATORS
            if re.fullmatch(r"[a-z_]+", code):
                assert code in known | {"dual_coef_", "feature_importances_", "save"}, code


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_settings_with_a_value_that_is_called_the_default_have_it(page: str) -> None:
    """Sentences such as: `tol=0.001` is the default."""
    for code in re.findall(r"`(\w+=[^`]+)` is the default", read(page)):
        name, _, value = code.partition("=")
        stated = eval(value, {})
        signatures = [inspect.signature(getattr(joker, one)).parameters for one in ESTIMATORS]
        defaults = [one[name].default for one in signatures if name in one]
        assert stated in defaults, f"{page}: {code}"


def test_the_page_on_serving_lists_the_metadata_and_outputs() -> None:
    import numpy as np

    from joker.export.estimators import DECISION, INPUTS, LABEL, PREDICTION, PROBABILITIES
    from joker.export.onnx_file import metadata

    text = read("serving.md")
    (listed,) = (words(row[1]) for row in first_cells(text, "part of the file") if row[0] == "metadata")
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = joker.KernelSVC().fit(x, x[:, 0] > 0)
    assert set(listed) - {"columns", "target"} == metadata(model).keys()  # the array has no names
    assert all(f"`{name}`" in text for name in (DECISION, INPUTS, LABEL, PREDICTION, PROBABILITIES))


def test_the_page_of_faults_has_every_part_and_names_of_the_code() -> None:
    rows = first_cells(read("faults.md"), "part")
    assert {words(test)[0]: part for part, *_, test in rows} == {name: part.title for name, part in PARTS.items()}
    for name in (name for row in rows for name in words(row[2])):
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), name


@pytest.mark.parametrize("page", ["memory.md", "faq.md"])
def test_the_pages_state_the_memory_of_the_libraries(page: str) -> None:
    (found,) = re.findall(r"(\d+) MB of (?:code and buffers|it are libraries)", read(page))
    assert int(found) * 10**6 == plan_module.CPU_LIBRARIES
