"""Connects a command's proxy to where the command wants to go, after every check.

A name is judged by the rule, looked up here, and each of its addresses is judged; one of these very addresses is
dialled. Where the user has to use a proxy, that one is asked instead and looks the name up itself.
"""

import ipaddress

import anyio

from hames.sandbox.walls.network import http_messages as http
from hames.sandbox.walls.network.connection import GONE, ProxyConnection
from hames.sandbox.walls.network.destinations import (
    RESERVED,
    THIS_MACHINE,
    Destination,
    HostRule,
    Malformed,
    address_refusal,
)
from hames.sandbox.walls.network.host_gate import HostGate
from hames.sandbox.walls.network.outside import OutsideNetwork, UnusableProxy, UpstreamProxies, UpstreamProxy

_ADDRESSES = 4
"""How many addresses of one name are tried."""
_ANSWER_SECONDS = 30.0


class DestinationRefused(Exception):
    """The command may not connect there."""


class DestinationUnreachable(Exception):
    """It may, and it did not work."""


class Dialler:
    def __init__(
        self, outside: OutsideNetwork, rule: HostRule, upstream: UpstreamProxies, gate: HostGate | None = None
    ) -> None:
        self._outside = outside
        self._rule = rule
        self._gate = gate
        self._upstream = upstream

    async def open_tunnel(self, destination: Destination) -> ProxyConnection:
        """A stream of bytes to it. Raises `Refused` and `Unreachable`."""
        upstream = await self._choose_upstream(destination, plain=False)
        if upstream is None:
            return await self._dial(destination)
        server = await self._dial_upstream(upstream, destination)
        try:
            status = await _ask_for_tunnel(server, upstream, destination)
        except (Malformed, *GONE):
            status = 0
        except BaseException:
            await server.close()
            raise
        if 200 <= status < 300:
            return server
        await server.close()
        why = f"answered {status}" if status else "did not answer"
        raise _unreachable(destination, f"the proxy in {upstream.variable} {why}")

    async def open_plain(self, destination: Destination, path: bytes) -> tuple[ProxyConnection, bytes, http.Headers]:
        """A connection for one plain HTTP request, the target to ask for on it, and headers to add.

        Raises `Refused` and `Unreachable`.
        """
        upstream = await self._choose_upstream(destination, plain=True)
        if upstream is None:
            return await self._dial(destination), path, ()
        server = await self._dial_upstream(upstream, destination)
        return server, b"http://%b%b" % (str(destination).encode("ascii"), path), _authorization(upstream)

    async def _choose_upstream(self, destination: Destination, *, plain: bool) -> UpstreamProxy | None:
        """The user's own proxy, if one is to be used. Raises `Refused` for what the rule does not allow by name."""
        why = self._rule(destination)
        if not why and self._gate is not None:
            why = await self._gate.refusal(destination)
        if why:
            raise DestinationRefused(f"refused: {destination} {why}")
        upstream = self._upstream.choose(destination, plain=plain)
        if isinstance(upstream, UnusableProxy):
            why = f"the proxy in {upstream.variable} cannot be used: only http:// and https:// proxies can"
            raise _unreachable(destination, why)
        return upstream

    async def _dial_upstream(self, upstream: UpstreamProxy, destination: Destination) -> ProxyConnection:
        """A name that we know to be private is not asked for; one that we cannot look up was checked by name alone.

        Where only the proxy can look names up, programs may be given reserved addresses instead, as placeholders.
        """
        try:
            addresses = await self._addresses(destination)
        except OSError:
            addresses = []
        self._check(destination, addresses, placeholders=destination.address is None)
        try:
            return ProxyConnection(await upstream.connect(self._outside))
        except OSError as error:
            why = f"the proxy in {upstream.variable} could not be reached: {_reason(error)}"
            raise _unreachable(destination, why) from error

    async def _dial(self, destination: Destination) -> ProxyConnection:
        try:
            addresses = await self._addresses(destination)
        except OSError as error:
            raise _unreachable(destination, f"the name was not found: {_reason(error)}") from error
        self._check(destination, addresses)
        failure = OSError("it has no address")
        for address in addresses[:_ADDRESSES]:
            try:
                return ProxyConnection(await self._outside.connect(address, destination.port))
            except OSError as error:
                failure = error
        raise _unreachable(destination, _reason(failure)) from failure

    async def _addresses(self, destination: Destination) -> list[str]:
        return [destination.host] if destination.address else await self._outside.resolve(destination.host)

    def _check(self, destination: Destination, addresses: list[str], *, placeholders: bool = False) -> None:
        """Raises `Refused`. One address that is not public is enough: a name that has both is a trick."""
        for text in addresses:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                raise DestinationRefused(f"refused: {destination} has an address that cannot be read") from None
            why = address_refusal(address)
            if not why and self._outside.is_this_machine(address):
                why = THIS_MACHINE
            if why and not (placeholders and why == RESERVED):
                spelled = "" if destination.address else f"{text}, "
                raise DestinationRefused(f"refused: {destination} is {spelled}{why}")


async def _ask_for_tunnel(server: ProxyConnection, upstream: UpstreamProxy, destination: Destination) -> int:
    name = str(destination).encode("ascii")
    headers = ((b"host", name), *_authorization(upstream))
    await server.send(http.encode_head(b"CONNECT %b HTTP/1.1" % name, headers))
    with anyio.fail_after(_ANSWER_SECONDS):
        return http.parse_response(await server.read_head()).status


def _authorization(upstream: UpstreamProxy) -> http.Headers:
    return ((b"proxy-authorization", upstream.authorization.encode()),) if upstream.authorization else ()


def _unreachable(destination: Destination, why: str) -> DestinationUnreachable:
    return DestinationUnreachable(f"could not connect to {destination}: {why}")


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError) and not error.strerror:
        return "it took too long"
    return (error.strerror or str(error)).lower()
