"""Threads that another node has taken over: their turns are cancelled here, their tools are killed, nothing is told."""

import logging
from collections.abc import Callable

import anyio

from hames.core.loaded import LoadedThread
from hames.core.threads import Threads
from hames.domain.errors import HarnessError
from hames.domain.ids import ThreadId

log = logging.getLogger(__name__)

STOPPING = "is left to other nodes, because this one is stopping"
LEAVE_SECONDS = 10.0
"""A tool that cannot be killed in this time does not keep the thread from being opened again."""


class LostThreads:
    """`start_task` runs a function with its arguments until the engine ends."""

    def __init__(self, threads: Threads) -> None:
        self.start_task: Callable[..., object] | None = None
        self._threads = threads
        self._leaving: dict[ThreadId, anyio.Event] = {}
        threads.on_lost = self._lost

    def lose_all(self, why: str) -> None:
        """This node may no longer be the writer of anything: its lease ends."""
        for loaded in list(self._threads.loaded.values()):
            loaded.thread.lose(why)

    def abandon_all(self) -> None:
        """Nothing that the store has not taken by now keeps this process from stopping. What it took is kept."""
        left = [one.thread for one in self._threads.loaded.values() if one.turn is not None and not one.thread.lost]
        if left:
            why = "the store did not take in time that they stop; other nodes go on with them"
            log.warning("turns.left", extra={"threads": [one.id for one in left], "why": why})
        for thread in left:
            thread.abandon(STOPPING)

    def _lost(self, loaded: LoadedThread) -> None:
        thread = loaded.thread
        log.warning("thread.fenced", extra={"thread_id": thread.id, "turn": loaded.turn is not None})
        if self._threads.loaded.get(thread.id) is loaded:
            del self._threads.loaded[thread.id]
        if loaded.turn is not None:
            loaded.turn.scope.cancel()
        self._leaving[thread.id] = left = anyio.Event()
        assert self.start_task is not None
        self.start_task(self._leave, loaded, left)

    async def _leave(self, loaded: LoadedThread, left: anyio.Event) -> None:
        try:
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                if loaded.turn is not None:
                    await loaded.turn.over.wait()
                if loaded.processes is not None:
                    await loaded.processes.end_all()
            loaded.closed.set()
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await loaded.thread.close()
        except HarnessError as problem:
            log.info("thread.not_closed", extra={"thread_id": loaded.thread.id, "error": str(problem)})
        except Exception:
            log.exception("thread.not_closed", extra={"thread_id": loaded.thread.id})
        finally:
            left.set()
            if self._leaving.get(loaded.thread.id) is left:
                del self._leaving[loaded.thread.id]

    async def wait_until_left(self, thread_id: ThreadId) -> None:
        """Waits until nothing of the thread runs here any more: it is about to be taken up again."""
        if (left := self._leaving.get(thread_id)) is not None:
            await left.wait()
