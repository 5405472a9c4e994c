"""The processes that solve one problem together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

from joker.errors import ProcessesDiffer

Value = TypeVar("Value")


class Group:
    """The processes of a solve, each with a rank. This class is one process alone, for which nothing has to be sent.

    Every process of a group must call the same operations in the same order.

    Examples
    --------
    >>> from joker.distributed import Group
    >>> Group().rank, Group().size, Group().part(10)
    (0, 1, slice(0, 10, None))
    """

    rank, size = 0, 1
    sent = 0
    """Bytes of the tensors that this process has given to `sum_`, `sum_bytes_`, `whole` and `broadcast_`."""

    def part(self, n: int, rank: int | None = None) -> slice:
        """Return the part of n rows or features that a process owns, this one by default; parts are in order."""
        rank = self.rank if rank is None else rank
        return slice(n * rank // self.size, n * (rank + 1) // self.size)

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by its sum over the processes, in place, and return it."""
        return tensor

    def whole(self, own: Tensor, n: int) -> Tensor:  # (k, t) -> (n, t)
        """Return all n rows, of which each process has its part."""
        return own

    def broadcast_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by that of the first process, in place, and return it."""
        return tensor

    def sum_bytes_(self, tensor: Tensor) -> Tensor:
        """Replace bytes in host memory by their sum over the processes, in place, and return them.

        Where each byte is 0 in all processes but one, the result has the bytes that any of them has.
        """
        return tensor

    def decide(self, value: Value) -> Value:
        """Return the value of the first process."""
        return value

    def collect(self, value: Value) -> list[Value]:
        """Return the values of all processes, by rank."""
        return [value]

    def numbers(self, *values: float) -> tuple[float, ...]:
        """Return the numbers of the first process, which takes less time than `decide`."""
        return values

    def check_equal(self, facts: Mapping[str, Any]) -> None:
        """Raise `ProcessesDiffer` in every process where a fact is not the same in all of them."""
        everything = self.collect(dict(facts))
        for rank, others in enumerate(everything):
            for name in everything[0]:
                if others.get(name) != everything[0][name]:
                    raise ProcessesDiffer(
                        f"all processes of a group must have the same {name}; process 0 has {everything[0][name]!r} "
                        f"and process {rank} has {others.get(name)!r}. Give every process the same data, settings and "
                        "version of joker."
                    )


ALONE = Group()
_active: list[Group] = [ALONE]


def current() -> Group:
    """Return the group of the fits of this process.

    Returns
    -------
    Group
        The group; that of one process outside `joker.distributed.group`.

    Examples
    --------
    >>> import joker
    >>> joker.distributed.current().size
    1
    """
    return _active[-1]


@contextmanager
def activate(group: Group) -> Iterator[Group]:
    """Let all fits of this process be fits of the group.

    Parameters
    ----------
    group : Group
        The group.

    Yields
    ------
    Group
        The same group.

    Examples
    --------
    >>> from joker.distributed import ALONE, activate, current
    >>> with activate(ALONE):
    ...     print(current().rank)
    0
    """
    _active.append(group)
    try:
        yield group
    finally:
        _active.remove(group)
