"""Whether the agent may: one pure decision, and the questions that wait for an answer.

Trust, approval and `never` remove the question and never the sandbox. The first
recorded answer wins; without one nothing runs.
"""

from contextlib import suppress
from typing import Literal, assert_never

import anyio
from msgspec.structs import replace

from hames.core.thread import Thread
from hames.domain.approvals import Answer, Approval, CallMcp, ChangeFiles, Elicit, Harmless, Intent, RunCommand, UseTool
from hames.domain.errors import ApprovalNotFound, HarnessError, InvalidCommand
from hames.domain.events import ApprovalRequested, ApprovalResolved
from hames.domain.forms import filled, misfit
from hames.domain.grants import grant_for, is_granted, what_changed
from hames.domain.ids import ApprovalId
from hames.domain.json import Json
from hames.domain.policy import (
    ApprovalPolicy,
    CommandGrant,
    DangerFullAccess,
    Decision,
    ExternalSandbox,
    Grant,
    McpGrant,
    ReadOnly,
    SandboxPolicy,
)
from hames.domain.value import Value
from hames.ports import Verdict

WITHDRAW_SECONDS = 3.0


class Ruling(Value):
    """`sandbox` is what an allowed run gets; `reason` is why it is asked or denied, in words for people."""

    action: Literal["allow", "ask", "deny"]
    sandbox: SandboxPolicy
    reason: str = ""


def decide(
    intent: Intent,
    *,
    policy: ApprovalPolicy,
    sandbox: SandboxPolicy,
    grants: tuple[Grant, ...],
    verdict: Verdict,
) -> Ruling:
    """The table. `verdict` is the trust in a command and matters to nothing else."""
    match intent:
        case Harmless():
            return Ruling(action="allow", sandbox=sandbox)
        case RunCommand():
            return _command(intent, policy, sandbox, grants, verdict)
        case ChangeFiles():
            return _files(intent, policy, sandbox, grants)
        case CallMcp(server=server, tool=tool):
            if policy == "never" or McpGrant(server=server, tool=tool) in grants:
                return Ruling(action="allow", sandbox=sandbox)
            return Ruling(action="ask", sandbox=sandbox, reason=f"calls {tool!r} of the MCP server {server!r}")
        case UseTool(name=name, vouched=vouched):
            if policy == "never" or (vouched and policy == "unlessTrusted"):
                return Ruling(action="allow", sandbox=sandbox)
            return Ruling(action="ask", sandbox=sandbox, reason=f"uses the tool {name!r}")
        case _ as never:
            assert_never(never)


def _command(
    intent: RunCommand,
    policy: ApprovalPolicy,
    sandbox: SandboxPolicy,
    grants: tuple[Grant, ...],
    verdict: Verdict,
) -> Ruling:
    walled = not isinstance(sandbox, DangerFullAccess | ExternalSandbox)
    leaving = intent.unsandboxed and walled
    granted, changed = _granted(intent, grants)
    if leaving:
        if granted:
            return Ruling(action="allow", sandbox=DangerFullAccess())
        if policy == "never":
            why = "Blocked: approvals are off (`never`), so commands can't leave the sandbox"
            return Ruling(action="deny", sandbox=sandbox, reason=why)
        why = f": {intent.why}" if intent.why else ""
        again = f" ({changed})" if changed else ""
        return Ruling(action="ask", sandbox=DangerFullAccess(), reason=f"runs outside the sandbox{again}{why}")
    if policy == "never" or granted:
        return Ruling(action="allow", sandbox=sandbox)
    reason = changed or verdict.reason or "you chose to be asked about every command"
    if policy == "unlessTrusted" and verdict.trusted:
        if walled or not verdict.sandbox_only:
            return Ruling(action="allow", sandbox=ReadOnly() if walled else sandbox)
        reason = "this runs without a question only inside the sandbox, and there is no sandbox here"
    return Ruling(action="ask", sandbox=sandbox, reason=reason)


def _granted(intent: RunCommand, grants: tuple[Grant, ...]) -> tuple[bool, str]:
    """Whether `always` was said to this command with these scripts; else what keeps an earlier one from counting."""
    wanted = grant_for(intent)
    if not isinstance(wanted, CommandGrant) or wanted in grants:
        return wanted in grants, ""
    for grant in reversed(grants):
        if isinstance(grant, CommandGrant) and replace(grant, scripts=wanted.scripts) == wanted:
            difference = what_changed(grant.scripts, wanted.scripts, cwd=wanted.cwd)
            return False, f"{difference} since you allowed this command"
    return False, ""


def _files(intent: ChangeFiles, policy: ApprovalPolicy, sandbox: SandboxPolicy, grants: tuple[Grant, ...]) -> Ruling:
    if isinstance(sandbox, ReadOnly):
        return Ruling(action="deny", sandbox=sandbox, reason="the sandbox policy is readOnly: no file may be changed")
    if intent.protected:
        if policy == "never":
            return Ruling(
                action="deny",
                sandbox=sandbox,
                reason="this file is protected: it changes only after a person has agreed",
            )
        return Ruling(
            action="ask", sandbox=sandbox, reason="changes protected files, which can make other programs act"
        )
    if policy == "never" or is_granted(intent, grants):
        return Ruling(action="allow", sandbox=sandbox)
    return Ruling(action="ask", sandbox=sandbox, reason="changes files")


class Questions:
    """The pending approvals of every thread of an engine."""

    def __init__(self, *, patience_s: float) -> None:
        self._patience_s = patience_s
        self._open: dict[ApprovalId, _Question] = {}

    async def ask(self, thread: Thread, approval: Approval) -> Answer:
        """Waits for an answer. Where nobody who could give one is left, it declines after a while and says so."""
        question = self._open[approval.id] = _Question(thread, approval)
        try:
            await thread.emit(ApprovalRequested(approval=approval))
            while not question.answered.is_set():
                with anyio.move_on_after(self._patience_s):
                    await question.answered.wait()
                if not question.answered.is_set() and not thread.answerable:
                    note = f"nobody who could answer was there for {self._patience_s:g} s"
                    await self.resolve(approval.id, "reject", note=note)
            return question.answer
        except anyio.get_cancelled_exc_class():
            if isinstance(approval.intent, Elicit):  # its call can be over before its turn is
                await self._withdraw(question)
            raise
        finally:
            self._open.pop(approval.id, None)

    async def resolve(
        self, approval_id: ApprovalId, decision: Decision, *, note: str = "", content: Json = None
    ) -> Thread:
        """The first answer is recorded and counts; a later one finds nothing to answer.

        Raises `ApprovalNotFound`, and `InvalidCommand` for a form filled in wrongly: that one can be tried again.
        """
        question = self._open.get(approval_id)
        if question is None:
            raise ApprovalNotFound(f"no approval {approval_id!r} waits for an answer")
        approval = question.approval
        content = _handed_in(approval, decision, content)
        del self._open[approval_id]
        grant = grant_for(approval.intent) if decision == "always" else None
        await question.thread.emit(
            ApprovalResolved(
                turn_id=approval.turn_id,
                approval_id=approval.id,
                item_id=approval.item_id,
                decision=decision,
                grant=grant,
                note=note,
                content=content,
            )
        )
        question.answer = Answer(decision=decision, note=note, content=content)
        question.answered.set()
        return question.thread

    async def _withdraw(self, question: "_Question") -> None:
        if question.approval not in question.thread.state.approvals:
            return
        with anyio.move_on_after(WITHDRAW_SECONDS, shield=True), suppress(HarnessError):
            await self.resolve(question.approval.id, "void")


def _handed_in(approval: Approval, decision: Decision, content: Json) -> Json:
    """What goes back to a server that asked; nothing else has anything to fill in."""
    intent = approval.intent
    if not isinstance(intent, Elicit) or decision not in ("once", "always"):
        return None
    if complaint := misfit(intent, content):
        raise InvalidCommand(f"the form cannot be handed in: {complaint}")
    return filled(intent, content)


class _Question:
    def __init__(self, thread: Thread, approval: Approval) -> None:
        self.thread = thread
        self.approval = approval
        self.answered = anyio.Event()
        self.answer = Answer(decision="void")
