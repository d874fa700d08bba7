"""A sandbox runner: one request is one run, told as a stream of events until it ends.

Whoever closes the request cancels the run. Runs of one `thread` share a conversation, also after a restart: it is
found again by its title.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from hames.codecs import sse
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import CreateThread, InterruptTurn, ListThreads, ThreadPage
from hames.domain.errors import HarnessError, NotFound
from hames.domain.events import TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.state import Change, ThreadState, Turn
from hames.observe.metrics import MEDIA_TYPE, Metrics
from hames.protocols.runner import inbound
from hames.protocols.runner.messages import ApprovalAnswer, RunError, RunRequest
from hames.protocols.runner.outbound import frame, project
from hames.server import listener
from hames.server.api.prompts import Ok
from hames.server.api.status import Health
from hames.server.http.reply import ALWAYS, Refused, read_json, reply
from hames.server.http.routes import Endpoint, described, routes
from hames.server.listener import Address, Listener

log = logging.getLogger(__name__)

HEARTBEAT = sse.comment("heartbeat")
HEARTBEAT_SECONDS = 10.0
LAST_WORDS_SECONDS = 5.0


class Runner:
    """A runner that runs. `url` says where."""

    def __init__(self, running: Listener, url: str) -> None:
        self._listener = running
        self.url = url

    async def wait(self) -> None:
        await self._listener.ended.wait()

    def stop(self) -> None:
        self._listener.stop()


@asynccontextmanager
async def running(
    engine: Engine, address: Address, *, version: str, token: str | None = None, asks: bool = True
) -> AsyncGenerator[Runner]:
    """A runner for as long as the block lasts. `asks`: whoever starts a run says whether it is asked.

    Raises `Misconfigured`.
    """
    async with listener.opening(engine.clock, address, token) as opening:
        metrics = Metrics()
        opening.observe(engine, metrics.observe)
        api = RunnerApi(engine, metrics, version, asks=asks)
        router = Router(routes=routes(api.endpoints()), redirect_slashes=False)
        here = opening.guarded(router, metrics, compress=False)
        here.on_stop = [api.close]
        await opening.listen(await opening.tasks())
        yield Runner(here, opening.url)


class RunnerApi:
    def __init__(self, engine: Engine, metrics: Metrics, version: str, *, asks: bool) -> None:
        self._engine = engine
        self._metrics = metrics
        self._version = version
        self._asks = asks
        self._runs: set[_Run] = set()
        self._finding = anyio.Lock()

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                method="POST",
                path="/runs",
                says="Run a prompt; the answer is the run's events (SSE). Closing it cancels the run",
                handle=self.run,
                body=RunRequest,
                media="text/event-stream",
            ),
            Endpoint(
                method="POST",
                path="/approvals/{id}",
                says="Answer a question of a run",
                handle=self.approve,
                body=ApprovalAnswer,
                answer=Ok,
            ),
            Endpoint(
                method="GET", path="/healthz", says="Whether the server is running", handle=self.health, answer=Health
            ),
            Endpoint(
                method="GET", path="/metrics", says="Metrics for Prometheus", handle=self.metrics, media="text/plain"
            ),
            Endpoint(method="GET", path="/openapi.json", says="This description", handle=self.openapi),
        ]

    async def run(self, request: Request) -> Response:
        given = await read_json(request, RunRequest)
        if not given.prompt.strip():
            raise Refused(400, "the prompt is empty")
        thread_id = await self._thread(given.thread)
        watcher = await self._engine.watch(thread_id, answers=given.approval_policy is not None)
        try:
            turn = await self._engine.execute(inbound.start_turn(given, thread_id, asks=self._asks))
        except BaseException:
            watcher.close()
            raise
        assert isinstance(turn, Turn)
        return _Run(self._engine, watcher, turn, self._runs)

    async def approve(self, request: Request) -> Response:
        given = await read_json(request, ApprovalAnswer)
        await self._engine.execute(inbound.resolve_approval(given, request.path_params["id"]))
        return reply(Ok())

    async def health(self, _request: Request) -> Response:
        return reply(Health())

    async def metrics(self, _request: Request) -> Response:
        return Response(self._metrics.text().encode(), 200, ALWAYS, MEDIA_TYPE)

    async def openapi(self, _request: Request) -> Response:
        return reply(described(self.endpoints(), version=self._version))

    def close(self, why: str) -> None:
        for run in list(self._runs):
            run.end(why)

    async def _thread(self, named: str) -> ThreadId:
        """The conversation of that name, or a new one."""
        async with self._finding:
            if named and (found := await self._found(named)) is not None:
                return found
            state = await self._engine.execute(CreateThread(title=named))
            assert isinstance(state, ThreadState)
            return state.id

    async def _found(self, named: str) -> ThreadId | None:
        cursor: str | None = None
        while True:
            page = await self._engine.execute(ListThreads(search=named, cursor=cursor))
            assert isinstance(page, ThreadPage)
            # A thread that came with a repository may have any name: that makes it nobody's conversation here.
            ours = (thread for thread in page.threads if thread.title == named and not thread.foreign)
            if (found := next(ours, None)) is not None:
                return found.id
            if (cursor := page.next_cursor) is None:
                return None


class _Run(Response):
    """The response to a run: it lasts as long as the run does."""

    def __init__(self, engine: Engine, watcher: Watcher, turn: Turn, runs: "set[_Run]") -> None:
        super().__init__()
        self._engine = engine
        self._watcher = watcher
        self._turn = turn
        self._runs = runs
        self._ended = ""

    def end(self, why: str) -> None:
        self._ended = why
        self._watcher.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's shape
        self._runs.add(self)
        whole = False
        try:
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
            headers += [(name.lower().encode(), value.encode()) for name, value in ALWAYS.items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
                beating = await tasks.start(self._beat, send)
                whole = await self._tell(send, beating)
                tasks.cancel_scope.cancel()
        finally:
            self._watcher.close()
            self._runs.discard(self)
            if not whole:
                with anyio.move_on_after(LAST_WORDS_SECONDS, shield=True):
                    await self._stop()

    async def _tell(self, send: Send, speaking: anyio.Lock) -> bool:
        """Whether the run was told to its end."""
        while changes := await self._watcher.next():
            data, ended = self._said(changes)
            async with speaking:
                if data or ended:
                    await send({"type": "http.response.body", "body": data, "more_body": not ended})
            if ended:
                return True
        why = self._ended or self._watcher.cut_off or "the runner stopped"
        async with speaking:
            await send({"type": "http.response.body", "body": frame(RunError(message=why))})
        return False

    def _said(self, changes: list[Change]) -> tuple[bytes, bool]:
        data: list[bytes] = []
        for change in changes:
            data += [frame(event) for event in project(change)]
            event = change.record.event
            if isinstance(event, TurnEnded) and event.turn_id == self._turn.id:
                return b"".join(data), True
        return b"".join(data), False

    async def _beat(self, send: Send, *, task_status: TaskStatus[anyio.Lock]) -> None:
        """A word now and then: whoever waits on the other side knows that we are here."""
        speaking = anyio.Lock()
        task_status.started(speaking)
        while True:
            await anyio.sleep(HEARTBEAT_SECONDS)
            async with speaking:
                await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})

    async def _stop(self) -> None:
        try:
            await self._engine.execute(InterruptTurn(thread_id=self._watcher.state.id, turn_id=self._turn.id))
        except NotFound:
            return  # it has ended by itself
        except HarnessError as why:
            log.warning("run.unstopped", extra={"why": str(why)})


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
