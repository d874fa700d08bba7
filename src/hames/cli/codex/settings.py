"""Codex's `-c KEY=VALUE` settings, translated to settings and model options of Hames.

A key that has no meaning here is reported and not refused: Codex's clients pass settings that only Codex knows.
"""

import json
import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from hames.cli import flags
from hames.config.load import NAMES, Options
from hames.config.mcp import McpServer
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.domain.policy import WorkspaceWrite
from hames.domain.value import Value

OWN: Final = frozenset(NAMES) - {"approval_policy", "instructions", "sandbox"}
"""Keys of config.toml that mean the same here as there, or that only Hames has."""
SERVER_KEYS: Final = {"http_headers": "headers"}
"""Where Codex has another name for a setting of an MCP server."""
WEB_SEARCH: Final = {"live": True, "cached": True, "disabled": False}


class CodexSettings(Value):
    """What a list of `-c KEY=VALUE` asks for."""

    values: dict[str, Json] = {}
    """By the keys of config.toml."""
    workspace: dict[str, Json] = {}
    """What only the policy `workspaceWrite` has: `network_access`, `writable_roots`. It chooses no policy."""
    options: dict[str, str] = {}
    """Model options: id to value."""
    wishes: dict[str, str] = {}
    """Model options which are dropped when the model does not have them, because it then behaves that way anyway."""
    instructions: str = ""
    """Added to the instructions of the configuration."""
    environment: dict[str, str] = {}
    unknown: tuple[str, ...] = ()


def read_settings(pairs: Iterable[str]) -> CodexSettings:
    """Raises `Misconfigured` for a word that is not KEY=VALUE.

    >>> found = read_settings(['model="gpt-5"', "model_reasoning_effort=high", "tui.theme=dark"])
    >>> found.values, found.options, found.unknown
    ({'model': 'gpt-5'}, {'reasoning_effort': 'high'}, ('tui.theme',))
    """
    table: dict[str, Json] = {}
    for pair in pairs:
        _merge(table, _parse(pair))
    values: dict[str, Json] = {}
    options: dict[str, str] = {}
    wishes: dict[str, str] = {}
    environment: dict[str, str] = {}
    instructions: list[str] = []
    unknown: list[str] = []
    workspace: dict[str, Json] = {}
    provider = ""
    for key, value in table.items():
        match key, value:
            case "approval_policy", str():
                values["approval_policy"] = approval_policy(value)
            case (("sandbox_mode" | "sandbox"), (str() | dict())):
                values["sandbox"] = value
            case "sandbox_workspace_write", dict():
                workspace = {name: value[name] for name in ("network_access", "writable_roots") if name in value}
                unknown += [f"{key}.{name}" for name in value if name not in workspace]
            case "model_reasoning_effort", str():
                options["reasoning_effort"] = value
            case "model_provider", str():
                provider = value
            case (("developer_instructions" | "instructions"), str()):
                instructions.append(value)
            case "openai_base_url", str():
                environment["OPENAI_BASE_URL"] = value
            case "web_search", str() if value in WEB_SEARCH:
                _search(WEB_SEARCH[value], options, wishes)
            case (("tools" | "features"), dict()):
                for name, chosen in value.items():
                    if name in ("web_search", "web_search_request") and isinstance(chosen, bool):
                        _search(chosen, options, wishes)
                    else:
                        unknown.append(f"{key}.{name}")
            case "mcp_servers", dict():
                values[key] = {name: _server(name, table, unknown) for name, table in value.items()}
            case _ if key in OWN:
                values[key] = value
            case _:
                unknown += _leaves(key, value)
    if provider and isinstance(model := values.get("model"), str) and "/" not in model:
        values["model"] = f"{provider}/{model}"
    elif provider and not str(values.get("model")).startswith(f"{provider}/"):
        unknown.append("model_provider")
    return CodexSettings(
        values=values,
        workspace=workspace,
        options=options,
        wishes=wishes,
        instructions="\n\n".join(instructions),
        environment=environment,
        unknown=tuple(unknown),
    )


def load_options(args: Namespace, settings: CodexSettings, directories: Sequence[str] = ()) -> Options:
    """The configuration with these settings, which the flags beat. Raises `Misconfigured`.

    `directories` are further ones to write to, if the sandbox policy lets commands write at all.
    """
    os.environ.update(settings.environment)
    values = settings.values
    options = flags.options(args, settings=values)
    if isinstance(options.sandbox, WorkspaceWrite) and (directories or settings.workspace):
        extended = _extended(options.sandbox, directories, settings.workspace)
        named, args.sandbox = args.sandbox, None
        options = flags.options(args, settings={**values, "sandbox": extended})
        args.sandbox = named
    added = "\n\n".join(text for text in (options.instructions, settings.instructions) if text)
    return replace(options, instructions=added)


def _extended(policy: WorkspaceWrite, directories: Sequence[str], more: dict[str, Json]) -> dict[str, Json]:
    """The sandbox policy with further directories and with network, as a table of config.toml."""
    roots = [*policy.writable_roots, *more.get("writable_roots", [])]
    roots += [str(Path(name).expanduser().absolute()) for name in directories]
    network = more.get("network_access", policy.network_access)
    table: dict[str, Json] = {"type": "workspaceWrite", "writableRoots": roots, "networkAccess": network}
    if policy.hosts is not None and "network_access" not in more:
        table["network"] = msgspec.to_builtins(policy.hosts)
    return table


def ignored(key: str) -> str:
    return f"the setting {key!r} of Codex has no counterpart here and is ignored"


def approval_policy(word: str) -> str:
    """Codex asks after a failure in the sandbox (`on-failure`); the nearest here is to ask before leaving it."""
    return "onRequest" if word == "on-failure" else word


def read_image_list(words: Iterable[str]) -> list[str]:
    """Codex takes several files with one `--image`, with commas between them."""
    return [name for word in words for name in ([word] if Path(word).is_file() else word.split(",")) if name]


def _search(wanted: bool, options: dict[str, str], wishes: dict[str, str]) -> None:
    if wanted:
        options["web_search"] = "on"
    else:
        wishes["web_search"] = "off"


def _server(name: str, table: Json, unknown: list[str]) -> Json:
    if not isinstance(table, dict):
        return table
    known = {field.name for field in msgspec.structs.fields(McpServer)}
    found = {SERVER_KEYS.get(key, key): value for key, value in table.items()}
    unknown += [f"mcp_servers.{name}.{key}" for key in found if key not in known]
    return {key: value for key, value in found.items() if key in known}


def _parse(pair: str) -> dict[str, Json]:
    import tomllib

    key, equals, value = pair.partition("=")
    if not key.strip() or not equals:
        raise Misconfigured(f"-c is {pair!r}; it must be KEY=VALUE")
    for text in (value, json.dumps(value.strip())):  # a value that is not TOML is a string, as in Codex
        try:
            return tomllib.loads(f"{key} = {text}")
        except tomllib.TOMLDecodeError:
            continue
    raise Misconfigured(f"-c is {pair!r}; {key.strip()!r} is not a key")


def _merge(table: dict[str, Json], more: dict[str, Json]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _leaves(key: str, value: Json) -> list[str]:
    if not isinstance(value, dict) or not value:
        return [key]
    return [leaf for name, inner in value.items() for leaf in _leaves(f"{key}.{name}", inner)]
