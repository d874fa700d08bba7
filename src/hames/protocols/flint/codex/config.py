"""`config` of the requests that open a thread: keys of Codex's configuration file, for this thread alone.

A key that means something here takes effect, and every other one is named in a notice. Keys may be nested or have dots:
`{"mcp_servers": {"files": {"command": …}}}` is the same as `{"mcp_servers.files.command": …}`.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.domain.options import Overrides, Personality, ThreadServer
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value
from hames.protocols.flint.codex.policies import APPROVALS, SANDBOX_MODES

V = TypeVar("V")

AGENT = "agent"
_EFFORT = "reasoning_effort"
_OUR_MODES: dict[str, SandboxPolicy] = {
    "readOnly": ReadOnly(),
    "workspaceWrite": WorkspaceWrite(),
    "dangerFullAccess": DangerFullAccess(),
}
_PERSONALITIES: dict[str, Personality] = {"none": "none", "friendly": "friendly", "pragmatic": "pragmatic"}
_IGNORED_SAFELY = frozenset({"exclude_tmpdir_env_var", "exclude_slash_tmp"})
"""Commands have a private /tmp in any case."""


class CodexServer(Value):
    """`[mcp_servers.NAME]` of Codex's configuration."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] | None = None
    env_vars: tuple[str, ...] = ()
    cwd: str | None = None
    url: str = ""
    bearer_token_env_var: str | None = None
    http_headers: dict[str, str] | None = None
    env_http_headers: dict[str, str] | None = None
    enabled: bool = True
    startup_timeout_sec: float | None = None
    startup_timeout_ms: float | None = None
    tool_timeout_sec: float | None = None
    enabled_tools: tuple[str, ...] | None = None
    disabled_tools: tuple[str, ...] | None = None


class CodexConfig(Value):
    """What of a `config` takes effect, and the keys that do not."""

    overrides: Overrides = Overrides()
    ignored: tuple[str, ...] = ()


def read_config(config: Mapping[str, Json], options: Collection[str], *, can_write: bool) -> CodexConfig:
    """`options` are the ids of the selectors. Raises `InvalidCommand` that names the key.

    `can_write`: the sandbox is `workspace-write` where `config` does not name one. What it says about that sandbox must
    not be what turns it on.
    """
    tree = _nested(config)
    overrides, ignored, chosen = Overrides(), list[str](), dict[str, str]()
    for key, value in tree.items():
        if value is None:
            continue
        match key:
            case "model":
                overrides = replace(overrides, model=_as(value, str, key))
            case "model_reasoning_effort":
                chosen[_EFFORT] = _as(value, str, key)
            case "approval_policy":
                overrides = replace(overrides, approval_policy=_word(value, APPROVALS, key))
            case "sandbox_mode":
                overrides = replace(overrides, sandbox=_sandbox(value, tree.get("sandbox_workspace_write"), ignored))
            case "sandbox_workspace_write" if "sandbox_mode" in tree:
                pass  # read with the mode
            case "sandbox_workspace_write" if can_write:
                overrides = replace(overrides, sandbox=_sandbox("workspace-write", value, ignored))
            case "developer_instructions":
                overrides = replace(overrides, instructions=_as(value, str, key))
            case "instructions" | "base_instructions":
                overrides = replace(overrides, base_instructions=_as(value, str, key))
            case "personality":
                overrides = replace(overrides, personality=_word(value, _PERSONALITIES, key))
            case "mcp_servers":
                overrides = replace(overrides, mcp_servers=_servers(value, ignored))
            case _ if key in options and key != AGENT and isinstance(value, str):
                chosen[key] = value
            case _:
                ignored += _leaves(key, value) if isinstance(value, dict) else [key]
    return CodexConfig(overrides=replace(overrides, options=chosen or None), ignored=tuple(ignored))


def _nested(config: Mapping[str, Json]) -> dict[str, Json]:
    """Keys with dots become tables. The names of servers may have dots only inside a table."""
    tree: dict[str, Json] = {}
    for key, value in config.items():
        *path, last = key.split(".")
        table = tree
        for part in path:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InvalidCommand(f"config.{key}: {part!r} has a value and is no table")
            table = inner
        known = table.get(last)
        table[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return tree


def _leaves(path: str, table: dict[str, Json]) -> list[str]:
    found: list[str] = []
    for key, value in table.items():
        found += _leaves(f"{path}.{key}", value) if isinstance(value, dict) and value else [f"{path}.{key}"]
    return found or [path]


def _sandbox(mode: Json, table: Json, ignored: list[str]) -> SandboxPolicy:
    policy = _word(mode, {**SANDBOX_MODES, **_OUR_MODES}, "sandbox_mode")
    if table is None:
        return policy
    given = _as(table, dict[str, Json], "sandbox_workspace_write")
    used = {"writable_roots", "network_access"} if isinstance(policy, WorkspaceWrite) else set[str]()
    ignored += [f"sandbox_workspace_write.{name}" for name in given if name not in used | _IGNORED_SAFELY]
    if not isinstance(policy, WorkspaceWrite):
        return policy
    where = "sandbox_workspace_write"
    roots = _as(given.get("writable_roots", ()), tuple[str, ...], f"{where}.writable_roots")
    network = _as(given.get("network_access", False), bool, f"{where}.network_access")
    return WorkspaceWrite(writable_roots=roots, network_access=network)


def _servers(given: Json, ignored: list[str]) -> tuple[ThreadServer, ...]:
    named = _as(given, dict[str, dict[str, Json]], "mcp_servers")
    known = {field.name for field in msgspec.structs.fields(CodexServer)}
    found: list[ThreadServer] = []
    for name, table in named.items():
        where = f"mcp_servers.{name}"
        server = _as({key: value for key, value in table.items() if value is not None}, CodexServer, where)
        ignored += [f"{where}.{key}" for key, value in table.items() if key not in known and value is not None]
        if server.enabled:
            found.append(_server(name, server, where))
    return tuple(found)


def _server(name: str, server: CodexServer, where: str) -> ThreadServer:
    if not name:
        raise InvalidCommand("config.mcp_servers: a server has no name")
    if bool(server.command) == bool(server.url):
        raise InvalidCommand(f"config.{where}: needs either a command or a url")
    if server.url and not server.url.lower().startswith(("https://", "http://")):
        raise InvalidCommand(f"config.{where}.url: must be an http or https URL")
    start = server.startup_timeout_sec or (server.startup_timeout_ms or 0) / 1000
    if start < 0 or (server.tool_timeout_sec or 0) < 0:
        raise InvalidCommand(f"config.{where}: a timeout must not be negative")
    return ThreadServer(
        name=name,
        command=server.command,
        args=server.args,
        cwd=server.cwd or "",
        env=dict(server.env or {}),
        env_vars=server.env_vars,
        url=server.url,
        headers=dict(server.http_headers or {}),
        env_headers=server.env_http_headers or {},
        bearer_token_env_var=server.bearer_token_env_var or "",
        start_seconds=start,
        call_seconds=server.tool_timeout_sec or 0.0,
        enabled_tools=server.enabled_tools,
        disabled_tools=server.disabled_tools or (),
    )


def _word(value: Json, words: Mapping[str, V], key: str) -> V:
    if isinstance(value, str) and value in words:
        return words[value]
    raise InvalidCommand(f"config.{key}: must be one of {', '.join(words)}")


def _as(value: Json, shape: type[V], key: str) -> V:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as why:
        raise InvalidCommand(f"config.{key}: {why}") from None
