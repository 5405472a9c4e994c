"""The defaults that docs/estimators.md and the docstrings of the estimators state are those of the code."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import joker
from joker.losses import Squared
from joker.solvers import Method, ProblemSize
from joker.solvers.methods.greedy_blocks import GreedyBlocks
from joker.solvers.methods.pcg import KernelPcg
from joker.solvers.methods.random_blocks import RandomBlocks

PAGE = Path(__file__).resolve().parents[1] / "docs" / "estimators.md"
ESTIMATORS = [name for name in joker.__all__ if name.startswith("Kernel")]
NUMBER = re.compile(r"\d+(?:,\d{3})*")

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason=f"needs {PAGE}, which an installed package does not have")


def tables(text: str) -> Iterator[tuple[tuple[str, ...], list[list[str]]]]:
    """Return the header and the rows of every Markdown table; cells have no backticks."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = (
            [cell.strip().replace("`", "") for cell in line[1:-1].split("|")] for line in block.split("\n")[:-1]
        )
        yield tuple(head), rows


def rows_of(text: str, *head: str) -> list[list[str]]:
    """Return the rows of the one table whose header starts with ``head``."""
    (found,) = (rows for header, rows in tables(text) if header[: len(head)] == head)
    return found


def defaults(target: Callable[..., Any]) -> dict[str, str]:
    """Return the default of each parameter that has one, as Python writes it."""
    parameters = inspect.signature(target).parameters.values()
    return {one.name: repr(one.default) for one in parameters if one.default is not inspect.Parameter.empty}


def own(estimator: str) -> dict[str, str]:
    """Return the defaults of the settings that not all estimators have."""
    return {name: value for name, value in defaults(getattr(joker, estimator)).items() if name not in SHARED}


# Neither of the two has settings that only some regressors, or only some classifiers, have.
SHARED = dict(defaults(joker.KernelRidge).items() & defaults(joker.KernelLogistic).items())


def disagreements(text: str) -> list[str]:
    """Return one sentence for each default of the page that is not that of the code."""
    stated = {("all", name): value for name, value, *_ in rows_of(text, "setting", "default")}
    stated |= {(kind, name): value for kind, name, value, *_ in rows_of(text, "estimator", "setting", "default")}
    coded = {("all", name): value for name, value in SHARED.items()}
    coded |= {(kind, name): value for kind in ESTIMATORS for name, value in own(kind).items()}
    for call, *_ in rows_of(text, "class of joker.callbacks"):
        node = ast.parse(call, mode="eval").body
        assert isinstance(node, ast.Call)
        kind = ast.unparse(node.func)
        stated |= {(kind, str(word.arg)): ast.unparse(word.value) for word in node.keywords}
        coded |= {(kind, name): value for name, value in defaults(getattr(joker.callbacks, kind)).items()}
    return [
        f"{PAGE.name}: {name} of {kind} is {stated.get((kind, name))}; in the code it is {coded.get((kind, name))}."
        for kind, name in stated.keys() | coded.keys()
        if stated.get((kind, name)) != coded.get((kind, name))
    ]


def test_the_page_states_the_defaults_of_the_code() -> None:
    assert not disagreements(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("| `tol` | `0.001` |", "| `tol` | `0.01` |"),
        ("| `KernelSVR` | `epsilon` | `0.1` |", "| `KernelSVR` | `epsilon` | `0.2` |"),
        ("`EarlyStopping(patience=3,", "`EarlyStopping(patience=5,"),
        ("| `verbose` | `0` |", "| `verbosity` | `0` |"),
    ],
)
def test_a_wrong_default_is_found(right: str, wrong: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert right in text
    assert disagreements(text.replace(right, wrong))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_shared_settings_have_one_default(name: str) -> None:
    own = defaults(getattr(joker, name))
    if "lam" in own:
        assert SHARED.items() <= own.items()
    elif "nu" in own:  # one class: what applies
        assert {setting: own[setting] for setting in SHARED if setting in own}.items() <= SHARED.items()
    else:  # a transformer, whose tolerance and method mean something else
        shared = {setting: own[setting] for setting in SHARED if setting in own and setting not in ("tol", "method")}
        assert shared.items() <= SHARED.items()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_docstring_states_every_default(name: str) -> None:
    text = inspect.getdoc(getattr(joker, name)) or ""
    listed = re.search(r"^Parameters\n-+\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    stated: dict[str, str] = {}
    for names, kind in re.findall(r"^([\w, ]+) : (.*)$", listed[1], re.MULTILINE):
        _, _, value = kind.partition(", default=")
        stated |= dict.fromkeys(names.split(", "), value or ("None" if kind.endswith("optional") else "missing"))
    assert stated == defaults(getattr(joker, name))


# What "auto" stands for


def auto(setting: str) -> list[int]:
    """Return the numbers in the row of a setting in the table of ``'auto'``."""
    (row,) = (
        row for row in rows_of(PAGE.read_text(encoding="utf-8"), "setting", "value of 'auto'") if row[0] == setting
    )
    return [int(number.replace(",", "")) for number in NUMBER.findall(row[1])]


def plan(n: int, d: int = 1, **settings: Any) -> Any:
    """Return the plan of a fit to n rows of d inputs."""
    x = np.zeros((n, d), dtype=np.float32)
    x[:, 0] = np.arange(n)
    return joker.KernelRidge(fit_intercept=False, **settings).plan(x, np.arange(float(n)))


def test_auto_block_size_and_type() -> None:
    one_block, one_greedy_block, features_block, block, direct, _ = auto("block_size")
    x = np.arange(one_greedy_block + 1.0)[:, None]
    assert joker.KernelSVR().plan(x[1:], x[1:, 0]).block_size == one_greedy_block
    assert joker.KernelSVR().plan(x, x[:, 0]).block_size == block
    assert joker.KernelSVR(method="random_blocks").plan(x, x[:, 0]).block_size == len(x)
    small, large = plan(one_block), plan(direct + 1)
    assert (small.block_size, small.dtype) == (one_block, torch.float64)
    assert (large.block_size, large.dtype) == (block, torch.float32)
    assert plan(one_block + 1, n_features=100).block_size == features_block


def test_auto_number_of_epochs() -> None:
    with_features, least, most, *_ = auto("max_epochs")

    def epochs(method: type[Method], rows: int) -> float:
        return method.max_epochs(ProblemSize(loss=Squared(), rows=rows))

    assert epochs(RandomBlocks, 10_000) == with_features == least
    assert epochs(GreedyBlocks, 10) == most
    assert epochs(GreedyBlocks, 10_000) == 500
    assert epochs(KernelPcg, 50_000) == 20
    assert joker.KernelRidge().max_epochs == "auto"


def test_auto_number_of_features() -> None:
    most, m, few_rows, most_again, numbers, *m_again = auto("n_features")
    assert (most_again, m_again) == (most, [m, m])
    assert (plan(most).part, plan(most + 1).part) == (0, m)  # 0 is the exact kernel
    wide, narrow = numbers // few_rows + 1, 2 * numbers // most
    assert (plan(few_rows, wide, kernel="laplacian").part, plan(few_rows + 1, wide, kernel="laplacian").part) == (0, m)
    n = numbers // narrow
    assert (plan(n, narrow, kernel="laplacian").part, plan(n + 1, narrow, kernel="laplacian").part) == (0, m)
    assert plan(3_000, features="fourier").part == m
    assert plan(3_000, 7, kernel="linear").part == 7


def test_auto_memory() -> None:
    assert plan(3_001).scratch == auto("memory")[0] * 2**20


@pytest.mark.gpu
def test_auto_memory_on_a_gpu() -> None:
    assert plan(3_000, device="cuda").scratch == auto("memory")[1] * 2**30


def test_auto_bandwidth(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    for kernel, share in (("gaussian", 0.5), ("laplacian", 0.5), ("matern32", 0.5), ("polynomial", 1.0)):
        found, median = (
            joker.KernelRidge(kernel=kernel, bandwidth=rule).fit(x, y).bandwidth_ for rule in ("auto", "median")
        )
        assert found == pytest.approx(share * median)
    own = joker.kernels.Gaussian(bandwidth=3.0)
    assert joker.KernelRidge(kernel=own).fit(x, y).bandwidth_ == 3.0
