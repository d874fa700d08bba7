"""Reads logs while other nodes write them: all threads that changed, for all followers, in one query."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

from hames.domain.errors import StorageFailed, ThreadNotFound
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.ports import LogNews
from hames.store.bundles import begins_with, text_after, text_beyond
from hames.store.lines import merge_deltas
from hames.store.postgres.hints import Hints
from hames.store.postgres.pool import Connections
from hames.store.postgres.reading import ReadRows, Row, packed_lines, read_rows

log = logging.getLogger(__name__)

FETCH: Final = """
with wanted as (select * from unnest($1::integer[], $2::text[], $3::bigint[]) as w(place, thread, after)),
there as (
    select w.place, w.thread, w.after, t."foreign", t.packed, t.head
    from wanted w join hames.thread t on t.id = w.thread
)
select place, 0::bigint as seq, -1::bigint as n, case when "foreign" then 'f'::bytea else ''::bytea end as body
from there
union all
select w.place, 0, 0, b.body from there w join hames.blob b on b.id = w.packed and w.after < w.head
union all
select w.place, e.seq, 0, e.body from there w join hames.ev e on e.thread = w.thread and e.seq > w.after
union all
select w.place, l.seq, l.n, l.body from there w join hames.live l on l.thread = w.thread and l.seq > w.after
order by 1, 2, 3
"""


class Following:
    def __init__(self, connections: Connections, hints: Hints) -> None:
        self._connections = connections
        self._hints = hints
        self._listens = False
        self._changed: dict[ThreadId, set[asyncio.Event]] = {}
        self._asked: list[tuple[ThreadId, int, asyncio.Future[Fetched]]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        return sum(map(len, self._changed.values()))

    async def follow(self, thread_id: ThreadId, after: int) -> AsyncGenerator[LogNews]:
        if not self._listens:
            self._listens = True
            self._hints.listen(self._hear)
        changed = asyncio.Event()
        self._changed.setdefault(thread_id, set()).add(changed)
        reader = RowReader(after)
        try:
            found = await self._fetch(thread_id, 0)
            if found is None:
                raise ThreadNotFound(f"no thread {thread_id!r}")
            news: LogNews | None = reader.begin(found)
            while True:
                if news is not None:
                    yield news
                await changed.wait()
                changed.clear()
                news = None
                try:
                    found = await self._fetch(thread_id, reader.last)
                    if found is None:
                        return
                    news = reader.take(found)
                    if news is None and reader.lost:
                        found = await self._fetch(thread_id, 0)
                        if found is None:
                            return
                        news = reader.begin(found)
                except StorageFailed as problem:  # the database is gone; the next look comes by itself
                    log.info("log.not_followed", extra={"thread_id": thread_id, "error": str(problem)})
        finally:
            events = self._changed[thread_id]
            events.discard(changed)
            if not events:
                del self._changed[thread_id]

    def _hear(self, word: str) -> None:
        if word:
            for event in self._changed.get(ThreadId(word), ()):
                event.set()
            return
        for events in self._changed.values():
            for event in events:
                event.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _fetch(self, thread_id: ThreadId, after: int) -> "Fetched":
        """None: there is no such thread. Raises `StorageFailed`."""
        future: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self._asked.append((thread_id, after, future))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._fetch_all())
        return await future

    async def _fetch_all(self) -> None:
        await asyncio.sleep(0)  # whoever heard of the same hint asks in the same moment
        while self._asked:
            asked, self._asked = self._asked, []
            columns = list(range(len(asked))), [one[0] for one in asked], [one[1] for one in asked]
            try:
                rows = await self._connections.fetch(FETCH, *columns)
            except Exception as problem:
                for _, _, future in asked:
                    if not future.done():
                        future.set_exception(problem)
                        future.exception()
                continue
            grouped: dict[int, list[Any]] = {}
            for row in rows:
                grouped.setdefault(row[0], []).append(row)
            for place, (_, after, future) in enumerate(asked):
                if not future.done():
                    own = grouped.get(place)
                    future.set_result((bool(own[0][3]), read_rows(_log_rows(own[1:], after), after)) if own else None)


def _log_rows(rows: list[Any], after: int) -> list[Row]:
    """Of a packed thread the one row with all of it has the number 0."""
    if rows and rows[0][1] == 0:
        return [one for one in packed_lines(rows[0][3]) if one[0] > after]
    return [(one[1], one[2], one[3]) for one in rows]


Fetched = tuple[bool, ReadRows] | None
"""Whether the thread is foreign, and its rows."""


class RowReader:
    """What one follower has read of a thread so far."""

    def __init__(self, after: int) -> None:
        self.last = 0
        self.lost = False
        """What was read does not go on from what was told: the whole log is needed."""
        self._after = after
        self._told: Record | None = None
        """The part of the open bundle that was told, as one delta."""

    def begin(self, found: tuple[bool, ReadRows]) -> LogNews:
        foreign, rows = found
        self.lost = False
        self.last = rows.records[-1].seq if rows.records else 0
        self._told = next(merge_deltas(rows.open_bundle), None)
        return LogNews(records=self._wanted(rows.everything), foreign=foreign, whole=True)

    def take(self, found: tuple[bool, ReadRows]) -> LogNews | None:
        foreign, rows = found
        records = list(rows.records)
        if records:
            if records[0].seq != self.last + 1:
                self.lost = True
                return None
            self.last = records[-1].seq
            if (told := self._told) is not None:
                if not begins_with(told, records[0]):
                    self.lost = True
                    return None
                rest = text_beyond(told, records[0])
                records = [*([rest] if rest is not None else []), *records[1:]]
                self._told = None
        bundle = next(merge_deltas(rows.open_bundle), None)
        if bundle is not None:
            if self._told is not None and not begins_with(self._told, bundle):
                self.lost = True
                return None
            records += text_after(rows.open_bundle, self._told)
            self._told = bundle
        elif self._told is not None:  # it was told, and the database lost it
            self.lost = True
            return None
        return LogNews(records=self._wanted(records), foreign=foreign) if records else None

    def _wanted(self, records: list[Record]) -> list[Record]:
        return [one for one in records if one.seq > self._after]
