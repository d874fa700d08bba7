"""Commands between nodes: rows of the inbox, and a hint that one is there."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hames.domain.commands import Standing
from hames.domain.ids import ThreadId
from hames.ports import Letter, Viewing
from hames.store.postgres.hints import INBOX, LISTS, inbox_hint
from hames.store.postgres.inbox import IS_VALID

if TYPE_CHECKING:
    from hames.store.postgres.nodes import PostgresNodes
    from hames.store.postgres.store import PostgresStore

WRITER: Final = """
select case when t.owner = $2 then false when n.until > now() then true
    else not (t.place = '' or t.place = any($3::text[])) end
from hames.thread t left join hames.node n on n.id = t.owner where t.id = $1
"""
WITHDRAW: Final = "delete from hames.inbox where client_id = $1 and taken_by is null returning id"
DISCARD: Final = "delete from hames.inbox where client_id = $1"
RECEIVE: Final = f"""
with waiting as (
    select id, taken_by from hames.inbox
    where answer is null and thread = any($2::text[]) and {IS_VALID}
        and (thread = $4 or exists (select from hames.thread t where t.id = inbox.thread and t.owner = $1))
        and (taken_by is distinct from $1 or client_id <> all($3::text[])) for update skip locked
)
update hames.inbox i set taken_by = $1 from waiting w where i.id = w.id
returning i.id, i.client_id, i.thread, i.body, w.taken_by is not null and w.taken_by <> $1
"""
"""Also what this node has taken without hearing of it, because the connection was lost. A thread that another node has
taken over is that node's, although this one may not know it yet."""
AWAITED: Final = """
select exists (select from hames.inbox i join hames.node n on n.id = i.sender
    where i.client_id = $1 and i.answer is null and n.until > now())
"""
LIVE: Final = "select exists (select from hames.node where id = $1 and until > now())"
TOOL_NODES: Final = """
select node, answers, tools from hames.presence p
where thread = $1 and node <> $2 and tools > 0 and p.until > now() order by since, node
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

    def mailbox(self, node: str) -> ThreadId:
        return ThreadId(f"@{node}")  # which is no name of a thread

    async def send(self, thread_id: ThreadId, key: str, body: bytes) -> None:
        await self._store.inbox.send(thread_id, body, client_id=key)

    async def wait_for_answer(self, thread_id: ThreadId, key: str, seconds: float) -> bytes | None:
        return await self._store.inbox.wait(thread_id, key, seconds)

    async def withdraw(self, key: str) -> bool:
        return await self._value(WITHDRAW, key) is not None

    async def discard(self, thread_id: ThreadId, key: str) -> None:
        await self._store.connections.execute(DISCARD, key)
        self._store.hints.send([inbox_hint(thread_id)])

    async def receive(self, held: Collection[ThreadId], under_way: Collection[str]) -> Sequence[Letter]:
        mailbox = self.mailbox(self._nodes.id)
        wanted = self._nodes.id, [*held, mailbox], list(under_way), mailbox
        rows = await self._store.connections.fetch(RECEIVE, *wanted)
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

    async def is_awaited(self, key: str) -> bool:
        return bool(await self._value(AWAITED, key))

    async def is_live(self, node: str) -> bool:
        return bool(await self._value(LIVE, node))

    def set_viewing(self, thread_id: ThreadId, *, answers: bool | None, tools: int = 0) -> None:
        if answers is None:
            self._nodes.viewing.pop(thread_id, None)
        else:
            viewing = Viewing(node=self._nodes.id, thread_id=thread_id, answers=answers, tools=tools)
            self._nodes.viewing[thread_id] = viewing

    async def tell_viewing(self) -> None:
        await self._nodes.tell_viewing()

    async def tool_nodes(self, thread_id: ThreadId) -> Sequence[Viewing]:
        rows = await self._store.connections.fetch(TOOL_NODES, thread_id, self._nodes.id)
        return [Viewing(node=row[0], thread_id=thread_id, answers=row[1], tools=row[2]) for row in rows]

    def send_news(self) -> None:
        self._store.hints.send([LISTS])

    async def _value(self, statement: str, *values: object) -> Any:
        row = await self._store.connections.fetch_row(statement, *values)
        return row[0] if row is not None else None
