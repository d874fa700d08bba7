"""Clients that speak JSON-RPC over HTTP (`/mcp`, `/acp`): a header names each of them from its first request on.

The name is no key: only the principal that opened a session may use it. A client that neither reads nor writes for a
while is closed; its turns go on.
"""

import logging
import secrets
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.requests import Request

from hames.codecs.jsontext import Repeated, Unreadable, parse
from hames.core.engine import Engine
from hames.domain.json import Json
from hames.protocols.session import Session
from hames.server.http.reply import HttpRefusal
from hames.server.http.routes import principal_of
from hames.stdio.connection import Connection, Outbox, read_lines
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

MAX_CLIENTS = 256


class RpcClient(Protocol):
    name: str
    principal: Principal
    seen_at: float
    """When it last said something, or stopped reading."""

    @property
    def is_read(self) -> bool: ...

    def end(self) -> None: ...


ClientT = TypeVar("ClientT", bound=RpcClient)


class RpcClients(Generic[ClientT]):
    """The open clients of one endpoint."""

    def __init__(self, engine: Engine, tasks: TaskGroup, *, header: str, noun: str, idle_seconds: float) -> None:
        """`header` names a client, `noun` is what refusals call it: a session, a connection."""
        self._engine = engine
        self._tasks = tasks
        self._header, self._noun = header, noun
        self._idle_seconds = idle_seconds
        self._open: dict[str, ClientT] = {}

    def new_name(self) -> str:
        if len(self._open) >= MAX_CLIENTS:
            raise HttpRefusal(503, f"too many {self._noun}s are open")
        return secrets.token_urlsafe(18)

    def serve(
        self, client: ClientT, session: Session, outbox: Outbox, chunks: MemoryObjectReceiveStream[bytes]
    ) -> None:
        """Carries out what comes through `chunks`, until they end."""
        self._open[client.name] = client
        client.seen_at = self._engine.clock.monotonic()

        async def run() -> None:
            async with anyio.create_task_group() as tasks, chunks:
                served = Connection(self._engine, session, outbox, tasks, client.principal)
                try:
                    await served.open()
                    await served.serve(read_lines(chunks))
                finally:
                    self.end(client)
                    await served.finish()
                    tasks.cancel_scope.cancel()

        self._tasks.start_soon(run)

    def find(self, request: Request) -> ClientT:
        name = request.headers.get(self._header)
        if not name:
            raise HttpRefusal(400, f"the header {self._header} is missing")
        client = self._open.get(name)
        if client is None or client.principal.access != principal_of(request).access:
            raise HttpRefusal(404, f"no such {self._noun}: it has ended, or the server was restarted")
        client.seen_at = self._engine.clock.monotonic()
        return client

    def end(self, client: ClientT) -> None:
        self._open.pop(client.name, None)
        client.end()

    def close(self, _why: str) -> None:
        for client in list(self._open.values()):
            self.end(client)

    async def expire(self) -> None:
        """Closes what a client has left behind, for as long as the server runs."""
        while True:
            await self._engine.clock.sleep(self._idle_seconds / 4)
            now = self._engine.clock.monotonic()
            for client in list(self._open.values()):
                if client.is_read:
                    client.seen_at = now
                elif now - client.seen_at > self._idle_seconds:
                    log.info("client.idle", extra={"kind": self._noun, "client": client.name})
                    self.end(client)


def check_accepts_events(request: Request) -> None:
    if "text/event-stream" not in request.headers.get("accept", "").lower():
        raise HttpRefusal(406, "this is a stream of events: accept text/event-stream")


def parse_message(body: bytes) -> dict[str, Json]:
    try:
        value = parse(body)
    except (Unreadable, Repeated) as why:
        raise HttpRefusal(400, str(why)) from None
    if isinstance(value, list):
        raise HttpRefusal(400, "batches are not supported")
    if not isinstance(value, dict):
        raise HttpRefusal(400, "a message is a JSON object")
    return value
