"""Messages to one ACP client over HTTP: sorted by session, kept until the client's event stream takes them.

A message about a session goes to the stream of that session, any other to the stream of the connection. An answer
goes where its request came from, except the answer to `session/load`: the transport has it on the stream of the
connection, and the history that comes before it on the stream of the session. It waits until the history was sent.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
import msgspec

PENDING_BYTES = 4 << 20
"""So much may wait before the client has to read."""
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": keep-alive\n\n"

CONNECTION = ""
"""The name of the stream that belongs to no session."""


class _Params(msgspec.Struct):
    session_id: str | None = msgspec.field(name="sessionId", default=None)


class _Sent(msgspec.Struct):
    """What of a message of ours says where it goes."""

    id: msgspec.Raw = msgspec.Raw()
    method: str = ""
    params: _Params | None = None


class _Route(NamedTuple):
    """Where an answer goes, and the stream whose earlier events come before it."""

    stream: str
    behind: str | None = None


_DECODER = msgspec.json.Decoder(_Sent)


class EventStream:
    """One stream of events. At most one response reads it."""

    def __init__(self, on_read: Callable[[int], None]) -> None:
        self.has_reader = False
        self.ended = False
        self._events: deque[bytes | Callable[[], None]] = deque()
        """With what is to be done when the events before it were sent."""
        self._is_sending = False
        self._on_read = on_read
        self._wake = anyio.Event()

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def write(self, event: bytes) -> None:
        self._events.append(event)
        self._wake.set()

    def when_sent(self, work: Callable[[], None]) -> None:
        """Does it when everything before it was sent; at once if nobody reads."""
        if self.has_reader and (self._events or self._is_sending) and not self.ended:
            self._events.append(work)
        else:
            work()

    def reader_gone(self) -> None:
        """Nobody waits for a reader that has gone. Its events wait for the next one."""
        self.has_reader = self._is_sending = False
        kept = [one for one in self._events if isinstance(one, bytes)]
        work = [one for one in self._events if not isinstance(one, bytes)]
        self._events = deque(kept)
        for one in work:
            one()

    def end(self) -> None:
        self.ended = True
        self._wake.set()

    async def read(self) -> bytes:
        """What waits, or a sign of life after a while. Nothing at all: the stream has ended. Who reads again has sent
        what was read before."""
        self._is_sending = False
        self._work()
        if not self._events and not self.ended:
            self._wake = anyio.Event()
            with anyio.move_on_after(KEEP_ALIVE_SECONDS):
                await self._wake.wait()
        if not self._events:
            return b"" if self.ended else KEEP_ALIVE
        pieces: list[bytes] = []
        while self._events and isinstance(event := self._events[0], bytes):
            pieces.append(event)
            self._events.popleft()
        data = b"".join(pieces)
        self._is_sending = True
        self._on_read(len(data))
        return data

    def _work(self) -> None:
        while self._events and not isinstance(work := self._events[0], bytes):
            self._events.popleft()
            work()


class ClientStreams:
    """An outbox (`stdio/connection.py: Outbox`): every line of a session's output is one event."""

    def __init__(self) -> None:
        self._streams: dict[str, EventStream] = {}
        self._routes: dict[bytes, _Route] = {}
        """Where the answers to the client's requests go, by request id."""
        self._pending = 0
        self._room = anyio.Event()
        self._ended = False
        self.first = anyio.Event()
        """Set with the first message, which is the answer to `initialize`."""
        self.greeting = b""

    def stream(self, name: str) -> EventStream:
        if name not in self._streams:
            self._streams[name] = EventStream(self._was_read)
            if self._ended:
                self._streams[name].end()
        return self._streams[name]

    @property
    def is_read(self) -> bool:
        return any(stream.has_reader for stream in self._streams.values())

    def route(self, request_id: bytes, name: str, *, behind: str | None = None) -> None:
        """The answer to this request goes to the named stream, behind what another one was given before it."""
        self._routes[request_id] = _Route(name, behind)

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line and not self.first.is_set():
                self.greeting = line
                self.first.set()
            elif line:
                event = b"data: " + line + b"\n\n"
                self._pending += len(event)
                to, behind = self._destination(line)
                if behind is None:
                    self.stream(to).write(event)
                else:
                    self.stream(behind).when_sent(partial(self.stream(to).write, event))

    def _destination(self, line: bytes) -> _Route:
        message = _DECODER.decode(line)
        if not message.method:
            return self._routes.pop(bytes(message.id), _Route(CONNECTION))
        return _Route((message.params.session_id if message.params is not None else None) or CONNECTION)

    async def room(self) -> None:
        while self._pending > PENDING_BYTES and not self._ended:
            self._room = anyio.Event()
            await self._room.wait()

    def _was_read(self, size: int) -> None:
        self._pending -= size
        self._room.set()

    def end(self) -> None:
        self._ended = True
        self._room.set()
        self.first.set()
        for stream in list(self._streams.values()):
            stream.reader_gone()
        for stream in self._streams.values():
            stream.end()
