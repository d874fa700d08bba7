"""The names of approval policies, sandboxes and modes, and which sandbox is really in force.

`plan` and `review` read and change nothing: the engine gives them a read-only sandbox whatever the thread's own is.
"""

from msgspec import UNSET

from hames.domain import modes
from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint import messages as m
from hames.tui.conversation import Conversation

POLICIES: dict[ApprovalPolicy, str] = {
    "unlessTrusted": "Ask for risky actions",
    "onRequest": "Ask to leave the sandbox",
    "always": "Ask every time",
    "never": "Never ask",
}
POLICY_DETAILS: dict[ApprovalPolicy, str] = {
    "unlessTrusted": "Commands known to be safe run without a question",
    "onRequest": "Commands and changes inside the sandbox run without a question; leaving it needs your approval",
    "always": "Every command and every file change needs your approval",
    "never": "Careful: every command and every change runs without a question; only the sandbox limits them",
}
SANDBOXES: dict[str, str] = {
    "readOnly": "read-only",
    "workspaceWrite": "workspace only",
    "dangerFullAccess": "NO SANDBOX",
    "externalSandbox": "external sandbox",
}
SANDBOX_DETAILS: dict[str, str] = {
    "readOnly": "Commands can read files. No writing, no network",
    "workspaceWrite": "Commands can write in the workspace. No network",
    "dangerFullAccess": "Commands run with all your rights",
    "externalSandbox": "Something else isolates this machine; Hames adds no sandbox",
}
MODES: dict[str, str] = {"plan": "Plan mode", "review": "Review mode"}
MODE_DETAILS: dict[str, str] = {
    "code": "Reads, writes and runs commands",
    "plan": "Reads and plans, changes nothing",
    "review": "Reviews, changes nothing",
}
APPROVAL_MODES: dict[str, tuple[str, str]] = {
    **{name: (name.capitalize(), mode.words) for name, mode in modes.MODES.items()},
    "always": (POLICIES["always"], POLICY_DETAILS["always"]),
    "never": (POLICIES["never"], POLICY_DETAILS["never"]),
}
"""The list of modes, in its order: the three modes, and the other approval policies. Each has a name and an
explanation. `never` is reached by no key: one pressed once too often must not switch the questions off."""
SHORT_WORDS: dict[str, str] = {"plan": "changes nothing", "review": "changes nothing"}


def shown_mode(agent: str, policy: ApprovalPolicy) -> tuple[str, str]:
    """The mode's name and what it means, for the status line; no name for a policy that is no mode.

    >>> shown_mode("code", "onRequest"), shown_mode("plan", "never"), shown_mode("code", "always")
    (('auto', 'ask to leave the sandbox'), ('plan', 'changes nothing'), ('', 'ask every time'))
    """
    if agent in SHORT_WORDS:
        return agent, SHORT_WORDS[agent]
    return modes.mode_of(agent, policy) or "", POLICIES[policy].lower()


def sandbox_name(policy: m.SandboxPolicy) -> str:
    match policy:
        case m.ReadOnly():
            return "readOnly"
        case m.WorkspaceWrite():
            return "workspaceWrite"
        case m.DangerFullAccess():
            return "dangerFullAccess"
        case m.ExternalSandbox():
            return "externalSandbox"


def sandbox_of(name: str, before: m.SandboxPolicy) -> m.SandboxPolicy:
    """The policy of that name. Writable directories and allowed hosts that were configured stay."""
    match name:
        case "readOnly":
            return m.ReadOnly()
        case "dangerFullAccess":
            return m.DangerFullAccess()
        case "externalSandbox":
            return m.ExternalSandbox()
        case _:
            network = before.network if isinstance(before, m.WorkspaceWrite) else UNSET
            return m.WorkspaceWrite(writable_roots=writable_roots(before) or None, network=network)


def next_mode(agent: str, policy: ApprovalPolicy) -> tuple[str, ApprovalPolicy | None]:
    """The agent and the policy that Shift+Tab changes to."""
    mode = modes.MODES[modes.next_mode(modes.mode_of(agent, policy))]
    return mode.agent, mode.approval_policy


def effective_sandbox(talk: Conversation) -> m.SandboxPolicy:
    return m.ReadOnly() if talk.mode in MODES else talk.sandbox


def writable_roots(policy: m.SandboxPolicy) -> list[str]:
    """Directories outside the workspace that commands can write in, too."""
    return policy.writable_roots or [] if isinstance(policy, m.WorkspaceWrite) else []


def shown_sandbox(policy: m.SandboxPolicy) -> str:
    """
    >>> shown_sandbox(m.WorkspaceWrite()), shown_sandbox(m.WorkspaceWrite(writable_roots=["/a"], network_access=True))
    ('workspace only', 'workspace + 1 directory + network')
    """
    network = isinstance(policy, m.WorkspaceWrite) and policy.network_access
    named = SANDBOXES[sandbox_name(policy)]
    if count := len(writable_roots(policy)):
        named = f"workspace + {count} {'directory' if count == 1 else 'directories'}"
    if network:
        return f"{named} + network"
    hosts = policy.network if isinstance(policy, m.WorkspaceWrite) else UNSET
    count = len(hosts.allow) if isinstance(hosts, m.NetworkRules) else 0
    return f"{named} + {count} {'host' if count == 1 else 'hosts'}" if count else named
