"""Whether the program at the other end of a connection lives where we live: in our user, process and mount namespace.

What runs in a sandbox or a container has namespaces of its own, also when it has our user and our network. It must not
drive the harness: a command that could would give itself the permissions it was denied. Any doubt is a no.

`/proc` may not show us everything about a process of the same user: one that has made itself undumpable (as we do, and
as ssh-agent and sshd do) hides its namespaces and its descriptors from everybody but root. What it still shows is
enough to tell its namespaces, and not enough to tell which sockets it holds.
"""

# pathlib would double the cost of each look.
# ruff: noqa: PTH115, PTH116, PTH208

import errno
import os
import select
import socket
import struct
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from hames.private_files import descriptor

KINDS = ("user", "pid", "mnt")
_SO_PEERPIDFD = 77
_REMEMBERED = 16
_YOUNGEST = 64
_SCANS = 3
_FLAGS, _PF_KTHREAD = 9 - 3, 0x0020_0000  # a field of /proc/PID/stat, counted after the name


def is_unix_peer_ours(connection: socket.socket) -> bool:
    """Whether whoever connected to our unix socket has our user and lives where we live."""
    pid, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid != os.geteuid() or pid <= 0:
        return False
    try:
        process = _peer_process(connection, pid)
    except OSError:
        return False
    try:
        # While the process has not ended, its number is nobody else's.
        return lives_here(pid) and not _is_confined(pid) and not _has_ended(process)
    finally:
        if process >= 0:
            os.close(process)


def _peer_process(connection: socket.socket, pid: int) -> int:
    """A descriptor of the process that connected; -1 where the kernel has none. Raises `OSError` if it has ended."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno not in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
            raise
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return -1


def _has_ended(process: int) -> bool:
    if process < 0:
        return False
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def is_socket_held_here(inode: int) -> bool:
    """Whether the socket with this number, which a process of this user has opened in our network, is held by one that
    lives where we live.

    The holder is looked for where it probably is. Not found there, it does not matter who it is as long as nobody is
    elsewhere. Only if somebody is, all processes are searched, which takes ten times as long; one that hides its
    descriptors is refused then.
    """
    if inode <= 0:
        return False
    link = f"socket:[{inode}]"
    recent = list(reversed(_recent))
    holder = next((pid for pid in recent if _recent[pid].had(link)), None)
    if holder is None:
        processes = _processes()
        holder = _find(link, (*recent[:2], *processes[:_YOUNGEST], *recent[2:]))
        if holder is None and _is_nobody_elsewhere():
            return True
        holder = holder or _find(link, processes)
    return holder is not None and lives_here(holder)


def lives_here(pid: int) -> bool:
    try:
        return all(os.readlink(f"/proc/{pid}/ns/{kind}") == own for kind, own in zip(KINDS, _own(), strict=True))
    except PermissionError:
        return _seems_to_live_here(pid)
    except OSError:
        return False


@cache
def _own() -> tuple[str, ...]:
    return tuple(os.readlink(f"/proc/self/ns/{kind}") for kind in KINDS)


def _seems_to_live_here(pid: int) -> bool:
    """From what every process shows to everybody.

    It has one number if it is in the process namespace that `/proc` shows, and more in one below. The map of its user
    namespace reads like ours. The number of a mount is given once, so the same first mount is the same namespace.
    """
    try:
        return all(
            (
                len(_status(pid)[b"NSpid"]) == len(_status(os.getpid())[b"NSpid"]) == 1,
                *(_text(pid, name) == _text(os.getpid(), name) for name in ("uid_map", "gid_map")),
                _first_mount(pid) == _first_mount(os.getpid()) != b"",
            )
        )
    except (OSError, KeyError):
        return False


def _is_confined(pid: int) -> bool:
    """Whether it has given up privileges and is under more system-call filters than we are.

    Where there is no bubblewrap, commands are confined by Landlock in our own namespaces: they are known by this.
    """
    try:
        it, we = _status(pid), _status(os.getpid())
        return it[b"NoNewPrivs"] == [b"1"] and _filters(it) > _filters(we)
    except (OSError, KeyError, ValueError):
        return True


def _filters(status: dict[bytes, list[bytes]]) -> int:
    (count,) = status.get(b"Seccomp_filters") or status[b"Seccomp"]
    return int(count)


def _status(pid: int) -> dict[bytes, list[bytes]]:
    lines = (line.partition(b":") for line in _text(pid, "status").splitlines())
    return {name: rest.split() for name, _, rest in lines}


def _first_mount(pid: int) -> bytes:
    return _text(pid, "mountinfo", 64).partition(b" ")[0]


def _text(pid: int, name: str, size: int = 65536) -> bytes:
    with descriptor(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)) as file:
        return os.read(file, size)


class _Descriptors:
    """Of one process: which sockets it was seen to hold. A look at those that are new to us is cheap."""

    def __init__(self, pid: int) -> None:
        self._directory = f"/proc/{pid}/fd"
        self._seen: set[str] = set()
        self._sockets: dict[str, str] = {}

    def had(self, link: str) -> bool:
        """Whether it was seen before, and is still there."""
        try:
            return link in self._sockets and os.readlink(self._sockets[link]) == link
        except OSError:
            return False

    def has(self, link: str) -> bool:
        """As far as the process shows them."""
        try:
            names = set(os.listdir(self._directory))
        except OSError:
            return False
        # A number may have been given again, so the others are looked at, too.
        return self._is_among(names - self._seen, link) or self._is_among(names & self._seen, link)

    def _is_among(self, names: set[str], link: str) -> bool:
        found = False
        for name in names:
            path = f"{self._directory}/{name}"
            with suppress(OSError):
                target = os.readlink(path)
                if target.startswith("socket:"):
                    self._sockets[target] = path
                found = found or target == link
        self._seen |= names
        return found


_recent: OrderedDict[int, _Descriptors] = OrderedDict()
"""Who held a connection lately, the last one last: a browser opens many, and after a restart all come back at once."""


def _find(link: str, processes: Sequence[int]) -> int | None:
    """The first of them that holds the socket, wherever it lives."""
    for pid in processes:
        with suppress(OSError):
            if not _is_of_this_user(pid):
                continue
            descriptors = _recent.get(pid) or _Descriptors(pid)
            if descriptors.has(link):
                _recent[pid] = descriptors
                _recent.move_to_end(pid)
                while len(_recent) > _REMEMBERED:
                    _recent.popitem(last=False)
                return pid
    return None


def _processes() -> list[int]:
    """The youngest first."""
    return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)


def _is_of_this_user(pid: int) -> bool:
    return os.stat(f"/proc/{pid}").st_uid == os.geteuid()


def _is_nobody_elsewhere() -> bool:
    """Whether every process of this user that shares our network lives where we live: then so does any peer.

    Who is elsewhere could hide a socket from one look, but not itself.
    """
    own_network, ended_before = _network(os.getpid()), set[int]()
    for _ in range(_SCANS):
        ended = set[int]()
        for pid in _processes():
            try:
                if not _is_of_this_user(pid) or _network(pid) != own_network or lives_here(pid):
                    continue
                _network(pid)  # raises if it has ended meanwhile
                if not _is_of_the_kernel(pid):
                    return False
            except OSError:
                ended.add(pid)
        # Who ended during the look may have left the socket to a child that was not on the list.
        if ended <= ended_before:
            return True
        ended_before = ended
    return False


def _is_of_the_kernel(pid: int) -> bool:
    """A thread of the kernel's own: one of them has a mount namespace for itself."""
    flags = _text(pid, "stat").rpartition(b")")[2].split()[_FLAGS]
    return bool(int(flags) & _PF_KTHREAD)


def _network(pid: int) -> int:
    """The same number for the same network namespace. Everybody may see this much."""
    return os.stat(f"/proc/{pid}/net/unix").st_ino
