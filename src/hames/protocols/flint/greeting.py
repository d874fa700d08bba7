"""The answer to `initialize`. Standard library only: it can be given before anything else is imported."""

import sys

AGENT = "hames"
CODEX_VERSION = "0.166.0"
"""The version of Codex's app server whose protocol its clients get."""

METHODS: tuple[str, ...] = (
    "thread/read",
    "thread/fork",
    "thread/unarchive",
    "thread/delete",
    "thread/name/set",
    "thread/compact",
    "thread/compact/start",
    "thread/settings/update",
    "thread/turns/list",
    "thread/items/list",
    "thread/loaded/list",
    "thread/unsubscribe",
    "thread/queue/add",
    "thread/queue/list",
    "thread/queue/delete",
    "turn/steer",
    "thread/processes/list",
    "thread/processes/end",
    "mcpServerStatus/list",
    "thread/context/read",
    "thread/undo",
    "worktree/list",
    "worktree/finish",
)
"""The requests beside the specification's."""

CODEX_CAPABILITIES = frozenset({"requestAttestation", "explicitGatewayOauth", "mcpServerOpenaiFormElicitation"})


def is_codex(name: str, capabilities: object) -> bool:
    """Whether this is one of Codex's own clients: by its name, or by a capability that only they have."""
    if "codex" in name.lower():
        return True
    return isinstance(capabilities, dict) and not CODEX_CAPABILITIES.isdisjoint(capabilities)


def result(*, version: str, provider: str, home: str, options: bool, reasoning: bool) -> dict[str, object]:
    """`options`: there are selectors. `reasoning`: some model shows its thinking."""
    return {
        "agentInfo": {"name": AGENT, "version": version, "provider": provider},
        "capabilities": {
            "streaming": True,
            "configOptions": options,
            "reasoning": reasoning,
            "plans": True,
            "review": True,
            "methods": list(METHODS),
        },
        "userAgent": _user_agent(version),
        "codexHome": home,
        "platformFamily": "unix",
        "platformOs": "macos" if sys.platform == "darwin" else sys.platform,
    }


def _user_agent(version: str) -> str:
    """Clients of Codex's take the first version in it for Codex's, and refuse to work with an old one."""
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return f"{AGENT}/{CODEX_VERSION} (Hames {version}; {sys.platform}; {python})"
