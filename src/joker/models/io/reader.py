"""The contents of a model file, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.errors import InvalidFile
from joker.models.io.container import Document
from joker.models.io.json_values import CustomObjects
from joker.runtime import parse_dtype

Tensors = dict[str, Tensor]
INDEX_TYPES = (torch.int32, torch.int64)


@dataclass(frozen=True)
class ModelReader:
    """The document and the tensors of machines in a file, and the kernel and loss of the user that it needs."""

    document: Document
    tensors: Mapping[str, Tensor]
    custom: CustomObjects

    @property
    def dtype(self) -> torch.dtype:
        """The type of all floating-point tensors."""
        return parse_dtype(self.document["dtype"])

    def take(self, name: str, *, index: bool = False) -> Tensor:
        """Return a tensor; raise InvalidFile if it has the wrong type or entries that are not finite.

        With ``index`` it must hold whole numbers, else numbers of the type of the machine.
        """
        if name not in self.tensors:
            raise InvalidFile(f"there must be a tensor {name!r}; there is none")
        tensor = self.tensors[name]
        if index and tensor.dtype not in INDEX_TYPES:
            raise InvalidFile(f"the tensor {name!r} must hold whole numbers; it is {tensor.dtype}")
        if not index and tensor.dtype != self.dtype:
            raise InvalidFile(f"the tensor {name!r} must be {self.dtype}; it is {tensor.dtype}")
        if not bool(tensor.isfinite().all()):
            raise InvalidFile(f"the tensor {name!r} must be finite; it holds NaN or infinite entries")
        return tensor
