"""The names of approval policies, sandboxes and modes, and which sandbox is really in force.

`plan` and `review` read and change nothing: the engine gives them a read-only sandbox whatever the thread's own is.
"""

from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint import messages as m
from hames.tui.conversation import Conversation

POLICIES: dict[ApprovalPolicy, str] = {
    "unlessTrusted": "Ask for risky actions",
    "always": "Ask every time",
    "never": "Never ask",
}
POLICY_DETAILS: dict[ApprovalPolicy, str] = {
    "unlessTrusted": "Commands known to be safe run without a question",
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
    "externalSandbox": "This machine is a sandbox already; Hames adds none",
}
MODES: dict[str, str] = {"plan": "Plan mode", "review": "Review mode"}
MODE_DETAILS: dict[str, str] = {
    "code": "Reads, writes and runs commands",
    "plan": "Reads and plans, changes nothing",
    "review": "Reads and judges, changes nothing",
}


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


def sandbox_of(name: str) -> m.SandboxPolicy:
    match name:
        case "readOnly":
            return m.ReadOnly()
        case "dangerFullAccess":
            return m.DangerFullAccess()
        case "externalSandbox":
            return m.ExternalSandbox()
        case _:
            return m.WorkspaceWrite()


def effective_sandbox(talk: Conversation) -> m.SandboxPolicy:
    return m.ReadOnly() if talk.mode in MODES else talk.sandbox


def shown_sandbox(policy: m.SandboxPolicy) -> str:
    network = isinstance(policy, m.WorkspaceWrite) and policy.network_access
    return SANDBOXES[sandbox_name(policy)] + (" + network" if network else "")
