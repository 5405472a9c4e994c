"""Devices, memory, random numbers, interrupts and files.

This is the only package that uses ``torch.cuda``.
"""

from joker.runtime.devices import (
    capability,
    gpus,
    multiprocessors,
    nearest_device,
    on_device,
    parse_device,
    parse_dtype,
    use_own_gpu,
)
from joker.runtime.interrupts import hold_interrupts
from joker.runtime.memory import (
    DEFAULT_BUDGET,
    OutOfMemory,
    chunks,
    enough_memory,
    format_bytes,
    free_bytes,
    parse_bytes,
    peak_bytes,
    physical_bytes,
    release_memory,
    tile_bytes,
    tiles,
)
from joker.runtime.random import generator
from joker.runtime.version import VERSION

__all__ = [
    "DEFAULT_BUDGET",
    "VERSION",
    "OutOfMemory",
    "capability",
    "chunks",
    "enough_memory",
    "format_bytes",
    "free_bytes",
    "generator",
    "gpus",
    "hold_interrupts",
    "multiprocessors",
    "nearest_device",
    "on_device",
    "parse_bytes",
    "parse_device",
    "parse_dtype",
    "peak_bytes",
    "physical_bytes",
    "release_memory",
    "tile_bytes",
    "tiles",
    "use_own_gpu",
]
