"""The code of the page on adding a kernel runs, and its check finds kernels that are wrong."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from joker.kernels import KERNELS, Gaussian, Laplacian, Matern32, Stationary

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding-a-kernel.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROWS = torch.randn(30, 3, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the code of the page defines, run from top to bottom."""
    names = {"__name__": "page"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))  # the page saves a model
        for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            exec(compile(block, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize("kernel", [kind() for kind in KERNELS.values() if issubclass(kind, Stationary)], ids=repr)
def test_the_check_of_the_page_passes_the_kernels_of_joker(page, kernel):
    page["check"](kernel, ROWS)


@dataclass(frozen=True)
class Distance(Gaussian):
    """Not positive semidefinite."""

    def profile(self, r2):
        return 1 - r2.sqrt()


@dataclass(frozen=True)
class Sided(Gaussian):
    """Not symmetric."""

    def __call__(self, x, z):
        return super().__call__(x, z) * x[:, :1].exp()


@dataclass(frozen=True)
class Wider(Laplacian):
    """Its frequencies are those of another bandwidth."""

    def spectrum(self, d, m, generator):
        return super().spectrum(d, m, generator) / 1.5


@dataclass(frozen=True)
class Heavier(Matern32):
    """Its mixture is that of another order."""

    dof = 1


@dataclass(frozen=True)
class Doubled(Gaussian):
    """Its diagonal is that of another kernel."""

    def diag(self, x):
        return 2 * super().diag(x)


@pytest.mark.parametrize("kernel", [Distance(), Sided(), Wider(), Heavier(), Doubled()], ids=repr)
def test_the_check_of_the_page_finds_mistakes(page, kernel):
    with pytest.raises(AssertionError):
        page["check"](kernel, ROWS)
