"""Taking back what turns did to files."""

from collections.abc import Sequence
from typing import Literal

from hames.domain.ids import TurnId
from hames.domain.value import Value

Restored = Literal["removed", "brought back", "changed back", "permissions"]


class RestoredPath(Value):
    """`path` is relative to the workspace."""

    path: str
    action: Restored


class PathLeftAlone(Value):
    path: str
    why: str


class UndoReport(Value):
    """What was restored, or (`preview`) would be. `conflicts` are left alone unless the user says to overwrite them;
    what is `not_kept` cannot be restored."""

    turns: tuple[TurnId, ...]
    redo: bool = False
    preview: bool = False
    restored: tuple[RestoredPath, ...] = ()
    conflicts: tuple[PathLeftAlone, ...] = ()
    not_kept: tuple[PathLeftAlone, ...] = ()

    @property
    def message(self) -> str:
        """For people, in one line."""
        if not self.restored and not self.conflicts and not self.not_kept:
            return f"There is nothing to {'redo' if self.redo else 'undo'}"
        done = "redone" if self.redo else "undone"
        parts = [f"{_count(self.restored, 'change')} {'would be ' if self.preview else ''}{done}"]
        if self.conflicts:
            parts.append(f"{_count(self.conflicts, 'path')} left alone: changed by somebody else")
        if self.not_kept:
            parts.append(f"{_count(self.not_kept, 'path')} left alone: not kept")
        return "; ".join(parts)


def _count(found: Sequence[object], name: str) -> str:
    """
    >>> _count(["a"], "path"), _count([], "path")
    ('1 path', '0 paths')
    """
    return f"{len(found)} {name}" if len(found) == 1 else f"{len(found)} {name}s"
