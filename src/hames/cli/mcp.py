"""The MCP servers in the user's configuration file.

  hames mcp list                                    what is configured, and whether it works; --no-check starts nothing
  hames mcp add files npx -y some-server /data      a program to start
  hames mcp add docs --url https://example.com/mcp  an address to reach
  hames mcp test files                              start it, list its tools, stop it
  hames mcp remove files

Servers of a project (hames.toml, .mcp.json) are used only after `hames trust`.
"""

import json
import logging
import os
import re
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from pathlib import Path

import anyio
from msgspec.structs import replace

from hames.app import mcp_servers
from hames.cli import flags
from hames.cli.config import without_secrets
from hames.config.options import Options
from hames.config.paths import user_config
from hames.config.user_file import write_user_file
from hames.domain.display import printable, visible
from hames.domain.errors import Misconfigured
from hames.domain.ids import ThreadId, TurnId
from hames.domain.policy import ReadOnly
from hames.domain.servers import ServerStatus
from hames.ports import Place
from hames.tools.mcp.servers import McpServerSettings, probe

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser, flags.WORKSPACE)
    what = parser.add_subparsers(dest="what", required=True, metavar="list|add|remove|test")
    listing = what.add_parser("list", help="what is configured, and whether it works")
    listing.add_argument("--no-check", action="store_true", help="start nothing, only list")
    add = what.add_parser("add", help="add a server to the user's file")
    add.add_argument("name")
    add.add_argument("--url", help="an address instead of a program")
    add.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the program's environment")
    add.add_argument("program", nargs=REMAINDER, help="the program and its arguments")
    for name, words in (("remove", "take one out of the user's file"), ("test", "start one and list its tools")):
        what.add_parser(name, help=words).add_argument("name")


def run(args: Namespace) -> int:
    match args.what:
        case "list":
            return _list(args)
        case "add":
            return _add(args)
        case "remove":
            return _remove(args)
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
        print("no MCP servers are configured; hames mcp add --help says how")
    for warning in options.warnings:
        print(visible(warning))
    return 0


def check(options: Options) -> dict[str, ServerStatus]:
    """How the servers that are not disabled are, each started and stopped for it."""
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
    return Place(thread_id=ThreadId(""), turn_id=TurnId(""), workspace=cwd, cwd=cwd, sandbox=ReadOnly())


def _add(args: Namespace) -> int:
    if not NAME.fullmatch(args.name):
        raise Misconfigured(f"a server's name is letters, digits, - and _: {args.name!r} is not")
    if bool(args.url) == bool(args.program):
        raise Misconfigured("name a program to start, or an address with --url")
    pairs = dict(pair.partition("=")[::2] for pair in args.env)
    file = Path(user_config(os.environ))
    text = file.read_text() if file.exists() else ""
    if _section(args.name) in text:
        raise Misconfigured(f"there is a server {args.name!r} already; hames mcp remove {args.name} first")
    lines = [_section(args.name)]
    lines += [f"url = {json.dumps(args.url)}"] if args.url else []
    lines += [f"command = {json.dumps(args.program[0])}"] if args.program else []
    lines += [f"args = {json.dumps(args.program[1:])}"] if args.program[1:] else []
    lines += [f"env = {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in pairs.items())} }}"] if pairs else []
    write_user_file(file, f"{text.rstrip()}\n\n".lstrip() + "\n".join(lines) + "\n")
    print(f"added {args.name} to {file}; hames mcp test {args.name} tries it")
    return 0


def _remove(args: Namespace) -> int:
    file = Path(user_config(os.environ))
    text = file.read_text() if file.exists() else ""
    kept, inside, found = [], False, False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.strip() == _section(args.name)
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
    if args.name not in options.mcp_servers:
        raise Misconfigured(f"no MCP server {args.name!r} is configured; hames mcp list shows what is")
    enabled = replace(options.mcp_servers[args.name], enabled=True)
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
