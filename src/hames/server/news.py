"""News of the thread list: which rows changed, for the clients that asked to be told.

The socket of one thread carries it, because a browser has few connections to spare. It goes through a client's own
outbox, so one that does not read costs nothing more; when it is started over it hears that it should look again.
"""

from collections.abc import Generator
from contextlib import contextmanager

import anyio

from hames.codecs.jsontext import encode
from hames.domain import events
from hames.domain.ids import ThreadId
from hames.domain.state import Change, summary
from hames.ports import Clock
from hames.protocols.sync.pages import ThreadRow, ThreadsMessage, row
from hames.server.clients import SyncClient
from hames.server.websocket.protocol import TextFrame

REST_SECONDS = 0.1
LOOK = TextFrame(encode(ThreadsMessage(threads=())))
"""Tells list watchers that the thread list changed."""

_SILENT = (events.ItemDelta, events.ItemCompleted, events.ToolCalled, events.UsageReported)
"""The most frequent ones by far, and none of them shows in a list."""


class News:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: set[SyncClient] = set()
        self._changed: dict[ThreadId, ThreadRow] = {}
        self._wake = anyio.Event()

    def observe(self, change: Change) -> None:
        if not self._clients or isinstance(change.record.event, _SILENT):
            return
        now = row(summary(change.after), change.after)
        if _shown(now) != _shown(row(summary(change.before), change.before)):
            self._changed[change.after.id] = now
            self._wake.set()

    @contextmanager
    def telling(self, client: SyncClient) -> Generator[None]:
        """The first word says that there will be others."""
        self._clients.add(client)
        client.again = LOOK
        client.offer(LOOK, self._clock.monotonic())
        try:
            yield
        finally:
            self._clients.discard(client)

    def look_again(self) -> None:
        """The list changed in a way that no row can say: a thread is gone."""
        now = self._clock.monotonic()
        for client in list(self._clients):
            client.offer(LOOK, now)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            rows, self._changed = tuple(self._changed.values()), {}
            frame, now = TextFrame(encode(ThreadsMessage(threads=rows))), self._clock.monotonic()
            for client in list(self._clients):
                client.offer(frame, now)
            await self._clock.sleep(REST_SECONDS)


def _shown(one: ThreadRow) -> tuple[object, ...]:
    """What is news: the time of the last change is not."""
    return one.id, one.title, one.preview, one.cwd, one.model, one.archived, one.status
