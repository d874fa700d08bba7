"""MCP over HTTP at `/mcp` (streamable HTTP): each request is a POST, and its response is JSON or an event stream.

Up to 2025-11-25 `initialize` opens a session, which the header `Mcp-Session-Id` names from then on. From 2026-07-28 on
there are no sessions: all such requests of one principal share a session of ours, under ids of our own, because two
clients may number their requests alike. A turn that waits for an answer stays open between two of them.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import cast

import anyio
from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.codecs.jsontext import encode
from hames.core.engine import Engine
from hames.domain.json import Json
from hames.domain.roles import Access
from hames.protocols.session import Session
from hames.server.guard.gate import MCP
from hames.server.guard.middleware import LIMITS
from hames.server.http.reply import ALWAYS, EVENT_HEADERS, HttpRefusal, until_gone
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.http.rpc_clients import RpcClients, check_accepts_events, parse_message
from hames.server.mcp.streams import McpSession, McpStreams, MessageStream
from hames.stdio.principals import Principal

SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
METHOD_HEADER, NAME_HEADER = "mcp-method", "mcp-name"
MODERN = "2026-07-28"
HEADER_MISMATCH = -32020
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
IDLE_SECONDS = 1800.0
"""A session that nobody uses for so long is closed. Its turns go on."""
STATUS = {-32700: 400, -32600: 400, -32601: 404, -32602: 400, HEADER_MISMATCH: 400, -32021: 400, -32022: 400}
"""HTTP's number for an error, where the version has one."""


class McpEndpoint:
    def __init__(self, engine: Engine, make_session: Callable[[], Session], tasks: TaskGroup) -> None:
        self._engine = engine
        self._make_session = make_session
        self._sessions = RpcClients[McpStreams](
            engine, tasks, header="Mcp-Session-Id", noun="session", idle_seconds=IDLE_SECONDS
        )
        self.close, self.expire = self._sessions.close, self._sessions.expire
        self._shared: dict[Access, McpStreams] = {}

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            endpoint(f"POST {MCP}", self._post, needs="driver", media="text/event-stream"),
            endpoint(f"GET {MCP}", self._get, media="text/event-stream"),
            endpoint(f"DELETE {MCP}", self._delete, needs="driver", code=204),
        ]

    def _open(self, principal: Principal) -> McpStreams:
        name = self._sessions.new_name()
        session = cast("McpSession", self._make_session())
        session.keep_routes()
        incoming, chunks = anyio.create_memory_object_stream[bytes](256)
        streams = McpStreams(name, session, incoming, principal)
        self._sessions.serve(streams, session, streams, chunks)
        return streams

    # -- requests

    async def _post(self, request: Request) -> Response:
        """Send one message of the Model Context Protocol."""
        message = parse_message(await read_body(request, LIMITS[MCP]))
        is_request = "method" in message and "id" in message
        if request.headers.get(VERSION_HEADER) == MODERN or _is_modern(message):
            return await self._modern(message, request) if is_request else Response(status_code=202, headers=ALWAYS)
        if message.get("method") == "initialize" and is_request:
            if request.headers.get(SESSION_HEADER):
                raise HttpRefusal(400, "initialize is not allowed in a session that exists")
            streams = self._open(principal_of(request))
            named = {SESSION_HEADER: streams.name}
            return await self._respond(streams, message, encode(message.get("id")), named)
        streams = self._sessions.find(request)
        if not is_request:
            await streams.send(message)
            return Response(status_code=202, headers=ALWAYS)
        return await self._respond(streams, message, encode(message["id"]), {})

    async def _modern(self, message: dict[str, Json], request: Request) -> Response:
        if why := _mismatch(message, request):
            error = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": HEADER_MISMATCH, "message": why}}
            return Response(encode(error), 400, ALWAYS, "application/json")
        principal = principal_of(request)
        streams = self._shared.get(principal.access)
        if streams is None or streams.has_ended:
            self._shared = {access: one for access, one in self._shared.items() if not one.has_ended}
            streams = self._shared[principal.access] = self._open(principal)
        streams.seen_at = self._engine.clock.monotonic()
        own_id = secrets.token_urlsafe(12)
        stream = streams.stream(encode(own_id), shown_as=message["id"])
        await streams.send({**message, "id": own_id})
        return _McpResponse(streams, stream, own_id, {}, cancels=True)

    async def _respond(
        self, streams: McpStreams, message: dict[str, Json], request_id: bytes, headers: dict[str, str]
    ) -> Response:
        if streams.has(request_id):
            raise HttpRefusal(409, "a request with this id is not answered yet")
        stream = streams.stream(request_id)
        await streams.send(message)
        return _McpResponse(streams, stream, message["id"], headers, cancels=False)

    async def _get(self, request: Request) -> Response:
        """Receive messages that belong to no request, as server-sent events."""
        check_accepts_events(request)
        if not request.headers.get(SESSION_HEADER):
            raise HttpRefusal(405, "there is nothing to receive without a session")
        streams = self._sessions.find(request)
        if streams.other.has_reader:
            raise HttpRefusal(409, "somebody reads this stream already")
        return _McpResponse(streams, streams.other, None, {}, cancels=False)

    async def _delete(self, request: Request) -> Response:
        """End a session."""
        self._sessions.end(self._sessions.find(request))
        return Response(status_code=204, headers=ALWAYS)


class _McpResponse(Response):
    """JSON if the answer is the only message, else an event stream that ends with the answer."""

    def __init__(
        self, streams: McpStreams, stream: MessageStream, request_id: Json, headers: dict[str, str], *, cancels: bool
    ) -> None:
        """`cancels`: closing the stream cancels the request, as from 2026-07-28 on."""
        super().__init__()
        self._streams, self._stream = streams, stream
        self._request_id, self._named, self._cancels = request_id, headers, cancels
        stream.has_reader = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_gone, receive, tasks)
                await self._send(scope, receive, send)
                tasks.cancel_scope.cancel()
        finally:
            self._stream.has_reader = False
            if self._cancels and not self._stream.ended:
                self._streams.cancel(self._request_id)
            if self._stream is not self._streams.other:
                self._streams.forget(self._stream)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = self._stream
        if stream is not self._streams.other:
            lines = await stream.read()
            if stream.ended and len(lines) == 1:
                status = STATUS.get(stream.error_code, 200) if self._cancels else 200
                headers = {**ALWAYS, **self._named}
                await Response(lines[0], status, headers, "application/json")(scope, receive, send)
                return
        else:
            lines = list[bytes]()
        named = [(name.encode(), value.encode()) for name, value in self._named.items()]
        await send({"type": "http.response.start", "status": 200, "headers": [*EVENT_HEADERS, *named]})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        while True:
            body = b"".join(b"event: message\ndata: " + line + b"\n\n" for line in lines) or b": keep-alive\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})
            if stream.ended and stream.is_empty:
                break
            lines = await stream.read()
        await send({"type": "http.response.body", "body": b""})


def _is_modern(message: dict[str, Json]) -> bool:
    match message.get("params"):
        case {"_meta": dict(meta)}:
            return VERSION_KEY in meta
        case _:
            return False


def _mismatch(message: dict[str, Json], request: Request) -> str:
    """What a header says otherwise than the body, in words: proxies decide by the headers."""
    if not _is_modern(message):
        return f"the request has no _meta member {VERSION_KEY!r}, and its header names version {MODERN}"
    params: Json = message["params"]
    pairs = ((VERSION_HEADER, params["_meta"][VERSION_KEY]), (METHOD_HEADER, message["method"]))
    for header, value in (*pairs, (NAME_HEADER, params.get("name", params.get("uri")))):
        said = request.headers.get(header)
        if said is not None and value is not None and said != value and not said.startswith("=?base64?"):
            return f"the header {header} does not say what the body says"
    return ""
