"""Plans how to start a command in each kind of sandbox: bubblewrap, Landlock, seatbelt, or none."""

import io
import json
import os
import select
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from hames.domain.errors import SandboxUnavailable
from hames.domain.value import Value
from hames.executables import script_command
from hames.ports import Launch, ToolFailed
from hames.sandbox.paths import is_inside
from hames.sandbox.processes import launcher_program, process_tree
from hames.sandbox.processes.limits import limited_command, set_limits
from hames.sandbox.walls import bubblewrap as bwrap
from hames.sandbox.walls import hard_links, probe, seatbelt, seccomp
from hames.sandbox.walls import landlock as locks
from hames.sandbox.walls.after_command.checks import AfterCommand, Check
from hames.sandbox.walls.guarded_paths import GuardedPaths, find_guarded_paths
from hames.sandbox.walls.launch_plan import LaunchPlan
from hames.sandbox.walls.mounts import BOUND, Layers, Mount
from hames.sandbox.walls.overlays import Overlays
from hames.sandbox.walls.placeholders import Placeholders
from hames.sandbox.walls.view.rendered_config import git_settings
from hames.sandbox.walls.view.secret_paths import system_secrets
from hames.sandbox.walls.view.visible_paths import VisibleView
from hames.sandbox.walls.workspace_survey import SurveyResult

if TYPE_CHECKING:
    from hames.sandbox.walls.network.access import CommandNetwork

_CHILD_SECONDS = 10.0
_END_SECONDS = 2.0


class CommandAccess(Value):
    """How far a run may access. `roots` are writable, real paths; none for a read-only run."""

    roots: tuple[str, ...]
    network: bool
    home: str
    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """What may not be changed although it is in a writable root."""
    scratch: str = ""
    sockets: frozenset[str] | None = None
    """Other programs' sockets to cover, as far as they are still there. None: all that there are."""
    visible: VisibleView = VisibleView(mounts=(), private_home=False)
    """What is shown beside the workspace."""
    seen: tuple[SurveyResult, ...] = ()
    """What was found in the workspace and the other roots."""


def plan_bubblewrap(
    found: bwrap.Bubblewrap,
    launch: Launch,
    access: CommandAccess,
    after: AfterCommand,
    overlays: Overlays,
    *,
    network: "CommandNetwork | None" = None,
    joined: tuple[int, int] | None = None,
) -> LaunchPlan:
    """Puts placeholders on the disk; the plan's `closing` takes them away and looks at what the command left.
    `network`: what the command gets of it. `joined`: the namespaces of another sandbox whose network it shares."""
    held: list[tuple[Placeholders, GuardedPaths]] = []
    show_names: Callable[[], None] | None = None
    guarded: list[Mount] = []
    kept_notes = list(access.visible.notes)
    check: Check | None = None

    def closing() -> list[str]:
        notes = list(network.close()) if network is not None else []
        notes += [*kept_notes, *(note for placeholders, _ in held for note in placeholders.remove())]
        if show_names is not None:
            show_names()
        return [*notes, *(check.finish() if check is not None else ())]

    try:
        for root in access.roots:
            placeholders = Placeholders(root)
            placeholders.lock()
            wanted = find_guarded_paths(root, home=access.home, hidden=access.hidden, read_only=access.read_only)
            held.append((placeholders, wanted))
        wanted_mounts = [mount for _, wanted in held for mount in wanted.mounts]
        closed = [mount.path for mount in wanted_mounts if mount.how != "write"]
        link_mounts, link_notes = hard_links.protect_shared_files(access.seen, access.roots, read_only=closed)
        kept_notes += link_notes
        if held:
            check = _begin(after, access, wanted_mounts, background=launch.background)
        for placeholders, wanted in held:
            guarded += placeholders.create(wanted)
        guarded += link_mounts
        view = bwrap.BubblewrapView(
            workspace=os.path.realpath(launch.workspace),
            roots=access.roots,
            guards=tuple(guarded),
            home=access.home,
            hidden=access.hidden,
            scratch=access.scratch,
            visible=access.visible.mounts,
            private_home=access.visible.private_home,
            sockets=tuple(path for seen in access.seen for path in seen.sockets),
            known_sockets=access.sockets,
        )
        layers = overlays.with_overlays(bwrap.mounts(view))
        if not Layers(layers).shows(os.path.realpath(launch.cwd)):
            raise ToolFailed(f"the directory {launch.cwd!r} is not visible in the sandbox")
        names = probe.hidden_names_with(found) if (hidden := _hidden_from_listings(held, view, layers)) else None
        if names is not None:
            show_names = names.hide(hidden)
        files = {mount.path: seccomp.memory_file("settings", mount.content) for mount in layers if mount.how == "file"}
        filter_fd = seccomp.file()
        reader, writer = os.pipe()
        status = Status()
        gate = network.gate if network is not None else None
        options = bwrap.options(
            found,
            view,
            layers,
            cwd=launch.cwd,
            filter_fd=filter_fd,
            files=files,
            gate_fd=gate,
            terminal=launch.terminal is not None,
            joins=joined is not None,
        )
    except BaseException:
        closing()
        raise
    # Only root may set limits of a program with the setuid bit, so there the command sets its own.
    argv = limited_command(launch.argv, launch.limits) if found.setuid else launch.argv

    def release(pid: int) -> None:
        if not found.setuid:
            set_limits(pid, launch.limits)
        rest = b"".join(os.fsencode(option) + b"\0" for option in options)
        while rest:
            rest = rest[os.write(writer, rest) :]

    wrapped = [found.path, "--json-status-fd", str(status.writer), "--args", str(reader), "--", *argv]
    return LaunchPlan(
        argv=launcher_command(launch, wrapped, joined),
        cwd="/",
        contained=True,
        tmp="/tmp",
        private_home=view.private_home,
        files=[filter_fd, reader, status.writer, *files.values(), *([] if gate is None else [gate]), *(joined or ())],
        kept=[writer],
        sockets=frozenset(mount.path for mount in layers if mount.how == "masked"),
        began=status.began,
        release=release,
        environment=network.environment if network is not None else dict,
        connect=partial(_connect, network, status) if network is not None else None,
        child=status.child,
        is_shown=Layers(layers).shows,
        start_in=names.run if names is not None else None,
        closing=closing,
        inspect=check.inspect if check is not None else tuple,
    )


def _hidden_from_listings(
    held: Sequence[tuple[Placeholders, GuardedPaths]], view: bwrap.BubblewrapView, layers: Sequence[Mount]
) -> list[str]:
    """Names that are there only because of us: placeholders, and our own data in the workspaces."""
    ours = {f"{directory}/.harness" for directory in (view.workspace, *view.roots)}
    mounted = {mount.path for mount in layers}
    made = (path for _, wanted in held for path in (*wanted.directories, *(path for path, _ in wanted.files)))
    covered = (mount.path for mount in layers if mount.how == "hidden" and mount.path in ours)
    return list(dict.fromkeys((*(path for path in made if path in mounted), *covered)))


def _connect(network: "CommandNetwork", status: "Status") -> None:
    """Raises `SandboxUnavailable`."""
    child = status.child()
    if child is None:
        return  # bubblewrap gave up, and says why in its output
    pid, namespace = child
    try:
        network.open(pid, namespace)
    except SandboxUnavailable:
        if not _has_ended(pid):
            raise


def launcher_command(launch: Launch, argv: Sequence[str], joined: tuple[int, int] | None = None) -> Sequence[str]:
    """`argv` with a terminal of its own, and in other namespaces, where it is to have them."""
    if launch.terminal is None and joined is None:
        return argv
    user, network = joined or (-1, -1)
    words = (str(int(launch.terminal is not None)), str(user), str(network))
    return script_command(launcher_program.__file__, *words, *argv)


def _begin(after: AfterCommand, access: CommandAccess, guarded: Sequence[Mount], *, background: bool = False) -> Check:
    """Also looks at a repository beside the roots that a linked worktree writes to."""
    beside = [mount.path for mount in guarded if mount.how == "write"]
    beside = [path for path in beside if not any(is_inside(path, root) for root in access.roots)]
    outermost = [path for path in beside if not any(path != other and is_inside(path, other) for other in beside)]
    shut = [mount.path for mount in guarded if mount.how != "write"]
    return after.begin((*access.roots, *outermost), home=access.home, skip=shut, background=background)


def _has_ended(pid: int) -> bool:
    """Whether a process has ended or is about to: without its namespaces it lives on for a moment."""
    until = time.monotonic() + _END_SECONDS
    while (seen := process_tree.read_process(pid)) is not None and not seen.dead:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


class Status:
    """What bubblewrap says of a run on a descriptor of its own: an exit code only if the program began."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        self._reader = io.FileIO(reader)
        self._received = b""
        self._began: bool | None = None

    def child(self) -> tuple[int, int] | None:
        """The first process inside and the number of its network namespace, 0 if that is not said.
        Waits for it; None: bubblewrap ended before there was one."""
        ready = select.poll()
        ready.register(self._reader, select.POLLIN)
        while b"\n" not in self._received:
            if not ready.poll(_CHILD_SECONDS * 1000) or not (more := self._reader.read(4096)):
                return None
            self._received += more
        answer = json.loads(self._received.partition(b"\n")[0])
        return answer["child-pid"], answer.get("net-namespace", 0)

    def began(self) -> bool:
        if self._began is None:
            os.set_blocking(self._reader.fileno(), False)
            self._received += self._reader.read(4096) or b""
            self._reader.close()
            self._began = b'"exit-code"' in self._received
        return self._began


def plan_landlock(launch: Launch, access: CommandAccess, after: AfterCommand) -> LaunchPlan:
    """Landlock cannot give a private `/tmp` or home directory, so the program is told of other ones.

    It has no network at all.
    """
    tmp = mkdtemp(prefix="hames-")
    filter_fd = seccomp.file()
    readable = [*_readable(launch, access), "/dev/pts", "/proc"]
    secrets = frozenset(system_secrets())
    if "/etc" in readable:
        # A rule holds for everything below, so the secrets in there are left out one by one.
        readable.remove("/etc")
        readable += [path for path in _entries("/etc") if not any(is_inside(secret, path) for secret in secrets)]
        readable += [path for path in _entries("/etc/ssl", "/etc/ssh", "/etc/apt") if path not in secrets]
    settings = {"writable": [*access.roots, tmp], "readable": readable}
    inner = limited_command(launch.argv, launch.limits)
    argv = script_command(locks.__file__, str(filter_fd), json.dumps(settings), *inner)
    return _plan_without_mounts(launch, access, tmp, argv, after, files=[filter_fd])


def plan_seatbelt(launch: Launch, access: CommandAccess, after: AfterCommand) -> LaunchPlan:
    tmp = os.path.realpath(mkdtemp(prefix="hames-"))
    text = seatbelt.profile(
        roots=access.roots,
        home=access.home,
        scratch=tmp,
        network=access.network,
        hidden=access.hidden,
        readable=_readable(launch, access),
        private_home=access.visible.private_home,
    )
    return _plan_without_mounts(
        launch, access, tmp, seatbelt.arguments(text, limited_command(launch.argv, launch.limits)), after
    )


def plan_unconfined(launch: Launch) -> LaunchPlan:
    """No sandbox: `dangerFullAccess` and `externalSandbox`, which have to be asked for by name.

    The environment is still a clean one, no descriptor or terminal is inherited, limits hold, and everything that the
    command starts is ended with it.
    """
    argv = launcher_command(launch, limited_command(launch.argv, launch.limits))
    return LaunchPlan(argv=argv, cwd=launch.cwd, contained=False)


def _plan_without_mounts(
    launch: Launch,
    access: CommandAccess,
    tmp: str,
    argv: Sequence[str],
    after: AfterCommand,
    *,
    files: Sequence[int] = (),
) -> LaunchPlan:
    """A plan without mounts: settings cannot be put into the home directory, so git is told where they are."""
    ours = [*access.hidden, *(f"{root}/.harness" for root in access.roots)]
    _, link_notes = hard_links.protect_shared_files(access.seen, access.roots, read_only=ours, can_mount=False)
    check = after.begin(access.roots, home=access.home, background=launch.background) if access.roots else None
    variables: dict[str, str] = {}
    if access.visible.private_home:
        settings = Path(tmp, ".gitconfig")
        settings.write_bytes(git_settings(access.home))
        variables["GIT_CONFIG_GLOBAL"] = str(settings)
    closing = partial(_close_without_mounts, tmp, [*access.visible.notes, *link_notes], check)
    return LaunchPlan(
        argv=launcher_command(launch, argv),
        cwd=launch.cwd,
        contained=False,
        tmp=tmp,
        variables=variables,
        files=[*files],
        is_shown=lambda path: any(is_inside(path, shown) for shown in _readable(launch, access)),
        closing=closing,
        inspect=check.inspect if check is not None else tuple,
    )


def _readable(launch: Launch, access: CommandAccess) -> list[str]:
    shown = [mount.path for mount in access.visible.mounts if mount.how in BOUND]
    return [*shown, os.path.realpath(launch.workspace), *access.roots]


def _entries(*directories: str) -> list[str]:
    found: list[str] = []
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            found += [entry.path for entry in entries]
    return found


def _close_without_mounts(tmp: str, notes: Sequence[str], check: Check | None) -> Sequence[str]:
    shutil.rmtree(tmp, ignore_errors=True)
    return [*notes, *(check.finish() if check is not None else ())]
