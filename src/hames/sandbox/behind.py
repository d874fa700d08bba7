"""Plans for a run behind each kind of wall."""

import io
import json
import os
import shutil
import time
from collections.abc import Sequence
from functools import partial
from tempfile import mkdtemp

from hames.domain.value import Value
from hames.executables import script_command
from hames.ports import Launch
from hames.sandbox import bubblewrap as bwrap
from hames.sandbox import landlock as locks
from hames.sandbox import macos, seccomp
from hames.sandbox.covers import socket_mounts
from hames.sandbox.guards import guards
from hames.sandbox.limits import confine, limited
from hames.sandbox.mounts import Mount
from hames.sandbox.placeholders import Placeholders
from hames.sandbox.plan import Plan
from hames.sandbox.planted import planted


class Reach(Value):
    """How far a run may reach. `roots` are writable, real paths; none for a read-only run."""

    roots: tuple[str, ...]
    network: bool
    home: str
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    sockets: frozenset[str] | None = None
    """Other programs' sockets to cover, as far as they are still there. None: all that there are."""


def bubblewrap(found: bwrap.Bubblewrap, launch: Launch, reach: Reach) -> Plan:
    """Puts placeholders on the disk; the plan's `closing` takes them away."""
    held: list[Placeholders] = []
    guarded: list[Mount] = []
    started = time.time()

    def closing() -> list[str]:
        notes = [note for placeholders in held for note in placeholders.leave()]
        return [*notes, *(_planted_note(path) for root in reach.roots for path in planted(root, since=started))]

    try:
        for root in reach.roots:
            placeholders = Placeholders(root)
            held.append(placeholders)
            placeholders.lock()
            guarded += placeholders.stand(guards(root, home=reach.home))
        sockets = [mount for mount in socket_mounts() if reach.sockets is None or mount.path in reach.sockets]
        view = bwrap.View(
            workspace=os.path.realpath(launch.workspace),
            roots=reach.roots,
            guards=tuple(guarded),
            network=reach.network,
            home=reach.home,
            hidden=reach.hidden,
            scratch=reach.scratch,
            sockets=tuple(sockets),
        )
        filter_fd = seccomp.file()
        reader, writer = os.pipe()
        status = Status()
        layers = bwrap.mounts(view)
        options = bwrap.options(found, view, layers, cwd=launch.cwd, filter_fd=filter_fd)
    except BaseException:
        closing()
        raise
    # Only root may set limits of a program with the setuid bit, so there the command sets its own.
    argv = limited(launch.argv, launch.limits) if found.setuid else launch.argv

    def release(pid: int) -> None:
        if not found.setuid:
            confine(pid, launch.limits)
        rest = b"".join(os.fsencode(option) + b"\0" for option in options)
        while rest:
            rest = rest[os.write(writer, rest) :]

    return Plan(
        argv=[found.path, "--json-status-fd", str(status.writer), "--args", str(reader), "--", *argv],
        cwd="/",
        contained=True,
        tmp="/tmp",
        files=[filter_fd, reader, status.writer],
        kept=[writer],
        sockets=frozenset(mount.path for mount in sockets),
        began=status.began,
        release=release,
        closing=closing,
    )


class Status:
    """What bubblewrap says of a run on a descriptor of its own: an exit code only if the program began."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self._reader = io.FileIO(reader)
        self._told: bool | None = None

    def began(self) -> bool:
        if self._told is None:
            os.set_blocking(self._reader.fileno(), False)
            said = self._reader.read(4096) or b""
            self._reader.close()
            self._told = b'"exit-code"' in said
        return self._told


def landlock(launch: Launch, reach: Reach) -> Plan:
    """Landlock cannot give a private `/tmp`, so the program is told of another one."""
    tmp = mkdtemp(prefix="hames-")
    filter_fd = seccomp.file()
    settings = json.dumps({"writable": [*reach.roots, tmp], "network": reach.network})
    inner = limited(launch.argv, launch.limits)
    argv = script_command(locks.__file__, str(filter_fd), settings, *inner)
    closing = partial(_without, tmp)
    return Plan(argv=argv, cwd=launch.cwd, contained=False, tmp=tmp, files=[filter_fd], closing=closing)


def seatbelt(launch: Launch, reach: Reach) -> Plan:
    tmp = os.path.realpath(mkdtemp(prefix="hames-"))
    text = macos.profile(roots=reach.roots, home=reach.home, scratch=tmp, network=reach.network, hidden=reach.hidden)
    argv = macos.arguments(text, limited(launch.argv, launch.limits))
    return Plan(argv=argv, cwd=launch.cwd, contained=False, tmp=tmp, closing=partial(_without, tmp))


def _without(tmp: str) -> Sequence[str]:
    shutil.rmtree(tmp, ignore_errors=True)
    return ()


def _planted_note(path: str) -> str:
    return f"the command left a git repository in {path!r}: git runs its hooks and settings for whoever works there"
