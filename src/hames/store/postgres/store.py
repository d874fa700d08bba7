"""The store: the same contract as on files, for any number of nodes."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import move_on_after, to_thread

from hames.domain.commands import ThreadPage, ThreadSummary
from hames.domain.errors import HarnessError, StorageFailed, ThreadInUse, ThreadNotFound, ThreadReadOnly
from hames.domain.events import FORMAT, Record
from hames.domain.ids import ThreadId
from hames.ports import Examined, LogNews
from hames.store.index import PageQuery
from hames.store.places import THREAD_ID
from hames.store.postgres.following import Following
from hames.store.postgres.hints import LISTS, Hints
from hames.store.postgres.inbox import NodeInbox
from hames.store.postgres.lease import LEASE_SECONDS, RENEW_SECONDS, Lease, is_live, take
from hames.store.postgres.listing import list_page, listed_row
from hames.store.postgres.log import PostgresLog
from hames.store.postgres.pool import Connections
from hames.store.postgres.reading import READ, ReadRows, read_rows
from hames.store.postgres.upkeep import packed_rows, unpack
from hames.store.postgres.writer import Lane

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger(__name__)
T = TypeVar("T")

CLOSE_SECONDS: Final = 3.0
MANY_ROWS: Final = 500
"""More of them are decoded in a thread of their own, so that nobody else waits."""

CREATE: Final = """
insert into hames.thread (id, owner, epoch, "foreign", ephemeral, format) values ($1, $2, 1, $3, $4, $5)
on conflict (id) do update set head = 0 where thread.owner = $2 and thread.epoch = 1 and thread.head = 0 returning epoch
"""
"""A second try, after the connection was lost, finds the row of the first."""
TAKE: Final = f"""
update hames.thread t set {take("$2")}
where t.id = $1 and t.format <= $3 and {is_live("$2")} and (
    t.owner = $2
    or (t.place = '' or $4::text[] is null or t.place = any($4::text[])) and (
        t.owner is null or not exists (select from hames.node n where n.id = t.owner and n.until > now())
    )
)
returning t.epoch, t.head, t."foreign", t.deaths
"""
"""A node takes what nobody owns and what a dead node owned, if the place allows it, and what was claimed for it."""
SET_PLACE: Final = "update hames.thread set place = $3 where id = $1 and epoch = $2"
RELEASE: Final = """
update hames.thread t set owner = case when t.epoch = w.epoch then null else t.owner end,
    deaths = case when t.epoch = w.epoch then t.deaths else greatest(t.deaths - 1, 0) end
from unnest($2::text[], $3::bigint[]) as w(id, epoch)
where t.id = w.id and (t.epoch = w.epoch and t.owner = $1 or t.epoch > w.epoch and t.running and t.deaths > 0)
"""
"""A node gives threads back. Where another node has taken one, because it took this node for dead, the death does not
count. To take one back too many leaves a turn that kills its nodes one more try."""
ABOUT: Final = """
select t.format, t."foreign", n.name, t.packed from hames.thread t left join hames.node n on n.id = t.owner
where t.id = $1
"""
# Whoever deletes a thread had it open a moment ago: a node that only followed it may have taken it since.
DELETE: Final = """
with gone as (delete from hames.thread where id = $1 and (owner is null or owner = $2 or not running
        or not exists (select from hames.node n where n.id = owner and n.until > now())) returning id),
ev as (delete from hames.ev where thread in (select id from gone)),
live as (delete from hames.live where thread in (select id from gone)),
words as (delete from hames.words where thread in (select id from gone)),
listed as (delete from hames.listed where id in (select id from gone)),
inbox as (delete from hames.inbox where thread in (select id from gone)),
presence as (delete from hames.presence where thread in (select id from gone)),
blob as (delete from hames.blob where thread in (select id from gone))
select id from gone
"""
LIST: Final = """
with mine as (select id from hames.thread where id = $1 and epoch = $8 for share),
committing as materialized (select set_config('synchronous_commit', 'off', true))
insert into hames.listed (id, title, preview, updated_at_ms, archived, standing, summary)
select mine.id, $2, $3, $4, $5, $6, $7 from mine, committing
on conflict (id) do update set title = excluded.title, preview = excluded.preview,
    updated_at_ms = excluded.updated_at_ms, archived = excluded.archived, summary = excluded.summary
"""
ABANDONED: Final = """
select id from hames.thread t where ephemeral and (owner is not null or created_at < now() - interval '1 hour')
and not exists (select from hames.node n where n.id = t.owner and n.until > now())
"""


class PostgresStore:
    """`address` is a `postgresql://` URL. Nothing is connected before it is used."""

    def __init__(
        self,
        address: str,
        *,
        name: str = "",
        lease_seconds: float = LEASE_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        notifies: bool = True,
    ) -> None:
        """`name` is this node's, for people. `notifies`: other nodes get hints; without, they look each second.

        Raises `Misconfigured`.
        """
        self.connections = Connections(address)
        self.hints = Hints(self.connections.connect, notifies=notifies)
        self.lease = Lease(self.connections, name=name, seconds=lease_seconds, renew=renew_seconds)
        self.connections.name = f"hames {self.lease.node_id}"
        self.facts = Lane(self.connections.connect, self._changed, self._fenced, commit="")
        self.text = Lane(self.connections.connect, self._changed, self._fenced, commit="off")
        self.fenced_listeners: list[Callable[[ThreadId], None]] = []
        """Called with a thread of ours that another node has taken over."""
        self._following = Following(self.connections, self.hints)
        self.inbox = NodeInbox(self.connections, self.hints, self.lease.node_id)
        self._open: dict[ThreadId, PostgresLog] = {}
        self._opening: set[ThreadId] = set()
        self.fenced_count = 0
        """How many threads of ours other nodes took over."""
        self._to_release: dict[ThreadId, int] = {}
        """Threads that are closed here and not given back yet, and the epoch that each was written under."""
        self.places: list[str] | None = None
        """Threads with another place are left to other nodes. None: this node takes any."""

    @property
    def node_id(self) -> str:
        return self.lease.node_id

    @property
    def follower_count(self) -> int:
        """How many readers here follow threads that other nodes write."""
        return self._following.count

    async def run(self, work: "Callable[[Connection], Awaitable[T]]") -> T:
        """Something that may be done twice, on some connection. Raises `StorageFailed`."""
        return await self.connections.run(work)

    async def create(self, thread_id: ThreadId, *, foreign: bool = False, ephemeral: bool = False) -> PostgresLog:
        if not THREAD_ID.fullmatch(thread_id):
            raise StorageFailed(f"{thread_id!r} cannot be the name of a thread")
        await self.lease.start()
        made = await self.connections.fetch_row(CREATE, thread_id, self.node_id, foreign, ephemeral, FORMAT)
        if made is None:
            raise StorageFailed(f"cannot make thread {thread_id!r}: there is one of that name")
        opened = self._open[thread_id] = PostgresLog(self, thread_id, epoch=made[0], head=0, foreign=foreign)
        return opened

    async def open(self, thread_id: ThreadId) -> PostgresLog:
        if not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        await self.lease.start()
        if thread_id in self._opening or thread_id in self._open:
            raise ThreadInUse(f"thread {thread_id!r} is being written by this node")
        self._opening.add(thread_id)
        try:
            await self._unpack(thread_id)
            opened = self._open[thread_id] = await self._take(thread_id)
        finally:
            self._opening.discard(thread_id)
        return opened

    async def _take(self, thread_id: ThreadId) -> PostgresLog:
        row = await self.connections.fetch_row(TAKE, thread_id, self.node_id, FORMAT, self.places)
        if row is None:
            raise await self._refusal(thread_id)
        epoch, head, foreign, deaths = row
        opened = PostgresLog(self, thread_id, epoch=epoch, head=head, foreign=foreign, deaths=deaths)
        try:
            await self._recover(opened)
        except BaseException:
            await self.release(opened)
            raise
        return opened

    async def _unpack(self, thread_id: ThreadId) -> None:
        about = await self.connections.fetch_row(ABOUT, thread_id)
        if about is not None and about[3] is not None:
            await unpack(self.connections, thread_id)

    async def _recover(self, opened: PostgresLog) -> None:
        """What was told and is in no bundle yet is taken into the log. Raises `ThreadReadOnly`, `StorageFailed`."""
        found = await self._rows(opened.thread_id)
        if found.newer:
            raise ThreadReadOnly(
                f"thread {opened.thread_id!r} was written by a newer version of hames:"
                " it can be read here, not continued"
            )
        if found.bad:
            opened.damaged = True
            opened.repaired = f"{found.bad} records in the database are damaged, and were left out"
        added = found.everything[len(found.records) :]
        if added:
            await opened.append(added)
        opened.recovered = found.everything

    async def _refusal(self, thread_id: ThreadId) -> HarnessError:
        row = await self.connections.fetch_row(ABOUT, thread_id)
        if row is None:
            return ThreadNotFound(f"no thread {thread_id!r}")
        if row[0] > FORMAT:
            return ThreadReadOnly(
                f"thread {thread_id!r} was written by a newer version of hames: it can be read here, not continued"
            )
        return ThreadInUse(f"thread {thread_id!r} is being written by node {row[2] or 'unknown'!r}")

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        return [one for one in (await self.examine(thread_id)).records if one.seq > after]

    async def examine(self, thread_id: ThreadId) -> Examined:
        if not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        about = await self.connections.fetch_row(ABOUT, thread_id)
        if about is None:
            raise ThreadNotFound(f"no thread {thread_id!r}")
        if about[3] is not None:
            return Examined(records=read_rows(await packed_rows(self.connections, thread_id)).records, foreign=about[1])
        return Examined(records=(await self._rows(thread_id)).everything, foreign=about[1])

    async def records(self, thread_id: ThreadId) -> list[Record]:
        return (await self._rows(thread_id)).everything

    async def _rows(self, thread_id: ThreadId) -> ReadRows:
        rows = await self.connections.fetch(READ, thread_id, 0)
        if len(rows) > MANY_ROWS:
            return await to_thread.run_sync(read_rows, rows)
        return read_rows(rows)

    async def follow(self, thread_id: ThreadId, *, after: int = 0) -> AsyncGenerator[LogNews]:
        if not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        following = self._following.follow(thread_id, after)
        try:
            async for news in following:
                yield news
        finally:
            await following.aclose()

    async def page(self, *, limit: int | None, cursor: str | None, archived: bool | None, search: str) -> ThreadPage:
        query = PageQuery(limit=limit, cursor=cursor, archived=archived, search=search)
        return await self.run(lambda connection: list_page(connection, query))

    async def set_place(self, thread_id: ThreadId, epoch: int, place: str) -> None:
        await self.connections.execute(SET_PLACE, thread_id, epoch, place)

    async def list_thread(self, summary: ThreadSummary, epoch: int) -> None:
        row = listed_row(summary)
        await self.connections.execute(LIST, *row, epoch)
        self.hints.send([LISTS])

    async def delete(self, thread_id: ThreadId) -> None:
        if not THREAD_ID.fullmatch(thread_id):
            raise ThreadNotFound(f"no thread {thread_id!r}")
        gone = await self.connections.fetch_row(DELETE, thread_id, self.node_id)
        if gone is None:
            raise await self._refusal(thread_id)
        self.hints.send([thread_id, LISTS])

    async def running(self) -> list[ThreadId]:
        rows = await self.connections.fetch("select id from hames.thread where running order by id")
        return [ThreadId(row[0]) for row in rows]

    async def unmark(self, thread_id: ThreadId) -> None:
        """A mark is in the row of its thread, and goes with it."""

    async def sweep(self) -> None:
        try:
            rows = await self.connections.fetch(ABANDONED)
            for row in rows:
                await self.delete(ThreadId(row[0]))
        except HarnessError as problem:
            log.info("store.not_swept", extra={"error": str(problem)})

    async def close(self) -> None:
        """What was handed over is written, if the database is there. Then every thread of this node is free."""
        with move_on_after(CLOSE_SECONDS) as flushing:
            await self.text.flush()
            await self.facts.flush()
        gone = flushing.cancelled_caught
        if gone:
            log.warning("records.not_written", extra={"threads": sorted({*self.text.waiting(), *self.facts.waiting()})})
        for opened in self._open.values():
            opened.closed = True
        self._open = {}
        for lane in (self.facts, self.text):
            await lane.close(at_once=gone)
        await self._following.close()
        await self.hints.close(at_once=gone)
        try:
            with move_on_after(CLOSE_SECONDS):
                await self.lease.leave(CLOSE_SECONDS)
        except HarnessError as problem:  # its lease ends by itself
            log.info("lease.not_given_back", extra={"error": str(problem)})
        await self.connections.close(at_once=gone)

    async def release(self, log: PostgresLog) -> None:
        if self._open.get(log.thread_id) is log:
            del self._open[log.thread_id]
        self._to_release[log.thread_id] = log.writing.epoch
        try:
            await self.run(self.release_waiting)
        except HarnessError:  # with the next renewal of the lease; and it is free when the lease ends
            return

    async def release_waiting(self, connection: "Connection") -> None:
        """Gives back the threads that are closed here. What cannot be given back is tried again with the next call."""
        if waiting := dict(self._to_release):
            await connection.execute(RELEASE, self.node_id, list(waiting), list(waiting.values()))
            for thread_id, epoch in waiting.items():
                if self._to_release.get(thread_id) == epoch:
                    del self._to_release[thread_id]
            self.hints.send(waiting)

    def _changed(self, threads: Sequence[ThreadId]) -> None:
        self.hints.send(threads)

    def _fenced(self, thread_id: ThreadId) -> None:
        log.warning("thread.fenced", extra={"thread_id": thread_id})
        self.fenced_count += 1
        for listener in self.fenced_listeners:
            listener(thread_id)
