"""Sessions over HTTP responses that last: a session's output is the body, and the end of either is the end of both."""

import logging
from collections.abc import AsyncIterator, Callable

import anyio
from anyio.abc import TaskGroup
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.protocols.session import Session
from hames.server.guard.identities import PRINCIPAL
from hames.server.http.connection import CONNECTION, GuardedProtocol
from hames.server.http.reply import EVENT_HEADERS, error_reply
from hames.server.slow_clients import Payload, Writer
from hames.stdio.connection import Connection
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)


class SessionStreams:
    def __init__(self, connect: Callable[[Session, Writer, TaskGroup, Principal], Connection]) -> None:
        self.connect = connect
        self.open: set[Connection] = set()

    def response(self, session: Session) -> Response:
        return _StreamResponse(session, self)

    def close(self, why: str) -> None:
        for connection in list(self.open):
            connection.end(why)


class _StreamResponse(Response):
    """Ends when the client does, the session does, or the server does."""

    def __init__(self, session: Session, streams: SessionStreams) -> None:
        super().__init__()
        self._session = session
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:
            writer = ResponseWriter(scope[CONNECTION])
            connection = self._streams.connect(self._session, writer, tasks, scope[PRINCIPAL])
            self._streams.open.add(connection)
            try:
                await connection.open()
                closing = connection.closing
                if closing is not None and closing.error is not None:
                    await error_reply(closing.error)(scope, receive, send)
                    return
                await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
                if scope["method"] == "HEAD":
                    await send({"type": "http.response.body", "body": b""})
                    return
                tasks.start_soon(_serve, connection, receive, writer, tasks)
                await writer.run(send)
            finally:
                self._streams.open.discard(connection)
                await connection.finish()
                tasks.cancel_scope.cancel()


async def _serve(connection: Connection, receive: Receive, writer: "ResponseWriter", tasks: TaskGroup) -> None:
    await connection.serve(_until_gone(receive))
    if connection.closing is not None:
        writer.end()
    else:
        tasks.cancel_scope.cancel()


async def _until_gone(receive: Receive) -> AsyncIterator[bytes]:
    """No messages: a client of a stream can only go."""
    while (await receive())["type"] != "http.disconnect":
        pass
    return
    yield b""


class ResponseWriter:
    """The body of a response: what is written while the client takes the last piece is sent as one."""

    framed = False

    def __init__(self, connection: GuardedProtocol) -> None:
        self.on_room: Callable[[], None] | None = None
        self.paused = False
        self._connection = connection
        self._waiting: list[bytes] = []
        self._ended = False
        self._wake = anyio.Event()

    @property
    def gone(self) -> bool:
        return self._connection.transport.is_closing()

    @property
    def unsent(self) -> int:
        return self._connection.transport.get_write_buffer_size()

    def write(self, payload: Payload) -> None:
        self._waiting.append(payload.data)
        self._wake.set()

    def end(self) -> None:
        """After what was written so far."""
        self._ended = True
        self._wake.set()

    def drop(self, code: int, why: str) -> None:
        log.info("client.slow", extra={"code": code, "why": why})
        self._connection.abort()

    async def run(self, send: Send) -> None:
        """Returns when everything was sent after `end`."""
        while True:
            while not self._waiting and not self._ended:
                self._wake = anyio.Event()
                await self._wake.wait()
            data, self._waiting, ended = b"".join(self._waiting), [], self._ended
            self.paused = True
            await send({"type": "http.response.body", "body": data, "more_body": not ended})
            self.paused = False
            if ended:
                return
            if self.on_room is not None:
                self.on_room()
