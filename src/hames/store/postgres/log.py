"""One thread's log in the database, open for writing under one epoch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from hames.domain.commands import ThreadSummary
from hames.domain.continuing import is_progress
from hames.domain.errors import StorageFailed
from hames.domain.events import Record, SettingsChanged, ThreadCreated, TurnEnded
from hames.domain.ids import ThreadId
from hames.store.postgres.batch import WritingThread
from hames.store.postgres.writer import Lane


class LogHome(Protocol):
    """The store, as far as an open log needs it."""

    facts: Lane
    text: Lane

    async def list_thread(self, summary: ThreadSummary, epoch: int) -> None: ...

    async def records(self, thread_id: ThreadId) -> list[Record]: ...

    async def set_place(self, thread_id: ThreadId, epoch: int, place: str) -> None: ...

    def release(self, log: "PostgresLog") -> Awaitable[None]:
        """It is not open any more: whoever wants to may write it."""
        ...


class PostgresLog:
    def __init__(
        self, store: LogHome, thread_id: ThreadId, *, epoch: int, head: int, foreign: bool, deaths: int = 0
    ) -> None:
        self.thread_id = thread_id
        self.deaths: int | None = deaths
        self.foreign = foreign
        self.damaged = False
        self.repaired = ""
        self.writing = WritingThread(thread_id, epoch, head)
        self.closed = False
        self.recovered: list[Record] = []
        """What opening it has read."""
        self._store = store
        self._running: bool | None = None
        self._place: str | None = "" if head == 0 else None
        """As far as it is known."""

    async def read(self) -> list[Record]:
        records, self.recovered = self.recovered, []
        return records or await self._store.records(self.thread_id)

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None:
        thread = self._usable()
        if not records:
            if thread.jots:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                thread.waiters.append(waiter)
                await waiter
            return
        if sync and thread.jots and thread.jots[-1].record.seq <= records[-1].seq:
            self._store.text.withdraw(thread)  # the bundle has them
        for record in records:
            if isinstance(record.event, ThreadCreated | SettingsChanged):
                await self._set_place(record.event.settings.place)
        running, self._running = self._running, None
        if self.deaths and any(isinstance(record.event, TurnEnded) for record in records):
            self.deaths = 0
        if self.deaths and any(is_progress(record.event) for record in records):
            running = True  # which sets the count to zero in the same statement
            self.deaths = 0
        try:
            await (self._store.facts if sync else self._store.text).append(thread, records, running)
        except StorageFailed:
            self._running = running
            raise

    async def _set_place(self, place: str) -> None:
        """Before the record that says it: no node of another place claims the thread in between."""
        if place != self._place:
            await self._store.set_place(self.thread_id, self.writing.epoch, place)
            self._place = place

    def jot(self, record: Record, kept: Callable[[], None] | None = None) -> bool:
        self._store.text.jot(self._usable(), record, kept)
        return False

    async def summarize(self, summary: ThreadSummary) -> None:
        await self._store.list_thread(summary, self.writing.epoch)

    def mark_running(self, *, running: bool) -> None:
        """A turn is marked as running in the very statement that says that it started."""
        if running:
            self._running = True
        else:
            self._running = None
            if not self.closed and self.writing.dead is None:
                self._store.facts.mark(self.writing, running=False)

    def rest(self) -> None:
        pass

    def abandon(self, why: StorageFailed) -> None:
        """A batch under way may still be kept, if nobody has taken the thread over."""
        if self.writing.dead is None:
            self.writing.end(why)

    async def close(self) -> None:
        if self.closed:
            return
        try:
            if self.writing.jots and self.writing.dead is None:
                await self.append(())
        except StorageFailed:
            pass
        finally:
            self.closed = True
            await self._store.release(self)

    def _usable(self) -> WritingThread:
        """Raises `StorageFailed`."""
        if self.writing.dead is not None:
            raise self.writing.dead
        if self.closed:
            raise StorageFailed(f"cannot write thread {self.thread_id!r}: its log is closed")
        return self.writing
