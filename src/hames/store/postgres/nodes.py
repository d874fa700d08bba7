"""Nodes in the database: leases, claims of threads that need a writer, and who is there.

All times are the database's. Nothing here keeps two nodes from writing one thread: the epoch does, which every claim
raises and every append checks (`store/postgres/writer.py`).
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec

from hames.domain.commands import Standing
from hames.domain.errors import HarnessError
from hames.domain.events import FORMAT
from hames.domain.ids import ThreadId
from hames.ports import NodeStatus, Viewing
from hames.store.postgres.hints import CHANNEL, INBOX, LISTS
from hames.store.postgres.inbox import IS_VALID
from hames.store.postgres.lease import is_live, take

if TYPE_CHECKING:
    from asyncpg import Connection

    from hames.store.postgres.store import PostgresStore

log = logging.getLogger(__name__)

WORK: Final = "@work"
"""A hint that there may be threads to claim."""
TIDY_EVERY: Final = 20
"""So many renewals lie between two looks for what dead nodes left."""

RENEW: Final = """
insert into hames.node (id, name, until, labels, slots, works, version, stats)
values ($1, $2, now() + make_interval(secs => $3), $4, $5, $5 > 0, $6, $7)
on conflict (id) do update set until = excluded.until, stats = excluded.stats, renewed_at = now()
"""
VIEW: Final = """
with gone as (delete from hames.presence where node = $1 and thread <> all($2::text[]))
insert into hames.presence (thread, node, answers, until, tools)
select v.thread, $1, v.answers, now() + make_interval(secs => $4), v.tools
from unnest($2::text[], $3::boolean[], $5::integer[]) as v(thread, answers, tools)
on conflict (thread, node) do update set answers = excluded.answers, until = excluded.until, tools = excluded.tools
"""
VIEWED: Final = """
select p.node, p.thread, p.answers from hames.presence p join hames.thread t on t.id = p.thread
where t.owner = $1 and p.node <> $1 and p.until > now()
"""
CLAIM: Final = f"""
with dead as materialized (
    select coalesce(array_agg(id), '{{}}') as ids from hames.node where until < now()
),
found as (
    select id from hames.thread where running and owner is null
    union
    select id from hames.thread where running and owner = any((select ids from dead)::text[])
    union
    select id from hames.thread where running and owner = $1 and id <> all($3::text[])
    union
    select id from hames.thread where wake_at <= now()
    union
    select thread from hames.inbox where answer is null and {IS_VALID}
),
taken as (
    select t.id from hames.thread t
    where t.id in (select id from found) and t.id <> all($6::text[]) and t.format <= $5 and {is_live("$1")}
        and (t.place = '' or t.place = any($4::text[]))
        and (t.owner is null or t.owner = any((select ids from dead)::text[])
            or (t.owner = $1 and t.running and t.id <> all($3::text[])))
    order by t.id limit $2 for update of t skip locked
)
update hames.thread t set told_waiting = false, {take("$1")}
from taken where t.id = taken.id returning t.id
"""
"""It starts at the few rows that can be meant (dead nodes, letters, due times), never at all threads."""
END_SESSIONS: Final = """
select pg_terminate_backend(a.pid) from hames.node n
join pg_stat_activity a on a.application_name = left('hames ' || n.id, 63)
where n.until < now() and a.usename = current_user and a.state <> 'idle' and a.wait_event = 'ClientRead'
"""
"""A node that was lost in the middle of sending a statement leaves the rows of its threads locked until the database
notices, which may take hours: nobody could claim them."""
PUT_BACK: Final = "update hames.thread set owner = null where id = $1 and owner = $2"
DISPLACED: Final = f"""
with dead as materialized (
    select coalesce(array_agg(id), '{{}}') as ids from hames.node where until < now()
),
live as materialized (
    select 'node:' || name as place from hames.node where until > now() and works
    union select 'label:' || unnest(labels) from hames.node where until > now() and works
),
taken as (
    select t.id from hames.thread t
    where t.running and t.place <> '' and not t.told_waiting and t.format <= $2 and {is_live("$1")}
        and (t.owner is null or t.owner = any((select ids from dead)::text[]))
        and t.place not in (select place from live)
    order by t.id limit 20 for update of t skip locked
)
update hames.thread t set told_waiting = true, {take("$1")}
from taken where t.id = taken.id returning t.id
"""
"""Threads whose turn waits for a place that is gone, once each."""
STANDINGS: Final = """
update hames.listed l set standing = s.standing
from unnest($1::text[], $2::text[]) as s(id, standing) where l.id = s.id and l.standing <> s.standing
"""
TIDY: Final = """
with gone as (
    delete from hames.node n where until < now() - interval '1 hour'
    and not exists (select from hames.thread t where t.owner = n.id)
),
unseen as (delete from hames.presence where until < now() - interval '1 minute')
delete from hames.inbox where answered_at < now() - interval '10 minutes'
    or answer is null and sent_at < now() - interval '1 day'
"""
LEAVE: Final = """
with given as (update hames.thread set owner = null where owner = $1),
unseen as (delete from hames.presence where node = $1)
delete from hames.node where id = $1
"""
LIST: Final = """
select n.id, n.name, n.labels, n.slots, n.version, n.until > now(),
    extract(epoch from now() - n.renewed_at)::float8, n.stats::text,
    count(t.id), count(t.id) filter (where t.running),
    coalesce(sum((select count(*) from hames.inbox i where i.thread = t.id and i.answer is null)), 0)::bigint,
    extract(epoch from n.until - now())::float8
from hames.node n left join hames.thread t on t.owner = n.id
group by n.id order by n.name, n.started_at
"""


class PostgresNodes:
    """`name` is the machine's, for people and for places (`node:NAME`). `slots` 0: this node runs no turns."""

    def __init__(
        self, store: "PostgresStore", *, name: str, labels: Sequence[str] = (), slots: int = 0, version: str = ""
    ) -> None:
        self.id = store.node_id
        self.name = name
        self.labels = tuple(labels)
        self.slots = slots
        self.lease_s = store.lease.seconds
        self.viewing: dict[ThreadId, Viewing] = {}
        self._version = version
        self._store = store
        self._skipped: dict[ThreadId, float] = {}
        self._wake = anyio.Event()
        self._renewals = self._claimed = 0
        self._viewed: dict[ThreadId, Viewing] = {}
        self._telling = anyio.Lock()
        store.lease.managed = True
        store.places = [f"node:{name}", *(f"label:{label}" for label in self.labels)]

    async def register(self) -> None:
        await self._store.run(lambda connection: self._renew(connection, 0))
        self._store.hints.listen(self._hear)

    async def renew(self, *, lag_ms: int) -> Sequence[Viewing]:
        return await self._store.run(lambda connection: self._renew(connection, lag_ms))

    async def _renew(self, connection: "Connection", lag_ms: int) -> Sequence[Viewing]:
        stats = msgspec.json.encode({"lag_ms": lag_ms, **self._stats()}).decode()
        labels = list(self.labels)
        await connection.execute(RENEW, self.id, self.name, self.lease_s, labels, self.slots, self._version, stats)
        await self._store.release_waiting(connection)  # what could not be given back while the database was gone
        if self.viewing or self._viewed:
            await self._tell_viewing(connection)
        self._renewals += 1
        if self._renewals % TIDY_EVERY == 0:
            await connection.execute(TIDY)
        rows: list[Any] = await connection.fetch(VIEWED, self.id)
        return [Viewing(node=row[0], thread_id=ThreadId(row[1]), answers=row[2]) for row in rows]

    async def tell_viewing(self) -> None:
        if self.viewing != self._viewed:
            await self._store.run(self._tell_viewing)

    async def _tell_viewing(self, connection: "Connection") -> None:
        async with self._telling:  # what is told last is what holds
            viewing = dict(self.viewing)
            answers, tools = [one.answers for one in viewing.values()], [one.tools for one in viewing.values()]
            await connection.execute(VIEW, self.id, list(viewing), answers, self.lease_s, tools)
            self._viewed = viewing

    def _stats(self) -> dict[str, float]:
        """For `hames nodes` and the metrics of every gateway: a worker itself listens on no port."""
        store, facts, text = self._store, self._store.facts, self._store.text
        times = sorted([*facts.times, *text.times])
        return {
            "claimed": self._claimed,
            "fenced": store.fenced_count,
            "followers": store.follower_count,
            "facts": facts.facts + text.facts,
            "deltas": facts.deltas + text.deltas,
            "batches": facts.batches + text.batches,
            "waiting": len({*facts.waiting(), *text.waiting()}),
            "append_ms": round(times[len(times) // 2] * 1000, 2) if times else 0.0,
            "append_ms_p99": round(times[len(times) * 99 // 100] * 1000, 2) if times else 0.0,
        }

    async def claim(self, limit: int, held: Collection[ThreadId]) -> list[ThreadId]:
        now = time.monotonic()
        self._skipped = {thread: until for thread, until in self._skipped.items() if until > now}
        await self._store.connections.execute(END_SESSIONS)
        wanted = self.id, limit, list(held), self._store.places, FORMAT, list(self._skipped)
        rows = await self._store.connections.fetch(CLAIM, *wanted)
        self._claimed += len(rows)
        return [ThreadId(row[0]) for row in rows]

    async def claim_displaced(self) -> list[ThreadId]:
        rows = await self._store.connections.fetch(DISPLACED, self.id, FORMAT)
        return [ThreadId(row[0]) for row in rows]

    async def put_back(self, thread_id: ThreadId, *, seconds: float) -> None:
        self._skipped[thread_id] = time.monotonic() + seconds
        await self._store.connections.fetch(PUT_BACK, thread_id, self.id)

    async def wait_for_work(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._wake.wait()
        self._wake = anyio.Event()

    def _hear(self, word: str) -> None:
        if word.startswith((WORK, INBOX)):
            self._wake.set()

    async def leave(self) -> None:
        try:
            await self._store.connections.fetch(LEAVE, self.id)
            await self._store.connections.fetch("select pg_notify($1, $2)", CHANNEL, WORK)
        except HarnessError as problem:  # its lease ends by itself
            log.info("lease.not_given_back", extra={"node": self.name, "error": str(problem)})

    async def set_standings(self, standings: Mapping[ThreadId, Standing]) -> None:
        columns = list(standings), list(standings.values())
        await self._store.connections.fetch(STANDINGS, *columns)
        self._store.hints.send([LISTS])

    async def list(self) -> Sequence[NodeStatus]:
        return await list_nodes(self._store)


async def list_nodes(store: "PostgresStore") -> list[NodeStatus]:
    """All nodes that are there, and those that died within the last hour."""
    rows = await store.connections.fetch(LIST)
    return [
        msgspec.convert(
            {
                **msgspec.json.decode(row[7]),
                "id": row[0],
                "name": row[1],
                "labels": tuple(row[2]),
                "slots": row[3],
                "version": row[4],
                "live": row[5],
                "seen_s": row[6],
                "threads": row[8],
                "running": row[9],
                "inbox": row[10],
                "lease_s": row[11],
            },
            NodeStatus,
        )
        for row in rows
    ]
