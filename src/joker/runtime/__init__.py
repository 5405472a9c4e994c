"""Devices, memory, random numbers, interrupts and files.

This is the only package that uses ``torch.cuda``.
"""

from joker.runtime.devices import (
    DEFAULT_BUDGET,
    VERSION,
    OutOfMemory,
    chunks,
    enough_memory,
    format_bytes,
    format_least,
    free_bytes,
    generator,
    gpus,
    hold_interrupts,
    parse_bytes,
    parse_device,
    parse_dtype,
    peak_bytes,
    physical_bytes,
    release_memory,
    tile_bytes,
    tiles,
    visible,
)

__all__ = [
    "DEFAULT_BUDGET",
    "VERSION",
    "OutOfMemory",
    "chunks",
    "enough_memory",
    "format_bytes",
    "format_least",
    "free_bytes",
    "generator",
    "gpus",
    "hold_interrupts",
    "parse_bytes",
    "parse_device",
    "parse_dtype",
    "peak_bytes",
    "physical_bytes",
    "release_memory",
    "tile_bytes",
    "tiles",
    "visible",
]
