"""`Json`: the one place where a value may be anything."""

from typing import Any

from msgspec import UNSET

Json = Any
"""A decoded JSON value. Decode it into a `Value` at the edge wherever its shape is known."""

NOTHING: Json = UNSET
"""No such member at all; null is a value."""
