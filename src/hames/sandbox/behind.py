"""Plans for a run behind each kind of wall."""

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from tempfile import mkdtemp

from hames.domain.value import Value
from hames.ports import Launch
from hames.sandbox import bubblewrap as bwrap
from hames.sandbox import landlock as locks
from hames.sandbox import macos, seccomp
from hames.sandbox.after_command import AfterCommand, Check
from hames.sandbox.covers import socket_mounts
from hames.sandbox.guards import Guards, guards
from hames.sandbox.limits import confine, limited
from hames.sandbox.mounts import Mount, inside
from hames.sandbox.placeholders import Placeholders
from hames.sandbox.plan import Plan


class Reach(Value):
    """How far a run may reach. `roots` are writable, real paths; none for a read-only run."""

    roots: tuple[str, ...]
    network: bool
    home: str
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    sockets: frozenset[str] | None = None
    """Other programs' sockets to cover, as far as they are still there. None: all that there are."""


def bubblewrap(found: bwrap.Bubblewrap, launch: Launch, reach: Reach, after: AfterCommand) -> Plan:
    """Puts placeholders on the disk; the plan's `closing` takes them away and looks at what the command left."""
    held: list[tuple[Placeholders, Guards]] = []
    guarded: list[Mount] = []
    check: Check | None = None

    def closing() -> list[str]:
        notes = [note for placeholders, _ in held for note in placeholders.leave()]
        return [*notes, *(check.finish() if check is not None else ())]

    try:
        for root in reach.roots:
            placeholders = Placeholders(root)
            placeholders.lock()
            held.append((placeholders, guards(root, home=reach.home)))
        if held:
            check = _begin(after, reach, [mount for _, wanted in held for mount in wanted.mounts])
        for placeholders, wanted in held:
            guarded += placeholders.stand(wanted)
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


def _begin(after: AfterCommand, reach: Reach, guarded: Sequence[Mount]) -> Check:
    """Also looks at a repository beside the roots that a linked worktree writes to."""
    beside = [mount.path for mount in guarded if mount.how == "write"]
    beside = [path for path in beside if not any(inside(path, root) for root in reach.roots)]
    outermost = [path for path in beside if not any(path != other and inside(path, other) for other in beside)]
    shut = [mount.path for mount in guarded if mount.how != "write"]
    return after.begin((*reach.roots, *outermost), home=reach.home, skip=shut)


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


def landlock(launch: Launch, reach: Reach, after: AfterCommand) -> Plan:
    """Landlock cannot give a private `/tmp`, so the program is told of another one."""
    check = after.begin(reach.roots, home=reach.home) if reach.roots else None
    tmp = mkdtemp(prefix="hames-")
    filter_fd = seccomp.file()
    settings = json.dumps({"writable": [*reach.roots, tmp], "network": reach.network})
    inner = limited(launch.argv, launch.limits)
    argv = (sys.executable, "-I", "-S", locks.__file__, str(filter_fd), settings, *inner)
    closing = partial(_without, tmp, check)
    return Plan(argv=argv, cwd=launch.cwd, contained=False, tmp=tmp, files=[filter_fd], closing=closing)


def seatbelt(launch: Launch, reach: Reach, after: AfterCommand) -> Plan:
    check = after.begin(reach.roots, home=reach.home) if reach.roots else None
    tmp = os.path.realpath(mkdtemp(prefix="hames-"))
    text = macos.profile(roots=reach.roots, home=reach.home, scratch=tmp, network=reach.network, hidden=reach.hidden)
    argv = macos.arguments(text, limited(launch.argv, launch.limits))
    return Plan(argv=argv, cwd=launch.cwd, contained=False, tmp=tmp, closing=partial(_without, tmp, check))


def _without(tmp: str, check: Check | None) -> Sequence[str]:
    shutil.rmtree(tmp, ignore_errors=True)
    return check.finish() if check is not None else ()
