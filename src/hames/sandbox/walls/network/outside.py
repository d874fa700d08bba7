"""The way out of this machine: looking up a name, opening a connection, and the user's own proxy where there is one.

Only the proxy of a command uses this, after it has checked what it asks for.
"""

import base64
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import SplitResult, unquote, urlsplit

import anyio
from anyio import from_thread
from anyio.abc import ByteStream
from anyio.lowlevel import current_token

from hames.domain.value import Value
from hames.sandbox.walls.network.destinations import Address, Destination

_LOOKUP_SECONDS = 20.0
_CONNECT_SECONDS = 30.0


class OutsideNetwork:
    """The real network. Tests put another one in its place, so that no test leaves the machine."""

    async def resolve(self, host: str) -> list[str]:
        """All addresses of a name. Raises `OSError`.

        In a thread that nobody waits for at the end: a name server that does not answer must not hold up the exit.
        """
        found: list[str] = []
        failure: list[OSError] = []
        done, token = anyio.Event(), current_token()

        def look_up() -> None:
            try:
                rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                found.extend(dict.fromkeys(str(row[4][0]) for row in rows))
            except (OSError, UnicodeError) as error:
                failure.append(error if isinstance(error, OSError) else OSError(str(error)))
            with suppress(RuntimeError):  # the loop has ended meanwhile
                from_thread.run_sync(done.set, token=token)

        threading.Thread(target=look_up, name="hames-look-up", daemon=True).start()
        with anyio.move_on_after(_LOOKUP_SECONDS):
            await done.wait()
        if failure or not found:
            raise failure[0] if failure else OSError("the name server did not answer")
        return found

    async def connect(self, address: str, port: int) -> ByteStream:
        """A connection to exactly this address. Raises `OSError`, `TimeoutError` included."""
        with anyio.fail_after(_CONNECT_SECONDS):
            return await anyio.connect_tcp(address, port)

    def is_this_machine(self, address: Address) -> bool:
        """Whether the kernel would deliver it here. Nothing is sent: to reach itself, a machine uses the same address
        or a loopback one as its own."""
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            probe.connect((str(address), 9))
            source = ipaddress.ip_address(probe.getsockname()[0])
            return source == address or source.is_loopback
        return False


class UpstreamProxy(Value):
    """The proxy that this user has to use, out of the variable `variable` of the harness's own environment."""

    variable: str
    host: str
    port: int
    tls: bool = False
    authorization: str = ""
    """The value of a `Proxy-Authorization` header."""

    async def connect(self, outside: OutsideNetwork) -> ByteStream:
        """It may be anywhere, on this machine too: the user named it. Raises `OSError`."""
        failure: OSError = OSError("no address")
        for address in await outside.resolve(self.host):
            try:
                stream = await outside.connect(address, self.port)
            except OSError as error:
                failure = error
                continue
            if not self.tls:
                return stream
            from anyio.streams.tls import TLSStream

            try:
                return await TLSStream.wrap(stream, hostname=self.host, standard_compatible=False)
            except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
                await stream.aclose()
                failure = OSError(str(error))
        raise failure

    def __repr__(self) -> str:
        return f"UpstreamProxy({self.variable})"  # its address may hold a password


class UnusableProxy(Value):
    """A variable names a proxy that we cannot use, so nothing is reached: going around it is not ours to decide."""

    variable: str


class UpstreamProxies(Value):
    """What the harness's environment says about proxies. Nothing here comes from a workspace."""

    http: UpstreamProxy | UnusableProxy | None = None
    tunnel: UpstreamProxy | UnusableProxy | None = None
    """For everything but plain HTTP."""
    bypass: tuple[str, ...] = ()

    def choose(self, destination: Destination, *, plain: bool) -> UpstreamProxy | UnusableProxy | None:
        """None: it is connected to directly, for example because `NO_PROXY` names it."""
        is_direct = any(_names(entry, destination) for entry in self.bypass)
        return None if is_direct else self.http if plain else self.tunnel


def upstream_proxies(environ: Mapping[str, str]) -> UpstreamProxies:
    """The lower-case spelling wins, as with curl."""

    def first(*names: str) -> UpstreamProxy | UnusableProxy | None:
        for name in names:
            for spelling in (name.lower(), name):
                if value := environ.get(spelling, "").strip():
                    return _parse_proxy(spelling, value)
        return None

    bypass = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return UpstreamProxies(
        http=first("HTTP_PROXY", "ALL_PROXY"),
        tunnel=first("HTTPS_PROXY", "ALL_PROXY"),
        bypass=tuple(entry.strip().lower() for entry in bypass.split(",") if entry.strip()),
    )


def _parse_proxy(variable: str, value: str) -> UpstreamProxy | UnusableProxy:
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return UnusableProxy(variable=variable)
    if url.scheme not in ("http", "https") or not url.hostname:
        return UnusableProxy(variable=variable)
    return UpstreamProxy(
        variable=variable,
        host=url.hostname,
        port=port,
        tls=url.scheme == "https",
        authorization=_authorization(url),
    )


def _authorization(url: SplitResult) -> str:
    if url.username is None:
        return ""
    words = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(words.encode()).decode('ascii')}"


def _names(entry: str, destination: Destination) -> bool:
    """An entry of `NO_PROXY` is `*`, a name with all names below it, an address or a network; maybe with a port."""
    if entry == "*":
        return True
    address = destination.address
    if address is not None:
        with suppress(ValueError):
            return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and ":" not in name:
        if int(port) != destination.port:
            return False
        entry = name
    entry = entry.removeprefix("*").strip("[].")
    return bool(entry) and (destination.host == entry or destination.host.endswith(f".{entry}"))
