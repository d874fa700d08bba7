"""ACP over HTTP at `/acp`: messages come in with POST, and go out as server-sent events.

`initialize` opens a connection, which the header `Acp-Connection-Id` names from then on. Each session of a connection
has an event stream of its own (`Acp-Session-Id`). A connection that nobody reads from or writes to is closed after a
while; its turns go on, and the client can load their sessions on a new connection.
"""

from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.codecs.jsontext import encode
from hames.core.engine import Engine
from hames.domain.json import Json
from hames.protocols.session import Session
from hames.server.acp.streams import CONNECTION, ClientStreams, EventStream
from hames.server.guard.gate import ACP
from hames.server.guard.middleware import LIMITS
from hames.server.http.reply import ALWAYS, EVENT_HEADERS, HttpRefusal, until_gone
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.http.rpc_clients import RpcClients, check_accepts_events, parse_message
from hames.stdio.principals import Principal

CONNECTION_HEADER, SESSION_HEADER = "acp-connection-id", "acp-session-id"
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


class HttpConnection:
    """One client, from `initialize` to DELETE."""

    def __init__(self, name: str, incoming: MemoryObjectSendStream[bytes], principal: Principal) -> None:
        self.name = name
        self.principal = principal
        self.streams = ClientStreams()
        self.incoming = incoming
        self.seen_at = 0.0

    @property
    def is_read(self) -> bool:
        return self.streams.is_read

    def end(self) -> None:
        self.incoming.close()
        self.streams.end()

    async def send(self, line: bytes) -> None:
        # A body is a message, whatever is in it. CR is blank to JSON where LF is, and forbidden where LF is.
        await self.incoming.send(line.replace(b"\n", b"\r") + b"\n")


class AcpEndpoint:
    def __init__(self, engine: Engine, make_session: Callable[[], Session], tasks: TaskGroup) -> None:
        self._make_session = make_session
        self._connections = RpcClients[HttpConnection](
            engine, tasks, header="Acp-Connection-Id", noun="connection", idle_seconds=IDLE_SECONDS
        )
        self.close, self.expire = self._connections.close, self._connections.expire

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            # An observer may connect: what a message needs is decided where it is carried out (`Principal.execute`).
            endpoint(f"POST {ACP}", self._post, needs="observer", code=202),
            endpoint(f"GET {ACP}", self._get, media="text/event-stream"),
            endpoint(f"DELETE {ACP}", self._delete, needs="observer", code=202),
        ]

    # -- requests

    async def _post(self, request: Request) -> Response:
        """Send one message of the Agent Client Protocol."""
        body = await read_body(request, LIMITS[ACP])
        message = parse_message(body)
        name = request.headers.get(CONNECTION_HEADER)
        if message.get("method") == "initialize" and "id" in message:
            if name:
                raise HttpRefusal(400, "initialize is not allowed on a connection that exists")
            return await self._initialize(body, principal_of(request))
        connection = self._connections.find(request)
        session = _session_of(message, request)
        if "id" in message and "method" in message:
            if message["method"] == "session/load":
                connection.streams.route(encode(message["id"]), CONNECTION, behind=session)
            else:
                connection.streams.route(encode(message["id"]), session)
        try:
            await connection.send(body)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise HttpRefusal(404, "the connection has ended") from None
        return Response(status_code=202, headers=ALWAYS)

    async def _initialize(self, body: bytes, principal: Principal) -> Response:
        name = self._connections.new_name()
        incoming, chunks = anyio.create_memory_object_stream[bytes](16)
        connection = HttpConnection(name, incoming, principal)
        self._connections.serve(connection, self._make_session(), connection.streams, chunks)
        await connection.send(body)
        with anyio.move_on_after(GREETING_SECONDS):
            await connection.streams.first.wait()
        if not connection.streams.greeting:
            self._connections.end(connection)
            raise HttpRefusal(500, "initialize was not answered", "InternalServerError")
        headers = {**ALWAYS, CONNECTION_HEADER: connection.name}
        return Response(connection.streams.greeting, 200, headers, "application/json")

    async def _get(self, request: Request) -> Response:
        """Receive the messages of a connection, or of one of its sessions, as server-sent events."""
        check_accepts_events(request)
        connection = self._connections.find(request)
        stream = connection.streams.stream(request.headers.get(SESSION_HEADER) or CONNECTION)
        if stream.has_reader:
            raise HttpRefusal(409, "somebody reads this stream already")
        return _EventsResponse(stream)

    async def _delete(self, request: Request) -> Response:
        """End a connection."""
        self._connections.end(self._connections.find(request))
        return Response(status_code=202, headers=ALWAYS)


class _EventsResponse(Response):
    """Ends when the client does or the connection does."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__()
        self._stream = stream
        stream.has_reader = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
                return
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_gone, receive, tasks)
                while data := await self._stream.read():
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                tasks.cancel_scope.cancel()
        finally:
            self._stream.reader_gone()


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
