"""The situation of a thread: what the model is told about the machine, the workspace and the rules in force.

It is told once, in front of the first prompt. What changes later is told as a short note at the place where it was
noticed: the beginning of a conversation never changes, so that model services can keep it in their cache.
"""

from typing import assert_never

from msgspec import field

from hames.domain.network import NetworkRules
from hames.domain.options import Personality
from hames.domain.policy import (
    AgentName,
    ApprovalPolicy,
    DangerFullAccess,
    ExternalSandbox,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from hames.domain.value import Value

MODES: dict[AgentName, str] = {
    "code": "",
    "plan": "You are planning: read what you need and change nothing. Answer with a plan that somebody else could"
    " carry out: the steps, the files, the risks, how to check each step.",
    "review": "You are reviewing: read what you need and change nothing. Report what is wrong or risky, most serious"
    " first, each with the file and line, what happens, and what would be better. Say so if you found nothing.",
}

PERSONALITIES: dict[Personality, str] = {
    "none": "",
    "friendly": "Be friendly: warm, encouraging and patient. Explain what you do in an easy, conversational tone.",
    "pragmatic": "Be pragmatic: short, direct and to the point. Say what matters and leave the rest out.",
}

APPROVALS: dict[ApprovalPolicy, str] = {
    "never": "`never`. Nobody can be asked, so what would need an approval is refused. Do without it",
    "onRequest": "`onRequest`. The user is asked before anything leaves the sandbox, and may decline",
    "unlessTrusted": "`unlessTrusted`. The user is asked about commands that may change something, and about"
    " file changes, and may decline",
    "always": "`always`. The user is asked about every command and file change, and may decline",
}


NOTE_TAGS = ("<situation>", "<changed>", "<note>")
"""How everything begins that the harness says to the model."""


class Facts(Value, omit_defaults=True):
    """What is found on the machine and in the workspace."""

    date: str = ""
    system: str = ""
    """The operating system."""
    shell: str = ""
    programs: tuple[str, ...] = ()
    """Programs that commands can use, of those that matter for programming."""
    branch: str = ""
    """The git branch; empty outside of a repository."""
    git_state: str = ""
    """What git says about the work tree, in words."""
    entries: tuple[str, ...] = ()
    """The names at the top of the working directory; directories end with a slash."""
    more_entries: bool = False


class Situation(Value, omit_defaults=True):
    """What the model knows about where it works, as it was last told."""

    model: str
    cwd: str
    approval_policy: ApprovalPolicy = field(default_factory=lambda: "unlessTrusted")
    sandbox: SandboxPolicy = field(default_factory=WorkspaceWrite)
    agent: AgentName = field(default_factory=lambda: "code")
    personality: Personality = "none"
    mode_instructions: str = ""
    facts: Facts = Facts()


def describe(now: Situation) -> str:
    """Everything, for the beginning of a conversation."""
    facts = now.facts
    lines = [f"Date: {facts.date}"] if facts.date else []
    lines += [f"System: {facts.system}"] if facts.system else []
    lines += [f"Shell of commands: {facts.shell}"] if facts.shell else []
    lines += [f"Programs found: {', '.join(facts.programs)}"] if facts.programs else []
    lines += [f"You are: {now.model}", f"Working directory: {now.cwd}"]
    if facts.branch:
        lines.append(f"Git: branch {facts.branch}" + (f"; {facts.git_state}" if facts.git_state else ""))
    elif facts.system:
        lines.append("Git: this is not a repository")
    if facts.entries:
        lines.append(f"It contains: {', '.join(facts.entries)}{', …' if facts.more_entries else ''}")
    lines += [f"Sandbox: {sandbox_rules(now.sandbox, now.approval_policy)}"]
    lines += [f"Approvals: {APPROVALS[now.approval_policy]}"]
    lines += [words for words in _manner(now) if words]
    return _tagged("situation", lines)


def describe_changes(before: Situation, now: Situation) -> str:
    """What is no longer as it was told; empty if nothing is."""
    lines: list[str] = []
    if before.facts.date != now.facts.date:
        lines.append(f"It is now {now.facts.date}.")
    if before.model != now.model:
        lines.append(f"You are now {now.model}; what was said before came from {before.model}.")
    if before.cwd != now.cwd:
        lines.append(f"The working directory is now {now.cwd}.")
    lines += branch_change(before.facts.branch, now.facts.branch)
    if (before.sandbox, before.approval_policy) != (now.sandbox, now.approval_policy):
        lines.append(f"Sandbox, from now on: {sandbox_rules(now.sandbox, now.approval_policy)}")
    if before.approval_policy != now.approval_policy:
        lines.append(f"Approvals, from now on: {APPROVALS[now.approval_policy]}")
    if before.agent != now.agent:
        lines.append(MODES[now.agent] or f"The {before.agent} mode is over: carry out what the user asks for.")
    if before.mode_instructions != now.mode_instructions:
        lines.append(now.mode_instructions or "The instructions of the last mode no longer apply.")
    if before.personality != now.personality:
        lines.append(PERSONALITIES[now.personality] or "Use your usual tone again.")
    return _tagged("changed", lines) if lines else ""


def branch_change(before: str, now: str) -> list[str]:
    if before == now:
        return []
    return [f"The git branch is now {now}; it was {before}." if before and now else f"The git branch is now {now}."]


def note(*lines: str) -> str:
    """A note of the harness in the middle of a conversation."""
    return _tagged("note", list(lines))


def can_leave_sandbox(sandbox: SandboxPolicy, policy: ApprovalPolicy) -> bool:
    """Whether there is a sandbox, and a person who may let a command out of it."""
    return policy != "never" and not isinstance(sandbox, DangerFullAccess | ExternalSandbox)


def sandbox_rules(sandbox: SandboxPolicy, policy: ApprovalPolicy) -> str:
    """What commands can do, in words for the model."""
    match sandbox:
        case DangerFullAccess():
            return "`dangerFullAccess`: none. Commands can change every file of the user and use the network"
        case ExternalSandbox(network_access=network):
            words = "may use the network" if network == "enabled" else "may find the network restricted"
            return f"`externalSandbox`: none of ours, this machine is isolated as a whole. Commands {words}"
        case ReadOnly():
            rules = "`readOnly`: no file can be changed, and commands have no network"
        case WorkspaceWrite(writable_roots=roots, network_access=network, hosts=rules):
            places = ", ".join(("the working directory", *roots))
            reach = (
                "the network is reached only through the HTTP proxy in HTTPS_PROXY, public addresses only"
                if network
                else f"the network is reached only through the HTTP proxy in HTTPS_PROXY, {_hosts(rules, policy)}"
                if rules is not None
                else "there is no network"
            )
            rules = (
                f"`workspaceWrite`: commands can write only in {places} (not in .git settings or hooks), and {reach}"
            )
        case _ as never:
            assert_never(never)
    if can_leave_sandbox(sandbox, policy):
        return f"{rules}. A command that failed because of that can be asked for again with `unsandboxed`"
    return f"{rules}. Nothing can leave it"


def _hosts(rules: NetworkRules, policy: ApprovalPolicy) -> str:
    named = ", ".join(rules.allow) or "no host without a question"
    others = "no other" if policy == "never" else "the user is asked about others while the command waits"
    return f"{named}; {others}"


def _manner(now: Situation) -> tuple[str, str, str]:
    return MODES[now.agent], now.mode_instructions, PERSONALITIES[now.personality]


def _tagged(tag: str, lines: list[str]) -> str:
    return "\n".join([f"<{tag}>", *lines, f"</{tag}>"])
