"""Approval policies and sandboxes in the words of either dialect: every client may use both."""

from hames.domain import policy
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy
from hames.protocols.flint import inbound
from hames.protocols.flint import messages as m

CODEX_APPROVALS: dict[str, ApprovalPolicy] = {
    "on-request": "onRequest",
    "on-failure": "onRequest",  # asks after a failure in the sandbox; the nearest here is to ask before leaving it
    "untrusted": "unlessTrusted",
}
"""Codex's own words; `never` is the same in both."""
APPROVALS: dict[str, ApprovalPolicy] = {
    "never": "never",
    **CODEX_APPROVALS,
    "onRequest": "onRequest",
    "unlessTrusted": "unlessTrusted",
    "always": "always",
}
SANDBOX_MODES: dict[str, policy.SandboxPolicy] = {
    "read-only": policy.ReadOnly(),
    "workspace-write": policy.WorkspaceWrite(),
    "danger-full-access": policy.DangerFullAccess(),
}
_PROFILES = {
    ":read-only": "read-only",
    ":workspace": "workspace-write",
    ":danger-full-access": "danger-full-access",
}

AnySandbox = m.SandboxPolicy | str
"""`{type: "readOnly"}`, or Codex's word for it: `read-only`."""


def approval_policy(given: Json) -> ApprovalPolicy | None:
    """Raises `InvalidCommand`."""
    if given is None:
        return None
    if isinstance(given, dict) and "granular" in given:
        return "onRequest"
    if isinstance(given, str) and given in APPROVALS:
        return APPROVALS[given]
    raise InvalidCommand(f"approvalPolicy: must be one of {', '.join(APPROVALS)}")


def sandbox_policy(given: AnySandbox | None, profile: str | None, *, member: str) -> policy.SandboxPolicy | None:
    """`profile` is Codex's newer way to say the same: `:workspace`. Raises `InvalidCommand`."""
    if given is not None and profile is not None:
        raise InvalidCommand(f"permissions: cannot be combined with {member}")
    if profile is not None:
        if profile not in _PROFILES:
            raise InvalidCommand(f"permissions: must be one of {', '.join(_PROFILES)}")
        return SANDBOX_MODES[_PROFILES[profile]]
    if not isinstance(given, str):
        return inbound.sandbox(given)
    if given not in SANDBOX_MODES:
        raise InvalidCommand(f"{member}: must be one of {', '.join(SANDBOX_MODES)}, or an object with a type")
    return SANDBOX_MODES[given]
