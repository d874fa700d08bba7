"""Reads the params of a request. Raises `InvalidCommand` and nothing else."""

from typing import TypeVar

import msgspec

from hames.codecs.jsonrpc_peer import Params
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ThreadId
from hames.domain.value import Value

V = TypeVar("V", bound=Value)


def read(params: Params, shape: type[V]) -> V:
    """Raises `InvalidCommand` that names the member."""
    try:
        return msgspec.convert(params, shape)
    except msgspec.ValidationError as why:
        raise InvalidCommand(_sentence(str(why))) from None


def _sentence(why: str) -> str:
    """msgspec's words, with the member in front.

    >>> _sentence("Expected `int`, got `str` - at `$.limit`")
    'limit: Expected `int`, got `str`'
    """
    words, found, path = why.rpartition(" - at `$")
    if not found:
        return f"params: {why}"
    return f"{path.removesuffix('`').removeprefix('.') or 'params'}: {words}"


def thread_id(word: str) -> ThreadId:
    if not word:
        raise InvalidCommand("threadId: must not be empty")
    return ThreadId(word)
