"""Hints between nodes that something was written, by LISTEN and NOTIFY on a connection of its own.

A hint is never part of a write: NOTIFY inside a transaction makes all commits of the database wait for each other. It
only makes others look sooner. Whoever misses one looks within a second all the same.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from hames.domain.ids import ThreadId
from hames.store.postgres.connection import is_connection_lost
from hames.store.postgres.writer import close_connection

if TYPE_CHECKING:
    from asyncpg import Connection

log = logging.getLogger(__name__)

CHANNEL: Final = "hames"
GATHER_SECONDS: Final = 0.005
"""The first hint is sent at once; those that follow within so short a time are sent together."""
PAYLOAD_BYTES: Final = 7_900
POLL_SECONDS: Final = 1.0
RECONNECT_SECONDS: Final = 1.0

LISTS: Final = "@lists"
"""A hint that the list of threads has changed."""
INBOX: Final = "@inbox:"
"""Begins a hint that there is a command, or an answer, for a thread."""

Listener = Callable[[str], None]


class Hints:
    """`connect` gives a new connection. Listeners are called with the word of each hint, and with "" to look anyway."""

    def __init__(self, connect: "Callable[[], Awaitable[Connection]]", *, notifies: bool = True) -> None:
        self.listeners: list[Listener] = []
        self._connect = connect
        self._notifies = notifies
        self._pending: set[str] = set()
        self._listening = False
        self._sent_at = 0.0
        self._wanted = asyncio.Event()
        self._listen_wanted = False
        self._connection: Connection | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def send(self, words: Iterable[str]) -> None:
        """Tells other nodes, soon. Listeners of this one hear it at once."""
        for word in words:
            self._pending.add(word)
            self._hear(word)
        self._start()
        self._wanted.set()

    def listen(self, listener: Listener) -> None:
        self.listeners.append(listener)
        self._listen_wanted = True
        self._start()
        self._wanted.set()

    async def close(self, *, at_once: bool = False) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await close_connection(connection, at_once=at_once)

    def _start(self) -> None:
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._send_all()), loop.create_task(self._poll())]

    def _hear(self, word: str) -> None:
        for listener in list(self.listeners):
            try:
                listener(word)
            except Exception:
                log.exception("hint.listener_crashed")

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for word in str(payload).split(" "):
            self._hear(word)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self._hear("")

    async def _send_all(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if not self._notifies:
                self._pending.clear()
                continue
            try:
                await self._tell()
            except asyncio.CancelledError:
                raise
            except Exception as problem:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                if not is_connection_lost(problem):
                    log.warning("hints.not_sent", extra={"error": str(problem)})
                await asyncio.sleep(RECONNECT_SECONDS)
                self._wanted.set()

    async def _tell(self) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection, self._listening = await self._connect(), False
            self._connection.add_termination_listener(self._lost)
            await self._connection.execute("set synchronous_commit = off")
        if self._listen_wanted and not self._listening:
            await self._connection.add_listener(CHANNEL, self._heard)
            self._listening = True
            self._hear("")  # what was written in between told nobody
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._sent_at + GATHER_SECONDS - clock()))
        self._sent_at = clock()
        words, self._pending = self._pending, set()
        for payload in _payloads(words):
            await self._connection.execute("select pg_notify($1, $2)", CHANNEL, payload)

    def _lost(self, _connection: object) -> None:
        self._wanted.set()


def _payloads(words: Iterable[str]) -> Iterator[str]:
    """As few as have room for all.

    >>> list(_payloads(["a", "b"])), list(_payloads([]))
    (['a b'], [])
    """
    gathered: list[str] = []
    size = 0
    for word in sorted(words):
        if gathered and size + len(word) + 1 > PAYLOAD_BYTES:
            yield " ".join(gathered)
            gathered, size = [], 0
        gathered.append(word)
        size += len(word) + 1
    if gathered:
        yield " ".join(gathered)


def inbox_hint(thread_id: ThreadId) -> str:
    return f"{INBOX}{thread_id}"
