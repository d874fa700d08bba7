"""`Value`: the base class of all immutable data.

`kw_only` does not reach subclasses at run time, so the base carries no fields,
and a subclass that adds defaults before required fields still says `kw_only=True`.
"""

from typing import dataclass_transform

from msgspec import Struct


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Value(Struct, frozen=True, kw_only=True):
    """An immutable record. Compare it, hash it, send it; never change it."""
