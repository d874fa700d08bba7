"""Taking back what turns did to files."""

from collections.abc import Sequence
from typing import Literal

from hames.domain.events import UNDONE
from hames.domain.ids import TurnId
from hames.domain.json import Json
from hames.domain.value import Value

Restored = Literal["removed", "brought back", "changed back", "permissions"]

TO_DO = {"removed": "remove", "brought back": "bring back", "changed back": "change back"}
"""What a report says was done, before it is done."""


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
    by_turn: dict[TurnId, tuple[str, ...]] = {}
    """Which of the `restored` paths each turn had changed."""
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


def undo_data(report: UndoReport) -> Json:
    """What the notice of an undo carries."""
    return {
        "turns": list(report.turns),
        "paths": [one.path for one in report.restored],
        "byTurn": {turn: list(paths) for turn, paths in report.by_turn.items()},
    }


def undone_paths(data: Json, turn_id: str) -> list[str]:
    """The paths of this turn that the notice of an undo is about.

    >>> undone_paths({"byTurn": {"t1": ["a"], "t2": ["b"]}}, "t2")
    ['b']
    >>> undone_paths({"turns": ["t1"], "paths": ["a"]}, "t1")  # logs of earlier versions do not say whose a path is
    ['a']
    """
    match data:
        case {"byTurn": dict(by_turn)}:
            paths = by_turn.get(turn_id)
        case {"turns": list(turns), "paths": paths} if turn_id in turns:
            pass
        case _:
            paths = None
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def undone_after(undone: Sequence[str], name: str, paths: Sequence[str], cwd: str) -> tuple[str, ...]:
    """The absolute paths of a turn whose changes are taken back, after one more notice.

    >>> undone_after(["/w/a"], UNDONE, ["b"], "/w")
    ('/w/a', '/w/b')
    >>> undone_after(["/w/a", "/w/b"], "redone", ["b"], "/w")
    ('/w/a',)
    """
    named = {f"{cwd.rstrip('/')}/{path}" for path in paths}
    return tuple(sorted({*undone} | named if name == UNDONE else {*undone} - named))


def _count(found: Sequence[object], name: str) -> str:
    """
    >>> _count(["a"], "path"), _count([], "path")
    ('1 path', '0 paths')
    """
    return f"{len(found)} {name}" if len(found) == 1 else f"{len(found)} {name}s"
