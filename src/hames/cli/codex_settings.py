"""Codex's `-c KEY=VALUE` settings, translated to settings and model options of Hames.

A key that has no meaning here is reported and not refused: Codex's clients pass settings that only Codex knows.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hames.config.load import NAMES
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json
from hames.domain.value import Value

OWN: Final = frozenset(NAMES) - {"approval_policy", "instructions", "sandbox"}
"""Keys of config.toml that mean the same here as there, or that only Hames has."""
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
    """Raises `InvalidCommand` for a word that is not KEY=VALUE, or a value that cannot be used.

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
            case _ if key in OWN:
                values[key] = value
            case _:
                unknown += _leaves(key, value)
    if provider and isinstance(model := values.get("model"), str) and "/" not in model:
        values["model"] = f"{provider}/{model}"
    elif provider:
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


def _parse(pair: str) -> dict[str, Json]:
    import tomllib

    key, equals, value = pair.partition("=")
    if not key.strip() or not equals:
        raise InvalidCommand(f"write a setting as KEY=VALUE, not {pair!r}")
    for text in (value, json.dumps(value)):  # a value that is not TOML is a string, as in Codex
        try:
            return tomllib.loads(f"{key} = {text}")
        except tomllib.TOMLDecodeError:
            continue
    raise InvalidCommand(f"write a setting as KEY=VALUE, not {pair!r}")


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
