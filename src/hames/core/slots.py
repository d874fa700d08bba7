"""How many turns a node runs at once. What comes when all are taken waits: in the queue of its thread, or here."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from hames.core.loaded import LoadedThread
from hames.core.threads import Threads
from hames.domain.errors import StorageFailed

log = logging.getLogger(__name__)


class Slots:
    """`limit` 0: any number."""

    def __init__(self, threads: Threads) -> None:
        self.limit = 0
        self._threads = threads
        self._freed = anyio.Event()

    @property
    def is_full(self) -> bool:
        return bool(self.limit) and self.taken >= self.limit

    @property
    def taken(self) -> int:
        """Turns that run, or are about to."""
        return sum(one.turn is not None or one.claimed for one in self._threads.loaded.values())

    async def wait(self) -> None:
        """Until a slot is free. Whoever takes it does so without an await in between."""
        while self.is_full:
            await self._freed.wait()

    def free(self, start_next: Callable[[LoadedThread], None]) -> None:
        """A turn has ended. Threads whose prompts wait for a slot try again, those used longest ago first."""
        if not self.limit:
            return
        self._freed.set()
        self._freed = anyio.Event()
        for loaded in list(self._threads.loaded.values()):
            if loaded.waits and not loaded.busy:
                start_next(loaded)


async def try_next(start: Callable[[LoadedThread], Awaitable[None]], loaded: LoadedThread) -> None:
    """Starts the next prompt in a task of the engine, which must not fail: another node may have the thread by now."""
    try:
        await start(loaded)
    except StorageFailed as problem:  # the prompt is still in the queue
        log.warning("prompt.not_started", extra={"thread_id": loaded.thread.id, "error": str(problem)})
