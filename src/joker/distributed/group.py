"""The processes that solve one problem together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from joker.distributed.facts import decoded, described, encoded, first_difference
from joker.distributed.meeting import initialise
from joker.errors import InvalidParameter, ProcessesDiffer, ProcessLost
from joker.runtime.devices import use_own_gpu

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
        """Replace a tensor by that of rank 0, in place, and return it."""
        return tensor

    def sum_bytes_(self, tensor: Tensor) -> Tensor:
        """Replace bytes in host memory by their sum over the processes, in place, and return them.

        Where each byte is 0 in all processes but one, the result has the bytes that any of them has.
        """
        return tensor

    def decide(self, value: Value) -> Value:
        """Return the value of rank 0, which is sent as JSON: numbers, text, lists and dictionaries of them."""
        return value

    def decide_slices(self, parts: list[slice]) -> list[slice]:
        """Return the slices of rank 0."""
        return [slice(start, stop) for start, stop in self.decide([(part.start, part.stop) for part in parts])]

    def collect(self, value: Value) -> list[Value]:
        """Return the values of all processes, by rank; each is sent as JSON."""
        return [value]

    def numbers(self, *values: float) -> tuple[float, ...]:
        """Return the numbers of rank 0, which takes less time than `decide`."""
        return values

    def check_equal(self, facts: Mapping[str, Any]) -> None:
        """Raise `joker.errors.ProcessesDiffer` in every process where a fact is not the same in all of them.

        Numbers that are not whole may differ by the rounding errors of another processor.
        """
        everything = self.collect(described(facts))
        for rank, others in enumerate(everything):
            if found := first_difference(everything[0], others):
                raise ProcessesDiffer(
                    f"all processes of a group must have the same {found.name}; process 0 has {found.first} and "
                    f"process {rank} has {found.other}. Give every process the same data, settings and versions of "
                    "joker and torch."
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


TIMEOUT = 60.0  # seconds that a process waits for the others


class TorchGroup(Group):
    """All processes of the process group that ``torch.distributed`` has initialised.

    Parameters
    ----------
    timeout : float
        Seconds that a process waits for the others.

    Examples
    --------
    `joker.distributed.group` makes it where several processes were started:

    >>> import joker
    >>> with joker.distributed.group() as processes:
    ...     isinstance(processes, joker.distributed.TorchGroup)
    False
    """

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.timeout, self.sent = timeout, 0
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        with self._calling("first message"):
            # A group of our own: its limit of time is ours, and no operation of the caller comes between.
            self._group = dist.new_group(timeout=timedelta(seconds=timeout))

    def sum_(self, tensor: Tensor) -> Tensor:
        with self._calling("sum"):
            dist.all_reduce(self._counted(tensor), group=self._group)
        return tensor

    def whole(self, own: Tensor, n: int) -> Tensor:
        parts = [self.part(n, rank) for rank in range(self.size)]
        longest = max(part.stop - part.start for part in parts)
        given = own.new_zeros(longest, *own.shape[1:])
        given[: len(own)] = own
        found = [torch.empty_like(given) for _ in parts]
        with self._calling("gather"):
            dist.all_gather(found, self._counted(given), group=self._group)
        return torch.cat([part[: at.stop - at.start] for part, at in zip(found, parts, strict=True)])

    def broadcast_(self, tensor: Tensor) -> Tensor:
        with self._calling("broadcast"):
            dist.broadcast(self._counted(tensor), 0, group=self._group)
        return tensor

    def sum_bytes_(self, tensor: Tensor) -> Tensor:
        found = self.sum_(tensor.to(self._device))
        return tensor if found is tensor else tensor.copy_(found)

    def numbers(self, *values: float) -> tuple[float, ...]:
        return tuple(self.broadcast_(torch.tensor(values, dtype=torch.float64, device=self._device)).tolist())

    def decide(self, value: Value) -> Value:
        sent = encoded(value)
        length = torch.tensor([len(sent)], device=self._device)
        with self._calling("broadcast"):
            dist.broadcast(length, 0, group=self._group)
            buffer = sent.to(self._device) if not self.rank else self._bytes(int(length))
            dist.broadcast(buffer, 0, group=self._group)
        found: Value = decoded(buffer)
        return found

    def collect(self, value: Value) -> list[Value]:
        sent = encoded(value)
        with self._calling("gather"):
            lengths = [torch.zeros(1, dtype=torch.int64, device=self._device) for _ in range(self.size)]
            dist.all_gather(lengths, torch.tensor([len(sent)], device=self._device), group=self._group)
            given = self._bytes(max(map(int, lengths)))
            given[: len(sent)] = sent
            found = [torch.empty_like(given) for _ in lengths]
            dist.all_gather(found, given, group=self._group)
        return [decoded(buffer[: int(length)]) for buffer, length in zip(found, lengths, strict=True)]

    def _bytes(self, length: int) -> Tensor:
        return torch.zeros(length, dtype=torch.uint8, device=self._device)

    @property
    def _device(self) -> torch.device:
        """Where small messages are: NCCL sends from GPUs only."""
        return torch.device("cuda" if dist.get_backend(self._group) == "nccl" else "cpu")

    def _counted(self, tensor: Tensor) -> Tensor:
        self.sent += tensor.numel() * tensor.element_size()
        return tensor

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # also dist.DistBackendError
            raise ProcessLost(
                f"all {self.size} processes of a group must take part in each step; process {self.rank} got no answer "
                f"to its {what}: another process has ended, or did not answer within {self.timeout:g} s. Read what "
                "the process that ended first has printed, and start all of them again."
            ) from error


@contextmanager
def group(timeout: float = TIMEOUT) -> Iterator[Group]:
    """Let all fits inside be done by all processes of ``torch.distributed`` together.

    Each process runs the same program on the same data. It is started by ``torchrun``, by Ray, or by any launcher that
    initialises ``torch.distributed`` or sets its environment variables; without them, one process works alone. Where
    this initialises it, ``device="cuda"`` is the GPU with the number ``$LOCAL_RANK``: the processes of a computer have
    a GPU each.

    Parameters
    ----------
    timeout : float
        Seconds that a process waits for the others before it gives up.

    Yields
    ------
    Group
        The group, with the ``rank`` of this process and its ``size``.

    Examples
    --------
    >>> import joker, numpy as np
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> with joker.distributed.group() as processes:
    ...     model = joker.KernelRidge(lam=1e-3).fit(X, np.sin(X[:, 0]))
    >>> processes.size
    1
    """
    if not timeout > 0:
        raise InvalidParameter(f"timeout must be a positive number of seconds; got timeout={timeout!r}. Use 60.")
    several = dist.is_available() and (dist.is_initialized() or "WORLD_SIZE" in os.environ)
    began = several and not dist.is_initialized()
    if began:
        use_own_gpu(int(os.environ.get("LOCAL_RANK", "0")))
        initialise(timeout)
    try:
        with activate(TorchGroup(timeout) if several and dist.get_world_size() > 1 else ALONE) as found:
            yield found
    finally:
        if began:
            with suppress(RuntimeError):  # the connection to a process that has ended is closed already
                dist.destroy_process_group()
