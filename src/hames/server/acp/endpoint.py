"""ACP over HTTP at `/acp`: messages come in with POST, and go out as server-sent events.

`initialize` opens a connection, which the header `Acp-Connection-Id` names from then on. Each session of a connection
has an event stream of its own (`Acp-Session-Id`). A connection that nobody reads from or writes to is closed after a
while; its turns go on, and the client can load their sessions on a new connection.
"""

import logging
import secrets
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.codecs.jsontext import Repeated, Unreadable, encode, parse
from hames.core.engine import Engine
from hames.domain.json import Json
from hames.protocols.session import Session
from hames.server.acp.streams import CONNECTION, ClientStreams, EventStream
from hames.server.guard.gate import ACP
from hames.server.guard.middleware import LIMITS
from hames.server.http.reply import ALWAYS, HttpRefusal
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.stdio.connection import Connection, read_lines
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

CONNECTION_HEADER, SESSION_HEADER = "acp-connection-id", "acp-session-id"
MAX_CONNECTIONS = 256
IDLE_SECONDS = 120.0
GREETING_SECONDS = 30.0
OF_SESSIONS = frozenset(
    {
        "session/cancel",
        "session/close",
        "session/delete",
        "session/fork",
        "session/load",
        "session/prompt",
        "session/resume",
        "session/set_config_option",
        "session/set_mode",
    }
)
"""What a client sends with the header of its session."""
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
    *((name.lower().encode(), value.encode()) for name, value in ALWAYS.items()),
]


class HttpConnection:
    """One client, from `initialize` to DELETE."""

    def __init__(self, name: str, incoming: MemoryObjectSendStream[bytes], principal: Principal) -> None:
        self.name = name
        self.principal = principal
        self.streams = ClientStreams()
        self.incoming = incoming
        self.seen_at = 0.0
        """When it last said something, or stopped reading."""

    async def send(self, line: bytes) -> None:
        # A body is a message, whatever is in it. CR is blank to JSON where LF is, and forbidden where LF is.
        await self.incoming.send(line.replace(b"\n", b"\r") + b"\n")


class AcpEndpoint:
    def __init__(self, engine: Engine, make_session: Callable[[], Session], tasks: TaskGroup) -> None:
        self._engine = engine
        self._make_session = make_session
        self._tasks = tasks
        self._connections: dict[str, HttpConnection] = {}

    @property
    def count(self) -> int:
        return len(self._connections)

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            # An observer may connect: what a message needs is decided where it is carried out (`Principal.execute`).
            endpoint(f"POST {ACP}", self._post, needs="observer", code=202),
            endpoint(f"GET {ACP}", self._get, media="text/event-stream"),
            endpoint(f"DELETE {ACP}", self._delete, needs="observer", code=202),
        ]

    def close(self, _why: str) -> None:
        for connection in list(self._connections.values()):
            self._end(connection)

    async def expire(self) -> None:
        """Closes connections whose client has gone, for as long as the server runs."""
        while True:
            await self._engine.clock.sleep(IDLE_SECONDS / 4)
            now = self._engine.clock.monotonic()
            for connection in list(self._connections.values()):
                if connection.streams.is_read:
                    connection.seen_at = now
                elif now - connection.seen_at > IDLE_SECONDS:
                    log.info("acp.idle", extra={"connection": connection.name})
                    self._end(connection)

    def _end(self, connection: HttpConnection) -> None:
        self._connections.pop(connection.name, None)
        connection.incoming.close()
        connection.streams.end()

    # -- requests

    async def _post(self, request: Request) -> Response:
        """Send one message of the Agent Client Protocol."""
        body = await read_body(request, LIMITS[ACP])
        message = _message(body)
        name = request.headers.get(CONNECTION_HEADER)
        if message.get("method") == "initialize" and "id" in message:
            if name:
                raise HttpRefusal(400, "initialize is not allowed on a connection that exists")
            return await self._initialize(body, principal_of(request))
        connection = self._connection(request)
        session = _session_of(message, request)
        if "id" in message and "method" in message:
            answered_at = CONNECTION if message["method"] == "session/load" else session
            connection.streams.route(encode(message["id"]), answered_at)
        try:
            await connection.send(body)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise HttpRefusal(404, "the connection has ended") from None
        return Response(status_code=202, headers=ALWAYS)

    async def _initialize(self, body: bytes, principal: Principal) -> Response:
        if len(self._connections) >= MAX_CONNECTIONS:
            raise HttpRefusal(503, "too many connections are open")
        incoming, chunks = anyio.create_memory_object_stream[bytes](16)
        connection = HttpConnection(secrets.token_urlsafe(18), incoming, principal)
        connection.seen_at = self._engine.clock.monotonic()
        self._connections[connection.name] = connection

        async def serve() -> None:
            async with anyio.create_task_group() as tasks, chunks:
                served = Connection(self._engine, self._make_session(), connection.streams, tasks, principal)
                try:
                    await served.open()
                    await served.serve(read_lines(chunks))
                finally:
                    self._end(connection)
                    await served.finish()
                    tasks.cancel_scope.cancel()

        self._tasks.start_soon(serve)
        await connection.send(body)
        with anyio.move_on_after(GREETING_SECONDS):
            await connection.streams.first.wait()
        if not connection.streams.greeting:
            self._end(connection)
            raise HttpRefusal(500, "initialize was not answered", "InternalServerError")
        headers = {**ALWAYS, CONNECTION_HEADER: connection.name}
        return Response(connection.streams.greeting, 200, headers, "application/json")

    async def _get(self, request: Request) -> Response:
        """Receive the messages of a connection, or of one of its sessions, as server-sent events."""
        if "text/event-stream" not in request.headers.get("accept", "").lower():
            raise HttpRefusal(406, "this is a stream of events: accept text/event-stream")
        connection = self._connection(request)
        stream = connection.streams.stream(request.headers.get(SESSION_HEADER) or CONNECTION)
        if stream.has_reader:
            raise HttpRefusal(409, "somebody reads this stream already")
        return _EventsResponse(stream)

    async def _delete(self, request: Request) -> Response:
        """End a connection."""
        self._end(self._connection(request))
        return Response(status_code=202, headers=ALWAYS)

    def _connection(self, request: Request) -> HttpConnection:
        name = request.headers.get(CONNECTION_HEADER)
        if not name:
            raise HttpRefusal(400, "the header Acp-Connection-Id is missing")
        connection = self._connections.get(name)
        # The name of a connection is no key to it: only whoever opened it may use it.
        if connection is None or connection.principal.access != principal_of(request).access:
            raise HttpRefusal(404, "no such connection: it has ended, or the server was restarted")
        connection.seen_at = self._engine.clock.monotonic()
        return connection


class _EventsResponse(Response):
    """Ends when the client does or the connection does."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__()
        self._stream = stream
        stream.has_reader = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_gone, receive, tasks)
                while data := await self._stream.read():
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                tasks.cancel_scope.cancel()
        finally:
            self._stream.has_reader = False


async def _until_gone(receive: Receive, tasks: TaskGroup) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    tasks.cancel_scope.cancel()


def _message(body: bytes) -> dict[str, Json]:
    try:
        value = parse(body)
    except (Unreadable, Repeated) as why:
        raise HttpRefusal(400, str(why)) from None
    if isinstance(value, list):
        raise HttpRefusal(400, "batches are not supported")
    if not isinstance(value, dict):
        raise HttpRefusal(400, "a message is a JSON object")
    return value


def _session_of(message: dict[str, Json], request: Request) -> str:
    """The session that a message is about. Raises `HttpRefusal` when its header says something else."""
    named = request.headers.get(SESSION_HEADER)
    params = message.get("params")
    inside = params.get("sessionId") if isinstance(params, dict) else None
    if (message.get("method") in OF_SESSIONS or isinstance(inside, str)) and not named:
        raise HttpRefusal(400, "the header Acp-Session-Id is missing")
    if named and isinstance(inside, str) and inside != named:
        raise HttpRefusal(400, "the header Acp-Session-Id names another session than the message")
    return named or CONNECTION
