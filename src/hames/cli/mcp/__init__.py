"""The MCP servers in the user's configuration file.

  hames mcp list                                    list the servers and whether they work; --no-check starts none
  hames mcp add files npx -y some-server /data      a program to start
  hames mcp add files --env KEY=VALUE -- npx -y some-server
                                                    with a variable in its environment
  hames mcp add docs --url https://example.com/mcp --header "Authorization: Bearer KEY"
                                                    a server that is already running
  hames mcp get files                               show its settings, and whether it works
  hames mcp test files                              start it, list its tools, stop it
  hames mcp remove files
  hames mcp serve --cwd path/to/repo                the other way round: offer Hames to an MCP client, over stdin and
                                                    stdout; docs/mcp-server.md has the settings of known clients

Servers of a project (hames.toml, .mcp.json) are used only after `hames trust`.
"""

import json
import logging
import os
import sys
import tomllib
from argparse import REMAINDER, SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

import anyio
from msgspec import to_builtins
from msgspec.structs import replace

from hames.cli import flags
from hames.cli.config import without_secrets
from hames.cli.mcp import serve
from hames.cli.mcp.add import USAGE, read_add
from hames.config.edit_file import toml_text, write_user_file
from hames.config.load import Options
from hames.config.mcp import McpServer
from hames.config.paths import user_config
from hames.domain.display import printable, visible
from hames.domain.errors import Misconfigured
from hames.domain.ids import ThreadId, TurnId
from hames.domain.json import Json
from hames.domain.policy import ReadOnly
from hames.domain.servers import ServerStatus
from hames.ports import Place
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.mcp.settings import McpServerSettings


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser, flags.WORKSPACE)
    what = parser.add_subparsers(dest="what", required=True, metavar="list|add|get|remove|test|serve")
    listing = what.add_parser("list", help="list the servers and whether they work")
    listing.add_argument("--no-check", action="store_true", help="start nothing, only list")
    # No word is an option to this parser: `read_add` knows which belong to the program.
    add = what.add_parser("add", help="add a server to the user's file", prefix_chars="\0", add_help=False)
    add.add_argument("words", nargs=REMAINDER, help=SUPPRESS)
    get = what.add_parser("get", help="show the settings of a server, and whether it works")
    get.add_argument("name")
    get.add_argument("--no-check", action="store_true", help="start nothing, only show the settings")
    what.add_parser("remove", aliases=["rm"], help="remove a server from the user's file").add_argument("name")
    what.add_parser("test", help="start a server and list its tools").add_argument("name")
    serve.add_arguments(what.add_parser("serve", help="offer Hames to an MCP client, over stdin and stdout"))


def run(args: Namespace) -> int:
    match args.what:
        case "list":
            return _list(args)
        case "add":
            return _add(args)
        case "get":
            return _get(args)
        case "remove" | "rm":
            return _remove(args)
        case "serve":
            return serve.run(args)
        case _:
            return _test(args)


def _list(args: Namespace) -> int:
    options = flags.options(args)
    found = {} if args.no_check else check(options)
    for name, server in options.mcp_servers.items():
        target = without_secrets(server.url) if server.url else " ".join([server.command, *server.args])
        state = "disabled" if not server.enabled else described(found[name]) if name in found else ""
        print(f"{visible(name):<16} {visible(target)}{f'  ({visible(state)})' if state else ''}")
    if not options.mcp_servers:
        print("no MCP servers are configured; to add one, see hames mcp add --help")
    for warning in options.warnings:
        print(visible(warning))
    return 0


def check(options: Options) -> dict[str, ServerStatus]:
    """How the servers that are not disabled are, each started and stopped for it."""
    from hames.app.toolbox import mcp_servers
    from hames.tools.mcp.probe import probe

    logging.disable()  # what goes wrong is said here, once
    servers = mcp_servers(options)

    async def probe_all() -> dict[str, ServerStatus]:
        found: dict[str, ServerStatus] = {}

        async def one(server: McpServerSettings) -> None:
            found[server.name] = await probe(server, _place(options))

        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(one, server)
        return found

    return anyio.run(probe_all) if servers else {}


def described(status: ServerStatus) -> str:
    """How a server is, in a few words."""
    count = len(status.tools)
    return f"failed: {status.reason}" if status.state == "failed" else f"ready: {count} tool{'s' * (count != 1)}"


def _place(options: Options) -> Place:
    cwd = str(options.cwd)
    return Place(
        files=LocalWorkspace(), thread_id=ThreadId(""), turn_id=TurnId(""), workspace=cwd, cwd=cwd, sandbox=ReadOnly()
    )


def _add(args: Namespace) -> int:
    if {"-h", "--help"} & set(args.words[:1]):
        print(f"usage: {USAGE}")
        return 0
    name, server = read_add(args.words)
    file = Path(user_config(os.environ))
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if name in _configured(file, text):
        raise Misconfigured(f"the server {name!r} already exists; remove it first: hames mcp remove {name}")
    lines = [_section(name)]
    lines += [f"url = {toml_text(server.url)}"] if server.url else []
    lines += [f"command = {toml_text(server.command)}"] if server.command else []
    lines += [f"args = [{', '.join(map(toml_text, server.args))}]"] if server.args else []
    lines += [f"env = {_inline(server.env)}"] if server.env else []
    lines += [f"headers = {_inline(server.headers)}"] if server.headers else []
    write_user_file(file, f"{text.rstrip()}\n\n".lstrip() + "\n".join(lines) + "\n")
    print(f"added {name} to {file}; test it with: hames mcp test {name}")
    return 0


def _configured(file: Path, text: str) -> Json:
    """The servers that the user's file names. Raises `Misconfigured`."""
    try:
        found: Json = tomllib.loads(text).get("mcp_servers", {})
    except tomllib.TOMLDecodeError as problem:
        raise Misconfigured(f"{file} is not valid TOML: {problem}") from None
    return found


def _inline(table: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{toml_text(name)} = {toml_text(value)}' for name, value in table.items())} }}"


def _get(args: Namespace) -> int:
    options = flags.options(args)
    server = _named(options, args.name)
    rows = {
        key: without_secrets(list(value) if isinstance(value, tuple) else value, key)
        for key, value in to_builtins(server).items()
        if value or key == "enabled"
    }
    for key, value in rows.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(f"{key:<20} {visible(shown)}")
    print(f"{'from':<20} {visible(options.settings['mcp_servers'].origin)}")
    if server.enabled and not args.no_check:
        status = check(replace(options, mcp_servers={args.name: server}))[args.name]
        print(f"{'state':<20} {visible(described(status))}")
    return 0


def _named(options: Options, name: str) -> McpServer:
    if name not in options.mcp_servers:
        raise Misconfigured(f"no MCP server {name!r} is configured; hames mcp list shows the configured ones")
    return options.mcp_servers[name]


def _remove(args: Namespace) -> int:
    file = Path(user_config(os.environ))
    text = file.read_text() if file.exists() else ""
    kept, inside, found = [], False, False
    sections = (_section(args.name), f'[mcp_servers."{args.name}"]')
    for line in text.splitlines():
        if line.startswith("["):
            head = line.partition("#")[0].strip()
            inside = head in sections or head.startswith(tuple(f"{section[:-1]}." for section in sections))
            found = found or inside
        if not inside:
            kept.append(line)
    if not found:
        raise Misconfigured(f"the user's file has no MCP server {args.name!r}")
    write_user_file(file, "\n".join(kept).rstrip() + "\n")
    print(f"removed {args.name} from {file}")
    return 0


def _test(args: Namespace) -> int:
    options = flags.options(args)
    enabled = replace(_named(options, args.name), enabled=True)
    status = check(replace(options, mcp_servers={args.name: enabled}))[args.name]
    if status.state == "failed":
        print(f"{args.name} does not work: {printable(status.reason)}", file=sys.stderr)
        return 1
    print(f"{args.name} works: {len(status.tools)} tools")
    for tool in status.tools:
        print(f"  {tool.name:<32} {printable(tool.description).partition(chr(10))[0][:80]}")
    return 0


def _section(name: str) -> str:
    return f"[mcp_servers.{name}]"
