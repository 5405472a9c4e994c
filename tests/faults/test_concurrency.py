"""Fits side by side, in threads and in processes that are forked or spawned, give the model of a fit alone."""

import multiprocessing
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from faults.campaign import VERIFIED, count
from faults.two_fits import model

import joker
from joker.callbacks import Checkpoint
from joker.runtime.files import replace_file

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


WRITERS = 4
ROWS = np.random.default_rng(0).normal(size=(60, 2))
SMALL = joker.KernelRidge(random_state=0).fit(ROWS, ROWS[:, 0])
OTHER = joker.KernelRidge(random_state=0, lam=10.0).fit(ROWS, ROWS[:, 1])


def save_many(folder: Path, saves: int, number: int) -> None:
    """Save models under names of this process, beside a checkpoint that is written again and again."""
    state = joker.KernelRidge(
        n_features=5,
        block_size=10,
        random_state=0,
        tol=0,
        max_epochs=saves,
        callbacks=[Checkpoint(folder / f"{number}")],
    )
    state.fit(ROWS, ROWS[:, 0])
    for save in range(saves):
        SMALL.save(folder / f"{number}.{save}.joker")


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*max_epochs:UserWarning")
@pytest.mark.parametrize("saves", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_saves_side_by_side_in_one_folder(tmp_path: Path, saves: int) -> None:
    """No process removes the file that another one is writing."""
    with multiprocessing.get_context("fork").Pool(WRITERS) as pool:
        pool.map_async(partial(save_many, tmp_path, saves), range(WRITERS)).get(SECONDS)
    expected = SMALL.predict(ROWS)
    wanted = {f"{number}.{save}.joker" for number in range(WRITERS) for save in range(saves)}
    assert {path.name for path in tmp_path.iterdir()} == wanted | {str(number) for number in range(WRITERS)}
    for name in wanted:
        np.testing.assert_array_equal(joker.load(tmp_path / name).predict(ROWS), expected)
        count(VERIFIED)


def replace_often(path: Path, times: int, _: int) -> None:
    for number in range(times):
        (SMALL, OTHER)[number % 2].save(path)


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="forks")
@pytest.mark.parametrize("times", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_file_that_is_replaced_again_and_again_is_always_one_of_the_two_models(tmp_path: Path, times: int) -> None:
    path = tmp_path / "m.joker"
    SMALL.save(path)
    both = [one.predict(ROWS) for one in (SMALL, OTHER)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        writers = pool.map_async(partial(replace_often, path, times), range(2))
        while not writers.ready():
            found = joker.load(path).predict(ROWS)
            assert any(np.array_equal(found, one) for one in both)
            count(VERIFIED)
        writers.get(SECONDS)
    assert [one.name for one in tmp_path.iterdir()] == ["m.joker"]


def write_slowly(folder: Path, started: str, _: int) -> None:
    with replace_file(folder / "slow", "x") as file:
        file.write(b"half")
        file.flush()
        (folder / started).touch()
        end = time.monotonic() + SECONDS  # of a writer whose parent has failed
        while not (folder / "enough").exists() and time.monotonic() < end:
            time.sleep(0.01)
        file.write(b" and half")


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="forks")
def test_an_unfinished_file_is_left_alone_by_every_kind_of_writer(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        writer = pool.map_async(partial(write_slowly, tmp_path, "started"), range(1))
        while not (tmp_path / "started").exists() and not writer.ready():
            pass
        save_many(tmp_path, 2, 0)
        (tmp_path / "enough").touch()
        writer.get(SECONDS)
    assert (tmp_path / "slow").read_bytes() == b"half and half"
