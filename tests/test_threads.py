"""Threads share out tiles; a single operation runs on one thread."""

from __future__ import annotations

import threading

import pytest
import torch
from threadpoolctl import threadpool_info

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
