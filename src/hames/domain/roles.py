"""What somebody who comes in from outside may do: one pure decision for every command.

`observer` sees. `driver` prompts, interrupts and changes settings, but answers no question and makes nothing less
strict. `approver` also answers. `owner` may do everything; whoever runs Hames on this machine is the owner.
"""

from typing import Literal, assert_never

from hames.domain import commands
from hames.domain.actors import Actor
from hames.domain.budgets import tightest
from hames.domain.options import Overrides, Settings
from hames.domain.policy import ApprovalPolicy, DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy
from hames.domain.value import Value

Role = Literal["observer", "driver", "approver", "owner"]
RANKS: dict[Role, int] = {"observer": 0, "driver": 1, "approver": 2, "owner": 3}
NAMED_ROLES: tuple[Role, ...] = ("observer", "driver", "approver")
"""What a named token can have. Only the start-up token and the local account are the owner."""

_POLICIES: dict[ApprovalPolicy, int] = {"always": 0, "unlessTrusted": 1, "onRequest": 2, "never": 3}
"""How little each asks."""


class Access(Value):
    """Who somebody is, and what they may do here."""

    actor: Actor
    role: Role = "owner"

    def may(self, needed: Role) -> bool:
        return RANKS[self.role] >= RANKS[needed]

    @property
    def can_answer(self) -> bool:
        return self.may("approver")


def needed_role(command: commands.Command) -> Role:
    """The least role that may give this command. What its settings would loosen is another question: `loosened`."""
    match command:
        case commands.ListThreads() | commands.ReadThread() | commands.ListWorktrees():
            return "observer"
        case commands.ResumeThread(overrides=overrides):
            return "observer" if overrides == Overrides() else "driver"
        case commands.ListProcesses(end=end):
            return "observer" if end is None else "driver"
        case commands.ListServers(thread_id=thread_id):  # the servers of a thread are started by asking for them
            return "observer" if thread_id is None else "driver"
        case (
            commands.CreateThread()
            | commands.StartTurn()
            | commands.SubmitPrompt()
            | commands.DropPrompt()
            | commands.SteerTurn()
            | commands.InterruptTurn()
            | commands.ForkThread()
            | commands.ArchiveThread()
            | commands.RenameThread()
            | commands.DeleteThread()
            | commands.CompactThread()
            | commands.StartReview()
            | commands.ChangeSettings()
            | commands.AddHistory()
            | commands.ReadContext()
            | commands.UndoTurn()
        ):
            return "driver"
        case commands.FinishWorktree(
            action=action, preview=preview
        ):  # a branch of the user's changes, or work is deleted
            return "driver" if preview or action == "keep" else "approver"
        case (
            commands.ResolveApproval() | commands.RunProgram()
        ):  # a program of the client's own runs without a question
            return "approver"
        case _ as never:
            assert_never(never)


def refusal(access: Access, needed: Role) -> str:
    """Why this is not allowed, or nothing."""
    if access.may(needed):
        return ""
    return f"the token {access.actor.name!r} has the role {access.role}: {_MAY[access.role]}; this needs {needed}"


_MAY: dict[Role, str] = {
    "observer": "it can look at threads and change nothing",
    "driver": "it can send prompts, but it can't answer approvals",
    "approver": "it can't do what only the owner may do",
    "owner": "",
}


def loosened(before: Settings, after: Settings) -> str:
    """What of these settings is less strict than before, in words; empty if nothing is."""
    if _POLICIES[after.approval_policy] > _POLICIES[before.approval_policy]:
        return f"the approval policy {after.approval_policy!r} asks less than {before.approval_policy!r}"
    if not _is_beneath(after.cwd, (before.cwd, *_roots(before.sandbox))):
        return f"the directory {after.cwd!r} is outside of {before.cwd!r}"
    if not _as_strict(before, after):
        return "the sandbox policy allows more than before"
    if after.mcp_servers != before.mcp_servers:
        return "an MCP server would be started outside of the sandbox"
    if tightest(before.budgets, after.budgets) != after.budgets:
        return "a budget of the thread would be raised"
    if after.rules != before.rules:
        return "the rules of the thread would change"
    return ""


def _as_strict(before: Settings, after: Settings) -> bool:
    old, new = before.sandbox, after.sandbox
    if old == new or isinstance(new, ReadOnly):
        return True
    if isinstance(new, DangerFullAccess | ExternalSandbox) or isinstance(old, ReadOnly):
        return False
    if isinstance(old, DangerFullAccess | ExternalSandbox):
        return True
    allowed = (before.cwd, *old.writable_roots)
    if not old.network_access and (new.network_access or new.hosts not in (None, old.hosts)):
        return False
    return (old.hosts is None or old.hosts == new.hosts) and all(
        _is_beneath(root, allowed) for root in new.writable_roots
    )


def _roots(sandbox: SandboxPolicy) -> tuple[str, ...]:
    return () if isinstance(sandbox, DangerFullAccess | ExternalSandbox | ReadOnly) else sandbox.writable_roots


def _is_beneath(path: str, roots: tuple[str, ...]) -> bool:
    """Of absolute, resolved paths."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
