"""The proxy that a sandboxed command reaches the network through: HTTP, HTTP CONNECT and SOCKS 5 on one port.

It runs outside the sandbox, one for each command. It looks names up itself and connects to the very address it has
checked, so a name that means something else a moment later gains nothing. What it refuses it also keeps as a sentence
in `notes`, because most clients do not show the body of a 403.

TLS is not opened: after CONNECT bytes go through as they are. Where hosts are allowed by name, a tunnel to port 443
must begin with TLS for that very name, and so must any other tunnel that begins with TLS.
"""

import errno
import logging
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import SocketListener, SocketStream

from hames.domain.value import Value
from hames.sandbox.walls.network import http_messages as http
from hames.sandbox.walls.network.client_hello import HANDSHAKE, asked_server_name
from hames.sandbox.walls.network.connection import GONE, ProxyConnection
from hames.sandbox.walls.network.destinations import (
    Destination,
    HostRule,
    Malformed,
    any_public_host,
    parse_authority,
    parse_host,
)
from hames.sandbox.walls.network.dialler import DestinationRefused, DestinationUnreachable, Dialler
from hames.sandbox.walls.network.host_gate import HostGate
from hames.sandbox.walls.network.outside import OutsideNetwork, UpstreamProxies
from hames.sandbox.walls.network.traffic import Traffic, readable_size

log = logging.getLogger(__name__)

TLS_PORT = 443
_NOTES = 12
_DRAIN_SECONDS = 1.0
_FULL_SECONDS = 0.1
_DIRECT = UpstreamProxies()

_SOCKS_OK, _SOCKS_REFUSED, _SOCKS_UNREACHABLE, _SOCKS_COMMAND, _SOCKS_KIND = 0, 2, 4, 7, 8


class ProxyLimits(Value):
    """`connections`: served at once; the others wait until one of them ends."""

    connections: int = 64
    idle_seconds: float = 300.0
    request_seconds: float = 30.0
    """How long a request may take to arrive."""
    most_bytes: int = 1 << 30
    """Sent and received by one command, all its connections together."""


class Proxy:
    """`slots`: connections that several proxies share, so that all commands together cannot use up our descriptors."""

    def __init__(
        self,
        outside: OutsideNetwork,
        *,
        rule: HostRule = any_public_host,
        upstream: UpstreamProxies = _DIRECT,
        limits: ProxyLimits | None = None,
        slots: anyio.CapacityLimiter | None = None,
        gate: HostGate | None = None,
    ) -> None:
        self._dialler = Dialler(outside, rule, upstream, gate)
        self._gate = gate
        self._limits = limits or ProxyLimits()
        self._traffic = Traffic(self._limits.most_bytes, self._stop_at_limit)
        self._slots = slots or anyio.CapacityLimiter(self._limits.connections)
        self._notes: dict[str, None] = {}
        self._dropped = 0
        self._scope = anyio.CancelScope()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was reached, what was refused and what could not be reached, one sentence each."""
        more = (f"{self._dropped} more connections were refused or failed",) if self._dropped else ()
        return (*self._traffic.notes, *self._notes, *more)

    async def serve(self, listener: socket.socket) -> None:
        """Until `stop`; closes the listener and every connection."""
        with self._scope:
            async with (
                await SocketListener.from_socket(listener) as accepting,
                anyio.create_task_group() as tasks,
            ):
                places = anyio.CapacityLimiter(self._limits.connections)
                while True:
                    place = object()
                    await places.acquire_on_behalf_of(place)
                    stream = await _accept(accepting)
                    tasks.start_soon(self._take, stream, places, place)

    def stop(self) -> None:
        self._scope.cancel()

    def _stop_at_limit(self) -> None:
        limit = readable_size(self._limits.most_bytes)
        self._notes[f"the network was closed: this command sent and received more than {limit}"] = None
        self.stop()

    async def _take(self, stream: SocketStream, places: anyio.CapacityLimiter, place: object) -> None:
        try:
            async with ProxyConnection(stream) as client, self._slots:
                await self._converse(client)
        except GONE:
            pass
        except Exception:
            log.exception("network.connection_failed")
        finally:
            places.release_on_behalf_of(place)

    async def _converse(self, client: ProxyConnection) -> None:
        with anyio.fail_after(self._limits.request_seconds):
            first = await client.peek()
        if first == b"\x05":
            await self._serve_socks(client)
        else:
            await self._serve_http(client)

    # HTTP

    async def _serve_http(self, client: ProxyConnection) -> None:
        try:
            with anyio.fail_after(self._limits.request_seconds):
                request = http.parse_request(await client.read_head())
            if request.method == b"CONNECT":
                await self._serve_connect(client, request)
            else:
                await self._serve_plain(client, request)
        except Malformed as error:
            await client.answer(400, "Bad Request", f"bad request: {error}")
        except DestinationRefused as error:
            await client.answer(403, "Forbidden", self._note(error))
        except DestinationUnreachable as error:
            await client.answer(502, "Bad Gateway", self._note(error))
        else:
            return
        await client.drain(_DRAIN_SECONDS)

    async def _serve_connect(self, client: ProxyConnection, request: http.ProxyRequest) -> None:
        if request.length != 0:
            raise Malformed("CONNECT has no body")
        destination = parse_authority(request.target.decode("ascii"))
        async with await self._dialler.open_tunnel(destination) as server:
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._tunnel(client, server, destination)

    async def _serve_plain(self, client: ProxyConnection, request: http.ProxyRequest) -> None:
        destination, path = http.parse_url(request.target)
        server, target, extra = await self._dialler.open_plain(destination, path)
        async with server:
            server.count = self._traffic.of(destination)
            try:
                await server.send(http.forwarded_request(request, destination, target, extra=extra))
            except GONE as error:
                raise DestinationUnreachable(f"could not connect to {destination}: it closed the connection") from error
            await self._exchange(client, server, request, destination)

    async def _exchange(
        self, client: ProxyConnection, server: ProxyConnection, request: http.ProxyRequest, destination: Destination
    ) -> None:
        """Sends the body and relays the answer at the same time: a server may answer before it has read everything.

        Raises `Malformed` for a body that is none.
        """
        problem: list[Malformed] = []
        async with anyio.create_task_group() as tasks:

            async def send_body() -> None:
                try:
                    async for data in self._body(client, request):
                        if not await _try_send(server, data):
                            return
                except Malformed as error:
                    problem.append(error)
                    tasks.cancel_scope.cancel()
                except GONE:  # the client went away before it had asked
                    tasks.cancel_scope.cancel()

            tasks.start_soon(send_body)
            await self._relay_answer(server, client, destination)
            tasks.cancel_scope.cancel()
        if problem:
            raise problem[0]

    async def _body(self, client: ProxyConnection, request: http.ProxyRequest) -> AsyncGenerator[bytes, None]:
        """The body of this one request, and not a byte of what comes after it. Raises `Malformed` or one of `GONE`."""
        if request.length is None:
            chunks = http.ChunkedBody()
            while not chunks.ended:
                yield chunks.feed(await self._read(client))
            return
        left = request.length
        while left:
            data = (await self._read(client))[:left]
            left -= len(data)
            yield data

    async def _read(self, source: ProxyConnection) -> bytes:
        with anyio.fail_after(self._limits.idle_seconds):
            return await source.read()

    async def _relay_answer(self, server: ProxyConnection, client: ProxyConnection, destination: Destination) -> None:
        try:
            status = 0
            while status < 200:
                with anyio.fail_after(self._limits.idle_seconds):
                    response = http.parse_response(await server.read_head())
                status = response.status
                if status == 101:
                    raise Malformed("it changed the protocol unasked")
                if not await _try_send(client, http.forwarded_response(response)):
                    return
        except (Malformed, *GONE) as error:
            why = str(error) if isinstance(error, Malformed) else "it closed the connection or took too long"
            sentence = self._note(DestinationUnreachable(f"no answer from {destination}: {why}"))
            with suppress(*GONE):
                await client.answer(502, "Bad Gateway", sentence)
            return
        with suppress(*GONE):
            while True:
                await client.send(await self._read(server))
        with suppress(*GONE):
            await client.send_eof()

    # SOCKS

    async def _serve_socks(self, client: ProxyConnection) -> None:
        with anyio.fail_after(self._limits.request_seconds):
            _, count = await client.read_exactly(2)
            if 0 not in await client.read_exactly(count):
                await client.send(b"\x05\xff")
                return
            await client.send(b"\x05\x00")
            version, command, _, kind = await client.read_exactly(4)
            if version != 5 or command != 1:
                await _answer_socks(client, _SOCKS_COMMAND)
                return
            try:
                destination = await _read_socks_destination(client, kind)
            except Malformed:
                await _answer_socks(client, _SOCKS_KIND)
                return
        try:
            server = await self._dialler.open_tunnel(destination)
        except (DestinationRefused, DestinationUnreachable) as error:
            self._note(error)
            await _answer_socks(client, _SOCKS_REFUSED if isinstance(error, DestinationRefused) else _SOCKS_UNREACHABLE)
            await client.drain(_DRAIN_SECONDS)
            return
        async with server:
            await _answer_socks(client, _SOCKS_OK)
            await self._tunnel(client, server, destination)

    def _note(self, problem: DestinationRefused | DestinationUnreachable) -> str:
        sentence = str(problem)
        if sentence in self._notes or len(self._notes) < _NOTES:
            self._notes[sentence] = None
        else:
            self._dropped += 1
        return sentence

    # Both ways

    async def _tunnel(self, client: ProxyConnection, server: ProxyConnection, destination: Destination) -> None:
        check = None
        if self._gate is not None and self._gate.names_hosts:
            check = partial(self._check_name, client, destination)
            if destination.port == TLS_PORT and not await check():
                return
        server.count = self._traffic.of(destination)
        await self._join(client, server, check)

    async def _check_name(self, client: ProxyConnection, destination: Destination) -> bool:
        """Whether the client uses the tunnel for the host it asked for, as far as its first message says. What it says
        stays to be read."""
        limit = self._limits.request_seconds if destination.port == TLS_PORT else None
        try:
            with anyio.fail_after(limit):
                if not client.early:
                    await client.receive_early()
                if destination.port != TLS_PORT and client.early[0] != HANDSHAKE:
                    return True
                while (name := asked_server_name(client.early)) is None:
                    await client.receive_early()
            why = "" if name == destination.host else f"is asked for with another TLS server name, {name[:99]!r}"
        except Malformed as error:
            why = str(error)
        except GONE:  # it said nothing in time, or has hung up
            return False
        if why:
            self._note(DestinationRefused(f"refused: {destination} {why}"))
        return not why

    async def _join(
        self, client: ProxyConnection, server: ProxyConnection, check: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Bytes in both directions until both have ended, one breaks, or neither has said anything for too long.

        Nothing of the client's is passed on before `check` says yes; a server may speak first.
        """
        activity = _Activity(self._limits.idle_seconds)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(activity.watch, tasks.cancel_scope)
            async with anyio.create_task_group() as directions:
                directions.start_soon(_pump, client, server, activity, tasks.cancel_scope, check)
                directions.start_soon(_pump, server, client, activity, tasks.cancel_scope)
            tasks.cancel_scope.cancel()


class _Activity:
    """When anything was last heard on a connection, in either direction: a download says nothing back."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._last = anyio.current_time()

    def note(self) -> None:
        self._last = anyio.current_time()

    async def watch(self, scope: anyio.CancelScope) -> None:
        """Ends the connection once it has been silent for too long."""
        # There is no event to wait for: what counts is that nothing happens.
        while (rest := self._last + self._limit - anyio.current_time()) > 0:  # noqa: ASYNC110
            await anyio.sleep(rest)
        scope.cancel()


async def _pump(
    source: ProxyConnection,
    sink: ProxyConnection,
    activity: _Activity,
    scope: anyio.CancelScope,
    check: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    try:
        if check is not None and not await check():
            scope.cancel()
            return
        while True:
            try:
                data = await source.read()
            except anyio.EndOfStream:
                await sink.send_eof()
                return
            activity.note()
            await sink.send(data)
            activity.note()
    except GONE:
        scope.cancel()


async def _try_send(sink: ProxyConnection, data: bytes) -> bool:
    try:
        await sink.send(data)
    except GONE:
        return False
    return True


async def _accept(listener: SocketListener) -> SocketStream:
    """The next connection. Without a free descriptor it is tried again: the ones that are in use come back."""
    while True:
        try:
            return await listener.accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                raise
            await anyio.sleep(_FULL_SECONDS)


async def _read_socks_destination(client: ProxyConnection, kind: int) -> Destination:
    """Raises `Malformed`."""
    match kind:
        case 1:
            host = socket.inet_ntop(socket.AF_INET, await client.read_exactly(4))
        case 3:
            (size,) = await client.read_exactly(1)
            host = (await client.read_exactly(size)).decode("latin-1")
        case 4:
            host = socket.inet_ntop(socket.AF_INET6, await client.read_exactly(16))
        case _:
            raise Malformed("the kind of address is unknown")
    (port,) = struct.unpack(">H", await client.read_exactly(2))
    if port == 0:
        raise Malformed("the port is 0")
    return Destination(host=parse_host(host), port=port)


async def _answer_socks(client: ProxyConnection, code: int) -> None:
    await client.send(bytes((5, code, 0, 1)) + bytes(6))
    if code != _SOCKS_OK:
        await client.send_eof()
