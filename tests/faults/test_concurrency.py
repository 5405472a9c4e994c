"""Fits side by side, in threads and in processes that are forked or spawned, give the model of a fit alone."""

import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from faults.two_fits import model

SECONDS = 60  # after which a fit hangs


def test_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = [model(seed) for seed in range(3)]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(model, range(3)))
        for one, other in zip(alone, found, strict=True):
            np.testing.assert_array_equal(other, one)
        torch.set_num_threads(2)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(model, range(3)))
        assert torch.get_num_threads() == 2  # one thread for small operations is not left behind
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_processes(way: str) -> None:
    """A fork of a process that has fitted has none of its threads, and must not wait for them."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        model(0)
        torch.set_num_threads(1)
        alone = model(0)
        torch.set_num_threads(2)
        with multiprocessing.get_context(way).Pool(2) as pool:
            found = pool.map_async(model, [0, 0]).get(SECONDS)
    finally:
        torch.set_num_threads(before)
    for other in found:
        if way == "fork":  # on one thread
            np.testing.assert_array_equal(other, alone)
        else:
            np.testing.assert_allclose(other, alone, atol=0.1)


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="forks")
def test_threads_of_a_fork() -> None:
    """A forked process computes on one thread; it may be given more."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, str(torch.get_num_threads()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"1"
