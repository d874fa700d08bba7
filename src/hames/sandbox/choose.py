"""The sandbox of this machine: picks the walls for a policy, and fails closed.

`LocalSandbox` implements `ports.Sandbox`. A program is only ever started without walls because the policy says so
by name; what cannot be walled is refused.
"""

import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, assert_never

from anyio import to_thread

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value
from hames.ports import Launch, ToolFailed
from hames.sandbox import behind, landlock, macos, none, probe
from hames.sandbox.after_command import AfterCommand
from hames.sandbox.behind import Reach
from hames.sandbox.environment import child_environment, safe_directories
from hames.sandbox.guardian import Guardian
from hames.sandbox.mounts import writable_roots
from hames.sandbox.plan import Plan
from hames.sandbox.process import LocalProcess, start
from hames.sandbox.steady import SteadyProcess


class Settings(Value):
    """What a person may choose. Nothing here comes from a workspace."""

    allow_degraded: bool = False
    """Landlock instead of bubblewrap where there is no bubblewrap. Weaker, and therefore never silent."""
    extra_path: tuple[str, ...] = ()
    """Directories before the system's on PATH; those that others or the agent can write to are left out."""
    inherit: tuple[str, ...] = ()
    """Names of environment variables that children get beside the usual few."""
    hidden: tuple[str, ...] = ()
    """Files and directories to cover beside the known secrets."""
    scratch: str = ""
    """A directory of ours that is `/tmp` in `workspaceWrite`, so that it lasts from one command to the next.
    None: a fresh one for every command."""
    bubblewrap: str = ""
    """The bubblewrap to use, by path. None: the system's, else the wheel's."""
    state: str = ""
    """A directory of ours where commands are noted whose results nobody has looked at yet. None: nowhere."""


_DEFAULTS = Settings()


class Walls(Value):
    """What stands between commands and this machine. `sentence` is for people."""

    kind: Literal["bubblewrap", "landlock", "seatbelt", "none"]
    degraded: bool
    sentence: str
    path: str = ""
    version: str = ""


class LocalSandbox:
    """Implements `ports.Sandbox`."""

    def __init__(self, settings: Settings = _DEFAULTS, *, environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._home = os.path.realpath(self._environ.get("HOME") or Path("~").expanduser())
        self._guardian = Guardian()
        self._resolved: dict[str, str] = {}
        self._after = AfterCommand(settings.state)

    async def spawn(self, launch: Launch) -> LocalProcess | SteadyProcess:
        """Raises `SandboxUnavailable` when the policy wants walls and there are none, `ToolFailed` when the
        program cannot be started."""
        process, plan = await self._start(launch)
        if plan.began is None:
            return process

        async def again() -> tuple[LocalProcess, Callable[[], bool]]:
            # What has begun to listen since is no more covered than what begins after the program: so this ends.
            process, another = await self._start(launch, plan.sockets)
            assert another.began is not None
            return process, another.began

        return SteadyProcess(process, began=plan.began, again=again)

    async def _start(self, launch: Launch, sockets: frozenset[str] | None = None) -> tuple[LocalProcess, Plan]:
        """`sockets`: cover these and no others."""
        job = secrets.token_hex(16)
        walled = not isinstance(launch.policy, DangerFullAccess | ExternalSandbox)
        plan = await to_thread.run_sync(self._plan, launch, sockets) if walled else self._plan(launch)
        closing = partial(self._closed, plan, job)
        # The kernel counts nobody's processes for root, so the guardian does.
        counted = launch.limits.processes if os.geteuid() == 0 else 0
        # Before it exists: we may be killed in the next instant, and before bubblewrap has said that it dies with us.
        self._guardian.watch(0, job, processes=counted)
        try:
            process = start(
                plan.argv,
                cwd=plan.cwd,
                env=self._child_environment(launch, plan, job),
                job=job,
                contained=plan.contained,
                pass_fds=plan.files,
                release=plan.release,
                closing=closing,
            )
        except BaseException:
            closing()
            raise
        finally:
            plan.close_files()
        if counted or not plan.contained:
            self._guardian.watch(process.pid, job, processes=counted)
        return process, plan

    async def walls(self) -> Walls:
        """What a policy that wants walls gets here. No walls is an answer, not an error."""
        return await to_thread.run_sync(self._walls)

    def close(self) -> None:
        """Ends the guardian, and with it whatever still runs without walls."""
        self._guardian.close()
        self._after.close()

    async def recover(self) -> None:
        """Looks at what commands left whose harness was killed before it could look."""
        if self._after.has_unfinished():
            await to_thread.run_sync(self._after.recover)

    def _closed(self, plan: Plan, job: str) -> Sequence[str]:
        self._guardian.forget(job)
        return plan.closing()

    def _child_environment(self, launch: Launch, plan: Plan, job: str) -> dict[str, str]:
        writable = (launch.workspace, *_named_roots(launch.policy))
        return child_environment(
            self._environ,
            home=self._home,
            job=job,
            extra_path=safe_directories(self._settings.extra_path, writable=[os.path.realpath(p) for p in writable]),
            inherit=self._settings.inherit,
            tmp=plan.tmp,
        )

    def _plan(self, launch: Launch, sockets: frozenset[str] | None = None) -> Plan:
        if not Path(launch.cwd).is_dir():
            raise ToolFailed(f"no directory {launch.cwd!r}")
        match launch.policy:
            case DangerFullAccess() | ExternalSandbox():
                return none.planned(launch)
            case ReadOnly():
                return self._walled(launch, [], network=False, sockets=sockets)
            case WorkspaceWrite(writable_roots=named, network_access=network):
                roots = writable_roots(launch.workspace, named)
                self._check_still(roots)
                return self._walled(launch, list(roots.values()), network=network, sockets=sockets)
            case _ as never:
                assert_never(never)

    def _check_still(self, roots: Mapping[str, str]) -> None:
        """A root that another agent can write above could become a link to anywhere between two commands."""
        for name, root in roots.items():
            if self._resolved.setdefault(name, root) != root:
                raise SandboxUnavailable(f"{name!r} is no longer the directory it was when it was first used")

    def _walled(self, launch: Launch, roots: list[str], *, network: bool, sockets: frozenset[str] | None) -> Plan:
        reach = Reach(
            roots=tuple(roots),
            network=network,
            home=self._home,
            hidden=self._settings.hidden,
            scratch=self._settings.scratch if roots else "",
            sockets=sockets,
        )
        walls = self._walls()
        match walls.kind:
            case "bubblewrap":
                found = probe.bubblewrap_here(self._settings.bubblewrap or None)
                return behind.bubblewrap(found, launch, reach, self._after)
            case "landlock":
                return behind.landlock(launch, reach, self._after)
            case "seatbelt":
                return behind.seatbelt(launch, reach, self._after)
            case "none":
                raise SandboxUnavailable(walls.sentence)
            case _ as never:
                assert_never(never)

    def _walls(self) -> Walls:
        if sys.platform == "darwin":
            return Walls(kind="seatbelt", degraded=True, sentence="sandbox-exec, unverified", path=macos.SANDBOX_EXEC)
        try:
            found = probe.bubblewrap_here(self._settings.bubblewrap or None)
        except SandboxUnavailable as missing:
            if not self._settings.allow_degraded or landlock.abi() == 0:
                return Walls(kind="none", degraded=False, sentence=str(missing))
            sentence = f"Landlock {landlock.abi()} with a system-call filter, degraded, because: {missing}"
            return Walls(kind="landlock", degraded=True, sentence=sentence, version=str(landlock.abi()))
        sentence = f"bubblewrap {found.version} with a system-call filter"
        return Walls(kind="bubblewrap", degraded=False, sentence=sentence, path=found.path, version=found.version)


def _named_roots(policy: SandboxPolicy) -> tuple[str, ...]:
    return policy.writable_roots if isinstance(policy, WorkspaceWrite) else ()
