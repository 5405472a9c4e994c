"""Tensors of an object that a checkpoint stores."""

from __future__ import annotations

from typing import Any, ClassVar


class SavedTensors:
    """An object whose moving part is a few tensors: the attributes named in ``saved``."""

    saved: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the tensors."""
        return {name: getattr(self, name).clone() for name in self.saved}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore saved tensors, in place."""
        for name in self.saved:
            getattr(self, name).copy_(saved[name])
