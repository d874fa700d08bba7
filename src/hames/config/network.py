"""The hosts that the configuration allows: `network` of a sandbox table."""

from msgspec.structs import replace

from hames.config import words
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.domain.json import Json
from hames.domain.network import NetworkRules, check_patterns
from hames.domain.policy import ApprovalPolicy, SandboxPolicy, WorkspaceWrite


def checked_network(policy: SandboxPolicy, value: Json, origin: str) -> SandboxPolicy:
    """The policy of a sandbox setting. Raises `Misconfigured` for what names no host."""
    table = words.sandbox_table(value).get("network") if isinstance(value, dict) else None
    if not isinstance(policy, WorkspaceWrite):
        if table is not None:
            raise Misconfigured(f"sandbox ({origin}) has network, which only workspaceWrite can have")
        return policy
    for key in table if isinstance(table, dict) else ():
        if key not in ("allow", "deny"):
            raise Misconfigured(f"network of sandbox ({origin}) has {key!r}, which is not a known key: allow, deny")
    try:
        check_patterns(policy.hosts or NetworkRules())
    except InvalidCommand as problem:
        raise Misconfigured(f"sandbox ({origin}): {problem}") from None
    return policy


def asking_about_hosts(policy: SandboxPolicy, value: Json, approvals: ApprovalPolicy) -> SandboxPolicy:
    """With `onRequest` a command may ask for any host, unless the setting says something else about the network."""
    if approvals != "onRequest" or not isinstance(policy, WorkspaceWrite) or says_network(value):
        return policy
    return replace(policy, network=NetworkRules())


def says_network(value: Json) -> bool:
    """Whether a sandbox setting says something about the network, so that no mode adds to it.

    >>> says_network("workspaceWrite"), says_network({"type": "workspaceWrite", "networkAccess": False})
    (False, True)
    """
    says = words.sandbox_table(value) if isinstance(value, dict) else {}
    return bool({"network", "networkAccess"} & set(says))
