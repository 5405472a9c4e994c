"""Random number generators, one for each purpose."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, name: str) -> torch.Generator:
    """Return a generator for each pair ``(seed, name)``, so that the draws of one do not change those of another.

    It is always on the CPU: numbers are drawn there and copied to the device, and are so the same on every device.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest, "little") >> 1)
