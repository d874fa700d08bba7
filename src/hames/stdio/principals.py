"""Commands on behalf of somebody: who it is goes into the log, and what their role forbids is refused here.

Every way in gives its commands to a `Principal`. Whoever speaks to the engine directly is the harness itself.
"""

import os
import pwd
from collections.abc import Callable
from functools import cache

from msgspec.structs import replace

from hames.core.engine import Engine, Outcome
from hames.core.settings import overridden
from hames.domain.actors import Actor, with_client
from hames.domain.commands import (
    ChangeSettings,
    ChangingCommand,
    Command,
    CreateThread,
    ForkThread,
    ReadThread,
    ResumeThread,
    StartTurn,
)
from hames.domain.errors import NotPermitted
from hames.domain.options import Overrides, Settings
from hames.domain.policy import ApprovalPolicy, WorkspaceWrite
from hames.domain.roles import Access, Role, loosened, needed_role, refusal
from hames.domain.state import ThreadState


@cache
def account() -> str:
    """The login name of this process's account. Not from the environment, which anybody can set."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def local_user(via: str) -> Access:
    return Access(actor=Actor(kind="user", name=account(), via=via))


class Principal:
    """Somebody on a connection."""

    def __init__(
        self,
        access: Access,
        *,
        is_valid: Callable[[], bool] = lambda: True,
        granted_policy: ApprovalPolicy | None = None,
    ) -> None:
        """`is_valid`: false once the token was revoked or has expired. `granted_policy`: what the owner of the server
        has chosen for threads that are started in this way, whoever starts them."""
        self.access = access
        self.is_valid = is_valid
        self._granted_policy: ApprovalPolicy | None = granted_policy

    @property
    def can_answer(self) -> bool:
        return self.access.can_answer

    def require(self, needed: Role) -> None:
        """Raises `NotPermitted`."""
        if not self.is_valid():
            raise NotPermitted("the token was revoked or has expired")
        if why := refusal(self.access, needed):
            raise NotPermitted(why)

    async def execute(self, engine: Engine, command: Command, *, client: str = "") -> Outcome:
        """`client` is what the client calls itself. Raises `HarnessError` and nothing else."""
        self.require(needed_role(command))
        if not self.access.may("approver"):
            command = await self._bounded(engine, command)
        if isinstance(command, ChangingCommand):
            command = replace(command, by=with_client(self.access.actor, client))
        return await engine.execute(command)

    async def _bounded(self, engine: Engine, command: Command) -> Command:
        policy = self._granted_policy
        if policy is None or not isinstance(command, CreateThread) or command.overrides.approval_policy != policy:
            return await _not_looser(engine, command)
        other = replace(command, overrides=replace(command.overrides, approval_policy=None))
        bounded = await _not_looser(engine, other)
        assert isinstance(bounded, CreateThread)
        return replace(bounded, overrides=replace(bounded.overrides, approval_policy=policy))


async def _not_looser(engine: Engine, command: Command) -> Command:
    """The same command with paths that mean the same when it is carried out. Raises `NotPermitted`."""
    if not isinstance(command, CreateThread | ResumeThread | StartTurn | ForkThread | ChangeSettings):
        return command
    overrides = command.overrides
    if overrides == Overrides():
        return command
    before = engine.rules.defaults
    if not isinstance(command, CreateThread):
        state = await engine.execute(ReadThread(thread_id=command.thread_id))
        assert isinstance(state, ThreadState)
        before = state.settings
    after = await overridden(before, overrides, engine.models, engine.workspace)
    if after.sandbox != before.sandbox:
        before, after = await _resolved(engine, before), await _resolved(engine, after)
    if why := loosened(before, after):
        raise NotPermitted(f"{why}: only an approver may change that")
    fixed = replace(
        overrides,
        cwd=None if overrides.cwd is None else after.cwd,
        sandbox=None if overrides.sandbox is None and overrides.workspace_roots is None else after.sandbox,
        workspace_roots=None,
        mcp_servers=None,
    )
    return replace(command, overrides=fixed)


async def _resolved(engine: Engine, settings: Settings) -> Settings:
    """With the real paths of the directories that may be written."""
    sandbox = settings.sandbox
    if not isinstance(sandbox, WorkspaceWrite):
        return settings
    roots = [await engine.workspace.resolve_directory(root) for root in sandbox.writable_roots]
    return replace(settings, sandbox=replace(sandbox, writable_roots=tuple(roots)))
