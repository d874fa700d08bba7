"""Writes of all threads of a node, in batches: one statement and one commit for everything that waits.

A thread is written only under the epoch that its log was opened with. The statement locks the row of the thread, so a
take-over waits for an append that is under way, and an append that comes after a take-over writes nothing. To look
whether the epoch is still the same without a lock (`exists`) would let a take-over pass such an append.

There are two lanes, each with a connection of its own: one commits safely (facts), one does not wait for the disk of
the database (text). What arrives while a batch is under way is the next batch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hames.domain.errors import Fenced, HarnessError, StorageFailed
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.store.lines import line, merge_deltas
from hames.store.postgres.connection import HELD_SECONDS, RETRY_SECONDS, is_connection_lost
from hames.store.postgres.search import SearchedWords, words_of

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger(__name__)

MOST_ROWS: Final = 2_000
"""Of one batch."""

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
    from wanted w where t.id = w.id and t.epoch = w.epoch and t.head < w.lo
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
        self.lost_since: float | None = None
        """When the database went away, by the clock of the loop."""

    # -- what callers do

    async def append(self, thread: WritingThread, records: Sequence[Record], running: bool | None) -> None:
        """Raises `StorageFailed`. It may be waited for or not: what was handed over is written."""
        done = asyncio.get_running_loop().create_future()
        thread.appending.add(done)
        done.add_done_callback(thread.appending.discard)
        self._appends.append(Append(thread, records, running, done))
        self._start()
        await asyncio.shield(done)

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
        # The connection was lost after the commit, and this is the second try: it is there already.
        return {one for one in missing if not self._is_there(self.threads[one], stands.get(one))}

    def _is_there(self, thread: WritingThread, stands: tuple[int, int] | None) -> bool:
        if stands is None or stands[0] != thread.epoch:
            return False
        return one.records[-1].seq <= stands[1] if (one := self._last(thread.id)) is not None else True

    def _last(self, thread_id: ThreadId) -> Append | None:
        appends = self.appends.get(thread_id)
        return appends[-1] if appends else None

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
                why = Fenced(f"thread {thread_id!r} was taken over by another node")
                thread.end(why)
                for one in self.appends.get(thread_id, ()):
                    refuse(one.done, why)
                continue
            if jots := self.jots.get(thread_id):
                # Unless their bundle was written first, and they were told with it.
                last = next((place for place, jot in enumerate(thread.jots) if jot is jots[-1]), -1)
                thread.tell(last + 1)
            for one in self.appends.get(thread_id, ()):
                thread.head = max(thread.head, one.records[-1].seq)
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


async def close_connection(connection: "Connection", *, at_once: bool = False) -> None:
    try:
        await connection.close(timeout=0.1 if at_once else 2.0)
    except Exception:  # it is gone either way
        connection.terminate()
