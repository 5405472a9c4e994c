"""Warnings that fits ignore: in their own thread, and nothing of it remains where fits in threads overlap."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import joker
from joker.runtime.warning_filters import ignoring
from joker.tables import estimator

Work = Callable[[Callable[[], None]], None]


def overlapping(first: Work, second: Work) -> None:
    """Begin the first, begin the second, end the first and end the second; each calls what it is given in between."""
    begun, ended, errors = threading.Event(), threading.Event(), []

    def in_thread(work: Work, between: Callable[[], None], last: threading.Event) -> None:
        try:
            work(between)
        except BaseException as error:
            errors.append(error)
        finally:
            last.set()

    def start_second() -> None:
        other.start()
        assert begun.wait(30)

    def wait_for_first() -> None:
        begun.set()
        assert ended.wait(30)

    other = threading.Thread(target=in_thread, args=(second, wait_for_first, begun))
    one = threading.Thread(target=in_thread, args=(first, start_second, ended))
    one.start()
    one.join(60)
    other.join(60)
    assert not errors, errors


def test_one_thread_ignores_and_another_does_not() -> None:
    before = list(warnings.filters)

    def ignore(between: Callable[[], None]) -> None:
        with ignoring("many rows", "few rows"), ignoring(category=DeprecationWarning):
            warnings.warn("few rows, and", UserWarning, stacklevel=1)
            warnings.warn("anything", DeprecationWarning, stacklevel=1)
            with pytest.raises(UserWarning, match="too few rows"):
                warnings.warn("too few rows", UserWarning, stacklevel=1)
            between()
            warnings.warn("few rows", UserWarning, stacklevel=1)

    def warn(between: Callable[[], None]) -> None:
        with pytest.raises(UserWarning, match="few rows"):
            warnings.warn("few rows", UserWarning, stacklevel=1)
        with ignoring():
            between()
            warnings.warn("few rows", UserWarning, stacklevel=1)

    overlapping(ignore, warn)
    assert warnings.filters == before


def test_filters_that_another_program_restores_ignore_nothing() -> None:
    before = list(warnings.filters)
    others = warnings.catch_warnings()
    with ignoring():
        others.__enter__()
        with warnings.catch_warnings():
            warnings.warn("a copy of the filters", UserWarning, stacklevel=1)
    others.__exit__(None, None, None)
    assert warnings.filters == before
    with pytest.raises(UserWarning, match="nothing"):
        warnings.warn("nothing", UserWarning, stacklevel=1)


def test_overlapping_fits_of_tables_leave_the_filters_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"size": np.arange(60.0).tolist(), "kind": ["a", "b"] * 30}
    before, waiting = list(warnings.filters), {}

    def fit_table(problem: Any, *others: Any) -> Any:
        waiting.pop(threading.get_ident())()
        raise ArithmeticError

    monkeypatch.setattr(estimator, "fit_table", fit_table)

    def fit(between: Callable[[], None]) -> None:
        waiting[threading.get_ident()] = between
        with pytest.raises(ArithmeticError):
            joker.JokerClassifier(effort=1, random_state=0).fit(table, ["x", "x", "y"] * 20)

    overlapping(fit, fit)
    assert warnings.filters == before
