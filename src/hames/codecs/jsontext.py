"""JSON text, read strictly and written safely.

Reading stands on the standard library's parser, because it alone sees a member that is named twice and a
number of any size. It takes a few microseconds for a request where msgspec takes one, and requests are few.

A number Python cannot hold (`1e400`, a thousand digits) stays `Raw`: it can be carried through, and it is no
value of any other type. A string may hold lone surrogates, which JSON allows and UTF-8 does not: see `torn`.
"""

import json
import math
from collections.abc import Iterable

import msgspec

from hames.deferred import pattern
from hames.domain.json import Json

MAX_DEPTH = 500
"""Levels of nesting. Well below what the interpreter's stack allows, wherever the value travels from here."""

MAX_DIGITS = 600
"""Digits of an integer that is read as one. The interpreter can be told to refuse more than 640."""


class Unreadable(Exception):
    """Not a JSON text, or one we do not take; the sentence says why."""


class Repeated(Exception):
    """A member is named twice in one object. `value` is the text with the last of each."""

    def __init__(self, name: str, value: Json) -> None:
        super().__init__(f"member {name!r} appears twice in one object")
        self.value = value


def parse(line: bytes) -> Json:
    """Raises `Unreadable` or `Repeated`, and nothing else, whatever the bytes.

    >>> parse(b'{"a": [1, 2.5, "x"]}')
    {'a': [1, 2.5, 'x']}
    """
    try:
        text = line.decode()
        try:
            value = _STRICT.decode(text)
        except _Twice as twice:
            raise Repeated(clipped(str(twice)), _checked(line, _LOOSE.decode(text))) from None
        return _checked(line, value)
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except ValueError as why:
        raise Unreadable(f"not JSON: {why}") from None


def written(line: bytes) -> Json:
    """A text that `parse` has read, again: every fraction stays `Raw`, as it was written.

    >>> bytes(written(b'{"id": 1.10}')["id"])
    b'1.10'
    """
    return _WRITTEN.decode(line.decode())


def encode(value: Json) -> bytes:
    """Compact, and always encodable in UTF-8.

    >>> encode({"a": "\\ud800"})
    b'{"a":"\\\\ud800"}'
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can carry
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def encode_mended(value: Json) -> bytes:
    """Compact, with U+FFFD for every lone surrogate: model services refuse the escape."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(whole(value))


def parse_lenient(data: bytes) -> Json:
    """A text that msgspec refuses for half a surrogate pair. Raises `ValueError`."""
    return whole(json.loads(data))


def is_json(text: bytes | str) -> bool:
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def is_object(text: str) -> bool:
    try:
        return isinstance(_DECODER.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def text_member(value: Json, name: str) -> str:
    """A member that is a string, or an empty one."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, str) else ""


def count_member(value: Json, name: str) -> int:
    """A member that is a count, or 0."""
    member = value.get(name) if isinstance(value, dict) else None
    return max(0, member) if isinstance(member, int) and not isinstance(member, bool) else 0


def torn(line: bytes) -> bool:
    """Whether strings of this text may hold lone surrogates. Then `whole` mends what is to be kept."""
    return _SURROGATE_ESCAPE.search(line) is not None


def whole(value: Json) -> Json:
    """The value with U+FFFD for every lone surrogate."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [whole(inner) for inner in value]
        case dict():
            return {whole(name): whole(inner) for name, inner in value.items()}
        case _:
            return value


def clipped(text: str, limit: int = 80) -> str:
    """Short enough to quote in a sentence."""
    return text if len(text) <= limit else text[:limit] + "…"


_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_SURROGATE_ESCAPE = pattern(rb"\\u[dD][89a-fA-F]")


class _Twice(Exception):
    pass


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _Twice(name)
        seen.add(name)
    raise AssertionError("fewer members than pairs, and no name twice")


def _integer(text: str) -> Json:
    return int(text) if len(text) <= MAX_DIGITS else msgspec.Raw(text.encode())


def _fraction(text: str) -> Json:
    value = float(text)
    return value if math.isfinite(value) else msgspec.Raw(text.encode())


def _raw(text: str) -> Json:
    return msgspec.Raw(text.encode())


def _constant(word: str) -> Json:
    raise ValueError(f"{word} is not a JSON number")


_LOOSE = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=_constant)
_STRICT = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
_WRITTEN = json.JSONDecoder(parse_int=_integer, parse_float=_raw, parse_constant=_constant)
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()


def _checked(line: bytes, value: Json) -> Json:
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _deep(value):
        raise Unreadable(_TOO_DEEP)
    return value


def _deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
    return any(isinstance(inner, dict | list) for inner in level)


def _inside(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
