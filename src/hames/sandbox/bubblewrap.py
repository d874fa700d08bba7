"""Linux walls: bubblewrap's arguments for a policy.

Everything is read-only, then the writable roots are opened, then the guard rails inside them are shut again.
Namespaces for users, processes, IPC, host name, control groups and the network are new; no capability is left;
the filter of `seccomp` answers what namespaces do not.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hames.domain.value import Value
from hames.sandbox.covers import secret_mounts
from hames.sandbox.mounts import Mount, inside, ordered

_SMALL_BYTES = 64 * 1024
_SCRATCH_BYTES = min(4 * 1024**3, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
_FRESH = ("/run", "/tmp", "/dev/shm")

# Parts of /run that programs need to find: where NixOS keeps its programs.
_KEPT = ("/run/current-system", "/run/wrappers", "/run/opengl-driver")


class Bubblewrap(Value):
    """An installed bubblewrap. `sizes`: it can bound a private file system (0.7); one with the setuid bit cannot."""

    path: str
    version: str
    sizes: bool
    setuid: bool = False


class View(Value):
    """What one run sees. `roots` are the writable roots, real paths; none for a read-only run."""

    workspace: str
    roots: tuple[str, ...]
    guards: tuple[Mount, ...]
    home: str
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    """A directory of ours that is `/tmp` inside, so that it lasts from one command to the next."""
    sockets: tuple[Mount, ...] = ()
    """Covers for other programs' sockets. One that vanishes meanwhile fails the run."""


def options(
    bubblewrap: Bubblewrap, view: View, layers: Sequence[Mount], *, cwd: str, filter_fd: int, gate_fd: int | None = None
) -> list[str]:
    """What bubblewrap is told before the command itself. `layers` are the mounts of the view, in order.

    The network is always a new one; `gate_fd`: the command waits until somebody has put a way out into it.
    """
    words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if gate_fd is not None:
        words += ["--block-fd", str(gate_fd)]
    everything = Mount(path="/", how="write") in layers
    words += ["--bind" if everything else "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    # Root may write sysctls, whatever namespace it is in, unless the mount says no.
    words += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for mount in layers:
        if mount.path != "/":
            words += _mount_words(bubblewrap, mount, view)
    for path in ("/dev", *(mount.path for mount in layers if mount.how == "passage")):
        words += ["--remount-ro", path]
    return [*words, "--seccomp", str(filter_fd), "--chdir", cwd]


def mounts(view: View) -> list[Mount]:
    """Parents first."""
    fresh = [Mount(path=path, how="scratch") for path in (*_FRESH, *_real_run())]
    kept = [Mount(path=path, how="read") for path in _kept() if Path(path).exists()]
    # Below a fresh directory the workspace would be gone; it is put back, if only to be read.
    shown = [Mount(path=root, how="write") for root in view.roots] or [Mount(path=view.workspace, how="read")]
    secrets = secret_mounts(view.home, more=view.hidden, keep=(*view.roots, view.workspace))
    secrets = [mount for mount in secrets if _visible(mount, fresh, (*kept, *shown))]
    gone = [*fresh, *(mount for mount in secrets if mount.how == "hidden")]
    sockets = [mount for mount in view.sockets if _visible(mount, gone, (*kept, *shown))]
    passages = _passages(fresh, (*kept, *shown))
    return ordered([*fresh, *passages, *kept, *shown, *secrets, *sockets, *view.guards])


def _passages(fresh: Sequence[Mount], shown: Sequence[Mount]) -> list[Mount]:
    """The way from a fresh directory down to what was put back in it. Without them a command could write beside its
    workspace, into what is thrown away, and think that it had."""
    ways = {
        f"{over.path}/{seen.path[len(over.path) + 1 :].partition('/')[0]}"
        for over in fresh
        for seen in shown
        if seen.path != over.path and inside(seen.path, over.path)
    }
    return [Mount(path=way, how="passage") for way in ways if not any(inside(way, seen.path) for seen in shown)]


def _visible(mount: Mount, gone: Sequence[Mount], shown: Sequence[Mount]) -> bool:
    """What a fresh directory hides needs no cover, unless something below it was put back."""
    over = [hidden.path for hidden in gone if inside(mount.path, hidden.path)]
    return not over or any(inside(mount.path, seen.path) and inside(seen.path, max(over, key=len)) for seen in shown)


def _real_run() -> tuple[str, ...]:
    """Usually `/var/run` is a link to `/run`."""
    path = Path("/var/run")
    return (str(path),) if path.is_dir() and not path.is_symlink() else ()


def _kept() -> tuple[str, ...]:
    """What stays visible below a fresh directory. An installation of ours may lie there: its tools must be found."""
    own = [path for path in {sys.prefix, str(Path(__file__).parents[1])} if any(inside(path, hid) for hid in _FRESH)]
    return (*_KEPT, *own)


def _mount_words(bubblewrap: Bubblewrap, mount: Mount, view: View) -> list[str]:
    match mount.how:
        case "read":
            return ["--ro-bind", mount.path, mount.path]
        case "write":
            return ["--bind", mount.path, mount.path]
        case "hidden":
            return ["--perms", "0555", *_size(bubblewrap, _SMALL_BYTES), "--tmpfs", mount.path]
        case "passage":
            return [*_size(bubblewrap, _SMALL_BYTES), "--tmpfs", mount.path]
        case "masked":
            return ["--dev-bind", "/dev/null", mount.path]
        case "scratch":
            if mount.path == "/tmp" and view.scratch:
                return ["--bind", view.scratch, "/tmp"]
            return ["--perms", "1777", *_size(bubblewrap, _SCRATCH_BYTES), "--tmpfs", mount.path]


def _size(bubblewrap: Bubblewrap, size: int) -> list[str]:
    return ["--size", str(size)] if bubblewrap.sizes else []
