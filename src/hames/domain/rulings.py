"""Decides whether an action runs, is asked about or is refused: policy, sandbox, rules and grants. Pure.

Trust, grants and the policy `never` remove the question and never the sandbox.
"""

from typing import Literal, assert_never

from msgspec.structs import replace

from hames.domain.approvals import CallMcp, ChangeFiles, Harmless, Intent, RunCommand, UseTool
from hames.domain.grants import grant_for, is_granted, what_changed
from hames.domain.network import HostPort, NetworkRules, is_address, is_allowed, is_asked_about, is_denied
from hames.domain.policy import (
    AgentName,
    ApprovalPolicy,
    CommandGrant,
    DangerFullAccess,
    ExternalSandbox,
    Grant,
    HostGrant,
    McpGrant,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.domain.rules import NO_RULE, Rule, RuleVerdict
from hames.domain.value import Value


class Verdict(Value):
    """`reason` says why not, in words for people."""

    trusted: bool
    reason: str = ""
    sandbox_only: bool = False
    """Trusted only behind walls: it starts programs that look at more than their words."""


class Ruling(Value):
    """`sandbox` is what an allowed run gets; `reason` is why it is asked or denied, in words for people."""

    action: Literal["allow", "ask", "deny"]
    sandbox: SandboxPolicy
    reason: str = ""
    rule: Rule | None = None
    """The rule that decided; None: the approval policy, trust or an earlier answer did."""


def decide(
    intent: Intent,
    *,
    policy: ApprovalPolicy,
    sandbox: SandboxPolicy,
    grants: tuple[Grant, ...],
    verdict: Verdict,
    rules: RuleVerdict = NO_RULE,
    agent: AgentName = "code",
) -> Ruling:
    """The table. `verdict` is the trust in a command and matters to nothing else.

    A rule that denies or asks beats every policy, grant and trust; one that allows removes a question of the policy,
    except of `always`, and never one about the sandbox or protected files. `plan` and `review` stay in their read-only
    sandbox, whoever would allow more.
    """
    rule = rules.rule
    if rule is not None and rule.action == "deny":
        return Ruling(action="deny", sandbox=sandbox, reason=rules.reason, rule=rule)
    if agent != "code" and isinstance(intent, RunCommand) and intent.unsandboxed and not intent.url:
        why = f"{agent} mode changes nothing, so no command leaves the sandbox"
        return Ruling(action="deny", sandbox=sandbox, reason=why)
    without = _by_policy(intent, policy=policy, sandbox=sandbox, grants=grants, verdict=verdict)
    if rule is None:
        return without
    if rule.action == "ask":
        if without.action == "deny":
            return replace(without, reason=f"{without.reason}; {rules.reason}", rule=rule)
        if policy == "never":
            why = f"{rules.reason}, and approvals are off (`never`)"
            return Ruling(action="deny", sandbox=sandbox, reason=why, rule=rule)
        leaves = isinstance(intent, RunCommand) and intent.unsandboxed and without.action == "ask"
        reason = f"{without.reason}; {rules.reason}" if leaves else rules.reason  # both are worth knowing
        return Ruling(action="ask", sandbox=without.sandbox, reason=reason, rule=rule)
    if without.action == "allow" or policy == "always" or not _removes_question(intent, rule, sandbox):
        return without
    if isinstance(intent, RunCommand) and intent.unsandboxed:
        return Ruling(action="allow", sandbox=DangerFullAccess(), rule=rule)
    return without if without.action == "deny" else Ruling(action="allow", sandbox=without.sandbox, rule=rule)


def _removes_question(intent: Intent, rule: Rule, sandbox: SandboxPolicy) -> bool:
    """Whether a rule that allows is about what is asked. It never widens what the sandbox allows by itself."""
    match intent:
        case ChangeFiles(protected=protected):
            return bool(rule.write) and not protected
        case CallMcp():
            return bool(rule.mcp)
        case RunCommand(url=url) if url:
            return bool(rule.host)
        case RunCommand(unsandboxed=unsandboxed):
            walled = not isinstance(sandbox, DangerFullAccess | ExternalSandbox)
            return bool(rule.command) and (rule.outside or not (unsandboxed and walled))
        case _:
            return False


def _by_policy(
    intent: Intent,
    *,
    policy: ApprovalPolicy,
    sandbox: SandboxPolicy,
    grants: tuple[Grant, ...],
    verdict: Verdict,
) -> Ruling:
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
            if policy == "never" or (vouched and policy != "always"):
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
    if intent.connects_to is not None:
        return _connection(intent, intent.connects_to, policy, sandbox, grants)
    walled = not isinstance(sandbox, DangerFullAccess | ExternalSandbox)
    leaving = intent.unsandboxed and walled
    granted, changed = _granted(intent, grants)
    if leaving:
        if granted:
            return Ruling(action="allow", sandbox=DangerFullAccess())
        if policy == "never":
            why = "Blocked: approvals are off (`never`), so commands can't leave the sandbox"
            return Ruling(action="deny", sandbox=sandbox, reason=why)
        if intent.process:
            why = f"is input for {intent.process}, which runs outside the sandbox"
            return Ruling(action="ask", sandbox=DangerFullAccess(), reason=why)
        why = f": {intent.why}" if intent.why else ""
        again = f" ({changed})" if changed else ""
        return Ruling(action="ask", sandbox=DangerFullAccess(), reason=f"runs outside the sandbox{again}{why}")
    if policy == "never" or granted or (policy == "onRequest" and _isolated(sandbox)):
        return Ruling(action="allow", sandbox=sandbox)
    if intent.process:
        return Ruling(action="ask", sandbox=sandbox, reason=f"is input for {intent.process}")
    reason = changed or verdict.reason or "you chose to be asked about every command"
    if policy != "always" and verdict.trusted:
        if walled or not verdict.sandbox_only:
            return Ruling(action="allow", sandbox=ReadOnly() if walled else sandbox)
        reason = "there is no sandbox, so this needs your approval"
    return Ruling(action="ask", sandbox=sandbox, reason=reason)


def _connection(
    intent: RunCommand, to: HostPort, policy: ApprovalPolicy, sandbox: SandboxPolicy, grants: tuple[Grant, ...]
) -> Ruling:
    """A connection out of the sandbox. Whoever runs without one is not asked about connections."""
    if not isinstance(sandbox, WorkspaceWrite):
        action = "deny" if isinstance(sandbox, ReadOnly) else "allow"
        return Ruling(action=action, sandbox=sandbox, reason="the sandbox policy is readOnly: there is no network")
    if is_address(to.host):
        why = f"{to} is an address: connect to the host by its name"
        return Ruling(action="deny", sandbox=sandbox, reason=why)
    rules = sandbox.hosts or NetworkRules()
    if is_denied(rules, to.host, to.port):
        return Ruling(action="deny", sandbox=sandbox, reason=f"{to} is denied by `network.deny` of the configuration")
    granted = HostGrant(host=to.host, port=to.port) in grants
    asks_always = policy == "always" and not intent.is_running
    if is_asked_about(rules, to.host, to.port):
        why = f"{to} is asked about by a rule"
        if policy == "never":
            return Ruling(action="deny", sandbox=sandbox, reason=f"{why}, and approvals are off (`never`)")
        return Ruling(action="ask", sandbox=sandbox, reason=why)
    if granted or (not asks_always and (sandbox.network_access or is_allowed(rules, to.host, to.port))):
        return Ruling(action="allow", sandbox=sandbox)
    if policy == "never" or sandbox.hosts is None:
        why = "approvals are off (`never`)" if policy == "never" else "the sandbox has no network"
        return Ruling(action="deny", sandbox=sandbox, reason=f"{to} is not an allowed host, and {why}")
    named = "" if is_allowed(rules, to.host, to.port) else ", which is not an allowed host"
    return Ruling(action="ask", sandbox=sandbox, reason=f"connects to {to}{named}")


def depends_on_trust(policy: ApprovalPolicy, sandbox: SandboxPolicy) -> bool:
    """Whether the trust in a command decides if a person is asked about it."""
    return policy == "unlessTrusted" or (policy == "onRequest" and not _isolated(sandbox))


def runs_unasked(policy: ApprovalPolicy, sandbox: SandboxPolicy) -> bool:
    """Whether nobody is asked about a command that stays in its sandbox."""
    return policy == "never" or (policy == "onRequest" and _isolated(sandbox))


def _isolated(sandbox: SandboxPolicy) -> bool:
    """Whether a sandbox, ours or somebody else's, holds what runs."""
    return not isinstance(sandbox, DangerFullAccess)


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
                reason="this file is protected: changing it needs a person's approval",
            )
        return Ruling(
            action="ask", sandbox=sandbox, reason="changes protected files, which can make other programs run something"
        )
    if policy == "never" or is_granted(intent, grants) or (policy == "onRequest" and _isolated(sandbox)):
        return Ruling(action="allow", sandbox=sandbox)
    off = policy == "onRequest"
    reason = "changes files, and the sandbox is off" if off else "file changes need your approval"
    return Ruling(action="ask", sandbox=sandbox, reason=reason)
