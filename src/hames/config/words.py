"""Spellings of policies that people bring from other tools, and what each means here."""

from typing import Final, get_args

from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.policy import ApprovalPolicy

SANDBOXES: Final = ("readOnly", "workspaceWrite", "dangerFullAccess", "externalSandbox")
APPROVALS: Final[tuple[ApprovalPolicy, ...]] = get_args(ApprovalPolicy)

_SAME: Final[dict[str, ApprovalPolicy]] = {"untrusted": "unlessTrusted", "auto": "onRequest"}
_NEAREST: Final = {
    "onfailure": "there is no policy that asks only after a command failed",
    "default": "the policies have other names here",
    "acceptedits": "there is no policy that allows file changes and asks for commands",
    "plan": 'planning is a mode, not a policy: mode = "plan"',
    "bypasspermissions": "the policies have other names here",
}
_INSTEAD: Final = {
    "bypasspermissions": "never (commands stay in the sandbox)",
    "onfailure": "onRequest, which asks before a command leaves the sandbox",
}
_KEYS: Final = {
    "type": "type",
    "writableroots": "writableRoots",
    "networkaccess": "networkAccess",
    "network": "network",
}


def _plain(word: str) -> str:
    return word.replace("-", "").replace("_", "").lower()


def sandbox_name(word: str) -> str | None:
    """Our name for a sandbox policy, however it is spelled.

    >>> sandbox_name("workspace-write"), sandbox_name("READ_ONLY"), sandbox_name("loose")
    ('workspaceWrite', 'readOnly', None)
    """
    return next((name for name in SANDBOXES if _plain(name) == _plain(word)), None)


def sandbox_table(table: dict[str, Json]) -> dict[str, Json]:
    """A table of a sandbox policy with our names. Raises `Misconfigured` for a key that nobody reads.

    >>> sandbox_table({"type": "workspace-write", "network_access": True})
    {'type': 'workspaceWrite', 'networkAccess': True}
    """
    found: dict[str, Json] = {}
    for key, value in table.items():
        known = _KEYS.get(_plain(key))
        if known is None:
            raise Misconfigured(f"has {key!r}, which is not a known key. The keys are: {', '.join(_KEYS.values())}")
        found[known] = sandbox_name(value) or value if known == "type" and isinstance(value, str) else value
    return found


def approval_policy(word: str) -> ApprovalPolicy:
    """Our name for an approval policy, however it is spelled. Raises `Misconfigured`.

    >>> approval_policy("untrusted"), approval_policy("on-request")
    ('unlessTrusted', 'onRequest')
    """
    plain = _plain(word)
    for name in APPROVALS:
        if _plain(name) == plain:
            return name
    if plain in _SAME:
        return _SAME[plain]
    choices = ", ".join(APPROVALS)
    if plain in _NEAREST:
        near = _INSTEAD.get(plain, "unlessTrusted, which asks before anything but commands that only read")
        raise Misconfigured(f"{_NEAREST[plain]}. The nearest is {near}; the policies are {choices}")
    raise Misconfigured(f"it must be one of {choices}")
