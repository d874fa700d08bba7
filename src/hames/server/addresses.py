"""Where other devices may reach this server: the addresses of this machine's interfaces, asked of the kernel."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

from hames.server.listener import Address, host_text

_GET_ADDRESS = 0x8915
"""SIOCGIFADDR: the IPv4 address of an interface."""
_DEFAULT_ROUTE = "00000000"


def reachable(address: Address, port: int) -> tuple[str, ...]:
    """URLs, the likeliest first. None for a server that only this machine can reach."""
    if address.is_loopback:
        return ()
    if address.host not in ("0.0.0.0", "::"):
        return (f"{address.scheme}://{host_text(address)}:{port}",)
    return tuple(f"{address.scheme}://{found}:{port}" for found in _interface_addresses())


def _interface_addresses() -> list[str]:
    default = _default_interface()
    found: list[tuple[bool, str]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                packed = fcntl.ioctl(asking, _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
                found.append((name != default, socket.inet_ntoa(packed[20:24])))
    usable = [(order, text) for order, text in found if _is_usable(text)]
    return [text for _, text in sorted(usable, key=lambda pair: pair[0])]


def _is_usable(text: str) -> bool:
    found = ipaddress.ip_address(text)
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


def _default_interface() -> str:
    """The interface that leads out of this machine; nothing when there is none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/route").read_text().splitlines()[1:]:
            name, destination, *_ = line.split()
            if destination == _DEFAULT_ROUTE:
                return name
    return ""
