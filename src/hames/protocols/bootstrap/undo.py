"""Messages of `thread.undo`, as they stand on the wire: an extension of ours."""

from msgspec import UNSET, UnsetType

from hames.domain.undo import Restored
from hames.domain.value import Value


class ThreadUndoParams(Value, rename="camel"):
    """Take back what a turn did to files, or (`redo`) do it again. Without `turnId`: the last turn that changed some.
    An extension of ours."""

    thread_id: str
    turn_id: str | UnsetType = UNSET
    later: bool = False
    """What every later turn did as well."""
    redo: bool = False
    paths: tuple[str, ...] = ()
    """Only these, and what is below them."""
    overwrite: bool = False
    """Also files that others have changed since."""
    preview: bool = False
    """Only tell what would happen."""


class UndonePath(Value):
    """`path` is relative to the directory of the thread."""

    path: str
    action: Restored


class PathNotUndone(Value):
    path: str
    why: str


class ThreadUndoResult(Value, rename="camel"):
    """`conflicts` were changed by others since, and are left alone unless `overwrite` is given. What is `notKept`
    cannot be restored."""

    turns: tuple[str, ...]
    message: str
    """For people, in one line."""
    restored: tuple[UndonePath, ...]
    conflicts: tuple[PathNotUndone, ...]
    not_kept: tuple[PathNotUndone, ...]
