"""The server: one port, every networked way in, on one engine.

A request passes the connection (what HTTP allows), the guard (who may ask), the table of endpoints (what there is).
Stopping is told: streams end with a word, sockets with a code, and only then does the listener close.
"""

import contextlib
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import uvicorn
from starlette.routing import Router, WebSocketRoute

from hames.core.engine import Engine
from hames.domain.errors import Misconfigured
from hames.domain.value import Value
from hames.protocols.dialect import Dialect
from hames.protocols.sync.pages import SandboxReport
from hames.protocols.sync.view import Offer
from hames.transports import guard_peer, unix
from hames.transports.guard import Gate
from hames.transports.guard_middleware import Guard
from hames.transports.guard_token import Keyring
from hames.transports.http_core import CoreApi
from hames.transports.http_house import HouseApi
from hames.transports.http_metrics import Metrics
from hames.transports.http_page import Page
from hames.transports.http_protocol import Doors, guarded
from hames.transports.http_routes import routes
from hames.transports.http_threads import ThreadsApi
from hames.transports.http_uploads import Uploads
from hames.transports.server_hub import Hubs
from hames.transports.server_service import Service, listed
from hames.transports.websocket_protocol import GuardedSocket
from hames.transports.websocket_rpc import RpcSockets
from hames.transports.websocket_sync import SyncSocket

log = logging.getLogger(__name__)

MESSAGE_BYTES = 1 << 20
PING_SECONDS = 20.0
GRACE_SECONDS = 3
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Address(Value):
    """Where to listen. `port` 0: any that is free."""

    host: str = "127.0.0.1"
    port: int = 4800
    names: tuple[str, ...] = ()
    """What else a `Host` header may say: the name that a proxy passes on, with its port if it has one."""
    origins: tuple[str, ...] = ()
    """Pages elsewhere that may use it: `https://example.com`."""

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False


class Extras(Value):
    """What the rest of the program gives the server beside the engine."""

    data_dir: Path
    version: str
    dialects: Mapping[str, Callable[[], Dialect]] = {}
    """By the name of their path and of their first line on the unix socket."""
    page: Path | None = None
    demo_model: str = ""
    sandbox: Callable[[], Awaitable[SandboxReport]] | None = None


class Server:
    """A server that runs. `url` says where."""

    def __init__(self, listener: "_Listener", service: Service, url: str) -> None:
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
    if not address.is_loopback and token is None:
        raise Misconfigured(
            f"listening on {address.host!r} lets other machines in, and there is no token; add --token, or HAMES_TOKEN"
        )
    door = _bound(address)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(door.close)
        port = door.getsockname()[1]
        knocker = await stack.enter_async_context(unix.listening(extras.data_dir))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        keyring = Keyring(token, engine.clock) if token is not None else None
        offer = Offer(models=engine.models, listed=listed(engine.models))
        hubs = Hubs(engine, offer, tasks)
        service = Service(
            engine=engine,
            offer=offer,
            hubs=hubs,
            gate=_gate(address, port),
            keyring=keyring,
            uploads=Uploads(extras.data_dir / "uploads"),
            metrics=Metrics(),
            version=extras.version,
            page=extras.page,
            demo_model=extras.demo_model,
        )
        if extras.sandbox is not None:
            service.sandbox = extras.sandbox
        engine.observers.append(service.metrics.observe)
        stack.callback(engine.observers.remove, service.metrics.observe)
        # Without a token the kernel says who may come in; with one, the token does.
        doors = Doors(guard_peer.is_ours if keyring is None else None)
        sockets = {name: RpcSockets(engine, make) for name, make in extras.dialects.items()}
        listener = _Listener(_config(_app(service, sockets), doors, compress=not address.is_loopback))
        listener.on_stop = [hubs.close, *(one.close for one in sockets.values())]
        unix_door = unix.UnixDoor(engine, extras.dialects)
        _gauges(service, listener, doors, sockets, unix_door)
        service.uploads.sweep()
        tasks.start_soon(hubs.tick, engine.clock)
        tasks.start_soon(unix_door.serve, knocker)
        tasks.start_soon(listener.run_on, door)
        await listener.ready.wait()
        server = Server(listener, service, f"http://{_host_text(address)}:{port}")
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                listener.stop()
                await listener.ended.wait()


def _app(service: Service, sockets: Mapping[str, RpcSockets]) -> Guard:
    house = HouseApi(service)
    table = [*CoreApi(service).endpoints(), *ThreadsApi(service).endpoints(), *house.endpoints()]
    house.table = table
    router = Router(
        routes=[
            *routes(table),
            WebSocketRoute("/ws", SyncSocket(service)),
            *(WebSocketRoute(f"/{name}", endpoint) for name, endpoint in sockets.items()),
            *Page(service).routes(),
        ],
        redirect_slashes=False,
    )
    return Guard(
        router, gate=service.gate, keyring=service.keyring, metrics=service.metrics, clock=service.engine.clock
    )


def _gate(address: Address, port: int) -> Gate:
    names = {"127.0.0.1", "localhost", "[::1]"}
    if not address.is_loopback:
        names |= {_host_text(address), socket.gethostname().lower()}
    hosts = {f"{name}:{port}" for name in names} | {name.lower() for name in address.names}
    return Gate(
        port=port,
        hosts=frozenset(hosts | (names if port == 80 else set())),
        addresses=not address.is_loopback,
        origins=frozenset(origin.rstrip("/") for origin in address.origins),
    )


def _host_text(address: Address) -> str:
    return f"[{address.host}]" if ":" in address.host else address.host


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((address.host, address.port))
        door.listen(1024)
        door.setblocking(False)
    except OSError as why:
        door.close()
        raise Misconfigured(
            f"cannot listen on {address.host!r} port {address.port}: {why.strerror or why}; choose another with --port"
        ) from None
    return door


def _config(app: Guard, doors: Doors, *, compress: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # pyright: ignore[reportArgumentType] - an ASGI application, whatever its scopes are called
        loop="asyncio",
        http=guarded(doors),
        ws=GuardedSocket,
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=compress,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=None,
    )


class _Listener(uvicorn.Server):
    """uvicorn's server without its hands on the process's signals, and with a word for its clients at the end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.on_stop: list[Callable[[str], None]] = []

    async def run_on(self, door: socket.socket) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # it would log addresses, and what is in them
        try:
            with anyio.CancelScope(shield=True):  # only `stop` ends it, or its clients would not be told
                await self.serve(sockets=[door])
        finally:
            self.ready.set()
            self.ended.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def stop(self) -> None:
        if not self.should_exit:
            for tell in self.on_stop:
                tell("the server restarts")
        self.should_exit = True


def _gauges(
    service: Service,
    listener: _Listener,
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
