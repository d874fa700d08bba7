"""A reverse proxy in front of the server: what it says about the client is believed, and nobody else's word is.

`X-Forwarded-For`, `-Proto` and `-Host` of an address that was named with `--trusted-proxy` take the place of what the
connection shows; the same headers from anybody else are dropped.
"""

import ipaddress
from collections.abc import Iterable, MutableMapping
from typing import Any

from hames.domain.errors import Misconfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FORWARDED = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"forwarded")
_SECURE = {"http": "https", "ws": "wss"}
BEHIND_PROXY = "hames.behind_proxy"
"""In the scope of a request that came through a trusted proxy, which may have taken a path away from its front."""


def read_proxies(given: Iterable[str]) -> tuple[Network, ...]:
    """Raises `Misconfigured` for what is no address and no network."""
    found: list[Network] = []
    for text in given:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError:
            raise Misconfigured(
                f"--trusted-proxy is {text!r}, which is not an address such as 10.0.0.5 or 10.0.0.0/24"
            ) from None
    return tuple(found)


def apply_forwarded(scope: MutableMapping[str, Any], proxies: tuple[Network, ...]) -> None:
    """The scope as the client's own request would have made it."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    said = [(name, value) for name, value in headers if name in FORWARDED]
    if not said:
        return
    scope["headers"] = [pair for pair in headers if pair[0] not in FORWARDED]
    if not _is_trusted((scope.get("client") or ("",))[0], proxies):
        return
    told = {name: value.decode("latin-1").strip() for name, value in said}
    if len(told) != len(said):  # two of a kind: somebody before the proxy added one
        return
    scope[BEHIND_PROXY] = True
    if told.get(b"x-forwarded-proto", "").lower() == "https":
        scope["scheme"] = _SECURE.get(scope["scheme"], scope["scheme"])
    if host := told.get(b"x-forwarded-host"):
        kept = [pair for pair in scope["headers"] if pair[0] != b"host"]
        scope["headers"] = [*kept, (b"host", host.encode("latin-1"))]
    if address := _client(told.get(b"x-forwarded-for", ""), proxies):
        scope["client"] = (address, 0)


def _client(chain: str, proxies: tuple[Network, ...]) -> str:
    """The last address of the chain that is not a proxy of ours: what stands before it can be made up."""
    for word in reversed([part.strip() for part in chain.split(",")]):
        if not _is_trusted(word, proxies):
            return word
    return ""


def _is_trusted(address: str, proxies: tuple[Network, ...]) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in proxies)
