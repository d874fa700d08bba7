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
from contextlib import suppress
from functools import cache

KINDS = ("user", "pid", "mnt")
_SO_PEERPIDFD = 77
_REMEMBERED = 16
_SCANS = 3


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
        process = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno not in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
            raise
        try:
            process = os.pidfd_open(pid)
        except OSError as missing:
            if missing.errno != errno.ENOSYS:
                raise
            return -1
    return process


def _has_ended(process: int) -> bool:
    if process < 0:
        return False
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def is_socket_held_here(inode: int) -> bool:
    """Whether a process of this user that lives where we live holds the socket with this number."""
    return inode > 0 and (_is_found_here(inode) or _can_only_be_here())


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
    file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, size)
    finally:
        os.close(file)


_recent: OrderedDict[int, dict[str, str]] = OrderedDict()
"""Who held a connection lately, the last one last, and which descriptors its sockets had when it was last looked at: a
browser opens many connections, and all clients come back at once after a restart."""


def _is_found_here(inode: int) -> bool:
    """Whether such a process is found to hold it: first among those that did before, then among the youngest."""
    link = f"socket:[{inode}]"
    for pid, sockets in reversed(_recent.items()):
        with suppress(OSError):
            if link in sockets and os.readlink(sockets[link]) == link and lives_here(pid):
                return True
    for pid in (*reversed(_recent), *_processes()):
        sockets = _sockets(pid)
        if link in sockets and lives_here(pid):
            _recent[pid] = sockets
            _recent.move_to_end(pid)
            while len(_recent) > _REMEMBERED:
                _recent.popitem(last=False)
            return True
    return False


def _processes() -> list[int]:
    """The youngest first."""
    return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)


def _is_of_this_user(pid: int) -> bool:
    return os.stat(f"/proc/{pid}").st_uid == os.geteuid()


def _sockets(pid: int) -> dict[str, str]:
    """Where a process of this user has its sockets, as far as it shows them."""
    found: dict[str, str] = {}
    try:
        if not _is_of_this_user(pid):
            return found
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        path = f"/proc/{pid}/fd/{name}"
        with suppress(OSError):
            if (link := os.readlink(path)).startswith("socket:"):
                found[link] = path
    return found


def _can_only_be_here() -> bool:
    """Whether a socket that nobody is seen to hold must be held by a process here that hides its descriptors.

    So it is if there is such a process, and none of the same user elsewhere that shares our network. Who is elsewhere
    could hide a socket from one look, but not itself.
    """
    own_network, ended_before = _network(os.getpid()), set[int]()
    for _ in range(_SCANS):
        is_somebody_hidden, ended = False, set[int]()
        for pid in _processes():
            try:
                if not _is_of_this_user(pid) or _network(pid) != own_network:
                    continue
                if not lives_here(pid):
                    _network(pid)  # raises if it has ended meanwhile
                    return False
                is_somebody_hidden = is_somebody_hidden or not _shows_descriptors(pid)
            except OSError:
                ended.add(pid)
        # Who ended during the look may have left the socket to a child that was not on the list.
        if ended <= ended_before:
            return is_somebody_hidden
        ended_before = ended
    return False


def _network(pid: int) -> int:
    """The same number for the same network namespace. Everybody may see this much."""
    return os.stat(f"/proc/{pid}/net/unix").st_ino


def _shows_descriptors(pid: int) -> bool:
    try:
        os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return False
    return True
