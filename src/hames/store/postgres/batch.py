"""One statement that writes everything that waits, of all threads of a node.

A thread is written only under the epoch that its log was opened with, and only if its last record is the one before.
The statement locks the row of the thread, so a take-over waits for an append that is under way, and an append that
comes after a take-over writes nothing. To look whether the epoch is still the same without a lock (`exists`) would let
a take-over pass such an append.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hames.domain.errors import Fenced, StorageFailed
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.store.lines import line, merge_deltas
from hames.store.postgres.connection import HELD_SECONDS
from hames.store.postgres.search import SearchedWords, words_of

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger(__name__)

WRITE: Final = """
with committing as materialized (
    select set_config('synchronous_commit', case
        when $1 <> '' then $1
        when current_setting('synchronous_commit') in ('off', 'local') then 'on'
        else current_setting('synchronous_commit') end, true)
),
wanted as (
    select * from unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[])
        as w(id, epoch, lo, hi, running)
),
won as (
    update hames.thread t set head = w.hi, running = coalesce(w.running, t.running),
        deaths = case when w.running then 0 else t.deaths end, wake_at = case when $1 = '' then null else t.wake_at end
    from wanted w where t.id = w.id and t.epoch = w.epoch and t.head = w.lo - 1
    returning t.id, w.hi
),
forgotten as (
    delete from hames.live l using won where l.thread = won.id and l.seq <= won.hi
),
kept as (
    insert into hames.ev (thread, seq, body)
    select e.thread, e.seq, e.body from unnest($7::text[], $8::bigint[], $9::bytea[]) as e(thread, seq, body)
    join won on won.id = e.thread
),
found as (
    insert into hames.words (thread, seq, text, words)
    select s.thread, s.seq, s.text, array_to_tsvector(string_to_array(s.words, ' '))
    from unnest($10::text[], $11::bigint[], $12::text[], $13::text[]) as s(thread, seq, text, words)
    join won on won.id = s.thread
),
held as (
    select t.id, t.head from hames.thread t
    join unnest($14::text[], $15::bigint[]) as h(id, epoch) on t.id = h.id and t.epoch = h.epoch
    for share of t
),
jotted as (
    insert into hames.live (thread, seq, n, body)
    select j.thread, j.seq, j.n, j.body
    from unnest($16::text[], $17::bigint[], $18::bigint[], $19::bytea[]) as j(thread, seq, n, body)
    join (select id, head from held union all select id, hi from won) as f on f.id = j.thread and j.seq > f.head
    on conflict do nothing
)
select id from won union all select id from held union all select '' from committing
"""

MARK: Final = """
with committing as materialized (select set_config('synchronous_commit', 'off', true))
update hames.thread t set running = m.running
from unnest($1::text[], $2::bigint[], $3::boolean[]) as m(id, epoch, running), committing
where t.id = m.id and t.epoch = m.epoch
"""

UNSAFE: Final = "off"
"""The value of `synchronous_commit` that does not wait for the disk. A safe commit makes all earlier ones safe."""

LOST: Final = "thread {!r}: the database has lost records {} to {}, which it had confirmed"

STANDS: Final = "select id, epoch, head from hames.thread where id = any($1::text[])"


@dataclass
class WritingThread:
    """What is to be written of one thread. Owned by its log."""

    id: ThreadId
    epoch: int
    head: int
    dead: StorageFailed | None = None
    """Why nothing more is written."""
    jots: "list[Jot]" = field(default_factory=list["Jot"])
    """That are not kept yet, oldest first."""
    number: int = 0
    """Of the last row of live deltas."""
    waiters: "list[asyncio.Future[None]]" = field(default_factory=list["asyncio.Future[None]"])
    """Of callers that wait until no delta waits."""
    unsafe: list[Record] = field(default_factory=list[Record])
    """That a crash of the database may still lose: it was not waited for until they were on its disk."""
    appending: "set[asyncio.Future[None]]" = field(default_factory=set["asyncio.Future[None]"])
    """Of callers that wait for their records."""

    def end(self, why: StorageFailed) -> None:
        """Nothing more is taken. What is under way may still be written."""
        self.dead = why
        for one in (*self.waiters, *self.appending):
            refuse(one, why)
        self.waiters = []

    def tell(self, count: int) -> None:
        """The oldest deltas are kept."""
        told, self.jots = self.jots[:count], self.jots[count:]
        for jot in told:
            if jot.kept is not None:
                jot.kept()
        if not self.jots:
            for one in self.waiters:
                if not one.done():
                    one.set_result(None)
            self.waiters = []


@dataclass(slots=True)
class Jot:
    record: Record
    kept: Callable[[], None] | None


@dataclass
class Append:
    """Records of a thread, as one caller wants them written together."""

    thread: WritingThread
    records: Sequence[Record]
    running: bool | None
    done: "asyncio.Future[None]"


class WriteBatch:
    """Everything that waited, as columns of one statement."""

    def __init__(self, commit: str) -> None:
        self.threads: dict[ThreadId, WritingThread] = {}
        self.appends: dict[ThreadId, list[Append]] = {}
        self.jots: dict[ThreadId, list[Jot]] = {}
        self.marks: list[tuple[WritingThread, bool]] = []
        self.rows = 0
        self._commit = commit
        self._arguments: tuple[object, ...] = ()

    def add(self, one: Append) -> None:
        self.threads[one.thread.id] = one.thread
        self.appends.setdefault(one.thread.id, []).append(one)
        self.rows += len(one.records)

    def add_jots(self, thread: WritingThread) -> None:
        self.threads[thread.id] = thread
        self.jots[thread.id] = list(thread.jots)

    async def write(self, connection: "Connection", statement: str) -> set[ThreadId]:
        """The threads that another node has taken over."""
        if not self._arguments:
            self._arguments = self._columns()
        if self.marks:  # first: the next turn may start in the same batch
            marks = [(thread.id, thread.epoch, running) for thread, running in self.marks]
            await connection.execute(MARK, *_transposed(marks, 3), timeout=HELD_SECONDS)
            self.marks = []
        if self.threads:
            rows = await connection.fetch(statement, *self._arguments, timeout=HELD_SECONDS)
            written = {row[0] for row in rows}
            missing = [one for one in self.threads if one not in written]
        else:
            missing = []
        if not missing:
            return set()
        stands = {row[0]: (row[1], row[2]) for row in await connection.fetch(STANDS, missing, timeout=HELD_SECONDS)}
        lost: set[ThreadId] = set()
        for thread in map(self.threads.__getitem__, missing):
            epoch, head = stands.get(thread.id, (None, 0))
            if epoch != thread.epoch:
                lost.add(thread.id)
            elif (appends := self.appends.get(thread.id)) and appends[-1].records[-1].seq > head:
                lost |= await self._write_again(thread, head, connection, statement)
            # Otherwise the connection was lost after the commit, and this is the second try: it is there already.
        return lost

    async def _write_again(
        self, thread: WritingThread, head: int, connection: "Connection", statement: str
    ) -> set[ThreadId]:
        """The database crashed, or a standby took over, and what was not yet safe there is gone: once more, with it."""
        appends = self.appends[thread.id]
        again = [record for record in thread.unsafe if head < record.seq < appends[0].records[0].seq]
        if not again or again[0].seq != head + 1:
            # What this process knows of the thread is not so any more. Whoever opens it again goes on from there.
            thread.end(Fenced(LOST.format(thread.id, head + 1, appends[0].records[0].seq - 1)))
            log.error("records.lost", extra={"error": str(thread.dead)})
            return {thread.id}
        log.warning("records.written_again", extra={"thread_id": thread.id, "count": len(again)})
        batch = WriteBatch(self._commit)
        for one in (Append(thread, again, appends[-1].running, appends[-1].done), *appends):
            batch.add(one)
        return await batch.write(connection, statement)

    def _columns(self) -> tuple[object, ...]:
        wanted: list[tuple[str, int, int, int, bool | None]] = []
        facts: list[tuple[str, int, bytes]] = []
        words: list[SearchedWords] = []
        held: list[tuple[str, int]] = []
        jots: list[tuple[str, int, int, bytes]] = []
        for thread_id in sorted(self.threads):  # in one order, or two nodes could wait for each other
            thread = self.threads[thread_id]
            if appends := self.appends.get(thread_id):
                records = [record for one in appends for record in one.records]
                wanted.append((thread_id, thread.epoch, records[0].seq, records[-1].seq, appends[-1].running))
                facts += [(thread_id, record.seq, line(record)[:-1]) for record in records]
                words += [found for record in records if (found := words_of(record)) is not None]
            else:
                held.append((thread_id, thread.epoch))
            for record in merge_deltas(jot.record for jot in self.jots.get(thread_id, ())):
                thread.number += 1
                jots.append((thread_id, record.seq, thread.number, line(record)[:-1]))
        return (
            self._commit,
            *_transposed(wanted, 5),
            *_transposed(facts, 3),
            *_transposed(words, 4),
            *_transposed(held, 2),
            *_transposed(jots, 4),
        )

    def settle(self, lost: set[ThreadId]) -> None:
        """Tells every caller what became of it."""
        for thread_id, thread in self.threads.items():
            if thread_id in lost:
                why = thread.dead or Fenced(f"thread {thread_id!r} was taken over by another node")
                thread.end(why)
                for one in self.appends.get(thread_id, ()):
                    refuse(one.done, why)
                continue
            if thread.dead is not None and thread_id in self.appends:
                for one in self.appends[thread_id]:
                    refuse(one.done, thread.dead)
                continue
            if jots := self.jots.get(thread_id):
                # Unless their bundle was written first, and they were told with it.
                last = next((place for place, jot in enumerate(thread.jots) if jot is jots[-1]), -1)
                thread.tell(last + 1)
            for one in self.appends.get(thread_id, ()):
                thread.head = max(thread.head, one.records[-1].seq)
                thread.unsafe = [*thread.unsafe, *one.records] if self._commit == UNSAFE else []
                tell_all(thread, up_to=thread.head)
                if not one.done.done():
                    one.done.set_result(None)

    def fail(self, problem: Exception) -> None:
        for thread_id, thread in self.threads.items():
            why = StorageFailed(f"thread {thread_id!r} cannot be written: {problem}")
            if thread_id in self.jots:
                thread.end(why)
            for one in self.appends.get(thread_id, ()):
                refuse(one.done, why)


def tell_all(thread: WritingThread, *, up_to: int) -> None:
    """The deltas of bundles that are in the log by now."""
    count = 0
    while count < len(thread.jots) and thread.jots[count].record.seq <= up_to:
        count += 1
    if count:
        thread.tell(count)


def refuse(one: "asyncio.Future[None]", why: StorageFailed) -> None:
    if not one.done():
        one.set_exception(why)
        one.exception()  # nobody may wait for it any more


def _transposed(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
