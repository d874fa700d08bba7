"""Undo: what a turn did to files is kept while it runs, and taken back on request."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from hames.core.loaded import LoadedThread
from hames.core.threads import Threads
from hames.domain.commands import UndoTurn
from hames.domain.errors import InvalidCommand, TurnBusy, TurnNotFound
from hames.domain.events import REDONE, UNDONE, Noticed
from hames.domain.ids import TurnId
from hames.domain.policy import ReadOnly
from hames.domain.undo import UndoReport, undo_data
from hames.ports import Checkpoints, TurnCheckpoint

END_SECONDS = 3.0


def new_checkpoint(threads: Threads, loaded: LoadedThread, turn_id: TurnId) -> TurnCheckpoint | None:
    if threads.checkpoints is None:
        return None

    def still_writing() -> bool:
        return loaded.processes is not None and loaded.processes.is_any_running()

    cwd = loaded.thread.state.settings.cwd
    return threads.checkpoints.turn(loaded.thread.id, turn_id, cwd, still_writing=still_writing)


@asynccontextmanager
async def checkpointed(threads: Threads, loaded: LoadedThread, turn_id: TurnId) -> AsyncGenerator[None]:
    """For an agent that does not say when it writes: the whole turn counts."""
    checkpoint = new_checkpoint(threads, loaded, turn_id)
    if checkpoint is None or isinstance(loaded.thread.state.settings.sandbox, ReadOnly):
        yield
        return
    await checkpoint.before_write()
    try:
        yield
    finally:
        checkpoint.after_write()
        with anyio.move_on_after(END_SECONDS, shield=True):
            await checkpoint.end()


async def undo_turn(threads: Threads, command: UndoTurn) -> UndoReport:
    """Raises `TurnBusy`, `TurnNotFound`, `InvalidCommand`."""
    if threads.checkpoints is None:
        raise InvalidCommand("undo is off here: no checkpoints are taken")
    loaded = await threads.writable(command.thread_id)
    if loaded.busy:
        raise TurnBusy(f"thread {command.thread_id!r} runs a turn; wait for it, or interrupt it")
    state = loaded.thread.state
    turns = await _chosen(threads.checkpoints, state.settings.cwd, [turn.id for turn in state.turns], command)
    report = await threads.checkpoints.undo(
        state.settings.cwd,
        turns,
        redo=command.redo,
        paths=command.paths,
        overwrite=command.overwrite,
        preview=command.preview,
    )
    if report.restored and not report.preview:
        name = REDONE if report.redo else UNDONE
        about = undo_data(report)
        await loaded.thread.emit(Noticed(source="hames", name=name, message=report.message, data=about))
    return report


async def _chosen(checkpoints: Checkpoints, cwd: str, known: list[TurnId], command: UndoTurn) -> list[TurnId]:
    """The turns that the command is about, the oldest first."""
    if command.turn_id is not None:
        if command.turn_id not in known:
            raise TurnNotFound(f"this thread has no turn {command.turn_id!r}")
        at = known.index(command.turn_id)
        return known[at:] if command.later else known[at : at + 1]
    changed = await checkpoints.changed(cwd, known)
    candidates = [turn for turn in known if changed.get(turn)]
    for turn in candidates if command.redo else reversed(candidates):
        found = await checkpoints.undo(cwd, [turn], redo=command.redo, paths=command.paths, preview=True)
        if found.restored or (found.conflicts and not command.redo):
            return [turn]
    return []
