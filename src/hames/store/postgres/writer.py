"""Writes of all threads of a node, in batches: one statement and one commit for everything that waits.

There are two lanes, each with a connection of its own: one commits safely (facts), one does not wait for the disk of
the database (text). What arrives while a batch is under way is the next batch.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from hames.domain.errors import HarnessError, StorageFailed
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.store.postgres.batch import WRITE, Append, Jot, WriteBatch, WritingThread, refuse
from hames.store.postgres.connection import RETRY_SECONDS, is_connection_lost

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger(__name__)

MOST_ROWS: Final = 2_000
"""Of one batch."""

TIMES: Final = 512


class Lane:
    """One connection that writes batches. `connect` gives a new one; `changed` is told which threads were written."""

    def __init__(
        self,
        connect: "Callable[[], Awaitable[Connection]]",
        changed: Callable[[Sequence[ThreadId]], None],
        fenced: Callable[[ThreadId], None],
        *,
        commit: str,
        statement: str = WRITE,
    ) -> None:
        """`commit` is a value of `synchronous_commit`, or empty for what the server says."""
        self._connect = connect
        self._changed = changed
        self._fenced = fenced
        self._commit = commit
        self._statement = statement
        self._connection: Connection | None = None
        self._appends: list[Append] = []
        self._jotted: dict[ThreadId, WritingThread] = {}
        self._marks: dict[ThreadId, tuple[WritingThread, bool]] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._under_way: dict[ThreadId, WritingThread] = {}
        self.batches = self.facts = self.deltas = 0
        self.times: deque[float] = deque(maxlen=TIMES)
        """How long the last appends took, in seconds, from the call to the commit."""
        self.lost_since: float | None = None
        """When the database went away, by the clock of the loop."""

    # -- what callers do

    async def append(self, thread: WritingThread, records: Sequence[Record], running: bool | None) -> None:
        """Raises `StorageFailed`. It may be waited for or not: what was handed over is written."""
        loop = asyncio.get_running_loop()
        done, began = loop.create_future(), loop.time()
        thread.appending.add(done)
        done.add_done_callback(thread.appending.discard)
        self._appends.append(Append(thread, records, running, done))
        self._start()
        await asyncio.shield(done)
        self.times.append(loop.time() - began)

    def jot(self, thread: WritingThread, record: Record, kept: Callable[[], None] | None) -> None:
        thread.jots.append(Jot(record, kept))
        self._jotted[thread.id] = thread
        self._start()

    def mark(self, thread: WritingThread, *, running: bool) -> None:
        self._marks[thread.id] = thread, running
        self._start()

    def withdraw(self, thread: WritingThread) -> None:
        """Its deltas are written as a bundle by somebody else."""
        self._jotted.pop(thread.id, None)

    async def flush(self) -> None:
        """Waits until nothing waits."""
        if self._has_work() or not self._idle.is_set():
            await self._idle.wait()

    def waiting(self) -> list[ThreadId]:
        """Threads with something that is not written yet."""
        return [*(one.thread.id for one in self._appends), *self._jotted, *self._under_way]

    async def close(self, *, at_once: bool = False) -> None:
        """`at_once`: the database does not answer."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for one in self._appends:
            refuse(one.done, StorageFailed(f"thread {one.thread.id!r} was not written: the store is closed"))
        self._appends = []
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await close_connection(connection, at_once=at_once)

    # -- the task

    def _start(self) -> None:
        self._idle.clear()
        self._wake.set()
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _has_work(self) -> bool:
        return bool(self._appends or self._jotted or self._marks)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if not self._has_work():
                self._idle.set()
                await self._wake.wait()
            while self._has_work():
                batch = self._take()
                self._under_way = batch.threads
                try:
                    await self._write(batch)
                    self._under_way = {}
                except asyncio.CancelledError:
                    raise
                except Exception as problem:  # not of the connection: these very rows cannot be written
                    log.exception("batch.not_written")
                    batch.fail(problem)

    def _take(self) -> "WriteBatch":
        batch = WriteBatch(self._commit)
        later: list[Append] = []
        for one in self._appends:
            if one.thread.dead is not None:
                refuse(one.done, one.thread.dead)
            elif batch.rows >= MOST_ROWS or (one.thread.id in batch.appends and one.running is not None):
                later.append(one)
            else:
                batch.add(one)
        waiting = {one.thread.id for one in later}
        self._appends = later
        for thread in list(self._jotted.values()):
            if thread.id not in waiting:
                del self._jotted[thread.id]
                if thread.dead is None and thread.jots:
                    batch.add_jots(thread)
        batch.marks = list(self._marks.values())
        self._marks = {}
        return batch

    async def _write(self, batch: "WriteBatch") -> None:
        """Tries again for as long as the database is gone."""
        while True:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._connect()
                lost = await batch.write(self._connection, self._statement)
                self.lost_since = None
                break
            except asyncio.CancelledError:
                raise
            except Exception as problem:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                if not isinstance(problem, HarnessError) and not is_connection_lost(problem):
                    raise
                if self.lost_since is None:
                    self.lost_since = asyncio.get_running_loop().time()
                    log.warning("database.lost", extra={"error": str(problem)})
                await asyncio.sleep(RETRY_SECONDS)
        self.batches += 1
        self.facts += batch.rows
        self.deltas += sum(map(len, batch.jots.values()))
        batch.settle(lost)
        for thread_id in lost:
            self._fenced(thread_id)
        if changed := [one for one in batch.threads if one not in lost]:
            self._changed(changed)


async def close_connection(connection: "Connection", *, at_once: bool = False) -> None:
    try:
        await connection.close(timeout=0.1 if at_once else 2.0)
    except Exception:  # it is gone either way
        connection.terminate()
