"""The server: one port, every networked way in, on one engine.

A request passes the connection (what HTTP allows), the guard (who may ask), the table of endpoints (what there is).
Stopping is told: streams end with a word, sockets with a code, and only then does the listener close.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from anyio.abc import TaskGroup
from starlette.routing import Router, WebSocketRoute

from hames.core.engine import Engine
from hames.observe.metrics import Metrics
from hames.protocols.session import Session
from hames.protocols.sse.encoder import SseEncoder
from hames.protocols.sync.encoder import sync_encoder
from hames.protocols.sync.view import Offer, listed_models
from hames.server import listener, unix
from hames.server.acp.endpoint import AcpEndpoint
from hames.server.addresses import reachable
from hames.server.agui.endpoint import AguiEndpoint
from hames.server.api.artifacts import ArtifactsApi
from hames.server.api.page import Page
from hames.server.api.prompts import PromptsApi
from hames.server.api.sign_in import SignInApi
from hames.server.api.sockets import SessionSockets
from hames.server.api.status import StatusApi
from hames.server.api.sync import sync_sockets
from hames.server.api.threads import ThreadsApi
from hames.server.api.worktrees import WorktreesApi
from hames.server.fanout import Fanout
from hames.server.http.compression import Compressing
from hames.server.http.connection import Doors
from hames.server.http.routes import Endpoint, routes
from hames.server.http.uploads import SharedUploads, UploadDirectory
from hames.server.listener import Address, Listener, RunningServer
from hames.server.mcp.endpoint import McpEndpoint
from hames.server.runs import Runs
from hames.server.service import Extras, Service
from hames.server.slow_clients import WaitingOutbox, Writer
from hames.server.v1.endpoint import OpenAiEndpoint
from hames.server.websocket.socket import Scope
from hames.stdio.connection import Connection
from hames.stdio.principals import Principal


class Server(RunningServer):
    """`service` is what its endpoints need."""

    def __init__(self, listener: Listener, service: Service, url: str) -> None:
        super().__init__(listener, url)
        self.service = service

    async def link(self) -> str:
        """Where a browser should go: with a token, an address that signs it in once. Raises `StorageFailed`."""
        if self.service.keyring is None:
            return self.url
        made = await self.service.keyring.make_invitation(has_code=False)
        return f"{self.url}/?token={made.word}"


@asynccontextmanager
async def serving(
    engine: Engine, address: Address, extras: Extras, *, token: str | None = None
) -> AsyncGenerator[Server]:
    """A server for as long as the block lasts. Raises `Misconfigured` when it cannot be, with nothing listening."""
    async with listener.opening(engine.clock, address, token, extras.tokens_dir, extras.shared) as opening:
        knocker = await opening.stack.enter_async_context(unix.listening(extras.data_dir))
        tasks = await opening.tasks()
        offer = Offer(models=engine.models, listed=listed_models(engine.models, engine.agents))
        fanout = Fanout(engine, tasks)
        service = Service(
            engine=engine,
            offer=offer,
            sync_encoder=sync_encoder(offer),
            fanout=fanout,
            gate=opening.gate,
            keyring=opening.keyring,
            uploads=SharedUploads(extras.shared) if extras.shared else UploadDirectory(extras.uploads_dir),
            metrics=Metrics(),
            extras=extras,
            addresses=lambda: reachable(address, opening.port),
        )
        opening.observe(engine, service.metrics.observe, fanout.observe)
        engine.follow_lists(fanout.list_changed)
        opening.stack.callback(engine.unfollow_lists, fanout.list_changed)
        sockets = {name: _rpc_sockets(engine, make) for name, make in extras.sessions.items()}
        sync = sync_sockets(service)
        acp = AcpEndpoint(engine, extras.sessions["acp"], tasks) if "acp" in extras.sessions else None
        mcp = McpEndpoint(engine, extras.sessions["mcp"], tasks) if "mcp" in extras.sessions else None
        runs = Runs(engine, tasks, extras.api_policy)
        table = [
            *OpenAiEndpoint(engine, runs).endpoints(),
            *AguiEndpoint(runs).endpoints(),
            *(acp.endpoints() if acp is not None else ()),
            *(mcp.endpoints() if mcp is not None else ()),
        ]
        app = _app(service, sync, sockets, table)
        here = opening.guarded(app, service.metrics, compress=not address.is_loopback)
        here.on_stop = [sync.close, *(one.close for one in sockets.values()), fanout.close]
        for one in (acp, mcp, runs):
            if one is not None:
                here.on_stop.append(one.close)
                tasks.start_soon(one.expire)
        unix_server = unix.UnixServer(engine, extras.sessions, opening.identities)
        _gauges(service, here, opening.doors, sockets, unix_server)
        await service.uploads.sweep()
        tasks.start_soon(fanout.tick)
        tasks.start_soon(unix_server.serve, knocker)
        await opening.listen(tasks)
        yield Server(here, service, opening.url)


def _rpc_sockets(engine: Engine, make_session: Callable[[], Session]) -> SessionSockets:
    async def open_session(_scope: Scope) -> Session:
        return make_session()

    def connect(session: Session, writer: Writer, tasks: TaskGroup, principal: Principal) -> Connection:
        return Connection(engine, session, WaitingOutbox(writer), tasks, principal)

    return SessionSockets(open_session, connect, by_lines=True)


def _app(
    service: Service, sync: SessionSockets, sockets: Mapping[str, SessionSockets], more: Sequence[Endpoint]
) -> Compressing:
    status = StatusApi(service)
    table = [
        *PromptsApi(service).endpoints(),
        *ThreadsApi(service).endpoints(),
        *WorktreesApi(service).endpoints(),
        *ArtifactsApi(service).endpoints(),
        *status.endpoints(),
        *SignInApi(service).endpoints(),
        *more,
    ]
    status.table = table
    router = Router(
        routes=[
            *routes(table),
            WebSocketRoute("/ws", sync),
            *(WebSocketRoute(f"/{name}", endpoint) for name, endpoint in sockets.items()),
            # Codex's clients name a host and a port, and no path.
            *(WebSocketRoute("/", endpoint) for name, endpoint in sockets.items() if name == "flint"),
            *Page(service).routes(),
        ],
        redirect_slashes=False,
    )
    return Compressing(router)


def _gauges(
    service: Service,
    running: Listener,
    doors: Doors,
    sockets: Mapping[str, SessionSockets],
    unix_server: unix.UnixServer,
) -> None:
    fanout = service.fanout
    service.metrics.gauges = {
        "hames_connections": ("Open connections.", lambda: len(running.server_state.connections)),
        "hames_connections_silent": ("Connections that have not asked anything yet.", lambda: len(doors.silent)),
        "hames_connections_accepted": ("Connections so far.", lambda: doors.accepted),
        "hames_sync_clients": ("Clients of sync.", lambda: fanout.follower_count(service.sync_encoder)),
        "hames_sse_clients": ("Clients of SSE.", lambda: fanout.follower_count(SseEncoder)),
        "hames_rpc_clients": (
            "Clients of the JSON-RPC protocols.",
            lambda: sum(one.count for one in sockets.values()) + unix_server.count,
        ),
        "hames_threads_watched": ("Threads somebody looks at.", lambda: fanout.thread_count),
        "hames_frames_told": ("Frames and event blocks, times the clients that got them.", lambda: fanout.sent),
    }
