"""JSON text, read strictly and written safely."""

import doctest
import json

import msgspec
import pytest

from hames.codecs import jsontext
from hames.codecs.jsontext import MAX_DEPTH, MAX_DIGITS, Repeated, Unreadable, encode, parse, torn, whole


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(jsontext) == doctest.TestResults(failed=0, attempted=3)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nul",
        b"{",
        b'{"a":1,}',
        b"[1,]",
        b'{"a" 1}',
        b"{'a':1}",
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"01",
        b"0x1",
        b"1.",
        b".5",
        b"+1",
        b'"\\x41"',
        b'"\\u12"',
        b'"a\nb"',
        b'"\x02"',
        b'"open',
        b"/* c */ 1",
        b"{} {}",
        b"\xff",
        b'"\xc0\xaf"',
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b"\x0b{}",
    ],
)
def test_what_is_no_json_text_is_unreadable(text: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(text)


def test_nesting_has_a_limit_and_the_limit_is_exact() -> None:
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 2000, 200_000):
        with pytest.raises(Unreadable, match="nested"):
            parse(b"[" * depth + b"]" * depth)
    with pytest.raises(Unreadable, match="nested"):
        parse(b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(parse(b"[" + b",".join([b"{}"] * 5000) + b"]")) == 5000


def test_a_member_named_twice_is_seen_at_any_depth() -> None:
    with pytest.raises(Repeated, match="'b'") as caught:
        parse(b'{"a":[{"b":1,"c":2,"b":3}]}')
    assert caught.value.value == {"a": [{"b": 3, "c": 2}]}


def test_names_are_compared_after_their_escapes_are_read() -> None:
    with pytest.raises(Repeated):
        parse(b'{"a":1,"\\u0061":2}')


@pytest.mark.parametrize("text", [b"1e400", b"-1e999", b"9" * (MAX_DIGITS + 1), b"-" + b"1" * 5000])
def test_a_number_python_cannot_hold_is_carried_as_its_text(text: bytes) -> None:
    value = parse(b'{"x":' + text + b"}")
    assert encode(value) == b'{"x":' + text + b"}"


def test_a_large_integer_is_an_integer() -> None:
    assert parse(b"9223372036854775808") == 2**63
    assert encode(10**500) == b"1" + b"0" * 500


def test_lone_surrogates_are_found_and_mended() -> None:
    line = b'{"\\udc00":["\\ud83d\\ude00","a\\uD800b"]}'
    assert torn(line)
    assert whole(parse(line)) == {"\ufffd": ["😀", "a\ufffdb"]}
    assert not torn(b'"\\u00e9 \\u2028"')


def test_what_utf8_cannot_say_is_written_as_an_escape() -> None:
    assert json.loads(encode({"a": ["\ud800", "é"]})) == {"a": ["\ud800", "é"]}


def test_numbers_json_does_not_have_are_written_as_null() -> None:
    assert msgspec.json.decode(encode([float("nan"), float("inf")])) == [None, None]
