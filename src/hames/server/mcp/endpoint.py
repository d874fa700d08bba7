"""MCP over HTTP at `/mcp` (streamable HTTP): each request is a POST, and its response is JSON or an event stream.

Up to 2025-11-25 `initialize` opens a session, which the header `Mcp-Session-Id` names from then on. From 2026-07-28 on
there are no sessions: all such requests of one principal share a session of ours, under ids of our own, because two
clients may number their requests alike. A turn that waits for an answer stays open between two of them.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from typing import cast

import anyio
from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.codecs.jsontext import Repeated, Unreadable, encode, parse
from hames.core.engine import Engine
from hames.domain.json import Json
from hames.domain.roles import Access
from hames.protocols.session import Session
from hames.server.guard.gate import MCP
from hames.server.guard.middleware import LIMITS
from hames.server.http.reply import ALWAYS, HttpRefusal
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, principal_of
from hames.server.mcp.streams import McpSession, McpStreams, MessageStream
from hames.stdio.connection import Connection, read_lines
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
METHOD_HEADER, NAME_HEADER = "mcp-method", "mcp-name"
MODERN = "2026-07-28"
HEADER_MISMATCH = -32020
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
MAX_SESSIONS = 256
IDLE_SECONDS = 1800.0
"""A session that nobody uses for so long is closed. Its turns go on."""
STATUS = {-32700: 400, -32600: 400, -32601: 404, -32602: 400, HEADER_MISMATCH: 400, -32021: 400, -32022: 400}
"""HTTP's number for an error, where the version has one."""
EVENTS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
    *((name.lower().encode(), value.encode()) for name, value in ALWAYS.items()),
]


class McpEndpoint:
    def __init__(self, engine: Engine, make_session: Callable[[], Session], tasks: TaskGroup) -> None:
        self._engine = engine
        self._make_session = make_session
        self._tasks = tasks
        self._sessions: dict[str, McpStreams] = {}
        self._shared: dict[Access, McpStreams] = {}

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            endpoint(f"POST {MCP}", self._post, needs="driver", media="text/event-stream"),
            endpoint(f"GET {MCP}", self._get, media="text/event-stream"),
            endpoint(f"DELETE {MCP}", self._delete, needs="driver", code=204),
        ]

    def close(self, _why: str) -> None:
        for streams in [*self._sessions.values(), *self._shared.values()]:
            self._end(streams)

    async def expire(self) -> None:
        """Closes sessions whose client has gone, for as long as the server runs."""
        while True:
            await self._engine.clock.sleep(IDLE_SECONDS / 4)
            now = self._engine.clock.monotonic()
            for streams in [*self._sessions.values(), *self._shared.values()]:
                if streams.is_read:
                    streams.seen_at = now
                elif now - streams.seen_at > IDLE_SECONDS:
                    log.info("mcp.idle", extra={"session": streams.name})
                    self._end(streams)

    def _end(self, streams: McpStreams) -> None:
        self._sessions.pop(streams.name, None)
        self._shared = {access: one for access, one in self._shared.items() if one is not streams}
        streams.end()

    def _open(self, principal: Principal) -> McpStreams:
        if len(self._sessions) + len(self._shared) >= MAX_SESSIONS:
            raise HttpRefusal(503, "too many sessions are open")
        session = cast("McpSession", self._make_session())
        session.keep_routes()
        incoming, chunks = anyio.create_memory_object_stream[bytes](256)
        streams = McpStreams(secrets.token_urlsafe(18), session, incoming, principal)
        streams.seen_at = self._engine.clock.monotonic()

        async def serve() -> None:
            async with anyio.create_task_group() as tasks, chunks:
                served = Connection(self._engine, session, streams, tasks, principal)
                try:
                    await served.serve(read_lines(chunks))
                finally:
                    self._end(streams)
                    await served.finish()
                    tasks.cancel_scope.cancel()

        self._tasks.start_soon(serve)
        return streams

    # -- requests

    async def _post(self, request: Request) -> Response:
        """Send one message of the Model Context Protocol."""
        message = _message(await read_body(request, LIMITS[MCP]))
        is_request = "method" in message and "id" in message
        if request.headers.get(VERSION_HEADER) == MODERN or _is_modern(message):
            return await self._modern(message, request) if is_request else Response(status_code=202, headers=ALWAYS)
        if message.get("method") == "initialize" and is_request:
            if request.headers.get(SESSION_HEADER):
                raise HttpRefusal(400, "initialize is not allowed in a session that exists")
            streams = self._open(principal_of(request))
            self._sessions[streams.name] = streams
            named = {SESSION_HEADER: streams.name}
            return await self._respond(streams, message, encode(message.get("id")), named)
        streams = self._session(request)
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
        if streams is None:
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
        if "text/event-stream" not in request.headers.get("accept", "").lower():
            raise HttpRefusal(406, "this is a stream of events: accept text/event-stream")
        if not request.headers.get(SESSION_HEADER):
            raise HttpRefusal(405, "there is nothing to receive without a session")
        streams = self._session(request)
        if streams.other.has_reader:
            raise HttpRefusal(409, "somebody reads this stream already")
        return _McpResponse(streams, streams.other, None, {}, cancels=False)

    async def _delete(self, request: Request) -> Response:
        """End a session."""
        self._end(self._session(request))
        return Response(status_code=204, headers=ALWAYS)

    def _session(self, request: Request) -> McpStreams:
        name = request.headers.get(SESSION_HEADER)
        if not name:
            raise HttpRefusal(400, "the header Mcp-Session-Id is missing")
        streams = self._sessions.get(name)
        # The name of a session is no key to it: only whoever opened it may use it.
        if streams is None or streams.principal.access != principal_of(request).access:
            raise HttpRefusal(404, "no such session: it has ended, or the server was restarted")
        streams.seen_at = self._engine.clock.monotonic()
        return streams


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
                tasks.start_soon(_until_gone, receive, tasks)
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
        await send({"type": "http.response.start", "status": 200, "headers": [*EVENTS, *named]})
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
