"""Arbitrary values of any type of the domain, for property tests. Needs hypothesis.

The types themselves say what fits: a new field or a new variant is drawn from
the day it exists.
"""

from typing import TYPE_CHECKING, Any

import msgspec.inspect as ms

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

INT64 = 2**63
SHORT = 6
"""Long texts and lists find no more mistakes, only later."""


def values(kind: Any, *, words: "SearchStrategy[str] | None" = None) -> "SearchStrategy[Any]":
    """Values of a type, or of a union of types, that survive being written as JSON and read again.

    `words` is where texts come from, names included: a small choice makes values that speak of each other.
    """
    from hypothesis import strategies as st

    return _drawn(ms.type_info(kind), st.text(max_size=SHORT) if words is None else words)


def json_values() -> "SearchStrategy[Any]":
    """Whatever JSON can hold."""
    from hypothesis import strategies as st

    plain = (
        st.none()
        | st.booleans()
        | st.integers(-INT64, INT64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=SHORT)
    )
    return st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=SHORT), inner, max_size=3),
        max_leaves=4,
    )


def _drawn(info: ms.Type, words: "SearchStrategy[str]") -> "SearchStrategy[Any]":
    from hypothesis import strategies as st

    match info:
        case ms.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: _drawn(field.type, words) for field in fields})
        case ms.UnionType(types=types):
            return st.one_of([_drawn(one, words) for one in types])
        case ms.LiteralType(values=choices):
            return st.sampled_from(choices)
        case ms.VarTupleType(item_type=item):
            return st.lists(_drawn(item, words), max_size=3).map(tuple)
        case ms.DictType(key_type=key, value_type=value):
            return st.dictionaries(_drawn(key, words), _drawn(value, words), max_size=3)
        case ms.StrType():
            return words
        case ms.BoolType():
            return st.booleans()
        case ms.IntType():
            return st.integers(-INT64, INT64 - 1)
        case ms.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case ms.NoneType():
            return st.none()
        case ms.AnyType():
            return json_values()
        case _:
            raise NotImplementedError(f"no values of {info} are drawn yet")
