"""One end of a conversation through the proxy: a stream, and what was read from it too early."""

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.abc import ByteStream

from hames.sandbox.walls.network.http_messages import find_head

CHUNK_BYTES = 64 * 1024

GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
"""The other side has hung up, or did not answer in time."""


class ProxyConnection:
    """`is_answered`: something has been sent to it, so no status line can be sent any more."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._early = b""
        self.is_answered = False
        self.count: Callable[[int, int], None] | None = None
        """Hears how many bytes were sent and received."""

    async def __aenter__(self) -> "ProxyConnection":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        with suppress(*GONE):
            await self._stream.aclose()

    async def peek(self) -> bytes:
        """The next byte, which stays to be read."""
        if not self._early:
            self._early = await self._receive()
        return self._early[:1]

    async def read(self) -> bytes:
        """Whatever comes next. Raises one of `GONE`."""
        if self._early:
            data, self._early = self._early, b""
            return data
        return await self._receive()

    async def read_exactly(self, size: int) -> bytes:
        while len(self._early) < size:
            self._early += await self._receive()
        data, self._early = self._early[:size], self._early[size:]
        return data

    async def read_head(self) -> bytes:
        """An HTTP head with its empty line. Raises `Malformed` or one of `GONE`."""
        while not (size := find_head(self._early)):
            self._early += await self._receive()
        return await self.read_exactly(size)

    async def _receive(self) -> bytes:
        data = await self._stream.receive(CHUNK_BYTES)
        if self.count is not None:
            self.count(0, len(data))
        return data

    @property
    def early(self) -> bytes:
        """What has been received and not been read yet."""
        return self._early

    async def receive_early(self) -> None:
        """Waits for some more, which stays to be read."""
        self._early += await self._receive()

    async def send(self, data: bytes) -> None:
        if data:
            self.is_answered = True
            if self.count is not None:
                self.count(len(data), 0)
            await self._stream.send(data)

    async def send_eof(self) -> None:
        with suppress(NotImplementedError):  # TLS has no such thing
            await self._stream.send_eof()

    async def answer(self, status: int, reason: str, sentence: str) -> None:
        """A response of our own, in words, if none has begun."""
        if not self.is_answered:
            body = f"{sentence}\n".encode()
            head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            await self.send(head.encode() + body)
            await self.send_eof()

    async def drain(self, seconds: float) -> None:
        """Throws away what still comes. Closed with unread data, a connection takes its last answer with it."""
        with suppress(*GONE), anyio.move_on_after(seconds):
            while True:
                await self.read()
