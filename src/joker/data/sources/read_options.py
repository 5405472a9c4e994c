"""The options with which a table is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joker.data.schema import Schema
from joker.data.sources.column_selection import Name
from joker.errors import InvalidParameter

MAX_INPUTS = 1_000_000  # columns of LIBSVM text, unless the user allows more


@dataclass(frozen=True)
class ReadOptions:
    """A path and the options with which it is read, as :func:`joker.data.open_source` has them."""

    path: Path
    target: Name | None = None
    columns: Sequence[Name] | None = None
    header: bool | str = "auto"
    one_hot: bool = False
    schema: Schema | None = None
    delimiter: str | None = None
    inputs: str | None = None
    dtype: np.dtype[Any] | None = None
    max_inputs: int = MAX_INPUTS
    decimal: str | None = None
    drop: Sequence[Name] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.max_inputs, int) or isinstance(self.max_inputs, bool) or self.max_inputs < 1:
            raise InvalidParameter(
                f"max_inputs must be a whole number of at least 1; got {self.max_inputs!r}. Use {MAX_INPUTS}."
            )

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return str(self.path)

    def without(self, *options: str) -> ReadOptions:
        """Raise InvalidParameter for options that have no meaning for this kind of file; return the options."""
        defaults = ReadOptions(self.path)
        for option in options:
            if (value := getattr(self, option)) != getattr(defaults, option):
                raise InvalidParameter(
                    f"{self.path}: {option} must not be given for this kind of file, where it has no meaning; got "
                    f"{value!r}. Leave it out."
                )
        return self
