"""Commands for threads that another node writes: rows that their owner reads, carries out and answers.

A command has an id of its sender's, so that sending it again (after a lost connection) is the same command. Its answer
stays for an hour.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from hames.domain.ids import ThreadId
from hames.domain.value import Value
from hames.store.postgres.hints import INBOX, Hints, inbox_hint
from hames.store.postgres.pool import Connections

SEND: Final = """
insert into hames.inbox (thread, client_id, sender, who, body) values ($1, $2, $3, $4, $5)
on conflict (client_id) do nothing
"""
OPEN: Final = """
select id, thread, client_id, sender, who, body from hames.inbox
where answer is null and thread = any($1::text[]) order by id
"""
ANSWER: Final = "update hames.inbox set answer = $2, answered_at = now() where id = $1 and answer is null"
ANSWERED: Final = "select answer from hames.inbox where client_id = $1"
FORGET: Final = "delete from hames.inbox where sent_at < now() - interval '1 hour'"


class SentCommand(Value):
    """A command that waits for the owner of its thread."""

    id: int
    thread_id: ThreadId
    client_id: str
    sender: str
    who: str
    body: bytes


class NodeInbox:
    """`node_id` is the sender of what is sent here."""

    def __init__(self, connections: Connections, hints: Hints, node_id: str) -> None:
        self._connections = connections
        self._hints = hints
        self._node_id = node_id
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._changed = asyncio.Event()
        self._listens = False

    async def send(self, thread_id: ThreadId, body: bytes, *, client_id: str, who: str = "") -> None:
        """Returns when the command is in the inbox. Raises `StorageFailed`."""
        await self._connections.execute(SEND, thread_id, client_id, self._node_id, who, body)
        self._hints.send([inbox_hint(thread_id)])

    async def wait(self, thread_id: ThreadId, client_id: str, seconds: float) -> bytes | None:
        """The answer; None: there is none after so long. Raises `StorageFailed`."""
        self._listen()
        heard = asyncio.Event()
        self._waiting.setdefault(thread_id, set()).add(heard)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    heard.clear()
                    row = await self._connections.fetch_row(ANSWERED, client_id)
                    if row is None or row[0] is not None:  # deleted with its thread, or answered
                        return row[0] if row is not None else b""
                    await heard.wait()
        except TimeoutError:
            return None
        finally:
            self._waiting[thread_id].discard(heard)
            if not self._waiting[thread_id]:
                del self._waiting[thread_id]

    async def receive(self, threads: Sequence[ThreadId]) -> list[SentCommand]:
        """What waits for these threads, oldest first. Raises `StorageFailed`."""
        rows: list[Any] = await self._connections.fetch(OPEN, list(threads))
        return [
            SentCommand(id=row[0], thread_id=ThreadId(row[1]), client_id=row[2], sender=row[3], who=row[4], body=row[5])
            for row in rows
        ]

    async def answer(self, command: SentCommand, body: bytes) -> None:
        """Only the first answer counts. Raises `StorageFailed`."""
        await self._connections.execute(ANSWER, command.id, body)
        self._hints.send([inbox_hint(command.thread_id)])

    async def changed(self) -> None:
        """Returns when there may be something to receive: a hint came, or a second has passed."""
        self._listen()
        await self._changed.wait()
        self._changed.clear()

    async def forget_old(self) -> None:
        """Raises `StorageFailed`."""
        await self._connections.execute(FORGET)

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._hints.listen(self._hear)

    def _hear(self, word: str) -> None:
        if word and not word.startswith(INBOX):
            return
        self._changed.set()
        of = word.removeprefix(INBOX)
        for thread_id, events in self._waiting.items():
            if not word or thread_id == of:
                for event in events:
                    event.set()
