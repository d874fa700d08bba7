"""HTTP requests that are runs (`protocols/run_session.py`): the response lasts as long as the run.

A run that waits for its client (a tool result, an approval) keeps its session when the response has ended. The next
request finds it by one of its keys.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hames.codecs.lines import Line
from hames.core.engine import Engine
from hames.domain.policy import ApprovalPolicy
from hames.protocols.run_session import EVENTS, KnownThreads, MakeRunSession, RunSession
from hames.server.http.reply import ALWAYS, HttpRefusal, until_gone
from hames.stdio.connection import Connection
from hames.stdio.principals import Principal

log = logging.getLogger(__name__)

MAX_RUNS = 512
WAITING_SECONDS = 1800.0
"""A run whose client does not come back for so long is interrupted."""
PENDING_BYTES = 4 << 20
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": keep-alive\n\n"


class LiveRun:
    """A session with its connection to the engine, and the outbox of the response that is being sent."""

    def __init__(self, session: RunSession, principal: Principal, on_end: Callable[["LiveRun"], None]) -> None:
        self.session = session
        self.principal = principal
        self.since = 0.0
        """When it began to wait."""
        self._on_end = on_end
        self._incoming, self._bodies = anyio.create_memory_object_stream[bytes](4)
        self._pending: list[bytes] = []
        self._size = 0
        self._wake, self._room = anyio.Event(), anyio.Event()
        self.ended = False

    async def serve(self, engine: Engine) -> None:
        async with anyio.create_task_group() as tasks, self._bodies:
            connection = Connection(engine, self.session, self, tasks, self.principal)
            try:
                await connection.serve(_messages(self._bodies))
            finally:
                self.end()
                await connection.finish()
                tasks.cancel_scope.cancel()

    async def send(self, body: bytes) -> None:
        self.session.has_open_request = True
        try:
            await self._incoming.send(body)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise HttpRefusal(503, "the server is stopping") from None

    def end(self) -> None:
        self.ended = True
        self._incoming.close()
        self._wake.set()
        self._room.set()
        self._on_end(self)

    # -- the outbox

    def write(self, data: bytes) -> None:
        self._pending.append(data)
        self._size += len(data)
        self._wake.set()

    async def room(self) -> None:
        while self._size > PENDING_BYTES and not self.ended:
            self._room = anyio.Event()
            await self._room.wait()

    async def read(self) -> bytes:
        """What is to be sent. Nothing: nothing came for a while, or the request is answered."""
        if not self._pending and not self.is_answered:
            self._wake = anyio.Event()
            with anyio.move_on_after(KEEP_ALIVE_SECONDS):
                await self._wake.wait()
        data, self._pending, self._size = b"".join(self._pending), [], 0
        self._room.set()
        return data

    @property
    def is_answered(self) -> bool:
        return self.ended or not self.session.has_open_request

    @property
    def is_read(self) -> bool:
        return self.is_answered and not self._pending


async def _messages(bodies: MemoryObjectReceiveStream[bytes]) -> AsyncIterator[Line]:
    async for body in bodies:
        yield body


class Runs:
    def __init__(self, engine: Engine, tasks: TaskGroup, policy: ApprovalPolicy | None) -> None:
        """`policy`: the approval policy of threads that are started in this way; None: the server's own."""
        self._engine = engine
        self._tasks = tasks
        self._policy: ApprovalPolicy | None = policy
        self._known = KnownThreads()
        self._live: list[LiveRun] = []

    async def respond(
        self, make_session: MakeRunSession, body: bytes, principal: Principal, keys: Collection[str]
    ) -> Response:
        """`keys`: what the body says about a run that waits for it."""
        run = self._find(principal, keys)
        if run is None:
            if len(self._live) >= MAX_RUNS:
                raise HttpRefusal(503, "too many runs are open", "ServerOverloaded")
            session = make_session(self._known, self._policy)
            granted = Principal(principal.access, is_valid=principal.is_valid, granted_policy=self._policy)
            run = LiveRun(session, granted, self._forget)
            self._live.append(run)
            self._tasks.start_soon(run.serve, self._engine)
        await run.send(body)
        return _RunResponse(run, self._engine.clock.monotonic)

    def find(self, principal: Principal, keys: Collection[str]) -> RunSession | None:
        """The session that goes by one of these names, whether it waits or not."""
        for run in self._live:
            if run.principal.access == principal.access and not run.session.keys.isdisjoint(keys):
                return run.session
        return None

    def _find(self, principal: Principal, keys: Collection[str]) -> LiveRun | None:
        for run in self._live:
            is_own = run.principal.access == principal.access
            if is_own and run.session.is_waiting and not run.session.keys.isdisjoint(keys):
                return run
        return None

    def _forget(self, run: LiveRun) -> None:
        if run in self._live:
            self._live.remove(run)

    def close(self, _why: str) -> None:
        for run in list(self._live):
            run.session.leaves_turn = True
            run.end()

    async def expire(self) -> None:
        """Ends runs whose client has gone, for as long as the server runs."""
        while True:
            await self._engine.clock.sleep(WAITING_SECONDS / 10)
            now = self._engine.clock.monotonic()
            for run in list(self._live):
                if not run.session.has_open_request and run.session.turn_id is None:
                    run.end()
                elif (
                    run.session.is_waiting
                    and not run.session.leaves_turn
                    and run.since
                    and now - run.since > WAITING_SECONDS
                ):
                    log.info("run.abandoned", extra={"protocol": run.session.protocol})
                    run.end()


class _RunResponse(Response):
    def __init__(self, run: LiveRun, now: Callable[[], float]) -> None:
        super().__init__()
        self._run = run
        self._now = now

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        run = self._run
        finished = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(until_gone, receive, tasks)
                await self._send(send)
                finished = True
                tasks.cancel_scope.cancel()
        finally:
            if not finished and run.session.leaves_turn and not run.ended:
                finished = True  # it goes on without its client
                run.session.has_open_request = False
            run.since = self._now()
            if not finished or not run.session.is_waiting:
                run.end()

    async def _send(self, send: Send) -> None:
        run, session = self._run, self._run.session
        data = await run.read()
        while not data and not run.is_answered:
            data = await run.read()
        events = session.media == EVENTS
        headers = {**ALWAYS, **session.headers, "Content-Type": session.media}
        if events:
            headers["X-Accel-Buffering"] = "no"
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": session.status if data else 500, "headers": raw})
        while True:
            data = data or (KEEP_ALIVE if events and not run.is_answered else b"")
            await send({"type": "http.response.body", "body": data, "more_body": True})
            if run.is_read:
                break
            data = await run.read()
        await send({"type": "http.response.body", "body": b""})
