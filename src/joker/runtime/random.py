"""Random number generators, one for each purpose."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, name: str) -> torch.Generator:
    """A generator of its own for each ``(seed, name)``, so that no draw disturbs another.

    It lives on the CPU whatever the device: draws are made there and moved, and so are
    the same on every machine.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest, "little") >> 1)
