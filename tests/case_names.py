"""Names of parametrised cases that are the same in every process."""

import re


def without_address(value: object) -> str:
    """Like repr, without the address in memory that a function shows."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
