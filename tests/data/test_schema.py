"""A schema is the same after JSON, and has a name for every column of a batch."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joker.data import Column, Schema
from joker.errors import InvalidData, InvalidFile

names = st.lists(st.text(max_size=3), unique=True, min_size=1, max_size=6)
levels = st.none() | st.lists(st.sampled_from("abcde="), unique=True, max_size=4).map(tuple)
schemas = names.flatmap(
    lambda found: st.builds(
        lambda kinds, target, text: Schema(tuple(map(Column, found, kinds)), target, text),
        st.lists(levels, min_size=len(found), max_size=len(found)),
        st.none() | st.text(max_size=5),
        st.booleans(),
    )
)


@settings(max_examples=30)
@given(schemas)
def test_a_schema_is_the_same_after_json(schema):
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@settings(max_examples=30)
@given(schemas)
def test_a_category_has_one_column_for_each_level(schema):
    assert schema.width == sum(1 if c.levels is None else len(c.levels) for c in schema.inputs)
    assert {c.kind for c in schema.inputs if c.levels is not None} <= {"category"}
    assert schema.is_numeric == all(c.kind == "number" for c in schema.inputs)


def test_two_columns_with_the_same_name_are_refused():
    with pytest.raises(InvalidData, match="'a' occurs more than once"):
        Schema.numbers(["a", "b", "a"])


@pytest.mark.parametrize("document", [{}, {"inputs": 3, "target": None, "text_target": False}, {"inputs": [{}]}, []])
def test_wrong_documents_are_refused(document):
    with pytest.raises(InvalidFile, match="a schema must have inputs"):
        Schema.from_json(document)
