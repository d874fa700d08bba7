"""Whose process is at the other end of a loopback connection, and whether it may speak to us.

The kernel knows: both ends of such a connection are sockets of this machine, and the other end's owner stands in
the kernel's own table. It is asked over netlink for exactly one connection (20 µs, however many there are); where
netlink is not to be had, `/proc/net/tcp` is read (7 ms of CPU at a thousand connections). Nothing is remembered: a
port can belong to somebody else a moment later.
"""

import logging
import os
import socket
import struct
from pathlib import Path
from typing import NamedTuple

from hames.server.guard.namespaces import is_socket_held_here

log = logging.getLogger(__name__)

ELSEWHERE = (
    "this server refuses requests from inside a sandbox or a container (also from a browser installed as a snap or a "
    "flatpak); start it with --token to allow them"
)

Address = tuple[str, int]

ESTABLISHED, FIN_WAIT1, FIN_WAIT2 = 1, 4, 5
_SOCK_DIAG = 4
_BY_FAMILY = 20
_HEADER = struct.Struct("=IHHII")
_ROW = struct.Struct("=BBBB48xIIIII")


class ConnectedPeer(NamedTuple):
    """The other end's socket, as the kernel has it. `inode` 0: no process holds it any more."""

    uid: int
    state: int
    inode: int

    def is_held_by(self, uid: int) -> bool:
        """An orphaned socket counts for nobody: the kernel says 0 there, which is no answer."""
        alive = self.state == ESTABLISHED or (self.state in (FIN_WAIT1, FIN_WAIT2) and self.inode != 0)
        return alive and self.uid == uid


def refusal(here: Address, there: Address) -> str:
    """Why the process that connected from `there` to `here` may not; nothing if it is this user's own and runs
    outside sandboxes and containers. Any doubt is a no."""
    try:
        peer = _ask_kernel(here, there)
    except OSError as why:
        log.info("peer.no_netlink", extra={"why": str(why)})
        peer = _read_table(here, there)
    if peer is None or not peer.is_held_by(os.geteuid()):
        return "this server belongs to another user"
    return "" if is_socket_held_here(peer.inode) else ELSEWHERE


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _ask_kernel(here: Address, there: Address) -> ConnectedPeer | None:
    family = _family(there)
    ends = struct.pack(">HH", there[1], here[1])
    for host, _ in (there, here):
        ends += socket.inet_pton(family, host).ljust(16, b"\0")
    wanted = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFF_FFFF) + ends + b"\0\0\0\0" + b"\xff" * 8
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(_HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, 1, 1, 0) + wanted)
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:  # an error: there is no such socket
        return None
    _, state, _, _, _, _, _, uid, inode = _ROW.unpack_from(answer, _HEADER.size)
    return ConnectedPeer(uid=uid, state=state, inode=inode)


def _read_table(here: Address, there: Address) -> ConnectedPeer | None:
    table = Path("/proc/net/tcp6" if _family(there) == socket.AF_INET6 else "/proc/net/tcp")
    try:
        return find_in_table(table.read_bytes(), here, there)
    except OSError as why:
        log.warning("peer.unknown", extra={"why": str(why)})
        return None


def find_in_table(table: bytes, here: Address, there: Address) -> ConnectedPeer | None:
    """The row of `/proc/net/tcp` that is the other end."""
    ends = [_hex(there), _hex(here)]
    for line in table.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 9 and columns[1:3] == ends:
            return ConnectedPeer(uid=int(columns[7]), state=int(columns[3], 16), inode=int(columns[9]))
    return None


def _hex(address: Address) -> bytes:
    """As the kernel writes it: words of the host's byte order."""
    packed = socket.inet_pton(_family(address), address[0])
    words = struct.unpack(f">{len(packed) // 4}I", packed)
    return (b"%08X" * len(words) + b":%04X") % (*struct.unpack(f"={len(words)}I", packed), address[1])
