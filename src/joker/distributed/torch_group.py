"""Groups of processes on ``torch.distributed``: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from joker.distributed.group import ALONE, Group, Value, activate
from joker.errors import InvalidParameter, ProcessLost
from joker.runtime import use_own_gpu

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
        return self._objects(value, only_first=True)[0]

    def collect(self, value: Value) -> list[Value]:
        return self._objects(value, only_first=False)

    def _objects(self, value: Value, only_first: bool) -> list[Value]:
        """Return the objects of all processes, or of the first, which are sent as bytes."""
        ranks = [0] if only_first else list(range(self.size))
        found = []
        for rank in ranks:
            content = pickle.dumps(value) if rank == self.rank else b""
            length = torch.tensor([len(content)], device=self._device)
            with self._calling("broadcast"):
                dist.broadcast(length, rank, group=self._group)
                data = torch.zeros(int(length), dtype=torch.uint8, device=self._device)
                if rank == self.rank:
                    data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
                dist.broadcast(data, rank, group=self._group)
            found.append(value if rank == self.rank else pickle.loads(data.cpu().numpy().tobytes()))
        return found

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
    if not dist.is_available() or not (dist.is_initialized() or "WORLD_SIZE" in os.environ):
        with activate(ALONE):
            yield ALONE
        return
    began = not dist.is_initialized()
    if began:
        use_own_gpu(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group(timeout=timedelta(seconds=timeout))
    try:
        if dist.get_world_size() == 1:
            with activate(ALONE):
                yield ALONE
        else:
            with activate(TorchGroup(timeout)) as found:
                yield found
    finally:
        if began:
            _end()


def _end() -> None:
    """Leave the process group that was begun here, also where other processes have ended."""
    try:
        dist.destroy_process_group()
    except RuntimeError:  # the connection to a process that has ended is closed already
        return
