"""Threads in memory: the same contract as on disk. They are gone when the process ends."""

from collections.abc import AsyncGenerator, Callable, Sequence

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import StorageFailed, ThreadInUse, ThreadNotFound
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.ports import Examined, LogNews
from hames.store.index import Index, PageQuery
from hames.store.lines import merge_deltas
from hames.store.search import TextIndex, search_threads


class MemoryStore:
    def __init__(self) -> None:
        self._logs: dict[ThreadId, MemoryLog] = {}
        self.index = Index("")
        self._texts = TextIndex("")
        self.marked: set[ThreadId] = set()

    async def create(self, thread_id: ThreadId, *, foreign: bool = False, ephemeral: bool = False) -> "MemoryLog":  # noqa: ARG002 - all of them end with the process
        await checkpoint()  # yield where a disk would, or tests of timing test nothing
        log = self._logs[thread_id] = MemoryLog(self, thread_id, foreign=foreign)
        log.held = True
        return log

    async def open(self, thread_id: ThreadId) -> "MemoryLog":
        await checkpoint()
        log = self._log(thread_id)
        if log.held:
            raise ThreadInUse(f"thread {thread_id!r} is being written by another process")
        log.held = True
        log.recover()
        return log

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        await checkpoint()
        return self._records(thread_id, after)

    async def examine(self, thread_id: ThreadId) -> Examined:
        return Examined(records=await self.read(thread_id), foreign=self._log(thread_id).foreign)

    async def follow(self, thread_id: ThreadId, *, after: int = 0) -> AsyncGenerator[LogNews]:
        await checkpoint()
        log = self._log(thread_id)
        records, position, whole = log.everything(), len(log.told), True
        while self._logs.get(thread_id) is log:
            changed = log.changed
            if records or whole:
                yield LogNews(records=[one for one in records if one.seq > after], foreign=log.foreign, whole=whole)
            if position == len(log.told):
                await changed.wait()
            records, position, whole = log.told[position:], len(log.told), False

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool | None, search: str) -> ThreadPage:
        query = PageQuery(limit=limit, cursor=cursor, archived=archived, search=search)
        if not search.strip():
            await checkpoint()
            return self.index.page(query)
        return await search_threads(self.index, self._texts, self._records, query)

    async def delete(self, thread_id: ThreadId) -> None:
        await checkpoint()
        log = self._log(thread_id)
        del self._logs[thread_id]
        self.marked.discard(thread_id)
        log.tell()
        self.index.remove(thread_id)
        self._texts.remove(thread_id)

    async def running(self) -> list[ThreadId]:
        await checkpoint()
        return sorted(self.marked)

    async def unmark(self, thread_id: ThreadId) -> None:
        await checkpoint()
        self.marked.discard(thread_id)

    async def sweep(self) -> None:
        await checkpoint()

    async def close(self) -> None:
        await checkpoint()

    def _records(self, thread_id: ThreadId, after: int) -> list[Record]:
        return [each for each in self._log(thread_id).everything() if each.seq > after]

    def _log(self, thread_id: ThreadId) -> "MemoryLog":
        if thread_id not in self._logs:
            raise ThreadNotFound(f"no thread {thread_id!r}")
        return self._logs[thread_id]


class MemoryLog:
    repaired = ""
    damaged = False
    deaths: int | None = None

    def __init__(self, store: MemoryStore, thread_id: ThreadId, *, foreign: bool) -> None:
        self.thread_id = thread_id
        self.foreign = foreign
        self.held = False
        self._store = store
        self._records: list[Record] = []
        self._live: list[Record] = []
        self.told: list[Record] = []
        """Every record once, and each jotted delta by itself."""
        self.changed = anyio.Event()

    def tell(self, *records: Record) -> None:
        self.told += records
        self.changed.set()
        self.changed = anyio.Event()

    async def read(self) -> list[Record]:
        await checkpoint()
        return list(self._records)

    async def append(self, records: Sequence[Record], *, sync: bool = False) -> None:  # noqa: ARG002 - memory is as safe as it gets
        await checkpoint()
        if not records:
            return
        self._records += records
        jotted = {one.seq for one in self._live}
        self._live.clear()
        self.tell(*(one for one in records if one.seq not in jotted))

    def jot(self, record: Record, kept: Callable[[], None] | None = None) -> bool:  # noqa: ARG002 - kept at once
        self._live.append(record)
        self.tell(record)
        return True

    async def summarize(self, summary: ThreadSummary) -> None:
        await checkpoint()
        self._store.index.put(replace(summary, foreign=self.foreign), 0)

    def mark_running(self, *, running: bool) -> None:
        if running:
            self._store.marked.add(self.thread_id)
        else:
            self._store.marked.discard(self.thread_id)

    def rest(self) -> None:
        pass

    def abandon(self, why: StorageFailed) -> None:
        pass

    async def close(self) -> None:
        await checkpoint()
        self.held = False

    def recover(self) -> None:
        self._records = self.everything()
        self._live.clear()

    def everything(self) -> list[Record]:
        last = self._records[-1].seq if self._records else 0
        return self._records + [each for each in merge_deltas(self._live) if each.seq > last]
