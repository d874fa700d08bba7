"""The launch options of Codex's app server, so that programs which start `codex app-server` can start ours.

`-c KEY=VALUE` names keys of Codex's configuration. Those with a counterpart here are used; any other is reported on
stderr and has no effect, because a client that cannot start helps nobody.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Final

import msgspec

from hames.config.load import NAMES
from hames.config.mcp import McpServer
from hames.domain.errors import Misconfigured
from hames.domain.json import Json

EFFORT_KEY: Final = "model_reasoning_effort"
_RENAMED: Final = {"sandbox_mode": "sandbox", "developer_instructions": "instructions"}
_SERVER_KEYS: Final = {"http_headers": "headers"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting as in Codex's configuration, for example model=NAME; the value is TOML or plain text",
    )
    for name in ("--enable", "--disable"):
        parser.add_argument(name, metavar="FEATURE", action="append", default=[], help="Codex's feature flags: ignored")
    parser.add_argument("--listen", metavar="URL", help="stdio:// (the default) or ws://IP:PORT")
    parser.add_argument("--stdio", action="store_true", help="the same as --listen stdio://")
    for name in ("--strict-config", "--analytics-default-enabled"):
        parser.add_argument(name, action="store_true", help="accepted for Codex's clients: no effect")
    parser.add_argument("--session-source", metavar="NAME", help="accepted for Codex's clients: no effect")


def is_codex_launch(args: Namespace) -> bool:
    """Whether only a program written for Codex's app server would start it like this."""
    return bool(args.listen or args.stdio or args.config or args.enable or args.disable or args.session_source)


def listen_address(args: Namespace) -> tuple[str, int] | None:
    """Host and port of a WebSocket; None for stdin and stdout. Raises `Misconfigured`."""
    url = args.listen or "stdio://"
    if url == "stdio://" or args.stdio:
        return None
    kind, found, rest = url.partition("://")
    host, colon, port = rest.rstrip("/").rpartition(":")
    if kind != "ws" or not found:
        raise Misconfigured(f"--listen is {url!r}; it must be stdio:// or ws://IP:PORT")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise Misconfigured(f"--listen is {url!r}; it must name an address and a port, as ws://127.0.0.1:4500 does")
    return host.removeprefix("[").removesuffix("]"), int(port)


def settings(args: Namespace) -> dict[str, Json]:
    """What `-c` sets, by our own keys; the rest is reported. Raises `Misconfigured`."""
    given: dict[str, Json] = {}
    for word in args.config:
        _merge(given, _parsed(word))
    for feature in (*args.enable, *args.disable):
        report(f"features.{feature}")
    found = {_RENAMED.get(name, name): value for name, value in given.items()}
    provider, model = found.pop("model_provider", None), found.get("model")
    if isinstance(provider, str):
        if isinstance(model, str) and "/" not in model:
            found["model"] = f"{provider}/{model}"
        elif not isinstance(model, str) or not model.startswith(f"{provider}/"):
            report("model_provider")
    workspace = found.pop("sandbox_workspace_write", None)
    if isinstance(workspace, dict):
        found["sandbox"] = _sandbox(found.get("sandbox"), workspace)
    if isinstance(servers := found.get("mcp_servers"), dict):
        found["mcp_servers"] = {name: _server(name, table) for name, table in servers.items()}
    for name in found.keys() - NAMES.keys() - {EFFORT_KEY}:
        report(name if not isinstance(found[name], dict) else f"{name}.{next(iter(found[name]), '')}".rstrip("."))
    return {name: value for name, value in found.items() if name in NAMES or name == EFFORT_KEY}


def command_first(words: list[str], commands: tuple[str, ...]) -> list[str]:
    """The command's name before the options that stand in front of it: `-c model=o3 app-server`.

    >>> command_first(["-c", "model=o3", "--enable=x", "app-server", "--stdio"], ("app-server",))
    ['app-server', '-c', 'model=o3', '--enable=x', '--stdio']
    >>> command_first(["-c", "app-server"], ("app-server",))
    ['-c', 'app-server']
    """
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, _ = words[place].partition("=")
        joined = name.startswith("-c") and name != "-c"
        if name not in _VALUED and not joined:
            return words
        place += 1 if (equals and name.startswith("--")) or joined else 2
    if place >= len(words) or words[place] not in commands:
        return words
    return [words[place], *words[:place], *words[place + 1 :]]


_VALUED: Final = frozenset(
    {
        *("-c", "--config", "--enable", "--disable", "-m", "--model", "-C", "--cd", "--cwd", "-s", "--sandbox"),
        *("-a", "--ask-for-approval", "--approval-policy", "--data-dir", "--log-file", "--log-level", "--agent"),
    }
)
"""Options with a value that may stand before the command."""


def _parsed(word: str) -> dict[str, Json]:
    import tomllib

    key, equals, value = word.partition("=")
    if not equals or not key.strip():
        raise Misconfigured(f"-c is {word!r}; it must be KEY=VALUE")
    for text in (value, msgspec.json.encode(value.strip()).decode()):  # a value that is not TOML is plain text
        try:
            return tomllib.loads(f"{key.strip()} = {text}\n")
        except tomllib.TOMLDecodeError:
            continue
    raise Misconfigured(f"-c is {word!r}; {key.strip()!r} is not a key")


def _merge(into: dict[str, Json], more: Mapping[str, Json]) -> None:
    for name, value in more.items():
        known = into.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            _merge(known, value)
        else:
            into[name] = value


def _sandbox(mode: Json, workspace: Mapping[str, Json]) -> Json:
    """Codex keeps the settings of one mode in a table of their own; they do not choose the mode."""
    if mode is not None and mode not in ("workspace-write", "workspaceWrite"):
        return mode
    known = {key: value for key, value in workspace.items() if key in ("writable_roots", "network_access")}
    for key in workspace.keys() - known.keys():
        report(f"sandbox_workspace_write.{key}")
    return {"type": "workspaceWrite", **known}


def _server(name: str, table: Json) -> Json:
    if not isinstance(table, dict):
        return table
    known = {field.name for field in msgspec.structs.fields(McpServer)}
    found = {_SERVER_KEYS.get(key, key): value for key, value in table.items()}
    for key in found.keys() - known:
        report(f"mcp_servers.{name}.{key}")
    return {key: value for key, value in found.items() if key in known}


def report(key: str) -> None:
    print(f"hames: the setting {key!r} of Codex has no counterpart here and is ignored", file=sys.stderr, flush=True)
