"""Commands between nodes: rows of the inbox, and a hint that one is there."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hames.domain.commands import Standing
from hames.domain.ids import ThreadId
from hames.ports import Letter
from hames.store.postgres.hints import INBOX, LISTS, inbox_hint

if TYPE_CHECKING:
    from hames.store.postgres.nodes import PostgresNodes
    from hames.store.postgres.store import PostgresStore

WRITER: Final = """
select case when t.owner = $2 then false when n.until > now() then true
    else not (t.place = '' or t.place = any($3::text[])) end
from hames.thread t left join hames.node n on n.id = t.owner where t.id = $1
"""
WITHDRAW: Final = "delete from hames.inbox where client_id = $1 and taken_by is null returning id"
RECEIVE: Final = """
with waiting as (
    select id, taken_by from hames.inbox
    where answer is null and thread = any($2::text[]) and taken_by is distinct from $1 for update skip locked
)
update hames.inbox i set taken_by = $1 from waiting w where i.id = w.id
returning i.id, i.client_id, i.thread, i.body, w.taken_by is not null
"""
PUT_BACK: Final = "update hames.inbox set taken_by = '' where client_id = $1 and answer is null returning thread"
ANSWER: Final = """
update hames.inbox set answer = $2, answered_at = now() where client_id = $1 returning thread
"""
APPROVAL: Final = """
select e.thread from hames.thread t join hames.ev e on e.thread = t.id
where t.running and position($1::bytea in e.body) > 0 limit 1
"""
STANDINGS: Final = """
select t.id, l.standing from hames.thread t
join hames.node n on n.id = t.owner and n.until > now() and n.id <> $1
join hames.listed l on l.id = t.id
where l.standing <> 'away'
"""


class PostgresLetters:
    def __init__(self, store: "PostgresStore", nodes: "PostgresNodes") -> None:
        self._store = store
        self._nodes = nodes
        self._on_letter: Callable[[], None] = lambda: None
        self._on_news: Callable[[], None] = lambda: None

    def watch(self, on_letter: Callable[[], None], on_news: Callable[[], None]) -> None:
        self._on_letter, self._on_news = on_letter, on_news
        self._store.hints.listen(self._hear)

    def _hear(self, word: str) -> None:
        if word == LISTS:
            self._on_news()
        elif word.startswith(INBOX):
            self._on_letter()

    async def has_other_writer(self, thread_id: ThreadId) -> bool:
        if not self._nodes.slots:
            return True
        about = thread_id, self._nodes.id, self._store.places
        return bool(await self._value(WRITER, *about))

    async def send(self, thread_id: ThreadId, key: str, body: bytes) -> None:
        await self._store.inbox.send(thread_id, body, client_id=key)

    async def wait_for_answer(self, thread_id: ThreadId, key: str, seconds: float) -> bytes | None:
        return await self._store.inbox.wait(thread_id, key, seconds)

    async def withdraw(self, key: str) -> bool:
        return await self._value(WITHDRAW, key) is not None

    async def receive(self, held: Collection[ThreadId]) -> Sequence[Letter]:
        rows = await self._store.connections.fetch(RECEIVE, self._nodes.id, list(held))
        return [
            Letter(key=row[1], thread_id=ThreadId(row[2]), body=row[3], repeated=row[4])
            for row in sorted(rows, key=lambda row: row[0])
        ]

    async def answer(self, key: str, body: bytes) -> None:
        thread_id = await self._value(ANSWER, key, body)
        if thread_id is not None:
            self._store.hints.send([inbox_hint(thread_id)])

    async def put_back(self, key: str) -> None:
        thread_id = await self._value(PUT_BACK, key)
        if thread_id is not None:
            self._store.hints.send([inbox_hint(thread_id)])

    async def find_approval(self, approval_id: str) -> ThreadId | None:
        found = await self._value(APPROVAL, approval_id.encode())
        return ThreadId(found) if found is not None else None

    async def standings(self) -> Mapping[ThreadId, Standing]:
        rows = await self._store.connections.fetch(STANDINGS, self._nodes.id)
        return {ThreadId(row[0]): row[1] for row in rows}

    def set_viewing(self, thread_id: ThreadId, *, answers: bool | None) -> None:
        if answers is None:
            self._nodes.viewing.pop(thread_id, None)
        else:
            self._nodes.viewing[thread_id] = answers

    def send_news(self) -> None:
        self._store.hints.send([LISTS])

    async def _value(self, statement: str, *values: object) -> Any:
        row = await self._store.connections.fetch_row(statement, *values)
        return row[0] if row is not None else None
