"""A sandbox runner: one request is one run, told as a stream of events until it ends.

Whoever closes the request cancels the run. Runs of one `thread` share a conversation, also after a restart: it is
found again by its title.
"""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import anyio
from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from hames.core.engine import Engine
from hames.domain.commands import CreateThread, ListThreads, ReadThread, ThreadPage
from hames.domain.errors import InvalidCommand, ThreadNotFound, TurnBusy
from hames.domain.ids import ThreadId
from hames.domain.models import ModelCard
from hames.domain.state import ThreadState
from hames.observe.metrics import MEDIA_TYPE, Metrics
from hames.protocols.runner import inbound, messages
from hames.protocols.runner.session import RunnerSession
from hames.protocols.session import Session
from hames.server import listener
from hames.server.api.prompts import Ok
from hames.server.api.status import Health
from hames.server.api.streams import SessionStreams
from hames.server.guard.middleware import RUN_BYTES
from hames.server.http.reply import ALWAYS, reply
from hames.server.http.request_body import read_body
from hames.server.http.routes import Endpoint, endpoint, openapi_description, principal_of, routes
from hames.server.listener import Address, RunningServer
from hames.server.slow_clients import WaitingOutbox, Writer
from hames.stdio.connection import Connection
from hames.stdio.principals import Principal


@asynccontextmanager
async def running(
    engine: Engine,
    address: Address,
    *,
    version: str,
    token: str | None = None,
    tokens_dir: Path | None = None,
    asks: bool = True,
    starts_servers: bool = False,
) -> AsyncGenerator[RunningServer]:
    """A runner for as long as the block lasts. `asks`: whoever starts a run says whether it is asked.
    `starts_servers`: whoever starts a run may bring MCP servers, which run outside the sandbox.
    `tokens_dir` has the named tokens.

    Raises `Misconfigured`.
    """
    async with listener.opening(engine.clock, address, token, tokens_dir) as opening:
        metrics = Metrics()
        opening.observe(engine, metrics.observe)
        api = RunnerApi(engine, metrics, version, asks=asks, starts_servers=starts_servers)
        router = Router(routes=routes(api.endpoints()), redirect_slashes=False)
        here = opening.guarded(router, metrics, compress=False)
        here.on_stop = [api.streams.close]
        await opening.listen(await opening.tasks())
        yield RunningServer(here, opening.url)


class RunnerApi:
    def __init__(self, engine: Engine, metrics: Metrics, version: str, *, asks: bool, starts_servers: bool) -> None:
        self._engine = engine
        self._free = inbound.has_no_sandbox(engine.rules.defaults.sandbox)
        self._starts_servers = starts_servers or self._free
        self._metrics = metrics
        self._version = version
        self._asks = asks
        self.streams = SessionStreams(self._connect)
        self._finding = anyio.Lock()

    def endpoints(self) -> list[Endpoint]:
        return [
            endpoint("POST /runs", self.run, needs="driver", body=messages.RunRequest, media="text/event-stream"),
            endpoint("POST /approvals/{id}", self.approve, needs="approver", body=messages.ApprovalAnswer, answer=Ok),
            endpoint("POST /steer", self.steer, needs="driver", body=messages.SteerRequest, answer=Ok),
            endpoint("GET /threads/{thread}", self.known, answer=messages.KnownThread),
            endpoint("GET /capabilities", self.capabilities, answer=messages.Capabilities),
            endpoint("GET /healthz", self.health, needs="nothing", answer=Health),
            endpoint("GET /metrics", self.metrics, media="text/plain"),
            endpoint("GET /openapi.json", self.openapi),
        ]

    async def run(self, request: Request) -> Response:
        """Run a prompt; the answer is the run's events (SSE). Closing it cancels the run."""
        given = inbound.decode_run(await read_body(request, RUN_BYTES))
        await self._check_limits(given)
        engine, principal = self._engine, principal_of(request)
        thread_id = await self._thread(given.thread, principal)
        state = await engine.execute(ReadThread(thread_id=thread_id))
        assert isinstance(state, ThreadState)
        if state.running is not None:
            raise TurnBusy(f"the thread {given.thread!r} already runs a turn")
        defaults, selectors = engine.rules.defaults, tuple(engine.models.selectors())
        settings = inbound.overrides(given, state, defaults, selectors, asks=self._asks)
        for command in inbound.before(given, thread_id, settings):
            await principal.execute(engine, command)
        start = inbound.start(given, thread_id, settings)
        return self.streams.response(RunnerSession(start, can_answer=given.approval_policy is not None))

    async def approve(self, request: Request) -> Response:
        """Answer a question of a run."""
        command = inbound.resolve_approval(await read_body(request), request.path_params["id"])
        await principal_of(request).execute(self._engine, command)
        return reply(Ok())

    async def steer(self, request: Request) -> Response:
        """Say something to the run that works on a thread."""
        said = inbound.decode_steer(await read_body(request, RUN_BYTES))
        thread_id = await self._find_thread(said.thread)
        if thread_id is None:
            raise ThreadNotFound(f"there is no thread {said.thread!r} here")
        await principal_of(request).execute(self._engine, inbound.steer_turn(said, thread_id))
        return reply(Ok())

    async def known(self, request: Request) -> Response:
        """Which turns of a thread this runner has seen."""
        found = await self._find_thread(request.path_params["thread"])
        state = await self._engine.execute(ReadThread(thread_id=found)) if found is not None else None
        return reply(inbound.known_thread(state if isinstance(state, ThreadState) else None))

    async def capabilities(self, _request: Request) -> Response:
        """What this runner can do beyond the specification, and its models."""
        engine, defaults = self._engine, self._engine.rules.defaults
        cards = [card for card in engine.models.cards() if card.usable and not card.successor]
        offered = messages.Capabilities(
            can=tuple(one for one in get_args(messages.Capability) if one != "mcpServers" or self._starts_servers),
            models=tuple(map(_model, cards)),
            default_model=defaults.model,
            selectors=tuple(engine.models.selectors()),
            sandbox=defaults.sandbox,
            approval_policy=None if self._asks else defaults.approval_policy,
        )
        return reply(offered)

    async def health(self, _request: Request) -> Response:
        """Whether the server is running."""
        return reply(Health())

    async def metrics(self, _request: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(self._metrics.text().encode(), 200, ALWAYS, MEDIA_TYPE)

    async def openapi(self, _request: Request) -> Response:
        """This description."""
        return reply(openapi_description(self.endpoints(), version=self._version))

    async def _check_limits(self, given: messages.RunRequest) -> None:
        """Raises `InvalidCommand` for what would lead a run out of the sandbox that this runner was started with."""
        if given.mcp_servers and not self._starts_servers:
            raise InvalidCommand(
                "this runner starts no MCP servers for its clients, because they run outside the sandbox: start it with"
                " --allow-mcp-servers"
            )
        if given.cwd and not self._free:
            own, wanted = [
                Path(await self._engine.workspace.resolve_directory(path))
                for path in (self._engine.rules.defaults.cwd, given.cwd)
            ]
            if not wanted.is_relative_to(own):
                raise InvalidCommand(f"the directory {given.cwd!r} is not inside the workspace of this runner")

    def _connect(self, session: Session, writer: Writer, tasks: TaskGroup, principal: Principal) -> Connection:
        return Connection(self._engine, session, WaitingOutbox(writer, patience_s=math.inf), tasks, principal)

    async def _thread(self, named: str, principal: Principal) -> ThreadId:
        """The conversation of that name, or a new one."""
        async with self._finding:
            if named and (found := await self._find_thread(named)) is not None:
                return found
            state = await principal.execute(self._engine, CreateThread(title=named))
            assert isinstance(state, ThreadState)
            return state.id

    async def _find_thread(self, named: str) -> ThreadId | None:
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


def _model(card: ModelCard) -> messages.RunnerModel:
    return messages.RunnerModel(
        id=card.id,
        name=card.display_name,
        description=card.description,
        context_window=card.context_window,
        images=card.images,
        reasoning=card.reasoning,
    )
