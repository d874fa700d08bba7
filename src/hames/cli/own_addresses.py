"""This machine's own IP addresses, for people who type one into another device. Nothing is sent to find them."""

import ipaddress
import socket
import struct
import sys
from contextlib import suppress

SIOCGIFADDR = 0x8915
MOST = 4


def own_addresses() -> list[str]:
    """IPv4 addresses of the network interfaces, without loopback; those of a local network first."""
    found = _of_interfaces() if sys.platform == "linux" else _of_the_name()
    usable = [
        one for one in map(ipaddress.ip_address, dict.fromkeys(found)) if not (one.is_loopback or one.is_link_local)
    ]
    # A container's bridge is an address of this machine, too, and of no use to a phone: the usual networks come first.
    return [str(one) for one in sorted(usable, key=lambda one: str(one).startswith("172."))][:MOST]


def _of_interfaces() -> list[str]:
    import fcntl

    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no address
                answer = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _of_the_name() -> list[str]:
    with suppress(OSError):
        return [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return []
