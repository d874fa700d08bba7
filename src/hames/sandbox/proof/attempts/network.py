"""Attempts to reach servers, sockets and the network."""

import os
import socket
import struct
from typing import Any

from hames.sandbox.proof.attempts.helpers import Attempt, AttemptFailed, Targets


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as talk:
        talk.settimeout(2)
        talk.connect(address)
        talk.send(b"escaped")


def find_a_route_to_the_metadata_address(_: Targets) -> None:
    """Without sending anything there: a datagram socket only looks for a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("169.254.169.254", 80))


def _to_proxy() -> socket.socket:
    """The proxy of a command with network access. Elsewhere there is none to ask."""
    _, found, port = os.environ.get("HTTP_PROXY", "").rpartition(":")
    if not found:
        raise AttemptFailed
    return socket.create_connection(("127.0.0.1", int(port)), 2)


def ask_proxy(host: str, port: int) -> None:
    with _to_proxy() as talk:
        talk.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
        if b" 200 " not in talk.recv(64):
            raise AttemptFailed


def ask_proxy_over_socks(host: bytes, port: int) -> None:
    with _to_proxy() as talk:
        talk.sendall(b"\x05\x01\x00")
        talk.recv(2)
        talk.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host + struct.pack(">H", port))
        if talk.recv(2)[1:] != b"\x00":
            raise AttemptFailed


_NETWORK: dict[str, Attempt] = {
    "connect_to_a_server_on_loopback": lambda stage: _connect(
        socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", stage["tcp"])
    ),
    "connect_to_a_server_on_loopback_v6": lambda stage: _connect(
        socket.AF_INET6, socket.SOCK_STREAM, ("::1", stage["tcp6"])
    ),
    "send_a_datagram": lambda stage: _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", stage["udp"])),
    "connect_to_a_socket_outside": lambda stage: _connect(socket.AF_UNIX, socket.SOCK_STREAM, stage["unix"]),
    "send_to_a_socket_outside": lambda stage: _connect(socket.AF_UNIX, socket.SOCK_DGRAM, stage["unix_dgram"]),
    "connect_to_a_socket_in_the_workspace": lambda stage: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, stage["unix_ws"]
    ),
    "connect_to_an_abstract_socket": lambda stage: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, "\x00" + stage["abstract"]
    ),
    "look_up_a_name": lambda _: socket.getaddrinfo("example.org", 80),
    "find_a_route_to_the_metadata_address": find_a_route_to_the_metadata_address,
    "open_a_raw_socket": lambda _: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "open_a_packet_socket": lambda _: socket.socket(17, socket.SOCK_RAW, 3).close(),
    "open_a_socket_to_the_hypervisor": lambda _: socket.socket(40, socket.SOCK_STREAM).close(),
    "open_a_kernel_crypto_socket": lambda _: socket.socket(38, socket.SOCK_SEQPACKET).close(),
}

_PROXY: dict[str, Attempt] = {
    "ask_the_proxy_for_a_server_on_loopback": lambda stage: ask_proxy("127.0.0.1", stage["tcp"]),
    "ask_the_proxy_for_a_server_by_name": lambda stage: ask_proxy("localhost", stage["tcp"]),
    "ask_the_proxy_for_a_server_in_ipv6": lambda stage: ask_proxy("[::ffff:127.0.0.1]", stage["tcp"]),
    "ask_the_proxy_for_a_server_in_an_odd_spelling": lambda stage: ask_proxy("0x7f.1", stage["tcp"]),
    "ask_the_proxy_for_the_metadata_address": lambda _: ask_proxy("169.254.169.254", 80),
    "ask_the_proxy_over_socks": lambda stage: ask_proxy_over_socks(b"localhost", stage["tcp"]),
}


def _to_socket(name: str) -> Attempt:
    return lambda stage: _connect_through_a_short_name(stage[name])


def _connect_through_a_short_name(path: str) -> None:
    os.chdir(os.path.dirname(path))  # an address has room for 107 bytes
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, os.path.basename(path))


ODD_SOCKETS = ("relative", "dotted", "descriptor", "renamed", "linked", "moved", "newline")

_SOCKETS: dict[str, Attempt] = {
    f"connect_to_a_{name}_socket_{where}": _to_socket(f"{name}_{place}")
    for place, where in (("out", "outside"), ("ws", "in_the_workspace"))
    for name in ODD_SOCKETS
}

NETWORK = {**_NETWORK, **_PROXY, **_SOCKETS}
