"""Operations applied to a state: all of them, or none.

The old state is never touched: what an operation changes is copied on the way down, once per delta, and the
rest is shared. `specs/fixtures/sync` holds the cases that this and the browser's applier both pass.
"""

import re
from collections.abc import Sequence
from typing import Literal

from hames.domain.json import Json

ApplyErrorCode = Literal["operation", "key", "index", "missing", "type"]

UNSAFE = frozenset({"__proto__", "constructor", "prototype"})
_INDEX = re.compile(r"0|[1-9][0-9]*")
_ABSENT = object()


class ApplyError(Exception):
    """The delta makes no sense for this state. `code` is one of the words of the fixtures."""

    def __init__(self, code: ApplyErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def applied(state: Json, operations: Sequence[Json]) -> Json:
    """The state after the operations. Raises `ApplyError`.

    >>> applied({"a": "x"}, [{"type": "append-text", "path": ["a"], "value": "y"}])
    {'a': 'xy'}
    """
    delta = _Delta(state)
    for operation in operations:
        delta.apply(operation)
    return delta.root


class _Delta:
    def __init__(self, root: Json) -> None:
        self.root = root
        self._own: dict[int, Json] = {}
        """Copies made here: nobody else has seen them, so they may be changed in place."""

    def apply(self, operation: Json) -> None:
        kind, path, value = _checked(operation)
        if not path:
            if kind != "set" or not isinstance(value, dict):
                raise ApplyError("type", "the state is an object")
            self.root = value
            return
        self.root = here = self._owned(self.root)
        for step in path[:-1]:
            key = _key(here, step, end=False)
            child = here[key]
            if not isinstance(child, dict | list):
                raise ApplyError("type", f"{step!r} is neither object nor list")
            here[key] = here = self._owned(child)
        last = path[-1]
        if kind == "set":
            _put(here, last, value)
        else:
            key = _key(here, last, end=False)
            if not isinstance(here[key], str):
                raise ApplyError("type", "append-text on something that is not text")
            here[key] += value

    def _owned(self, container: Json) -> Json:
        if id(container) in self._own:
            return container
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy


def _checked(operation: Json) -> tuple[str, list[str], Json]:
    if not isinstance(operation, dict):
        raise ApplyError("operation", "an operation is an object")
    kind, path, value = operation.get("type"), operation.get("path"), operation.get("value", _ABSENT)
    if kind not in ("set", "append-text"):
        raise ApplyError("operation", f"unknown operation {kind!r}")
    if not isinstance(path, list) or not all(isinstance(step, str) for step in path):
        raise ApplyError("operation", "a path is a list of strings")
    if value is _ABSENT or (kind == "append-text" and not isinstance(value, str)):
        raise ApplyError("operation", f"{kind} without its value")
    for step in path:
        if step in UNSAFE:
            raise ApplyError("key", f"{step!r} is not a key")
    return kind, path, value


def _key(container: Json, step: str, *, end: bool) -> int | str:
    """Where a step leads in an object or a list. `end`: one past the last element will do."""
    if isinstance(container, dict):
        if step not in container and not end:
            raise ApplyError("missing", f"no {step!r}")
        return step
    # More digits than any list has elements: `int` of a megabyte of them would take a while.
    index = int(step) if len(step) < 20 and _INDEX.fullmatch(step) else -1
    if index < 0 or index > len(container) or (index == len(container) and not end):
        raise ApplyError("index", f"no {step!r} in a list of {len(container)}")
    return index


def _put(container: Json, step: str, value: Json) -> None:
    key: Json = _key(container, step, end=True)
    if isinstance(container, list) and key == len(container):
        container.append(value)
    else:
        container[key] = value
