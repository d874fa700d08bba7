"""Taking back what turns did to files."""

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


def undo_sentence(report: UndoReport) -> str:
    """For people, in one line."""
    files = f"{len(report.restored)} {'file' if len(report.restored) == 1 else 'files'}"
    if not report.restored and not report.conflicts and not report.not_kept:
        return f"There is nothing to {'redo' if report.redo else 'undo'}."
    verb = "would be restored" if report.preview else "restored"
    parts = [f"{files} {verb}"]
    if report.conflicts:
        parts.append(f"{len(report.conflicts)} left alone, because they were changed by somebody else")
    if report.not_kept:
        parts.append(f"{len(report.not_kept)} not kept")
    return f"{'Redo' if report.redo else 'Undo'}: {', '.join(parts)}."
