"""Checkpoints of a workspace, for taking back what a turn did to its files."""

from collections.abc import Callable, Sequence
from typing import Protocol

from hames.domain.ids import ThreadId, TurnId
from hames.domain.undo import UndoReport


class TurnCheckpoint(Protocol):
    """The checkpoint of one turn. It raises nothing: where none can be taken, the turn goes on without."""

    async def before_write(self, paths: Sequence[str] = ()) -> str:
        """Call it before something that may write to the workspace; `paths`, where they are known, are kept for sure.

        Takes the checkpoint the first time. Returns a sentence for people when undo will not cover everything.
        """
        ...

    def after_write(self) -> None: ...

    async def end(self) -> None:
        """The turn is over."""
        ...


class Checkpoints(Protocol):
    def turn(
        self, thread_id: ThreadId, turn_id: TurnId, workspace: str, *, still_writing: Callable[[], bool]
    ) -> TurnCheckpoint:
        """`still_writing`: whether something that the turn started still runs when a tool has ended."""
        ...

    async def undo(
        self,
        workspace: str,
        turns: Sequence[TurnId],
        *,
        redo: bool = False,
        paths: Sequence[str] = (),
        overwrite: bool = False,
        preview: bool = False,
    ) -> UndoReport:
        """`turns` are the oldest first. Only files that still are as the turns left them are restored, unless
        `overwrite`. Raises `InvalidCommand`."""
        ...

    async def changed(self, workspace: str, turns: Sequence[TurnId]) -> dict[TurnId, int]:
        """How many paths each of these turns changed, as far as that is known. Raises nothing."""
        ...
