"""The JSON-RPC protocols over a WebSocket: one message a text frame, otherwise as over stdio."""

from collections.abc import AsyncIterator, Callable

import anyio

from hames.core.engine import Engine
from hames.protocols.session import Session
from hames.server.websocket.protocol import TextFrame, Wire
from hames.server.websocket.socket import RESTARTS, Receive, Scope, Send, Socket
from hames.stdio.connection import Connection, read_lines

PATIENCE_SECONDS = 30.0


class RpcSockets:
    """The endpoint of one protocol."""

    def __init__(self, engine: Engine, session: Callable[[], Session]) -> None:
        """`session` makes one for each connection."""
        self._engine = engine
        self._session = session
        self._open: set[Socket] = set()
        self._closed = False

    @property
    def count(self) -> int:
        return len(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = Socket(scope, receive, send)
        await socket.accept()
        if self._closed:
            socket.close(RESTARTS, "the server is stopping")
            return
        self._open.add(socket)
        try:
            async with anyio.create_task_group() as tasks:
                connection = Connection(self._engine, self._session(), FrameOutbox(socket.wire), tasks)
                await connection.serve(read_lines(_lines(socket)))
                connection.close()
                tasks.cancel_scope.cancel()
        finally:
            self._open.discard(socket)

    def close(self, why: str) -> None:
        self._closed = True
        for socket in list(self._open):
            socket.close(RESTARTS, why)


async def _lines(socket: Socket) -> AsyncIterator[bytes]:
    async for text in socket.messages():
        # A frame is a message, whatever is in it. CR is blank to JSON where LF is, and forbidden where LF is.
        yield (b"\xff" if text is None else text.replace(b"\n", b"\r")) + b"\n"


class FrameOutbox:
    """Lines leave as frames."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._room = anyio.Event()
        wire.on_room = self._has_room

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line:
                self._wire.write(TextFrame(line))

    async def room(self) -> None:
        """A client that reads nothing at all for a while is let go: it can come back."""
        left = self._wire.unsent
        while self._wire.paused and not self._wire.gone:
            self._room = anyio.Event()
            with anyio.move_on_after(PATIENCE_SECONDS) as waited:
                await self._room.wait()
            if waited.cancelled_caught and self._wire.unsent >= left:
                self._wire.drop(1013, "this client reads too slowly")
            left = self._wire.unsent

    def _has_room(self) -> None:
        self._room.set()
