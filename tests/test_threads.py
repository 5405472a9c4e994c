"""Threads share out tiles; a single operation runs on one thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info

from joker.runtime import devices
from joker.runtime.devices import one_blas_thread, one_thread, share, thread_count


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_one_thread_is_undone_also_after_an_error() -> None:
    def fail() -> None:
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert torch.get_num_threads() == 1
            assert thread_count() == 2
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert torch.get_num_threads() == thread_count() == 2
    with one_thread(False):
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize("inside", [False, True])
def test_parts_are_shared_out_and_each_runs_on_one_thread(inside: bool) -> None:
    seen, meet = [], threading.Barrier(2, timeout=20)

    def work(part: int) -> None:
        if part < 2:
            meet.wait()  # ends only if two threads work at the same time
        seen.append((part, torch.get_num_threads()))

    with one_thread(inside):
        share(work, range(6))
    assert sorted(seen) == [(part, 1) for part in range(6)]
    assert torch.get_num_threads() == 2


def test_at_most_as_many_threads_as_asked_for() -> None:
    names: set[str] = set()
    share(lambda _: names.add(threading.current_thread().name), range(9), 1)
    assert names == {threading.current_thread().name}


def test_an_error_of_a_part_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        share(lambda part: 1 // part, [1, 0, 2])
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, sys.maxsize),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, sys.maxsize),
        ({}, sys.maxsize),
    ],
)
def test_the_processor_time_of_a_container_is_respected(
    files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(devices, "CGROUP", tmp_path)
    assert devices.cores_of_container(tmp_path) == cores
    assert thread_count() == min(2, cores)


@pytest.mark.parametrize(
    ("variables", "bound_to", "threads"), [({"OMP_NUM_THREADS": "1"}, None, 1), ({}, 1, 1), ({}, None, None)]
)
def test_threads_are_those_of_the_environment_and_are_restored_after_a_fit(
    variables: dict[str, str], bound_to: int | None, threads: int | None
) -> None:
    if bound_to and not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system binds no process to cores")
    program = f"""
import os
if {bound_to}:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{bound_to}])
import numpy as np, torch, joker
from joker.runtime.devices import thread_count
before = torch.get_num_threads()
x = np.random.default_rng(0).normal(size=(2_200, 3))
joker.KernelSVC(max_epochs=1, tol=0.5).fit(x, x[:, 0] > 0).predict(x)
assert torch.get_num_threads() == before
print(before, thread_count())
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "MKL_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, used = map(int, done.stdout.split())
    assert used <= before
    assert threads is None or before == threads


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_of_blas_is_undone_when_the_last_thread_leaves() -> None:
    with one_blas_thread():  # loads what is loaded once
        assert blas_threads() == {1}
    before = blas_threads()
    seen = []

    def work(part: int) -> None:
        for _ in range(50):
            with one_blas_thread():
                seen.append(blas_threads())

    threads = [threading.Thread(target=work, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{1}] * 150
    assert blas_threads() == before
    with one_blas_thread(False):
        assert blas_threads() == before
