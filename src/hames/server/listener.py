"""Listens on a port with uvicorn: binding, TLS, and a shutdown that clients are told of."""

import contextlib
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Callable, Generator, MutableMapping
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hames.core.engine import Engine
from hames.domain.errors import Misconfigured
from hames.domain.state import Change
from hames.domain.value import Value
from hames.observe.metrics import Metrics
from hames.ports import Clock
from hames.ports.server_state import ServerState
from hames.server.guard import peer
from hames.server.guard.gate import Gate
from hames.server.guard.identities import Identities
from hames.server.guard.middleware import BURST, RATE_PER_SECOND, Guard
from hames.server.guard.named_tokens import NamedTokens
from hames.server.guard.proxies import read_proxies
from hames.server.guard.rate_limit import Bucket
from hames.server.guard.shared import SharedTokens
from hames.server.guard.tls import Certificate
from hames.server.guard.token import Keyring
from hames.server.http.connection import CONNECTION, Doors, guarded
from hames.server.websocket.protocol import SOCKET, GuardedSocket

MESSAGE_BYTES = 1 << 20
PING_SECONDS = 20.0
GRACE_SECONDS = 3


class Address(Value):
    """Where to listen. `port` 0: any that is free."""

    host: str = "127.0.0.1"
    port: int = 4800
    names: tuple[str, ...] = ()
    """What else a `Host` header may say: the name that a proxy passes on, with its port if it has one."""
    origins: tuple[str, ...] = ()
    """Pages elsewhere that may use it: `https://example.com`."""
    tls_cert: str = ""
    tls_key: str = ""
    """Files in PEM format. Without them it is plain HTTP."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies whose `X-Forwarded-*` headers are believed."""

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False


def check(address: Address, token: str | None) -> None:
    """Raises `Misconfigured` for an address that other people reach while there is no token."""
    if bool(address.tls_cert) != bool(address.tls_key):
        raise Misconfigured("--tls-cert and --tls-key belong together: give both, or none")
    if address.proxies and token is None:
        raise Misconfigured(
            "behind a proxy everybody looks like the proxy, so clients need a token; add --token, or set HAMES_TOKEN"
        )
    if not address.is_loopback and token is None:
        raise Misconfigured(
            f"listening on {address.host!r} lets other machines connect, which needs a token; add --token, or set"
            " HAMES_TOKEN"
        )


def gate_for(address: Address, port: int) -> Gate:
    names = {"127.0.0.1", "localhost", "[::1]"}
    if not address.is_loopback:
        names |= {host_text(address), socket.gethostname().lower()}
    hosts = {f"{name}:{port}" for name in names} | {name.lower() for name in address.names}
    return Gate(
        port=port,
        hosts=frozenset(hosts | (names if port == (443 if address.tls_cert else 80) else set())),
        addresses=not address.is_loopback,
        origins=frozenset(origin.rstrip("/") for origin in address.origins),
    )


def host_text(address: Address) -> str:
    """The host as an address shows it. Every interface at once has no name of its own: this machine's will do."""
    if address.host in ("0.0.0.0", "::"):
        return socket.gethostname().lower()
    return f"[{address.host}]" if ":" in address.host else address.host


def bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # The protocol by name: asyncio turns Nagle's delay off only where it sees TCP, and 44 ms an answer hang on it.
    door = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, socket.IPPROTO_TCP)
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


def config(app: Any, doors: Doors, *, compress: bool, certificate: Certificate | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ssl_context_factory=None if certificate is None else lambda _config, _default: certificate.context,
        proxy_headers=False,  # uvicorn would believe everybody on this machine
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


def drop_connection(scope: MutableMapping[str, Any]) -> None:
    """Ends the connection of a request at once; a WebSocket hears why."""
    if scope["type"] == "websocket":
        scope["extensions"][SOCKET].drop(4401, "the token was revoked or has expired")
    else:
        scope[CONNECTION].abort()


class Listener(uvicorn.Server):
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
                tell("the server is restarting")
        self.should_exit = True


class RunningServer:
    """`url` says where it is."""

    def __init__(self, listener: Listener, url: str) -> None:
        self._listener = listener
        self.url = url

    async def wait(self) -> None:
        """Until somebody stops it."""
        await self._listener.ended.wait()

    def stop(self) -> None:
        self._listener.stop()


class Opening:
    """A server on its way up: the port is bound, and `listen` starts to take connections."""

    def __init__(
        self,
        clock: Clock,
        address: Address,
        token: str | None,
        door: socket.socket,
        *,
        tokens_dir: Path | None,
        shared: ServerState | None,
    ) -> None:
        self.stack = contextlib.AsyncExitStack()
        """Closed when the listener has ended, last entered first."""
        self.port = door.getsockname()[1]
        self.url = f"{address.scheme}://{host_text(address)}:{self.port}"
        self.certificate = Certificate(address.tls_cert, address.tls_key) if address.tls_cert else None
        self._proxies = read_proxies(address.proxies)
        self.shared_tokens = SharedTokens(shared, clock) if shared is not None else None
        tokens = self.shared_tokens or (NamedTokens(tokens_dir, clock) if tokens_dir is not None else None)
        self.keyring = Keyring(token, clock, tokens, shared) if token is not None else None
        self.gate = gate_for(address, self.port)
        if shared is not None and self.keyring is not None:
            self.gate = replace(self.gate, cookie=self.keyring.shared_cookie_name)
        self.identities = Identities(self.gate, self.keyring, tokens, clock)
        # Without a token the kernel says who may come in; with one, the token does.
        self.doors = Doors(peer.refusal if self.keyring is None else None)
        self._clock = clock
        self._door = door
        self._listener: Listener | None = None

    async def tasks(self) -> TaskGroup:
        """A task group that is cancelled when the listener has ended."""
        tasks = await self.stack.enter_async_context(anyio.create_task_group())
        self.stack.callback(tasks.cancel_scope.cancel)
        return tasks

    def observe(self, engine: Engine, *observers: Callable[[Change], None]) -> None:
        for one in observers:
            engine.observers.append(one)
            self.stack.callback(engine.observers.remove, one)

    def guarded(self, app: Any, metrics: Metrics, *, compress: bool) -> Listener:
        bucket = Bucket(self._clock, rate=RATE_PER_SECOND, burst=BURST)
        guard = Guard(
            app,
            gate=self.gate,
            keyring=self.keyring,
            identities=self.identities,
            metrics=metrics,
            bucket=bucket,
            proxies=self._proxies,
            drop=drop_connection,
        )
        self._listener = Listener(config(guard, self.doors, compress=compress, certificate=self.certificate))
        return self._listener

    async def listen(self, tasks: TaskGroup) -> None:
        assert self._listener is not None
        tasks.start_soon(self.identities.end_invalid)
        if self.shared_tokens is not None:
            await self.shared_tokens.load()
            tasks.start_soon(self.shared_tokens.keep_fresh)
        if self.certificate is not None:
            tasks.start_soon(self.certificate.watch, self._clock)
        tasks.start_soon(self._listener.run_on, self._door)
        await self._listener.ready.wait()

    async def stop(self) -> None:
        if self._listener is not None and self._listener.ready.is_set():
            with anyio.CancelScope(shield=True):
                self._listener.stop()
                await self._listener.ended.wait()


@contextlib.asynccontextmanager
async def opening(
    clock: Clock,
    address: Address,
    token: str | None,
    tokens_dir: Path | None = None,
    shared: ServerState | None = None,
) -> AsyncGenerator[Opening]:
    """A listener for as long as the block lasts. Raises `Misconfigured` when it cannot be, with nothing listening.

    `tokens_dir` is where named tokens are kept; None: there are none. `shared`: they are in a shared store instead.
    """
    check(address, token)
    door = bind(address)
    failure: Exception | None = None
    with contextlib.closing(door):
        here = Opening(clock, address, token, door, tokens_dir=tokens_dir, shared=shared)
        async with here.stack:
            try:
                yield here
            except Exception as error:  # the task group would wrap it, and whoever left with it wants it as it was
                failure = error
            finally:
                await here.stop()
    if failure is not None:
        raise failure
