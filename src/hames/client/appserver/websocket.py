"""`AppServerClient` over a WebSocket: one message in each text frame.

    async with websocket("ws://127.0.0.1:8080/flint") as stream, AppServerClient.connect(stream) as client:
        ...

Needs the `websockets` package, which comes with the `server` extra.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from hames.codecs.lines import LineDecoder, TooLong
from hames.domain.errors import Misconfigured

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


class Frames:
    """A WebSocket as a byte stream of lines."""

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket
        self._outgoing = LineDecoder()

    async def receive(self, max_bytes: int = 65536) -> bytes:  # noqa: ARG002 - a frame is whole, whatever its size
        from websockets.exceptions import ConnectionClosed

        try:
            frame = await self._socket.recv()
        except ConnectionClosed:
            raise anyio.EndOfStream from None
        return (frame.encode() if isinstance(frame, str) else frame) + b"\n"

    async def send(self, item: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            for line in self._outgoing.feed(item):
                if not isinstance(line, TooLong):
                    await self._socket.send(line.decode())
        except ConnectionClosed:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        await self._socket.close()


@asynccontextmanager
async def websocket(url: str, *, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Frames]:
    """Raises `Misconfigured` without the package, and OSError when nobody listens."""
    try:
        from websockets.asyncio.client import connect
    except ImportError:
        raise Misconfigured("a WebSocket needs the `websockets` package: install hames[server]") from None
    async with connect(url, additional_headers=headers, max_size=None, compression=None) as socket:
        yield Frames(socket)
