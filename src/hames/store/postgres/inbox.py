"""The sender's side of the inbox: commands for threads that another node writes, and the wait for their answers.

A command has an id of its sender's, so that sending it again (after a lost connection) is the same command. How the
owner of the thread reads and answers it is in `letters.py`.
"""

import asyncio
from typing import Final

from hames.domain.ids import ThreadId
from hames.store.postgres.hints import INBOX, Hints, inbox_hint
from hames.store.postgres.pool import Connections

SEND: Final = """
insert into hames.inbox (thread, client_id, sender, body) values ($1, $2, $3, $4)
on conflict (client_id) do update set sent_at = now() where inbox.answer is null
"""
LETTER_SECONDS: Final = 60
"""A command that nobody has taken for so long is void: its sender has told its caller that it was given up."""
IS_VALID: Final = f"inbox.sent_at > now() - interval '{LETTER_SECONDS} seconds'"
ANSWERED: Final = "select answer from hames.inbox where client_id = $1"


class NodeInbox:
    """`node_id` is the sender of what is sent here."""

    def __init__(self, connections: Connections, hints: Hints, node_id: str) -> None:
        self._connections = connections
        self._hints = hints
        self._node_id = node_id
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._listens = False

    async def send(self, thread_id: ThreadId, body: bytes, *, client_id: str) -> None:
        """Returns when the command is in the inbox. Raises `StorageFailed`."""
        await self._connections.execute(SEND, thread_id, client_id, self._node_id, body)
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

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._hints.listen(self._hear)

    def _hear(self, word: str) -> None:
        if word and not word.startswith(INBOX):
            return
        of = word.removeprefix(INBOX)
        for thread_id, events in self._waiting.items():
            if not word or thread_id == of:
                for event in events:
                    event.set()
