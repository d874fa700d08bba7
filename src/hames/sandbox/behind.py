"""Plans for a run behind each kind of wall."""

import io
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from hames.domain.value import Value
from hames.ports import Launch, ToolFailed
from hames.sandbox import bubblewrap as bwrap
from hames.sandbox import hard_links, macos, seccomp
from hames.sandbox import landlock as locks
from hames.sandbox.guards import guards
from hames.sandbox.limits import confine, limited
from hames.sandbox.mounts import BOUND, Layers, Mount, inside
from hames.sandbox.overlays import Overlays
from hames.sandbox.placeholders import Placeholders
from hames.sandbox.plan import Plan
from hames.sandbox.planted import planted
from hames.sandbox.rendered_config import git_settings
from hames.sandbox.system_view import system_secrets
from hames.sandbox.visible_paths import VisibleView
from hames.sandbox.workspace_survey import SurveyResult


class Reach(Value):
    """How far a run may reach. `roots` are writable, real paths; none for a read-only run."""

    roots: tuple[str, ...]
    network: bool
    home: str
    hidden: tuple[str, ...] = ()
    scratch: str = ""
    sockets: frozenset[str] | None = None
    """Other programs' sockets to cover, as far as they are still there. None: all that there are."""
    visible: VisibleView = VisibleView(mounts=(), private_home=False)
    """What is shown beside the workspace."""
    seen: tuple[SurveyResult, ...] = ()
    """What was found in the workspace and the other roots."""


def bubblewrap(found: bwrap.Bubblewrap, launch: Launch, reach: Reach, overlays: Overlays) -> Plan:
    """Puts placeholders on the disk; the plan's `closing` takes them away."""
    held: list[Placeholders] = []
    guarded: list[Mount] = []
    told = list(reach.visible.notes)
    variables: dict[str, str] = {}
    started = time.time()

    def closing() -> list[str]:
        notes = [*told, *(note for placeholders in held for note in placeholders.leave())]
        return [*notes, *(_planted_note(path) for root in reach.roots for path in planted(root, since=started))]

    try:
        for root in reach.roots:
            placeholders = Placeholders(root)
            held.append(placeholders)
            placeholders.lock()
            needed = guards(root, home=reach.home, hidden=reach.hidden)
            guarded += placeholders.stand(needed)
            if f"{root}/.git" in needed.directories:
                # Go asks git about every directory with a `.git`, and a placeholder has no answer.
                variables["GOFLAGS"] = "-buildvcs=false"
        closed = [mount.path for mount in guarded if mount.how != "write"]
        links = hard_links.protect(reach.seen, reach.roots, read_only=closed)
        told += links.notes
        guarded += links.mounts
        view = bwrap.View(
            workspace=os.path.realpath(launch.workspace),
            roots=reach.roots,
            guards=tuple(guarded),
            network=reach.network,
            home=reach.home,
            hidden=reach.hidden,
            scratch=reach.scratch,
            visible=reach.visible.mounts,
            private_home=reach.visible.private_home,
            sockets=tuple(path for seen in reach.seen for path in seen.sockets),
            known_sockets=reach.sockets,
        )
        layers = overlays.laid(bwrap.mounts(view))
        if not Layers(layers).shows(os.path.realpath(launch.cwd)):
            raise ToolFailed(f"the directory {launch.cwd!r} is outside what the sandbox shows")
        files = {mount.path: seccomp.memory_file("settings", mount.content) for mount in layers if mount.how == "file"}
        filter_fd = seccomp.file()
        reader, writer = os.pipe()
        status = Status()
        options = bwrap.options(found, view, layers, cwd=launch.cwd, filter_fd=filter_fd, files=files)
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
        private_home=view.private_home,
        variables=variables,
        files=[filter_fd, reader, status.writer, *files.values()],
        kept=[writer],
        sockets=frozenset(mount.path for mount in layers if mount.how == "masked"),
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
    """Landlock cannot give a private `/tmp` or home directory, so the program is told of other ones."""
    tmp = mkdtemp(prefix="hames-")
    filter_fd = seccomp.file()
    readable = [*_readable(launch, reach), "/dev/pts", "/proc", *(["/run"] if reach.network else [])]
    secrets = frozenset(system_secrets())
    if "/etc" in readable:
        # A rule holds for everything below, so the secrets in there are left out one by one.
        readable.remove("/etc")
        readable += [path for path in _entries("/etc") if not any(inside(secret, path) for secret in secrets)]
        readable += [path for path in _entries("/etc/ssl", "/etc/ssh", "/etc/apt") if path not in secrets]
    settings = {"writable": [*reach.roots, tmp], "readable": readable, "network": reach.network}
    inner = limited(launch.argv, launch.limits)
    argv = (sys.executable, "-I", "-S", locks.__file__, str(filter_fd), json.dumps(settings), *inner)
    return _unmounted(launch, reach, tmp, argv, files=[filter_fd])


def seatbelt(launch: Launch, reach: Reach) -> Plan:
    tmp = os.path.realpath(mkdtemp(prefix="hames-"))
    text = macos.profile(
        roots=reach.roots,
        home=reach.home,
        scratch=tmp,
        network=reach.network,
        hidden=reach.hidden,
        readable=_readable(launch, reach),
        private_home=reach.visible.private_home,
    )
    return _unmounted(launch, reach, tmp, macos.arguments(text, limited(launch.argv, launch.limits)))


def _unmounted(launch: Launch, reach: Reach, tmp: str, argv: Sequence[str], *, files: Sequence[int] = ()) -> Plan:
    """A plan without mounts: settings cannot be put into the home directory, so git is told where they are."""
    links = hard_links.protect(reach.seen, reach.roots, can_mount=False)
    variables: dict[str, str] = {}
    if reach.visible.private_home:
        settings = Path(tmp, ".gitconfig")
        settings.write_bytes(git_settings(reach.home))
        variables["GIT_CONFIG_GLOBAL"] = str(settings)
    told = [*reach.visible.notes, *links.notes]
    closing = partial(_without, tmp, told)
    return Plan(
        argv=argv, cwd=launch.cwd, contained=False, tmp=tmp, variables=variables, files=[*files], closing=closing
    )


def _readable(launch: Launch, reach: Reach) -> list[str]:
    shown = [mount.path for mount in reach.visible.mounts if mount.how in BOUND]
    return [*shown, os.path.realpath(launch.workspace), *reach.roots]


def _entries(*directories: str) -> list[str]:
    found: list[str] = []
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            found += [entry.path for entry in entries]
    return found


def _without(tmp: str, notes: Sequence[str]) -> Sequence[str]:
    shutil.rmtree(tmp, ignore_errors=True)
    return notes


def _planted_note(path: str) -> str:
    return f"the command left a git repository in {path!r}: git runs its hooks and settings for whoever works there"
