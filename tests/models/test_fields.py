"""A description accepts the values that it describes, and refuses others with a sentence that says what is right."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from joker.errors import InvalidFile
from joker.models.fields import ANY, FLAG, LABEL, NUMBER, PART, RECORD, TEXT, WHOLE, Field, Fields, annotated
from joker.models.packing import CustomObjects, decode, encode, register


@dataclass(frozen=True)
class Pair:
    """A part with fields of every annotation."""

    number: float = 1.0
    whole: int = 1
    flag: bool = True
    text: str = "a"
    numbers: tuple[float, ...] = (1.0,)
    texts: tuple[str, ...] = ()
    other: Any = None
    array: Any = field(default_factory=lambda: np.ones(2))


INSIDE = Field(NUMBER, low=0, high=1)
GOOD: list[tuple[Field, Any]] = [
    (INSIDE, 0.0),
    (INSIDE, 1),
    (INSIDE, np.float32(0.5)),
    (Field(NUMBER, low=0, open=True), 1e-300),
    (Field(NUMBER, finite=False), float("nan")),
    (Field(NUMBER, nullable=True), None),
    (Field(NUMBER, ("n",)), np.ones(3)),
    (Field(NUMBER, ("n",), single=True), 2.0),
    (Field(NUMBER, (None, 2)), np.ones((5, 2))),
    (Field(NUMBER, (None,), tuple, ascending=True), (1.0, 1.0, 2)),
    (Field(WHOLE), -3),
    (Field(FLAG), False),
    (Field(TEXT, among=("a", "b")), "a"),
    (Field(TEXT, (None,), distinct=True), np.array(["a", "bb"])),
    (Field(TEXT, (None,)), np.array(["a", "bb"], dtype=object)),
    (Field(LABEL, (None,), distinct=True), np.array([True, False])),
    (Field(PART, of=(Pair,)), Pair()),
    (Field(PART, (None,), tuple, of=(Pair, type(None))), (Pair(), None)),
    (Field(RECORD, (None,), list, record=Fields({"a": INSIDE})), [{"a": 1.0, "b": "c"}]),
    (Field(ANY), {"a": [1.0, np.ones(2), torch.ones(2), "x", None]}),
]
BAD: list[tuple[Field, Any, str]] = [
    *[
        (INSIDE, value, "at least 0, at most 1")
        for value in (-0.1, 1.1, float("nan"), float("inf"), 10**400, True, "1")
    ],
    *[
        (INSIDE, value, "must be a number")
        for value in (None, [], {}, np.ones(1), [0.5], np.array("x"), np.array(True))
    ],
    (Field(NUMBER, low=0, open=True), 0.0, "greater than 0"),
    (Field(NUMBER, ("n",)), [1.0], "of shape"),
    (Field(NUMBER, ("n",)), np.ones((2, 2)), "of shape"),
    (Field(NUMBER, ("n",)), np.array([1, 10**400], dtype=object), "numbers"),
    (Field(NUMBER, (3,)), np.ones(2), r"of shape \(3\)"),
    (Field(NUMBER, (None,), tuple, ascending=True), (2.0, 1.0), "ascending"),
    (Field(NUMBER, (None,), tuple, distinct=True), (2.0, 2.0), "distinct"),
    (Field(WHOLE), 1.0, "a whole number"),
    (Field(FLAG), 1, "a truth value"),
    (Field(FLAG), None, "a truth value"),
    (Field(TEXT, among=("a", "b")), "c", "among a, b"),
    (Field(TEXT, (None,), tuple, distinct=True), ("a", "a"), "distinct"),
    (Field(TEXT, (None,), tuple), ("a", 1), "texts"),
    (Field(LABEL, (None,)), np.array([1.0, np.nan]), "classes"),
    (Field(PART, of=(Pair,)), 3, "Pair"),
    (Field(PART, (None,), tuple, of=(Pair,)), (Pair(), None), "Pair"),
    (Field(RECORD, (None,), list), [3], "records"),
    (Field(RECORD, (None,), list, record=Fields({"a": INSIDE})), [{}], "must have the entry 'a'"),
    (Field(RECORD, (None,), list, record=Fields({"a": INSIDE})), [{"a": 2.0}], "at most 1"),
    (Field(RECORD, (None,), list, record=Fields()), [{1: 2}], "must be text"),
    *[(Field(ANY), value, "finite") for value in ([[np.nan]], {"a": np.inf}, torch.tensor(np.nan), np.array([np.inf]))],
]


@pytest.mark.parametrize(("described", "value"), GOOD, ids=str)
def test_values_that_are_described(described: Field, value: Any) -> None:
    described.check("x", value, {})


@pytest.mark.parametrize(("described", "value", "expected"), BAD, ids=lambda one: str(one)[:30])
def test_other_values_are_refused(described: Field, value: Any, expected: str) -> None:
    with pytest.raises(InvalidFile, match=expected) as caught:
        described.check("x", value, {})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_sizes_of_one_name_are_equal() -> None:
    record = Fields({"n": Field(WHOLE, size="n"), "a": Field(NUMBER, ("n",)), "b": Field(TEXT, ("n",), tuple)})
    right = {"n": 2, "a": np.ones(2), "b": ("x", "y")}
    record.check("r", right)
    record.check("r", right, {"n": 2})
    for wrong in ({"n": 3}, {"a": np.ones(3)}, {"b": ("x",)}):
        with pytest.raises(InvalidFile):
            record.check("r", {**right, **wrong})
    with pytest.raises(InvalidFile, match="n of r must be 5, as other parts of the file say; got 2"):
        record.check("r", right, {"n": 5})


def test_rules_see_all_values_and_the_context() -> None:
    rule = ("a must be less than b", lambda v: v["b"] is None or v["a"] < v["b"] + v["more"])
    record = Fields({"a": Field(NUMBER), "b": Field(NUMBER, optional=True)}, (rule,))
    record.check("r", {"a": 1.0}, more=0)
    record.check("r", {"a": 1.0, "b": 1.0}, more=1)
    with pytest.raises(InvalidFile, match="in r, a must be less than b; they do not agree"):
        record.check("r", {"a": 1.0, "b": 1.0}, more=0)


def test_a_field_without_a_description_is_checked_by_its_annotation() -> None:
    register(Pair, ("text must not be empty", lambda v: v["text"] != ""), number=INSIDE)
    again = decode(encode(Pair()), CustomObjects())
    assert repr(again) == repr(Pair())
    wrong = {
        "number": 2.0,
        "whole": 1.5,
        "flag": None,
        "text": "",
        "numbers": {"tuple": [{"float": "nan"}]},
        "texts": {"tuple": [1]},
        "other": {"float": "inf"},
        "array": {"array": {"type": "<f8", "values": [{"float": "inf"}]}},
    }
    for name, value in wrong.items():
        document = encode(Pair())
        document["value"][1][name] = value
        with pytest.raises(InvalidFile, match=name):
            decode(document, CustomObjects())
    assert annotated("Something else") == Field(nullable=True, container=tuple)
