"""Things that are imported or built when they are first used, so that a start pays only for what it uses.

    trust = deferred(lambda: ShellTrust())      an object: its module can be imported inside the function
    NAME = pattern(r"[a-z]+")                   a regular expression, compiled at its first match

A deferred object is used through its attributes and methods. `isinstance` and operators (`in`, `with`, `len`) see the
stand-in, so what is deferred must not be used with them.
"""

from _thread import RLock
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, AnyStr, TypeVar, cast

if TYPE_CHECKING:
    import re

T = TypeVar("T")

_building = RLock()


class _Deferred:
    def __init__(self, build: Callable[[], Any]) -> None:
        self.__dict__["_build"] = build

    def __getattr__(self, name: str) -> Any:
        """Called for attributes that the stand-in does not have: for all of the object's."""
        return getattr(_built(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_built(self), name, value)


class _DeferredConstant:
    """The same for an object whose attributes never change: each is looked up once."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self.__dict__["_build"] = build

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(_built(self), name)
        return value


def _built(stand_in: object) -> Any:
    known = stand_in.__dict__
    if "_object" not in known:
        with _building:
            if "_object" not in known:
                known["_object"] = known["_build"]()
    return known["_object"]


def deferred(build: Callable[[], T]) -> T:
    """What `build` returns. It is called when an attribute of it is first read or set, and then never again."""
    return cast("T", _Deferred(build))


def is_built(stand_in: object) -> bool:
    """Whether a deferred object has been used. Another object always has."""
    return not isinstance(stand_in, _Deferred | _DeferredConstant) or "_object" in stand_in.__dict__


def pattern(text: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """`re.compile` that compiles at the first use: building one takes as long as importing a small module."""

    def build() -> "re.Pattern[AnyStr]":
        import re

        return re.compile(text, flags)

    return cast("re.Pattern[AnyStr]", _DeferredConstant(build))


def constant(build: Callable[[], T]) -> T:
    """A deferred object that never changes, for example a decoder."""
    return cast("T", _DeferredConstant(build))
