"""Settings whose value is one of a few words."""

from typing import TypeVar, cast

from hames.domain.errors import Misconfigured
from hames.domain.json import Json

Word = TypeVar("Word", bound=str)


def one_of(name: str, value: Json, origin: str, words: tuple[Word, ...]) -> Word:
    """Raises `Misconfigured` with the words that there are."""
    if value not in words:
        raise Misconfigured(f"{name} is {value!r} ({origin}); it must be one of {', '.join(words)}")
    return cast("Word", value)
