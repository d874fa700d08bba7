"""`Wire`: what an object of the flint protocol is made of.

A member that flint marks with `?` is `Maybe`: left out when there is nothing to say,
never null. A member that only Codex's dialect has is nullable, and then always there.
"""

from typing import Literal

from msgspec import UNSET, UnsetType, field

from hames.domain.json import Json
from hames.domain.value import Value

Maybe = UnsetType
"""`str | Maybe = UNSET` reads: a string, or no such member."""

RequestId = str | int


class Wire(Value, rename="camel", kw_only=True):
    """`_meta` may stand on any object, of any type; nobody looks into it."""

    meta: Json = field(name="_meta", default=UNSET)


TurnStatusWord = Literal["inProgress", "completed", "interrupted", "failed"]
ItemStatusWord = Literal["inProgress", "completed", "failed", "declined"]
OutcomeWord = Literal["interrupted", "skipped"]
"""What became of an item that is `failed` for want of a better word."""


def value_or_unset(value: Json) -> Json:
    """None becomes no member at all."""
    return UNSET if value is None else value


def text_or_unset(text: str | None) -> str | Maybe:
    """An empty text becomes no member at all."""
    return text or UNSET
