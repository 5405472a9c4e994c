"""How the processes that a launcher has started find one another."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from threading import Thread
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from joker.errors import InvalidParameter, ProcessLost

IN_USE = "EADDRINUSE"  # in the error of torch
HERE = "joker/{}"  # the key of a process
MARGIN = 2.0  # seconds after which torch has raised the error of a limit of time, where it has one


def initialise(timeout: float) -> None:
    """Initialise ``torch.distributed`` from the variables of a launcher, or raise ProcessLost in time."""
    address, port = (os.environ.get(name, f"${name}") for name in ("MASTER_ADDR", "MASTER_PORT"))
    found = _met(address, port, timeout)
    if not isinstance(found, Exception):
        store, rank, size = found
        try:
            dist.init_process_group(store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
        except RuntimeError as error:  # also dist.DistNetworkError and dist.DistStoreError
            found = error
        else:
            return
    if isinstance(found, ValueError):  # of torch, for a variable that is absent or no number
        raise InvalidParameter(
            "the processes of a group must be started with the variables RANK, WORLD_SIZE, MASTER_ADDR and "
            f"MASTER_PORT; {found}. Start them by torchrun, which sets all of them."
        ) from found
    reason = "another program uses that port" if IN_USE in str(found) else "not all of them have answered there"
    raise ProcessLost(
        f"all {os.environ['WORLD_SIZE']} processes of a group must start, and meet at {address}:{port} within "
        f"{timeout:g} s; for process {os.environ.get('RANK')}, {reason}. Start all of them, with the same MASTER_ADDR "
        "and a MASTER_PORT that is free."
    ) from found


def _met(address: str, port: str, timeout: float) -> tuple[Any, int, int] | Exception:
    """Return the store of keys in which processes meet, the rank of this one and their number, or an error."""
    met: list[tuple[Any, int, int] | Exception] = []

    def meet() -> None:
        try:
            if os.environ.get("RANK", "0") != "0" and port.isdigit():
                _wait_for_listener(address, int(port), timeout)
            limit = timedelta(seconds=timeout)
            store, rank, size = next(rendezvous("env://", timeout=limit))
            # One that counts on more processes is missed here; the next step tries for several times the limit.
            store.set(HERE.format(rank), str(size))
            store.wait([HERE.format(other) for other in range(size)], limit)
            met.append((store, rank, size))
        except Exception as error:
            met.append(error)

    # Torch does not limit the time in which it waits for the answer of another program that uses the port.
    thread = Thread(target=meet, daemon=True)
    thread.start()
    thread.join(timeout + MARGIN)
    return met.pop() if met else TimeoutError()


def _wait_for_listener(address: str, port: int, timeout: float) -> None:
    """Wait until a process listens there; torch, which waits for up to twice the time, prints its own stack."""
    end = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((address, port), timeout).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
