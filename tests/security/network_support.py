"""An internet that stays on this machine: names have public addresses, and those lead to servers on the loopback."""

import encodings.idna  # noqa: F401 - loaded late otherwise, when it may be in a place that cannot be read any more
import http.server
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketStream

from hames.domain.network import NetworkRules
from hames.sandbox.walls.network.destinations import Address
from hames.sandbox.walls.network.host_gate import HostGate
from hames.sandbox.walls.network.outside import OutsideNetwork, UpstreamProxies
from hames.sandbox.walls.network.proxy import Proxy, ProxyLimits

PUBLIC = "93.184.216.34"
OTHER = "93.184.216.35"
OWN = "93.184.216.99"
NAMES: dict[str, list[list[str]]] = {
    "allowed.test": [[PUBLIC]],
    "denied.test": [[OTHER]],
    "private.test": [["10.0.0.5"]],
    "loopback.test": [["127.0.0.1"]],
}
ONLY_ALLOWED = NetworkRules(allow=("allowed.test", "private.test", "loopback.test"))


class StandIn(OutsideNetwork):
    """`names`: what is looked up, each time with the next answer. `ports`: where a public address really leads.

    What is not in there does not exist, so nothing can leave the machine.
    """

    def __init__(self, names: dict[str, list[list[str]]] | None = None, ports: dict[str, int] | None = None) -> None:
        self.names = names or {}
        self.ports = ports or {}
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    async def resolve(self, host: str) -> list[str]:
        self.looked_up.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError("Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: str, port: int) -> ByteStream:
        self.dialled.append((address, port))
        if address not in self.ports:
            raise ConnectionRefusedError(111, "Connection refused")
        return await anyio.connect_tcp("127.0.0.1", self.ports[address])

    def is_this_machine(self, address: Address) -> bool:
        return str(address) == OWN


@asynccontextmanager
async def proxying(
    outside: OutsideNetwork,
    *,
    limits: ProxyLimits | None = None,
    upstream: UpstreamProxies | None = None,
    gate: HostGate | None = None,
) -> AsyncGenerator[tuple[Proxy, int]]:
    """A proxy on a port of the loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    proxy = Proxy(outside, limits=limits, upstream=upstream or UpstreamProxies(), gate=gate)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(proxy.serve, listener)
        try:
            yield proxy, listener.getsockname()[1]
        finally:
            proxy.stop()


async def say(port: int, data: bytes, *, end: bool = False) -> bytes:
    """Everything that comes back until the connection ends."""
    received = b""
    with anyio.fail_after(60):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(data)
            if end:
                await stream.send_eof()
            try:
                while True:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return received


@asynccontextmanager
async def listening(handle: Callable[[SocketStream], Awaitable[None]]) -> AsyncGenerator[int]:
    """A server that does what `handle` does with each connection, for as long as there is somebody to do it with."""

    async def take(stream: SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with stream:
                await handle(stream)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, take)
        yield listener.listeners[0].extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


@contextmanager
def web_server(handler: type[http.server.BaseHTTPRequestHandler], tls: Any = None) -> Generator[int]:
    """A web server in a thread, on a port of the loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
