"""What HTTP requests carry, as values: JSON bodies, and numbers in the address."""

from typing import TypeVar

import msgspec

from hames.codecs.jsontext import Repeated, Unreadable, parse, torn, whole
from hames.domain.errors import InvalidCommand

Body = TypeVar("Body")


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """An empty body is an empty object. Raises `InvalidCommand`."""
    try:
        value = parse(data or b"{}")
        return msgspec.convert(whole(value) if torn(data) else value, kind)
    except (Unreadable, Repeated, msgspec.ValidationError) as why:
        raise InvalidCommand(f"the body: {why}") from None


def parse_number(text: str | None, default: int, *, least: int, most: int, name: str) -> int:
    """Raises `InvalidCommand` for what is no number of that size."""
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
        raise InvalidCommand(f"{name} must be a number from {least} to {most}")
    return int(text)
