"""The values of options are parsed as numbers and lists."""

import numpy as np
import pytest

from joker.cli import parse
from joker.errors import InvalidParameter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("2^-7", 2.0**-7),
        ("2^-7:2^7", [2.0**k for k in range(-7, 8)]),
        ("10^1:10^-1", [10.0, 1.0, 0.1]),
        ("2^-0.5:2^1.5", [2**-0.5, 2**0.5, 2**1.5]),
        ("1, 2,4", [1.0, 2.0, 4.0]),
        ("2^0:2^1,100", [1.0, 2.0, 100.0]),
        ("0.001:10:5", [0.001, 0.01, 0.1, 1.0, 10.0]),
        ("2^1:2^1", [2.0]),
    ],
)
def test_a_path_of_penalties(text: str, expected: float | list[float]) -> None:
    assert parse.penalties(text) == pytest.approx(expected)
    # Rows are held out for a list, even of one value, and not for a number.
    assert isinstance(parse.penalties(text), list) == isinstance(expected, list)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1,,2",
        "1:2",
        "2^-7:3^7",
        "2^0:2^0.5",
        "2^0:2^5000",
        "1:2:x",
        "1:2:1",
        "0:1:3",
        "1:2:3:4",
        "2^",
        "(-1)^0.5",
        "nan",
    ],
)
def test_invalid_penalties_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="got"):
        parse.penalties(text)


def test_numbers_of_features() -> None:
    assert (parse.features("exact"), parse.features("auto"), parse.features("20_000")) == (None, "auto", 20_000)
    with pytest.raises(InvalidParameter, match=r"-m must be a whole number or 'auto' or 'exact'; got '1\.5'"):
        parse.features("1.5")


def test_a_bandwidth_is_a_number_or_a_word() -> None:
    assert parse.number_or_word("2^-1", "--bandwidth") == 0.5
    assert parse.number_or_word("median", "--bandwidth") == "median"
    with pytest.raises(InvalidParameter, match="--bandwidth must be a number"):
        parse.number_or_word("1,5", "--bandwidth")


def test_weights_of_classes_find_the_classes() -> None:
    assert parse.class_weights("ham=1, spam=2^3", np.array(["ham", "spam"])) == {"ham": 1.0, "spam": 8.0}
    assert parse.class_weights("1=2", np.array([0.0, 1.0])) == {1.0: 2.0}
    assert parse.class_weights("a=b=2", np.array(["a=b", "c"])) == {"a=b": 2.0}
    assert parse.class_weights("balanced", np.array([0, 1])) == "balanced"
    assert parse.class_weights(None, None) is None
    for text in ("egg=1", "ham", "=1"):
        with pytest.raises(InvalidParameter, match="some of the classes ham, spam"):
            parse.class_weights(text, np.array(["ham", "spam"]))
