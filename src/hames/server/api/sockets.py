"""Sessions over WebSockets: a text frame is a message. Nothing that a client does or fails to do stops a turn."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from hames.domain.errors import HarnessError, NotPermitted
from hames.protocols.session import Session
from hames.server.guard.identities import PRINCIPAL
from hames.server.slow_clients import Writer
from hames.server.websocket.socket import BROKEN, RESTARTS, Receive, Scope, Send, Socket
from hames.stdio.connection import Connection, read_lines
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

REASON_CHARS = 100

NOT_PERMITTED = 4403

Connect = Callable[[Session, Writer, TaskGroup, Principal], Connection]


class SessionSockets:
    """The endpoint of one protocol."""

    def __init__(
        self, open_session: Callable[[Scope], Awaitable[Session]], connect: Connect, *, by_lines: bool = False
    ) -> None:
        """`open_session` makes one for each connection. `by_lines`: messages are read as lines are over stdio."""
        self._open_session = open_session
        self._connect = connect
        self._by_lines = by_lines
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
            await self._serve(socket, await self._open_session(scope), scope[PRINCIPAL])
        except NotPermitted as error:
            socket.close(NOT_PERMITTED, str(error)[:REASON_CHARS])
        except HarnessError as error:
            socket.close(RESTARTS, str(error)[:REASON_CHARS])
        except Exception:
            log.exception("socket.crashed")
            socket.close(BROKEN, "internal error")
            raise
        finally:
            self._open.discard(socket)

    async def _serve(self, socket: Socket, session: Session, principal: Principal) -> None:
        async with anyio.create_task_group() as tasks:
            connection = self._connect(session, socket.writer, tasks, principal)
            try:
                await connection.open()
                if connection.closing is None:
                    messages = read_lines(_lines(socket)) if self._by_lines else socket.messages()
                    await connection.serve(messages)
            finally:
                await connection.finish()
            if closing := connection.closing:
                socket.close(closing.code or RESTARTS, closing.reason[:REASON_CHARS])
            tasks.cancel_scope.cancel()

    def close(self, why: str) -> None:
        self._closed = True
        for socket in list(self._open):
            socket.close(RESTARTS, why)


async def _lines(socket: Socket) -> AsyncIterator[bytes]:
    async for text in socket.messages():
        # A frame is a message, whatever is in it. CR is blank to JSON where LF is, and forbidden where LF is.
        yield text.replace(b"\n", b"\r") + b"\n"
