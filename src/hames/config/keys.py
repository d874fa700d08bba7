"""The keys of the configuration files."""

from collections.abc import Collection
from typing import Final

from hames.domain.json import Json

_KEYS: Final[dict[str, tuple[type | tuple[type, ...], Json]]] = {
    "model": (str, ""),
    "approval_policy": (str, "unlessTrusted"),
    "mode": (str, ""),
    "rules": (list, []),
    "approval_deadline": (int, 0),
    "approval_default": (str, "reject"),
    "v1_policy": (str, ""),
    "after_crash": (str, "go_on"),
    "sandbox": ((str, dict), "workspaceWrite"),
    "allow_degraded": (bool, False),
    "instructions": (str, ""),
    "max_steps": (int, 200),
    "budgets": (dict, {}),
    "compact_at": (int, 0),
    "undo_mb": (int, 1024),
    "thread_copy_days": (int, 90),
    "log_file": (str, ""),
    "log_level": (str, "warning"),
    "extra_path": (list, []),
    "extra_read": (list, []),
    "extra_cache": (list, []),
    "max_memory_mb": ((int, str), "auto"),
    "max_file_mb": (int, 16_384),
    "max_processes": (int, 4096),
    "search_command": (list, []),
    "mcp_servers": (dict, {}),
    "language_servers": ((str, dict), "auto"),
    "agents": (dict, {}),
}
"""The keys of the configuration files: what a value may be, and the default."""
NAMES: Final = {name: kind for name, (kind, _) in _KEYS.items()}
DEFAULTS: Final = {name: default for name, (_, default) in _KEYS.items()}
OF_PROJECTS: Final = frozenset(
    {"model", "approval_policy", "mode", "rules", "sandbox", "instructions", "max_steps", "mcp_servers"}
)
BY_ENVIRONMENT: Final = {
    "HAMES_MODEL": "model",
    "HAMES_APPROVAL_POLICY": "approval_policy",
    "HAMES_MODE": "mode",
    "HAMES_SANDBOX": "sandbox",
    "HAMES_LOG_FILE": "log_file",
    "HAMES_LOG_LEVEL": "log_level",
}

OTHER_TOOLS: Final = {
    "sandbox_mode": 'The key is called sandbox: sandbox = "workspaceWrite"',
    "sandbox_workspace_write": (
        'Write: sandbox = { type = "workspaceWrite", writableRoots = ["/path"], networkAccess = true }'
    ),
    "model_auto_compact_token_limit": "The key is called compact_at",
    "model_provider": 'The provider is part of the model name: model = "PROVIDER/MODEL"',
    "model_providers": "The tables are called [providers.NAME]",
    "model_reasoning_effort": "Choose it with `hames run --option reasoning_effort=high`",
    "profiles": "There are no profiles; HAMES_CONFIG names another file",
    "profile": "There are no profiles; HAMES_CONFIG names another file",
    "mcpServers": "The tables are called [mcp_servers.NAME]",
    "permissions": "The tables are called [[rules]]; `hames policy import claude` translates a list",
    "env": "Set variables in your shell, or in the env of an MCP server",
    "provider": 'The provider is part of the model name: model = "PROVIDER/MODEL"',
}
"""Keys of other tools' files, and what to write here instead."""


def unknown_key(name: str, origin: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    near = sorted(get_close_matches(name, known), key=lambda one: sorted(one) != sorted(name))  # swapped letters first
    meant = f" Did you mean {near[0]!r}?" if near else ""
    if name in OTHER_TOOLS:
        meant += f" {OTHER_TOOLS[name]}."
    return f"{origin} sets {name!r}, which is not a known key.{meant} The keys are: {', '.join(sorted(known))}"
