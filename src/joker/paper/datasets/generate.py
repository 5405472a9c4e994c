"""Generated rows with the shape of large data sets, to measure time and memory, not accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.data.sources import Batch
from joker.data.sources.base import TableSource
from joker.errors import InvalidParameter, UnknownName
from joker.runtime import generator

DRAWN_BYTES = 2**21  # of float32 numbers that are drawn at a time
INFORMATIVE = 6  # columns that depend on the class
IMAGE = (32, 32, 3)
CLASSES = 10

Drawn = tuple[NDArray[Any], NDArray[Any]]  # (k, d) and (k,)


@dataclass(frozen=True)
class Shape:
    """The properties that generated rows share with a data set: number and type of inputs, shares of classes."""

    width: int
    dtype: np.dtype[Any]
    draw: Callable[[torch.Generator, int, int], Drawn]  # (generator, seed, number of rows)


@dataclass(frozen=True, eq=False)
class GeneratedSource(TableSource):
    """Generated rows, which depend on the name and the seed only, not on the size of batches."""

    rows: int
    shape: Shape
    kind: str
    seed: int

    def read(self, rows: int) -> Iterator[Batch]:
        block = max(1, DRAWN_BYTES // (4 * self.shape.width))
        for start in range(0, self.rows, block):
            x, y = self.shape.draw(generator(self.seed, f"{self.kind}/{start // block}"), self.seed, block)
            count = min(block, self.rows - start)
            for first in range(0, count, rows):
                part = slice(first, min(first + rows, count))
                yield Batch(x[part], y[part], start + first)


def generate(name: str, n: int, seed: int = 0) -> GeneratedSource:
    """Return n generated rows with the shape of a data set.

    They have its number and type of inputs and its shares of classes, and the classes can be learned. In all other
    respects they are different. The columns are named ``generated0``, ``generated1``, ..., so that a result is not
    mistaken for one on the real data.

    Parameters
    ----------
    name : {"higgs", "susy", "cifar5m", "msd", "hepc"}
        The data set. higgs and susy have 28 and 18 inputs in float32 and two classes, cifar5m has 3,072 inputs in uint8
        and ten classes, msd and hepc have 90 and 11 inputs in float32 and a number as target.
    n : int
        The number of rows. The first rows do not depend on it.
    seed : int
        The seed.

    Examples
    --------
    >>> source = generate("higgs", 1000)
    >>> source.schema.width, source.rows, source.name
    (28, 1000, 'generated rows of the shape of higgs')
    """
    if name not in SHAPES:
        raise UnknownName.among("name", name, SHAPES)
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise InvalidParameter(f"n must be a whole number of at least 1; got {n!r}. Use 1000000.")
    shape = SHAPES[name]
    schema = Schema.numbers([f"generated{j}" for j in range(shape.width)], "label")
    title = f"generated rows of the shape of {name}"
    return GeneratedSource(title, schema, shape.dtype, int(n), shape, f"generate/{name}", int(seed))


def _particles(width: int, share: float) -> Shape:
    """Return the shape of two classes that differ in the correlation of pairs of columns, which is not linear."""

    def draw(source: torch.Generator, seed: int, rows: int) -> Drawn:
        y = torch.rand(rows, generator=source) < share
        x = torch.randn(rows, width, generator=source)
        sign = torch.where(y, 1.0, -1.0)[:, None]
        x[:, :INFORMATIVE:2] += 0.8 * sign * x[:, 1:INFORMATIVE:2]
        x[:, -2:] = x[:, -2:].exp()  # as energies, they are not normally distributed
        return x.numpy(), y.numpy().astype(np.float64)

    return Shape(width, np.dtype(np.float32), draw)


def _numbers(width: int, centre: float, spread: float) -> Shape:
    """Return the shape of a regression with a nonlinear function and noise."""

    def draw(source: torch.Generator, seed: int, rows: int) -> Drawn:
        x = torch.randn(rows, width, generator=source)
        y = x[:, 0].sin() + 0.5 * x[:, 1] * x[:, 2] + 0.1 * torch.randn(rows, generator=source)
        return x.numpy(), (centre + spread * y).numpy().astype(np.float64)

    return Shape(width, np.dtype(np.float32), draw)


def _images(source: torch.Generator, seed: int, rows: int) -> Drawn:
    """Return images of ten classes: a coarse pattern for each class, and noise."""
    y = torch.randint(CLASSES, (rows,), generator=source)
    noise = torch.randn(rows, *IMAGE, generator=source)
    x = noise.mul_(50).add_(_patterns(seed)[y]).clamp_(0, 255).to(torch.uint8)
    return x.reshape(rows, -1).numpy(), y.numpy()


@lru_cache(maxsize=2)
def _patterns(seed: int) -> torch.Tensor:  # (CLASSES, *IMAGE)
    """Return an image of 4 × 4 patches for each class."""
    coarse = torch.randn(CLASSES, 4, 4, IMAGE[2], generator=generator(seed, "generate/patterns"))
    return 128 + 30 * coarse.repeat_interleave(8, 1).repeat_interleave(8, 2)


SHAPES = {
    "higgs": _particles(28, 0.530),  # the share of signal rows
    "susy": _particles(18, 0.458),  # the share of signal rows
    "msd": _numbers(90, 1998.0, 11.0),  # approximate mean and standard deviation of the years
    "hepc": _numbers(11, -0.3, 1.0),  # approximate mean and standard deviation of the log of the power
    "cifar5m": Shape(32 * 32 * 3, np.dtype(np.uint8), _images),
}
