"""Shorter forms of what the model was shown before: the middle is left out, and the text says so."""

import msgspec
from msgspec.structs import replace

from hames.domain.items import Call
from hames.domain.json import Json

EXTRACT_CHARS = 400
"""Of an old tool result: its beginning says what it is, its end how it went."""


def cut(text: str, limit: int, name: str = "") -> str:
    """At most about `limit` characters. `name` is where all of it can be read.

    >>> cut("abcdefghij" * 30, 20)
    'abcdefghij\\n[… 280 characters left out to save space …]\\nabcdefghij'
    """
    if len(text) <= limit + 80:  # the sentence has its length as well
        return text
    half = limit // 2
    gone = len(text) - 2 * half
    whole = f"; all of it can be read with the path {name}" if name else ""
    return f"{text[:half]}\n[… {gone:,} characters left out to save space{whole} …]\n{text[len(text) - half :]}"


def extract(text: str, name: str = "") -> str:
    """What stays of an old tool result. `name` is the path under which `read` shows all of it; empty: there is none."""
    if len(text) <= EXTRACT_CHARS * 2:
        return text
    half = EXTRACT_CHARS // 2
    gone = len(text) - 2 * half
    whole = f"all of it can be read with the path {name}" if name else "call the tool again if you need them"
    mark = f"[… old result: {gone:,} characters cleared to save space; {whole} …]"
    return f"{text[:half]}\n{mark}\n{text[len(text) - half :]}"


def cut_arguments(call: Call, limit: int) -> Call:
    """The call with its long arguments cut. They stay valid JSON."""
    if len(call.arguments) <= limit:
        return call
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return replace(call, arguments="{}")
    return replace(call, arguments=msgspec.json.encode(_cut_values(arguments, limit)).decode())


def _cut_values(value: Json, limit: int) -> Json:
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, dict):
        return {name: _cut_values(one, limit) for name, one in value.items()}
    if isinstance(value, list):
        return [_cut_values(one, limit) for one in value]
    return value
