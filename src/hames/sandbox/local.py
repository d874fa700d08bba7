"""The sandbox of this machine: picks the walls for a policy, and fails closed.

`LocalSandbox` implements `ports.Sandbox`. A program is only ever started without walls because the policy says so
by name; what cannot be walled is refused.
"""

import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

from anyio import to_thread
from msgspec.structs import replace

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value
from hames.ports import AskSandboxHost, Launch, Limits, ToolFailed
from hames.sandbox.paths import is_inside
from hames.sandbox.processes.environment import child_environment, safe_directories, safe_user_path
from hames.sandbox.processes.guardian import Guardian
from hames.sandbox.processes.limits import memory_limit, readable
from hames.sandbox.processes.local_process import LocalProcess, start
from hames.sandbox.processes.restarting import RestartingProcess
from hames.sandbox.trust.commands.hardening import READING
from hames.sandbox.walls import landlock, planning, probe, seatbelt
from hames.sandbox.walls.after_command.checks import AfterCommand
from hames.sandbox.walls.bubblewrap import Bubblewrap
from hames.sandbox.walls.denied_paths import denied_paths
from hames.sandbox.walls.hidden_paths import own_data
from hames.sandbox.walls.launch_plan import LaunchPlan
from hames.sandbox.walls.mounts import writable_roots
from hames.sandbox.walls.overlays import Overlays
from hames.sandbox.walls.planning import CommandAccess
from hames.sandbox.walls.view.home import names_below
from hames.sandbox.walls.view.visible_paths import ViewRequest, VisiblePaths, VisibleView
from hames.sandbox.walls.workspace_survey import BUDGET_SECONDS, SurveyResult, WorkspaceSurvey

if TYPE_CHECKING:
    from hames.sandbox.walls.network.access import CommandNetwork, NetworkAccess
    from hames.sandbox.walls.network.host_gate import HostGate
    from hames.sandbox.walls.network.outside import OutsideNetwork
    from hames.sandbox.walls.network.shared_networks import NetworkKey, SharedNetworks


class SandboxSettings(Value):
    """What a person may choose. Nothing here comes from a workspace."""

    allow_degraded: bool = False
    """Landlock instead of bubblewrap where there is no bubblewrap. Weaker, and therefore never silent."""
    extra_path: tuple[str, ...] = ()
    """Directories before the system's on PATH; those that others or the agent can write to are left out."""
    user_path: bool = False
    """Children get the user's own PATH, as far as it is safe and they can see it, and not only the system's."""
    inherit: tuple[str, ...] = ()
    """Names of environment variables that children get beside the usual few."""
    extra_read: tuple[str, ...] = ()
    """Further files and directories that commands may read. `~/` is the home directory."""
    extra_cache: tuple[str, ...] = ()
    """Further directories that commands may read and change privately: what they write is thrown away."""
    hidden: tuple[str, ...] = ()
    """Files and directories that commands never see, whatever else is shown."""
    scratch: str = ""
    """A directory of ours that is `/tmp` in `workspaceWrite`, so that it lasts from one command to the next.
    None: a fresh one for every command."""
    bubblewrap: str = ""
    """The bubblewrap to use, by path. None: the system's, else the wheel's."""
    state: str = ""
    """A directory of ours where commands are noted whose results nobody has looked at yet. None: nowhere."""


_DEFAULTS = SandboxSettings()

NOT_ALL_SEEN = (
    f"the workspace is so large that not all of it was checked within {BUDGET_SECONDS:g} s: a file there that is "
    "hard-linked to a name outside, or a listening socket, may be reached by commands"
)


class Walls(Value):
    """What stands between commands and this machine. `sentence` is for people."""

    kind: Literal["bubblewrap", "landlock", "seatbelt", "none"]
    degraded: bool
    sentence: str
    path: str = ""
    version: str = ""


class LocalSandbox:
    """Implements `ports.Sandbox`."""

    def __init__(
        self,
        settings: SandboxSettings = _DEFAULTS,
        *,
        environ: Mapping[str, str] | None = None,
        outside: "OutsideNetwork | None" = None,
    ) -> None:
        """`outside` is what network access leads to; tests have one that stays on this machine."""
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._named_home = self._environ.get("HOME") or str(Path("~").expanduser())
        self._home = os.path.realpath(self._named_home)
        self.guardian = self._guardian = Guardian()
        self._resolved: dict[str, str] = {}
        self._outside = outside
        self._network: NetworkAccess | None = None
        self._network_turn = threading.Lock()
        self._shared: SharedNetworks | None = None
        self._surveys: dict[str, WorkspaceSurvey] = {}
        self._overlays = Overlays(self._can_overlay)
        self._visible_paths = VisiblePaths(self._home, self._overlays.can_cover)
        self._noted: set[tuple[str, str]] = set()
        self._after = AfterCommand(settings.state)

    async def spawn(
        self, launch: Launch, *, ask_host: AskSandboxHost | None = None
    ) -> LocalProcess | RestartingProcess:
        """Raises `SandboxUnavailable` when the policy wants walls and there are none, `ToolFailed` when the
        program cannot be started."""
        process, plan = await self._start(launch, ask_host=ask_host)
        if plan.began is None:
            return process

        async def again() -> tuple[LocalProcess, Callable[[], bool]]:
            # What has begun to listen since is no more covered than what begins after the program: so this ends.
            process, another = await self._start(launch, plan.sockets, ask_host=ask_host)
            assert another.began is not None
            return process, another.began

        return RestartingProcess(process, began=plan.began, again=again)

    async def _start(
        self, launch: Launch, sockets: frozenset[str] | None = None, *, ask_host: AskSandboxHost | None
    ) -> tuple[LocalProcess, LaunchPlan]:
        """`sockets`: cover these and no others."""
        job = secrets.token_hex(16)
        walled = not isinstance(launch.policy, DangerFullAccess | ExternalSandbox)
        plan = await to_thread.run_sync(self._plan, launch, sockets, ask_host) if walled else self._plan(launch)
        held: list[NetworkKey] = []
        closing = partial(self._close_plan, plan, job, launch.limits, held)
        # The kernel counts nobody's processes for root, so the guardian does.
        counted = launch.limits.processes if os.geteuid() == 0 else 0
        # Before it exists: we may be killed in the next instant, and before bubblewrap has said that it dies with us.
        self._guardian.watch(0, job, processes=counted)
        memory = memory_limit(launch.limits)
        try:
            process = start(
                plan.argv,
                cwd=plan.cwd,
                env=self._child_environment(launch, plan, job),
                job=job,
                contained=plan.contained,
                pass_fds=plan.files,
                start_in=plan.start_in,
                release=plan.release,
                closing=closing,
                inspecting=plan.inspect,
                background=launch.background,
                terminal=launch.terminal,
            )
        except BaseException:
            closing()
            raise
        finally:
            plan.close_files()
        if counted or memory or not plan.contained:
            self._guardian.watch(process.pid, job, processes=counted, memory_bytes=memory)
        try:
            if plan.connect is not None:
                await to_thread.run_sync(plan.connect)
            if launch.background and launch.thread and plan.child is not None:
                await to_thread.run_sync(self._hold_network, launch, plan, held)
        except BaseException:
            await process.kill()
            raise
        return process, plan

    def _hold_network(self, launch: Launch, plan: LaunchPlan, held: "list[NetworkKey]") -> None:
        """Further commands of the thread are started in its network, until it ends."""
        from hames.sandbox.walls.network.shared_networks import NetworkKey, SharedNetworks

        assert plan.child is not None
        with self._network_turn:
            if self._shared is None:
                self._shared = SharedNetworks()
        child, key = plan.child(), NetworkKey(thread=launch.thread, policy=launch.policy)
        if child is not None and self._shared.hold(key, child[0]):
            held.append(key)

    def _joined(self, launch: Launch, found: Bubblewrap) -> tuple[tuple[int, int] | None, int]:
        """The namespaces that a command enters, if any, and its number there. The caller closes the descriptors."""
        if self._shared is None or not launch.thread or found.setuid:
            return None, 0
        from hames.sandbox.walls.network.shared_networks import NetworkKey

        joined = self._shared.find(NetworkKey(thread=launch.thread, policy=launch.policy))
        return joined if joined is not None else (None, 0)

    async def walls(self) -> Walls:
        """What a policy that wants walls gets here. No walls is an answer, not an error."""
        return await to_thread.run_sync(self._walls)

    def visible_of_home(self, workspace: str) -> list[str] | None:
        """For people: the names in the home directory that commands see. None: all of them but known secrets."""
        launch = Launch(argv=("true",), cwd=workspace, workspace=workspace, policy=ReadOnly())
        found = self._visible(launch, (os.path.realpath(workspace),), ())
        return names_below(self._home, found.mounts) if found.private_home else None

    def close(self) -> None:
        """Ends the guardian, and with it whatever still runs without walls."""
        self._guardian.close()
        if self._network is not None:
            self._network.close()
        self._after.close()

    async def recover(self) -> None:
        """Looks at what commands left whose harness was killed before it could look."""
        if self._after.has_unfinished():
            await to_thread.run_sync(self._after.recover)

    def _close_plan(self, plan: LaunchPlan, job: str, limits: Limits, held: "list[NetworkKey]") -> Sequence[str]:
        notes = plan.closing()
        while held and self._shared is not None:
            self._shared.release(held.pop())
        reasons = {
            "memory": f"ended: it used more than {readable(memory_limit(limits))} of memory",
            "processes": f"ended: it had more than {limits.processes:,} processes",
        }
        limit = self._guardian.forget(job)
        return [reasons[limit], *notes] if limit else notes

    def _child_environment(self, launch: Launch, plan: LaunchPlan, job: str) -> dict[str, str]:
        # Whoever may only read has no use for hooks and monitors of a repository. Trusted calls of git rely on it.
        reading = READING if isinstance(launch.policy, ReadOnly) else {}
        usual = child_environment(
            self._environ,
            home=self._home,
            job=job,
            extra_path=self._path(launch),
            user_path=self._user_path(launch, plan),
            inherit=self._settings.inherit,
            tmp=plan.tmp,
            private_home=plan.private_home,
        )
        return dict(plan.environment({**usual, **reading, **plan.variables}))

    def _path(self, launch: Launch) -> tuple[str, ...]:
        """Directories before the system's on PATH."""
        writable = (launch.workspace, *_named_roots(launch.policy))
        named = [self._expand_home(path) for path in self._settings.extra_path]
        return safe_directories(named, writable=[os.path.realpath(path) for path in writable])

    def _user_path(self, launch: Launch, plan: LaunchPlan) -> tuple[str, ...]:
        if not self._settings.user_path:
            return ()
        writable = [os.path.realpath(path) for path in (launch.workspace, *_named_roots(launch.policy))]
        return safe_user_path(self._environ.get("PATH", ""), writable=writable, is_shown=plan.is_shown)

    def _plan(
        self, launch: Launch, sockets: frozenset[str] | None = None, ask_host: AskSandboxHost | None = None
    ) -> LaunchPlan:
        if not Path(launch.cwd).is_dir():
            raise ToolFailed(f"no directory {launch.cwd!r}")
        match launch.policy:
            case DangerFullAccess() | ExternalSandbox():
                return planning.plan_unconfined(launch)
            case ReadOnly():
                return self._plan_walls(launch, [], network=False, sockets=sockets)
            case WorkspaceWrite(writable_roots=named):
                roots = writable_roots(launch.workspace, named)
                self._check_same_roots(roots)
                network = _connects(launch, can_ask=ask_host is not None)
                return self._plan_walls(
                    launch, list(roots.values()), network=network, sockets=sockets, ask_host=ask_host
                )
            case _ as never:
                assert_never(never)

    def _check_same_roots(self, roots: Mapping[str, str]) -> None:
        """A root that another agent can write above could become a link to anywhere between two commands."""
        for name, root in roots.items():
            if self._resolved.setdefault(name, root) != root:
                raise SandboxUnavailable(f"{name!r} was replaced by another directory since it was first used")

    def _plan_walls(
        self,
        launch: Launch,
        roots: list[str],
        *,
        network: bool,
        sockets: frozenset[str] | None,
        ask_host: AskSandboxHost | None = None,
    ) -> LaunchPlan:
        walls = self._walls()
        if walls.kind == "none":
            raise SandboxUnavailable(walls.sentence)
        by_name = network and isinstance(launch.policy, WorkspaceWrite) and not launch.policy.network_access
        if by_name and not self._can_name_hosts(walls):
            network = False  # nobody asked for more than the hosts he named, so the command runs without them
        workspaces = tuple(dict.fromkeys((os.path.realpath(launch.workspace), *roots)))
        # A root that holds the home directory holds its caches, too, and is too large to look through.
        surveyed = [root for root in workspaces if not is_inside(self._home, root)]
        seen = tuple(self._surveys.setdefault(root, WorkspaceSurvey(root)).look() for root in surveyed)
        denied_reads, denied_writes = denied_paths(launch, workspaces, walls.kind)
        roots = [root for root in roots if not any(is_inside(root, path) for path in denied_writes)]
        hidden = (*self._settings.hidden, *own_data((launch.workspace, *roots)), *denied_reads)
        reach = CommandAccess(
            roots=tuple(roots),
            network=network,
            home=self._home,
            hidden=tuple(dict.fromkeys((*hidden, *map(os.path.realpath, hidden)))),
            read_only=denied_writes,
            scratch=self._settings.scratch if roots else "",
            sockets=sockets,
            visible=self._visible(launch, workspaces, seen, again=sockets is not None),
            seen=seen,
        )
        match walls.kind:
            case "bubblewrap":
                found = probe.bubblewrap_here(self._settings.bubblewrap or None)
                joined, number = self._joined(launch, found)
                try:
                    access = self._command_network(launch, ask_host, found, number) if network else None
                    return planning.plan_bubblewrap(
                        found, launch, reach, self._after, self._overlays, network=access, joined=joined
                    )
                except BaseException:
                    for file in joined or ():
                        os.close(file)
                    raise
            case "landlock" if network:
                raise SandboxUnavailable(
                    "no network for the command: Landlock cannot keep it away from the services of this machine; "
                    f"install bubblewrap, run it without networkAccess, {probe.KNOWINGLY}"
                )
            case "landlock":
                return planning.plan_landlock(launch, reach, self._after)
            case "seatbelt":
                return planning.plan_seatbelt(launch, reach, self._after)
            case _ as never:
                assert_never(never)

    def _can_name_hosts(self, walls: Walls) -> bool:
        if walls.kind != "bubblewrap":
            return False
        return os.geteuid() == 0 or not probe.bubblewrap_here(self._settings.bubblewrap or None).setuid

    def _command_network(
        self, launch: Launch, ask_host: AskSandboxHost | None, found: Bubblewrap, number: int
    ) -> "CommandNetwork":
        if found.setuid and os.geteuid() != 0:
            raise SandboxUnavailable(
                f"no network for the command: {found.path} has the setuid bit, so its network namespace belongs "
                "to root; install a bubblewrap without that bit, or run the command without networkAccess"
            )
        from hames.sandbox.walls.network.access import NetworkAccess  # only who needs it pays for it

        with self._network_turn:  # plans are made in worker threads
            if self._network is None:
                self._network = NetworkAccess(self._environ, self._outside)
            return self._network.for_command(number, _host_gate(launch, ask_host))

    def _visible(
        self, launch: Launch, workspaces: tuple[str, ...], seen: Sequence[SurveyResult], *, again: bool = False
    ) -> VisibleView:
        settings = self._settings
        found = self._visible_paths.find(
            ViewRequest(
                home=self._home,
                workspaces=workspaces,
                named=(self._named_home, launch.workspace, launch.cwd, *_named_roots(launch.policy)),
                program=launch.argv[0] if launch.argv[0].startswith("/") else "",
                path=self._path(launch),
                read=tuple(map(self._expand_home, settings.extra_read)),
                cache=tuple(map(self._expand_home, settings.extra_cache)),
                environments=tuple(path for one in seen for path in one.environments),
                languages=frozenset(language for one in seen for language in one.languages),
            ),
            again=again,
        )
        notes = [*found.notes, *(NOT_ALL_SEEN for one in seen if not one.complete)]
        # Once for each program that is started: whoever searches with ripgrep does not read notes.
        fresh = [note for note in notes if (note, launch.argv[0]) not in self._noted]
        self._noted.update((note, launch.argv[0]) for note in fresh)
        return replace(found, notes=tuple(fresh))

    def _expand_home(self, path: str) -> str:
        return f"{self._home}/{path[2:]}" if path.startswith("~/") else path

    def _can_overlay(self, directory: str, layer: str) -> bool:
        if self._walls().kind != "bubblewrap":
            return False
        return probe.can_overlay(probe.bubblewrap_here(self._settings.bubblewrap or None), directory, layer)

    def _walls(self) -> Walls:
        if sys.platform == "darwin":
            return Walls(
                kind="seatbelt", degraded=True, sentence="sandbox-exec, unverified", path=seatbelt.SANDBOX_EXEC
            )
        try:
            found = probe.bubblewrap_here(self._settings.bubblewrap or None)
        except SandboxUnavailable as missing:
            if not self._settings.allow_degraded or landlock.abi() == 0:
                return Walls(kind="none", degraded=False, sentence=str(missing))
            sentence = f"Landlock {landlock.abi()} with a system-call filter, degraded, because: {missing}"
            return Walls(kind="landlock", degraded=True, sentence=sentence, version=str(landlock.abi()))
        sentence = f"bubblewrap {found.version} with a system-call filter"
        return Walls(kind="bubblewrap", degraded=False, sentence=sentence, path=found.path, version=found.version)


def _connects(launch: Launch, *, can_ask: bool) -> bool:
    """Whether there is any host that a command may reach, or be asked about."""
    policy = launch.policy
    if not isinstance(policy, WorkspaceWrite):
        return False
    return policy.network_access or (policy.hosts is not None and bool(policy.hosts.allow or can_ask))


def _host_gate(launch: Launch, ask_host: AskSandboxHost | None) -> "HostGate | None":
    policy = launch.policy
    if not isinstance(policy, WorkspaceWrite) or policy.hosts is None:
        return None
    from hames.sandbox.walls.network.host_gate import HostGate

    return HostGate(policy.hosts, every_host=policy.network_access, ask=ask_host)


def _named_roots(policy: SandboxPolicy) -> tuple[str, ...]:
    return policy.writable_roots if isinstance(policy, WorkspaceWrite) else ()
