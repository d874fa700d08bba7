"""Network access for commands behind walls: a listener inside, a proxy outside, and variables that name it.

The command has a network namespace of its own, with nothing in it but a loopback interface. The one way out is a port
on that interface, and behind the port is our proxy. Nothing of ours runs inside, and there is no other way to fall
back to: where the listener cannot be opened, the command is not started.
"""

import logging
import os
import resource
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

import anyio
from anyio.from_thread import BlockingPortal

from hames.domain.errors import SandboxUnavailable
from hames.sandbox.walls.network.host_gate import HostGate
from hames.sandbox.walls.network.namespace_listener import NamespaceListeners
from hames.sandbox.walls.network.outside import OutsideNetwork, UpstreamProxies, upstream_proxies
from hames.sandbox.walls.network.proxy import Proxy

log = logging.getLogger(__name__)

PORT = 61280
"""Of the proxy, inside. The namespace is new, so it is free; and no program is given it by chance (those are lower)."""

_CONNECTIONS = 256
_STOP_SECONDS = 5.0


def proxy_environment(environ: Mapping[str, str], port: int = PORT) -> dict[str, str]:
    """What tells a command's programs about the proxy. `environ`: what they would find otherwise.

    >>> proxy_environment({})["https_proxy"]
    'http://127.0.0.1:61280'
    """
    url = f"http://127.0.0.1:{port}"
    # Clients without SOCKS fail on a socks:// address, so every variable names the same one.
    found = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": "localhost,127.0.0.1,::1"}
    found |= {name.lower(): value for name, value in found.items()}
    found["NODE_USE_ENV_PROXY"] = "1"
    # Java reads no variable but this one. It says so on stderr, in one line.
    java = (f"-D{kind}.proxyHost=127.0.0.1 -D{kind}.proxyPort={port}" for kind in ("http", "https"))
    found["JAVA_TOOL_OPTIONS"] = " ".join((environ.get("JAVA_TOOL_OPTIONS", ""), *java)).strip()
    return found


class NetworkAccess:
    """One for all commands of a sandbox. Its thread and its process start with the first command that needs them.

    `environ` is the harness's own environment: a proxy that it names is used. `outside` is for tests.
    """

    def __init__(self, environ: Mapping[str, str], outside: OutsideNetwork | None = None) -> None:
        self.upstream = upstream_proxies(environ)
        self.outside = outside or OutsideNetwork()
        self.listeners = NamespaceListeners()
        self.thread = _ProxyThread()

    def for_command(self, number: int = 0, gate: HostGate | None = None) -> "CommandNetwork":
        """`number`: how many have had a proxy in its network namespace before. `gate` None: every public host."""
        return CommandNetwork(self, PORT + number, gate)

    def close(self) -> None:
        self.listeners.close()
        self.thread.close()


class CommandNetwork:
    """The network of one command. `gate` goes to the sandbox, which waits until there is something to read on it."""

    def __init__(self, access: NetworkAccess, port: int = PORT, gate: HostGate | None = None) -> None:
        self._access = access
        self._gate = gate
        self._port = port
        self._proxy: Proxy | None = None
        self._serving: Future[None] | None = None
        self.gate, self._opener = os.pipe()

    def environment(self, usual: Mapping[str, str]) -> dict[str, str]:
        return {**usual, **proxy_environment(usual, self._port)}

    def open(self, pid: int, namespace: int) -> None:
        """Puts the proxy in front of process `pid`, the first in the sandbox, and lets the command begin.

        Raises `SandboxUnavailable`; then the command must be ended.
        """
        try:
            listener = self._access.listeners.open(pid, namespace, self._port)
            try:
                started = self._access.thread.start(listener, self._access.outside, self._access.upstream, self._gate)
                self._proxy, self._serving = started
            except BaseException:
                listener.close()
                raise
            os.write(self._opener, b"1")
        except (OSError, RuntimeError) as error:
            raise SandboxUnavailable(
                f"no network for the command: its listener in the sandbox could not be opened ({error}); "
                "run it without networkAccess, or without a sandbox (dangerFullAccess)"
            ) from error

    def close(self) -> Sequence[str]:
        """Ends every connection and returns what was refused, in sentences. May be called again."""
        if self._opener >= 0:
            os.close(self._opener)
            self._opener = -1
        if self._proxy is None or self._serving is None:
            return ()
        self._access.thread.stop(self._proxy)
        wait([self._serving], _STOP_SECONDS)
        if self._serving.done() and not self._serving.cancelled() and (error := self._serving.exception()):
            log.error("network.proxy_failed", exc_info=error)
        self._serving = None
        notes, self._proxy = self._proxy.notes, None
        return notes


class _ProxyThread:
    """An event loop of its own, so that a download does not slow down the engine's.

    A daemon thread: there is nothing it would have to finish when the process ends.
    """

    def __init__(self) -> None:
        self._portal: BlockingPortal | None = None
        self._slots: anyio.CapacityLimiter | None = None
        self._turn = threading.Lock()

    def start(
        self,
        listener: socket.socket,
        outside: OutsideNetwork,
        upstream: UpstreamProxies,
        gate: HostGate | None,
    ) -> tuple[Proxy, Future[None]]:
        """Raises `RuntimeError` where the system gives us no thread."""
        with self._turn:
            portal = self._portal or self._run()
        proxy = portal.call(lambda: Proxy(outside, upstream=upstream, slots=self._slots, gate=gate))
        return proxy, portal.start_task_soon(proxy.serve, listener)

    def stop(self, proxy: Proxy) -> None:
        """Without waiting for it. Where the thread has ended, so has the proxy."""
        portal = self._portal
        if portal is not None:
            with suppress(RuntimeError):
                portal.start_task_soon(proxy.stop)

    def close(self) -> None:
        with self._turn:
            if self._portal is not None:
                with suppress(RuntimeError):
                    self._portal.start_task_soon(self._portal.stop, True)
                self._portal = None

    def _run(self) -> BlockingPortal:
        ready: Future[BlockingPortal] = Future()

        async def main() -> None:
            async with BlockingPortal() as portal:
                self._slots = anyio.CapacityLimiter(_shared_connections())
                ready.set_result(portal)
                await portal.sleep_until_stopped()

        threading.Thread(target=anyio.run, args=(main,), name="hames-network", daemon=True).start()
        self._portal = ready.result()
        return self._portal


def _shared_connections() -> int:
    """Each takes two descriptors, and the harness needs most of them for itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _CONNECTIONS if soft == resource.RLIM_INFINITY else max(8, min(_CONNECTIONS, soft // 6))
