"""The server: one port, every networked way in, on one engine.

A request passes the connection (what HTTP allows), the guard (who may ask), the table of endpoints (what there is).
Stopping is told: streams end with a word, sockets with a code, and only then does the listener close.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from starlette.routing import Router, WebSocketRoute

from hames.core.engine import Engine
from hames.domain.value import Value
from hames.protocols.dialect import Dialect
from hames.protocols.sync.pages import GitChanges, SandboxReport
from hames.protocols.sync.view import Offer
from hames.transports import guard_peer, server_listener, unix
from hames.transports.guard_middleware import Guard
from hames.transports.guard_token import Keyring
from hames.transports.http_artifacts import ArtifactsApi
from hames.transports.http_core import CoreApi
from hames.transports.http_encoding import Compressing
from hames.transports.http_house import HouseApi
from hames.transports.http_metrics import Metrics
from hames.transports.http_page import Page
from hames.transports.http_protocol import Doors
from hames.transports.http_routes import routes
from hames.transports.http_sign_in import SignInApi
from hames.transports.http_threads import ThreadsApi
from hames.transports.http_uploads import Uploads
from hames.transports.network import reachable
from hames.transports.server_hub import Hubs
from hames.transports.server_listener import Address, Listener
from hames.transports.server_news import News
from hames.transports.server_service import Service, listed
from hames.transports.websocket_rpc import RpcSockets
from hames.transports.websocket_sync import SyncSocket


class Extras(Value):
    """What the rest of the program gives the server beside the engine."""

    data_dir: Path
    """Where threads are kept: the unix socket lies there."""
    uploads_dir: Path
    version: str
    dialects: Mapping[str, Callable[[], Dialect]] = {}
    """By the name of their path and of their first line on the unix socket."""
    page: Path | None = None
    demo_model: str = ""
    sandbox: Callable[[], Awaitable[SandboxReport]] | None = None
    git_changes: Callable[[str], Awaitable[GitChanges]] | None = None


class Server:
    """A server that runs. `url` says where."""

    def __init__(self, listener: Listener, service: Service, url: str) -> None:
        self._listener = listener
        self.service = service
        self.url = url

    def link(self) -> str:
        """Where a browser should go: with a token, an address that signs it in once."""
        keyring = self.service.keyring
        return f"{self.url}/?token={keyring.link()}" if keyring is not None else self.url

    async def wait(self) -> None:
        """Until somebody stops it."""
        await self._listener.ended.wait()

    def stop(self) -> None:
        self._listener.stop()


@asynccontextmanager
async def serving(
    engine: Engine, address: Address, extras: Extras, *, token: str | None = None
) -> AsyncGenerator[Server]:
    """A server for as long as the block lasts. Raises `Misconfigured` when it cannot be, with nothing listening."""
    server_listener.check(address, token)
    door = server_listener.bound(address)
    failure: Exception | None = None
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(door.close)
        port = door.getsockname()[1]
        knocker = await stack.enter_async_context(unix.listening(extras.data_dir))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        keyring = Keyring(token, engine.clock) if token is not None else None
        offer = Offer(models=engine.models, listed=listed(engine))
        hubs = Hubs(engine, offer, tasks)
        service = Service(
            engine=engine,
            offer=offer,
            hubs=hubs,
            news=News(engine.clock),
            gate=server_listener.gate_for(address, port),
            keyring=keyring,
            uploads=Uploads(extras.uploads_dir),
            metrics=Metrics(),
            version=extras.version,
            page=extras.page,
            demo_model=extras.demo_model,
            addresses=lambda: reachable(address, port),
        )
        if extras.sandbox is not None:
            service.sandbox = extras.sandbox
        if extras.git_changes is not None:
            service.git_changes = extras.git_changes
        for observe in (service.metrics.observe, service.news.observe):
            engine.observers.append(observe)
            stack.callback(engine.observers.remove, observe)
        # Without a token the kernel says who may come in; with one, the token does.
        doors = Doors(guard_peer.refusal if keyring is None else None)
        sockets = {name: RpcSockets(engine, make) for name, make in extras.dialects.items()}
        listener = Listener(server_listener.config(_app(service, sockets), doors, compress=not address.is_loopback))
        listener.on_stop = [hubs.close, *(one.close for one in sockets.values())]
        unix_door = unix.UnixDoor(engine, extras.dialects)
        _gauges(service, listener, doors, sockets, unix_door)
        service.uploads.sweep()
        tasks.start_soon(hubs.tick, engine.clock)
        tasks.start_soon(service.news.run)
        tasks.start_soon(unix_door.serve, knocker)
        tasks.start_soon(listener.run_on, door)
        await listener.ready.wait()
        server = Server(listener, service, f"http://{server_listener.host_text(address)}:{port}")
        try:
            yield server
        except Exception as error:  # the task group would wrap it, and whoever left with it wants it as it was
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                listener.stop()
                await listener.ended.wait()
    if failure is not None:
        raise failure


def _app(service: Service, sockets: Mapping[str, RpcSockets]) -> Guard:
    house = HouseApi(service)
    table = [
        *CoreApi(service).endpoints(),
        *ThreadsApi(service).endpoints(),
        *ArtifactsApi(service).endpoints(),
        *house.endpoints(),
        *SignInApi(service).endpoints(),
    ]
    house.table = table
    router = Router(
        routes=[
            *routes(table),
            WebSocketRoute("/ws", SyncSocket(service)),
            *(WebSocketRoute(f"/{name}", endpoint) for name, endpoint in sockets.items()),
            # Codex's clients name a host and a port, and no path.
            *(WebSocketRoute("/", endpoint) for name, endpoint in sockets.items() if name == "flint"),
            *Page(service).routes(),
        ],
        redirect_slashes=False,
    )
    return Guard(
        Compressing(router),
        gate=service.gate,
        keyring=service.keyring,
        metrics=service.metrics,
        clock=service.engine.clock,
    )


def _gauges(
    service: Service,
    listener: Listener,
    doors: Doors,
    sockets: Mapping[str, RpcSockets],
    unix_door: unix.UnixDoor,
) -> None:
    hubs = service.hubs
    service.metrics.gauges = {
        "hames_connections": ("Open connections.", lambda: len(listener.server_state.connections)),
        "hames_connections_silent": ("Connections that have not asked anything yet.", lambda: len(doors.silent)),
        "hames_connections_accepted": ("Connections so far.", lambda: doors.accepted),
        "hames_sync_clients": ("Clients of sync.", lambda: hubs.clients[0]),
        "hames_sse_clients": ("Clients of SSE.", lambda: hubs.clients[1]),
        "hames_rpc_clients": (
            "Clients of the JSON-RPC protocols.",
            lambda: sum(one.count for one in sockets.values()) + unix_door.count,
        ),
        "hames_threads_watched": ("Threads somebody looks at.", lambda: hubs.count),
        "hames_frames_told": ("Frames and event blocks, times the clients that got them.", lambda: hubs.told),
    }
