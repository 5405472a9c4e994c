"""The kind of each column."""

import numpy as np
import pytest

from joker.errors import InvalidData, InvalidParameter
from joker.tables.columns import decide_kinds
from joker.tables.parsing import parse_text
from joker.tables.table import read_table

N = 40


def kinds(given: dict[str, str] | None = None, **columns: object) -> dict[str, tuple[str, str]]:
    """Return kind and reason of each column."""
    table = parse_text(read_table(columns), given)
    return {kind.name: (kind.kind, kind.reason) for kind in decide_kinds(table, given)}


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=N)


def test_kinds_of_columns() -> None:
    found = kinds(
        a=numbers(),
        word=["u", "v"] * (N // 2),
        day=["2024-01-31", "2024-2-1 12:30"] * (N // 2),
        german=["31.12.2023", "1.1.2024"] * (N // 2),
        flag=np.arange(N) % 3 == 0,
    )
    assert [kind for kind, _ in found.values()] == ["number", "category", "date", "date", "boolean"]


def test_columns_that_are_left_out() -> None:
    a = numbers()
    found = kinds(
        a=a,
        constant=np.ones(N),
        empty=[None] * N,
        same=a,
        feet=3.28 * a + 1,
        key=[f"k{j}" for j in range(N)],
        id=np.arange(N),
        b=numbers(1),
    )
    assert {name for name, (kind, _) in found.items() if kind == "drop"} == {
        *("constant", "empty", "same", "feet", "key", "id")
    }
    assert found["same"][1] == "the same as 'a'"
    assert found["feet"][1] == "the same as 'a', in another unit"
    assert found["key"][1].startswith("an identifier")


def test_the_user_decides() -> None:
    found = kinds({"zip": "category", "a": "drop"}, zip=np.arange(N) % 7, a=numbers(), b=numbers(1))
    assert found["zip"] == ("category", "")
    assert found["a"] == ("drop", "as asked")


def test_distinct_values_of_many_words_are_text() -> None:
    text = [f"a long text about the wine number {j} and more" for j in range(N)]
    assert kinds(note=text, a=numbers())["note"] == ("text", "")
    with pytest.raises(InvalidData, match="a column of text must have text; column 'a' has number"):
        kinds({"a": "text"}, note=text, a=numbers())
    assert kinds({"note": "drop"}, note=text, a=numbers())["note"][0] == "drop"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"b": "category"}, "columns must be one of a; got 'b'"),
        ({"a": "word"}, "kind of column 'a' must be one of"),
        (["a"], "columns must be a dictionary"),
        ({"t": "number"}, "column 't' has text"),
        ({"t": "date"}, "column 't' has others"),
    ],
)
def test_bad_kinds(given: object, said: str) -> None:
    columns = {"t": ["u", "v"] * (N // 2)} if "t" in str(given) and "category" not in str(given) else {"a": numbers()}
    with pytest.raises((InvalidParameter, InvalidData), match=said):
        kinds(given, **columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["", "id", "record_id", "PassengerId", "customerID", "rownames", "row number", "caseid", "Unnamed: 0", "seqno"],
)
def test_names_of_identifiers(name: str) -> None:
    different = np.random.default_rng(0).permutation(1000)[:N]
    found = kinds(**{name: different, "b": numbers(1)})
    saved = name in ("", "rownames", "Unnamed: 0")
    assert found[name] == ("drop", "a saved index" if saved else "an identifier: whole numbers, all different")


@pytest.mark.parametrize("name", ["paid", "humid", "bid", "width", "year", "grid", "order"])
def test_other_names_are_not_those_of_identifiers(name: str) -> None:
    assert kinds(**{name: 1900 + np.arange(N), "b": numbers(1)})[name][0] == "number"
