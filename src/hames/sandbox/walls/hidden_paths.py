"""What lies on the disk and is nobody's business inside a sandbox: keys and passwords, and other programs' sockets.

Most of it is not there at all, because the home directory and the root are lists of what is shown. Covers are for what
lies inside something that is shown. A listening socket is reached through a path, whatever the network namespace says,
so each one is covered. What starts to listen in a shown directory after the program has started is not.
"""

import errno
import mmap
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from hames.domain.guardrails import SOCKET
from hames.private_files import descriptor
from hames.sandbox.paths import is_inside
from hames.sandbox.walls.mounts import Layers, Mount, mount_points, now_and_then
from hames.sandbox.walls.view.secret_paths import HOME_SECRETS, system_secrets

_SOCKETS = ("/var/run/docker.sock", "/var/run/containerd/containerd.sock", "/var/lib/lxd/unix.socket")


def secret_mounts(home: str, *, more: Sequence[str], keep: Sequence[str], layers: Layers) -> list[Mount]:
    """Covers for all of them that `layers` would show. A writable root that a person named (`keep`) is not covered
    itself."""
    at_home = [f"{home}/{name}" for name in _shown_secrets(home, layers.bound)]
    found = {os.path.realpath(name) for name in (*at_home, *more) if os.access(name, os.R_OK)}
    covers = [*map(_cover, sorted(found)), *_of_the_system(now_and_then())]
    return [
        cover for cover in covers if cover.path not in keep and layers.shows(cover.path) and os.path.lexists(cover.path)
    ]


@lru_cache(maxsize=1)
def _of_the_system(_moment: int) -> tuple[Mount, ...]:
    return tuple(_cover(path) for path in system_secrets())


def _shown_secrets(home: str, bound: Sequence[str]) -> list[str]:
    if any(is_inside(home, path) for path in bound):
        return list(_present_secrets(home))
    return [name for path in bound if path.startswith(f"{home}/") for name in _secrets_below(path[len(home) + 1 :])]


@lru_cache(maxsize=256)
def _secrets_below(directory: str) -> tuple[str, ...]:
    return tuple(name for name in HOME_SECRETS if is_inside(name, directory) and name != directory)


def _present_secrets(home: str) -> Sequence[str]:
    """One listing instead of hundreds of questions. A directory that cannot be listed may still be entered."""
    try:
        there = frozenset(os.listdir(home))
    except OSError:
        return HOME_SECRETS
    return [name for name in HOME_SECRETS if name.partition("/")[0] in there]


def own_data(directories: Iterable[str]) -> list[str]:
    """Our own data in these workspaces: the logs of threads, which would answer every search with themselves, and
    the socket of a server. Where the repository holds `.harness`, an empty one would look like deleted files: there
    only the socket is covered. Its path may be too long to stand in the kernel's list."""
    return [
        f"{directory}/.harness/{SOCKET}" if _is_committed(directory) else f"{directory}/.harness"
        for directory in directories
    ]


def _is_committed(directory: str) -> bool:
    for place in (Path(directory), *Path(directory).parents):
        git = place / ".git"
        try:
            if git.is_file():
                git = place / git.read_text().removeprefix("gitdir:").strip()
            about = (git / "index").stat()
        except (OSError, ValueError):
            if git.exists():
                return False
            continue
        return _index_names_us(str(git / "index"), about.st_mtime_ns, about.st_size)
    return False


@lru_cache(maxsize=64)
def _index_names_us(index: str, _changed: int, _size: int) -> bool:
    """Whatever version the index has, the first path below `.harness` has these letters in it."""
    try:
        with Path(index).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"harness/") >= 0
    except (OSError, ValueError):
        return False


def socket_mounts(layers: Layers, more: Iterable[str] = ()) -> list[Mount]:
    """Covers for other programs' sockets that `layers` would show: those the kernel lists by path, those mounted into
    this container, and `more`, which were found in the workspace."""
    bound = tuple(f"{path.rstrip('/')}/" for path in layers.bound)
    near = (
        path for path in (*_bound_sockets(), *mount_points(), *_SOCKETS) if path.startswith(bound) and _is_socket(path)
    )
    listed = {real for path in near if layers.shows(real := os.path.realpath(path))}
    alive = {path for path in more if layers.shows(path) and is_alive(path)}
    return [Mount(path=path, how="masked") for path in sorted(listed | alive)]


def is_alive(path: str) -> bool:
    """Whether somebody listens there. The datagram that is never sent disturbs nobody: a listener of another kind
    is told apart by the error. A dead socket needs no cover, and a cover would keep its owner from removing it."""
    directory, name = os.path.split(path)
    try:
        place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True
    with descriptor(place), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            # Through a descriptor, because an address has room for 107 bytes.
            probe.connect(f"/proc/self/fd/{place}/{name}")
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def _bound_sockets() -> list[str]:
    """Everything bound to a path in our network namespace, also what takes datagrams and never listens."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    columns = (line.split(maxsplit=7) for line in lines)
    return [fields[7] for fields in columns if len(fields) == 8 and fields[7].startswith("/")]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _cover(path: str) -> Mount:
    return Mount(path=path, how="hidden" if Path(path).is_dir() else "masked")
