"""Every error has JokerError and a built-in error as bases."""

import inspect
import pickle

import pytest

from joker import errors
from joker.errors import (
    BudgetTooSmall,
    CaptureFailed,
    DegenerateBandwidth,
    EdgeOfPath,
    GuessedTask,
    InexactFeatures,
    InvalidCell,
    InvalidData,
    InvalidFile,
    InvalidParameter,
    JokerError,
    MissingFile,
    MissingPackage,
    NotSynced,
    OutOfTime,
    ProcessesDiffer,
    ProcessLost,
    SlowerWithoutTriton,
    StateMismatch,
    UnknownName,
    UnknownSetting,
)

ALL = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
]
BUILT_IN = {
    InvalidParameter: ValueError,
    UnknownName: ValueError,
    UnknownSetting: TypeError,
    InvalidData: ValueError,
    InvalidCell: TypeError,
    DegenerateBandwidth: ValueError,
    BudgetTooSmall: MemoryError,
    StateMismatch: ValueError,
    OutOfTime: TimeoutError,
    ProcessesDiffer: ValueError,
    ProcessLost: RuntimeError,
    InvalidFile: ValueError,
    MissingFile: FileNotFoundError,
    InexactFeatures: UserWarning,
    GuessedTask: UserWarning,
    EdgeOfPath: UserWarning,
    NotSynced: UserWarning,
    CaptureFailed: UserWarning,
    MissingPackage: ImportError,
    SlowerWithoutTriton: UserWarning,
}


def test_every_error_has_a_built_in_base():
    """The except clauses of callers would not catch an error without a built-in base."""
    assert set(ALL) == {JokerError, *BUILT_IN}


@pytest.mark.parametrize("error", ALL)
def test_an_error_can_be_caught_and_pickled(error):
    assert issubclass(error, JokerError)
    assert issubclass(error, BUILT_IN.get(error, Exception))
    assert error.__doc__
    with pytest.raises(error, match="the rule"):
        raise error("the rule; what was found. The remedy.")
    sent = pickle.loads(pickle.dumps(error("the rule")))  # between processes of a grid search
    assert type(sent) is error
    assert str(sent) == "the rule"


def test_subclasses():
    assert issubclass(UnknownName, InvalidParameter)
    assert issubclass(DegenerateBandwidth, InvalidData)
    assert issubclass(MissingFile, InvalidFile)
    assert not issubclass(InvalidData, InvalidParameter)


def test_the_error_for_an_unknown_name_lists_the_known_ones():
    error = UnknownName.among("loss", "hubr", {"squared": 1, "huber": 2, "absolute": 3})
    assert type(error) is UnknownName
    assert str(error) == "loss must be one of absolute, huber, squared; got 'hubr'. Did you mean 'huber'?"


@pytest.mark.parametrize("got", ["zzz", "", None, 3])
def test_a_name_that_is_not_similar_gets_no_hint(got):
    message = str(UnknownName.among("loss", got, ["squared", "huber"]))
    assert message == f"loss must be one of huber, squared; got {got!r}."
