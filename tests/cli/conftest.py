"""A full disk, for the tests of the program."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import pytest


class Limit(Protocol):
    """Limits the size of every file, in bytes, during a ``with`` block."""

    def __call__(self, size: int) -> AbstractContextManager[None]: ...


@pytest.fixture
def small_files() -> Limit:
    resource = pytest.importorskip("resource")

    @contextmanager
    def limit(size: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))  # Python ignores the signal, so that a write fails
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit
