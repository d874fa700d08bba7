"""JSON as model services write it, and as they will read it: half a surrogate pair is nobody's to take."""

import msgspec

from hames.domain.json import Json

_decode = msgspec.json.Decoder().decode


def encoded(body: Json) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair in somebody's text
        return msgspec.json.encode(whole(body))


def lenient(data: bytes) -> Json:
    """The standard library takes half a surrogate pair where msgspec does not. Raises `ValueError`."""
    import json  # rarely needed, and 10 ms

    return whole(json.loads(data))


def whole(value: Json) -> Json:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [whole(part) for part in value]
        case dict():
            return {whole(name): whole(part) for name, part in value.items()}
        case _:
            return value


def is_json(data: bytes | str) -> bool:
    try:
        _decode(data)
    except (ValueError, RecursionError):
        return False
    return True


def is_object(text: str) -> bool:
    try:
        return isinstance(_decode(text), dict)
    except (ValueError, RecursionError):
        return False


def word(said: Json, name: str) -> str:
    """A member that is a text, or nothing."""
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


def number(said: Json, name: str) -> int:
    """A member that is a count, or 0."""
    value = said.get(name) if isinstance(said, dict) else None
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
