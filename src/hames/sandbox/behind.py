"""Plans for a run behind each kind of wall."""

import io
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from hames.domain.errors import SandboxUnavailable
from hames.domain.value import Value
from hames.ports import Launch
from hames.sandbox import bubblewrap as bwrap
from hames.sandbox import family, macos, seccomp
from hames.sandbox import landlock as locks
from hames.sandbox.covers import socket_mounts
from hames.sandbox.guards import guards
from hames.sandbox.limits import confine, limited
from hames.sandbox.mounts import Mount
from hames.sandbox.placeholders import Placeholders
from hames.sandbox.plan import Plan
from hames.sandbox.planted import planted

if TYPE_CHECKING:
    from hames.sandbox.network.access import CommandNetwork

_CHILD_SECONDS = 10.0
_END_SECONDS = 2.0


class Reach(Value):
    """How far a run may reach. `roots` are writable, real paths; none for a read-only run."""

    roots: tuple[str, ...]
    network: bool
    home: str
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    sockets: frozenset[str] | None = None
    """Other programs' sockets to cover, as far as they are still there. None: all that there are."""


def bubblewrap(found: bwrap.Bubblewrap, launch: Launch, reach: Reach, network: "CommandNetwork | None" = None) -> Plan:
    """Puts placeholders on the disk; the plan's `closing` takes them away. `network`: what the command gets of it."""
    held: list[Placeholders] = []
    guarded: list[Mount] = []
    started = time.time()

    def closing() -> list[str]:
        notes = list(network.close()) if network is not None else []
        notes += [note for placeholders in held for note in placeholders.leave()]
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
            home=reach.home,
            hidden=reach.hidden,
            scratch=reach.scratch,
            sockets=tuple(sockets),
        )
        filter_fd = seccomp.file()
        reader, writer = os.pipe()
        status = Status()
        layers = bwrap.mounts(view)
        gate = network.gate if network is not None else None
        options = bwrap.options(found, view, layers, cwd=launch.cwd, filter_fd=filter_fd, gate_fd=gate)
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
        files=[filter_fd, reader, status.writer, *([gate] if gate is not None else [])],
        kept=[writer],
        sockets=frozenset(mount.path for mount in sockets),
        began=status.began,
        release=release,
        environment=network.environment if network is not None else dict,
        connect=partial(_connect, network, status) if network is not None else None,
        closing=closing,
    )


def _connect(network: "CommandNetwork", status: "Status") -> None:
    """Raises `SandboxUnavailable`."""
    child = status.child()
    if child is None:
        return  # bubblewrap gave up, and says why in its output
    pid, namespace = child
    try:
        network.open(pid, namespace)
    except SandboxUnavailable:
        if not _ends(pid):
            raise


def _ends(pid: int) -> bool:
    """Whether a process has ended or is about to: without its namespaces it lives on for a moment."""
    until = time.monotonic() + _END_SECONDS
    while (seen := family.look(pid)) is not None and not seen.dead:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


class Status:
    """What bubblewrap says of a run on a descriptor of its own: an exit code only if the program began."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self._reader = io.FileIO(reader)
        self._said = b""
        self._told: bool | None = None

    def child(self) -> tuple[int, int] | None:
        """The first process inside and the number of its network namespace, 0 if that is not said.
        Waits for it; None: bubblewrap ended before there was one."""
        ready = select.poll()
        ready.register(self._reader, select.POLLIN)
        while b"\n" not in self._said:
            if not ready.poll(_CHILD_SECONDS * 1000) or not (more := self._reader.read(4096)):
                return None
            self._said += more
        said = json.loads(self._said.partition(b"\n")[0])
        return said["child-pid"], said.get("net-namespace", 0)

    def began(self) -> bool:
        if self._told is None:
            os.set_blocking(self._reader.fileno(), False)
            self._said += self._reader.read(4096) or b""
            self._reader.close()
            self._told = b'"exit-code"' in self._said
        return self._told


def landlock(launch: Launch, reach: Reach) -> Plan:
    """Landlock cannot give a private `/tmp`, so the program is told of another one. It has no network at all."""
    tmp = mkdtemp(prefix="hames-")
    filter_fd = seccomp.file()
    settings = json.dumps({"writable": [*reach.roots, tmp]})
    inner = limited(launch.argv, launch.limits)
    argv = (sys.executable, "-I", "-S", locks.__file__, str(filter_fd), settings, *inner)
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
