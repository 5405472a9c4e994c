"""What a user asks of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joker.data.schema import Schema
from joker.data.sources.column_selection import Name
from joker.errors import InvalidParameter


@dataclass(frozen=True)
class Wish:
    """A path and the options that say how it is read."""

    path: Path
    target: Name | None = None
    columns: Sequence[Name] | None = None
    header: bool | str = "auto"
    one_hot: bool = False
    schema: Schema | None = None
    delimiter: str | None = None
    inputs: str | None = None
    dtype: np.dtype[Any] | None = None

    @property
    def name(self) -> str:
        """What messages call the file."""
        return str(self.path)

    def without(self, *options: str) -> Wish:
        """Refuse options that mean nothing for this kind of file."""
        usual = Wish(self.path)
        for option in options:
            if (value := getattr(self, option)) != getattr(usual, option):
                raise InvalidParameter(
                    f"{self.path}: {option} must not be given for this kind of file, where it means nothing; got "
                    f"{value!r}. Leave it out."
                )
        return self
