"""Messages to one MCP client over HTTP, sorted by the request that they are about, until a response takes them."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from hames.codecs.jsontext import encode
from hames.domain.json import Json
from hames.protocols.session import Session
from hames.stdio.principals import Principal

PENDING_BYTES = 4 << 20
"""So much may wait before the client has to read."""
OTHER_MESSAGES = 1000
"""So many messages about no request are kept for a client that does not listen."""
KEEP_ALIVE_SECONDS = 15.0


class McpSession(Session, Protocol):
    def keep_routes(self) -> None: ...

    def take_routes(self) -> list[bytes]: ...


class _Sent(msgspec.Struct):
    """What of a message of ours says whether it is the answer."""

    id: msgspec.Raw = msgspec.Raw()
    method: str = ""
    error: "_SentError | None" = None


class _SentError(msgspec.Struct):
    code: int = 0


_DECODER = msgspec.json.Decoder(_Sent)


class MessageStream:
    """What is to be sent about one request, or about none. At most one response reads it."""

    def __init__(self, key: bytes, shown_as: Json = None) -> None:
        """`shown_as`: the id that the client gave its request, where ours is another one."""
        self.key = key
        self.has_reader = False
        self.ended = False
        self.error_code = 0
        self._shown_as = shown_as
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._wake = anyio.Event()
        self.on_read: Callable[[], None] = lambda: None

    @property
    def is_empty(self) -> bool:
        return not self._lines

    @property
    def size(self) -> int:
        return self._size

    def write(self, line: bytes) -> None:
        sent = _DECODER.decode(line)
        if self.key and not sent.method and bytes(sent.id) == self.key:
            self.ended = True
            self.error_code = sent.error.code if sent.error is not None else 0
            if self._shown_as is not None:
                value = msgspec.json.decode(line)
                line = encode({**value, "id": self._shown_as})
        self._lines.append(line)
        self._size += len(line)
        if not self.key and len(self._lines) > OTHER_MESSAGES:
            self._size -= len(self._lines.popleft())
        self._wake.set()

    def end(self) -> None:
        self.ended = True
        self._wake.set()

    async def read(self) -> list[bytes]:
        """What waits; nothing after a while without news, or at the end."""
        if not self._lines and not self.ended:
            self._wake = anyio.Event()
            with anyio.move_on_after(KEEP_ALIVE_SECONDS):
                await self._wake.wait()
        lines, self._size = list(self._lines), 0
        self._lines.clear()
        self.on_read()
        return lines


class McpStreams:
    """An outbox (`stdio/connection.py: Outbox`) for one session."""

    def __init__(
        self, name: str, session: McpSession, incoming: MemoryObjectSendStream[bytes], principal: Principal
    ) -> None:
        self.name = name
        self.principal = principal
        self.seen_at = 0.0
        self.other = MessageStream(b"")
        """What is about no request."""
        self._session = session
        self._incoming = incoming
        self._streams: dict[bytes, MessageStream] = {}
        self._room = anyio.Event()
        self.has_ended = False

    @property
    def is_read(self) -> bool:
        return self.other.has_reader or any(one.has_reader for one in self._streams.values())

    def has(self, request_id: bytes) -> bool:
        return request_id in self._streams

    def stream(self, request_id: bytes, *, shown_as: Json = None) -> MessageStream:
        stream = self._streams[request_id] = MessageStream(request_id, shown_as)
        stream.on_read = self._was_read
        if self.has_ended:
            stream.end()
        return stream

    def forget(self, stream: MessageStream) -> None:
        self._streams.pop(stream.key, None)
        self._room.set()

    async def send(self, message: dict[str, Json]) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # it has ended, and so have its streams
            await self._incoming.send(encode(message) + b"\n")

    def cancel(self, request_id: Json) -> None:
        """The client has closed the response to its request."""
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._incoming.send_nowait(encode(message) + b"\n")

    def write(self, data: bytes) -> None:
        for line, about in zip(data.split(b"\n")[:-1], self._session.take_routes(), strict=True):
            # A message that was refused before it was understood is about none; its answer has its id all the same.
            key = about or bytes(_DECODER.decode(line).id)
            (self._streams.get(key) or self.other).write(line)

    async def room(self) -> None:
        while not self.has_ended and sum(one.size for one in self._streams.values()) > PENDING_BYTES:
            self._room = anyio.Event()
            await self._room.wait()

    def _was_read(self) -> None:
        self._room.set()

    def end(self) -> None:
        self.has_ended = True
        self._incoming.close()
        self._room.set()
        self.other.end()
        for stream in self._streams.values():
            stream.end()
