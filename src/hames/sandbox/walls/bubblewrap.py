"""Linux walls: bubblewrap's arguments for a policy.

The root is empty and read-only; then the view's list of what is shown is put into it, the writable roots are opened,
and the guard rails inside them are shut again. Namespaces for users, processes, IPC, host name, control groups and the
network are new; no capability is left; the filter of `seccomp` answers what namespaces do not.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hames.domain.value import Value
from hames.sandbox.paths import is_inside
from hames.sandbox.walls.hidden_paths import secret_mounts, socket_mounts
from hames.sandbox.walls.mounts import Layers, Mount, sort_mounts

_SMALL_BYTES = 64 * 1024
_SCRATCH_BYTES = min(4 * 1024**3, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
_FRESH = ("/run", "/tmp", "/dev/shm")
# Programs keep things there on their own account, beside a workspace that may lie there, too.
_SHARED_BY_PROGRAMS = (".cache", ".config", ".local")


class Bubblewrap(Value):
    """An installed bubblewrap. `sizes`: it can bound a private file system (0.7); one with the setuid bit cannot.
    `overlays`: it can put a private layer over a directory (0.11)."""

    path: str
    version: str
    sizes: bool
    setuid: bool = False
    overlays: bool = False


class BubblewrapView(Value):
    """What one run sees. `roots` are the writable roots, real paths; none for a read-only run."""

    workspace: str
    roots: tuple[str, ...]
    guards: tuple[Mount, ...]
    home: str
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    """A directory of ours that is `/tmp` inside, so that it lasts from one command to the next."""
    visible: tuple[Mount, ...] = ()
    """Everything that is shown beside the workspace."""
    private_home: bool = False
    sockets: tuple[str, ...] = ()
    """Sockets in the workspace."""
    known_sockets: frozenset[str] | None = None
    """Cover no other sockets than these. None: all that there are."""


def options(
    bubblewrap: Bubblewrap,
    view: BubblewrapView,
    layers: Sequence[Mount],
    *,
    cwd: str,
    filter_fd: int,
    files: Mapping[str, int] | None = None,
    gate_fd: int | None = None,
    terminal: bool = False,
    joins: bool = False,
) -> list[str]:
    """What bubblewrap is told before the command itself. `layers` are the mounts of the view, in order; `files` are
    descriptors with the content of those that are files.

    The network is always a new one, unless bubblewrap is started in that of another sandbox (`joins`), as somebody else
    than us. `gate_fd`: the command waits until somebody has put a way out into it. `terminal`: the session is a new one
    already, and its terminal is the command's own.
    """
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--uid", str(os.getuid()), "--gid", str(os.getgid())] if joins else ["--unshare-net"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"]
    words += [] if terminal else ["--new-session"]
    if gate_fd is not None:
        words += ["--block-fd", str(gate_fd)]
    everything = [mount.how for mount in layers if mount.path == "/"]
    if everything:
        words += ["--bind" if everything[0] == "write" else "--ro-bind", "/", "/"]
    words += ["--dev", "/dev", "--proc", "/proc"]
    # Root may write sysctls, whatever namespace it is in, unless the mount says no.
    words += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for mount in layers:
        if mount.path != "/":
            words += _mount_words(bubblewrap, mount, view, files or {})
    shut = ["/dev", *(mount.path for mount in layers if mount.how == "passage"), *([] if everything else ["/"])]
    for path in shut:
        words += ["--remount-ro", path]
    return [*words, "--seccomp", str(filter_fd), "--chdir", cwd]


def mounts(view: BubblewrapView) -> list[Mount]:
    """Parents first."""
    fresh = [Mount(path=path, how="scratch") for path in (*_FRESH, *_real_run())]
    if view.private_home:
        fresh.append(Mount(path=view.home, how="home"))
    # Below a fresh directory the workspace would be gone; it is put back, if only to be read.
    shown = [Mount(path=root, how="write") for root in view.roots] or [Mount(path=view.workspace, how="read")]
    everything = any(mount.path == "/" for mount in shown)
    visible = [] if everything else view.visible
    layers = sort_mounts([*visible, *fresh, *_passages(fresh, shown), *shown])
    layers = [mount for mount in layers if mount.how != "link" or not _is_above(mount.path, layers)]
    keep = (*view.roots, view.workspace)
    secrets = secret_mounts(view.home, more=view.hidden, keep=keep, layers=Layers(layers))
    sockets = [
        mount
        for mount in socket_mounts(Layers([*layers, *secrets]), view.sockets)
        if view.known_sockets is None or mount.path in view.known_sockets
    ]
    return sort_mounts([*layers, *sockets, *view.guards, *secrets])


def _is_above(path: str, layers: Sequence[Mount]) -> bool:
    below = f"{path}/"
    return any(mount.path.startswith(below) for mount in layers)


def _passages(fresh: Sequence[Mount], shown: Sequence[Mount]) -> list[Mount]:
    """The way from a fresh directory down to what was put back in it. Without them a command could write beside its
    workspace, into what is thrown away, and think that it had."""
    ways = {
        f"{over.path}/{seen.path[len(over.path) + 1 :].partition('/')[0]}"
        for over in fresh
        for seen in shown
        if seen.path != over.path and is_inside(seen.path, over.path)
    }
    ways -= {f"{over.path}/{name}" for over in fresh if over.how == "home" for name in _SHARED_BY_PROGRAMS}
    homes = [over.path for over in fresh if over.how == "home"]
    return [
        Mount(path=way, how="passage")
        for way in ways
        if way not in homes and not any(is_inside(way, seen.path) for seen in shown)
    ]


def _real_run() -> tuple[str, ...]:
    """Usually `/var/run` is a link to `/run`."""
    path = Path("/var/run")
    return (str(path),) if path.is_dir() and not path.is_symlink() else ()


def _mount_words(bubblewrap: Bubblewrap, mount: Mount, view: BubblewrapView, files: Mapping[str, int]) -> list[str]:
    match mount.how:
        case "read":
            return ["--ro-bind", mount.path, mount.path]
        case "write":
            return ["--bind", mount.path, mount.path]
        case "tool" if mount.target:
            return ["--overlay-src", mount.path, "--overlay-src", mount.target, "--ro-overlay", mount.path]
        case "shown" | "tool":
            return ["--ro-bind-try", mount.path, mount.path]
        case "cache":
            return ["--overlay-src", mount.path, "--tmp-overlay", mount.path]
        case "hidden":
            return ["--perms", "0555", *_size(bubblewrap, _SMALL_BYTES), "--tmpfs", mount.path]
        case "passage":
            return [*_size(bubblewrap, _SMALL_BYTES), "--tmpfs", mount.path]
        case "masked":
            return ["--dev-bind", "/dev/null", mount.path]
        case "link":
            return ["--symlink", mount.target, mount.path]
        case "file":
            return ["--perms", "0600", "--file", str(files[mount.path]), mount.path] if mount.path in files else []
        case "home":
            return ["--perms", "0700", *_size(bubblewrap, _SCRATCH_BYTES), "--tmpfs", mount.path]
        case "scratch":
            if mount.path == "/tmp" and view.scratch:
                return ["--bind", view.scratch, "/tmp"]
            return ["--perms", "1777", *_size(bubblewrap, _SCRATCH_BYTES), "--tmpfs", mount.path]


def _size(bubblewrap: Bubblewrap, size: int) -> list[str]:
    return ["--size", str(size)] if bubblewrap.sizes else []
