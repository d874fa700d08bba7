"""What the checker of tool inputs accepts, refuses and says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hames.domain.json import Json
from hames.domain.schema import check

READ: Json = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10},
        "mode": {"enum": ["text", "raw"]},
        "lines": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"path": "a"}, ""),
        ({"path": "a", "limit": 3.0, "lines": None}, ""),
        ({"path": "a", "lines": [1, 2]}, ""),
        ([], "the input must be an object, not an array"),
        ({}, "`path` is missing"),
        ({"path": 3}, "`path` must be a string, not 3"),
        ({"path": ""}, "`path` must have at least 1 character, not 0"),
        ({"path": "a", "limit": 0}, "`limit` must be at least 1, not 0"),
        ({"path": "a", "limit": 11}, "`limit` must be at most 10, not 11"),
        ({"path": "a", "limit": True}, "`limit` must be an integer, not true"),
        ({"path": "a", "limit": 1.5}, "`limit` must be an integer, not 1.5"),
        ({"path": "a", "limit": math.inf}, "`limit` must be an integer, not inf"),
        ({"path": "a", "mode": "hex"}, "`mode` must be 'text' or 'raw', not 'hex'"),
        ({"path": "a", "lines": [1, "2"]}, "`lines[1]` must be an integer, not '2'"),
        ({"path": "a", "lines": 7}, "`lines` must be an array, not 7"),
        ({"path": "a", "limits": 7}, "`limits` is not known; did you mean `limit`?"),
        ({"path": "a", "zzz": 7}, "`zzz` is not known; there is `path`, `limit`, `mode`, `lines`"),
    ],
)
def test_a_complaint_names_the_part_that_is_wrong(value: Json, complaint: str) -> None:
    assert check(value, READ) == complaint


def test_a_complaint_never_repeats_a_long_value() -> None:
    assert len(check({"path": "a", "mode": "x" * 10_000}, READ)) < 200


def test_references_inside_the_schema_are_followed() -> None:
    schema = {"$defs": {"point": {"type": "object", "required": ["x"]}}, "items": {"$ref": "#/$defs/point"}}
    assert check([{"x": 1}], schema) == ""
    assert check([{"x": 1}, {}], schema) == "`[1].x` is missing"


def test_a_reference_to_nowhere_refuses_nothing() -> None:
    assert check({"a": 1}, {"$ref": "#/$defs/gone"}) == ""


def test_a_schema_that_refers_to_itself_is_given_up_and_not_followed_for_ever() -> None:
    schema = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    assert "too deeply" in check(1, schema)


def test_a_pattern_of_a_stranger_is_not_run() -> None:
    assert check("a" * 50 + "!", {"type": "string", "pattern": "^(a+)+$"}) == ""


scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text("abc", max_size=4)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _schemas(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True),
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": scalars,
            "minimum": st.integers(-3, 3),
            "exclusiveMaximum": st.integers(-3, 3),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "properties": st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
            "required": st.lists(st.text("abc", max_size=2), max_size=2, unique=True),
            "additionalProperties": inner | st.booleans(),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    )


schemas = st.recursive(st.builds(dict) | st.booleans(), _schemas, max_leaves=8)


@given(schemas, values)
def test_it_agrees_with_the_reference_implementation(schema: Json, value: Json) -> None:
    assert (check(value, schema) == "") == Draft202012Validator(schema).is_valid(value)
