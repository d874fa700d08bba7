"""The MCP servers in the user's configuration file.

  hames mcp list                                    what is configured, and where it comes from
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

from hames.cli import flags
from hames.config.mcp import McpServer
from hames.config.paths import user_config
from hames.config.user_file import write_user_file
from hames.domain.display import printable, visible
from hames.domain.errors import Misconfigured
from hames.domain.ids import ThreadId, TurnId
from hames.domain.policy import ReadOnly
from hames.ports import Place
from hames.tools.mcp import START_SECONDS, Connection, Server
from hames.tools.mcp_transport import server_command, server_environment

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


def add_arguments(parser: ArgumentParser) -> None:
    flags.add_shared(parser, flags.WORKSPACE)
    what = parser.add_subparsers(dest="what", required=True, metavar="list|add|remove|test")
    what.add_parser("list", help="what is configured")
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
    for name, server in options.mcp_servers.items():
        target = server.url or " ".join([server.command, *server.args])
        print(f"{visible(name):<16} {visible(target)}{'' if server.enabled else '  (disabled)'}")
    if not options.mcp_servers:
        print("no MCP servers are configured; hames mcp add --help says how")
    if options.untrusted:
        print(f"not obeyed, because this project is not trusted: {', '.join(options.untrusted)}")
    return 0


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
    server = options.mcp_servers.get(args.name)
    if server is None:
        raise Misconfigured(f"no MCP server {args.name!r} is configured; hames mcp list shows what is")
    if server.command and not _is_installed(server, str(options.cwd)):
        print(f"{args.name} does not work: no program {server.command!r} is installed here", file=sys.stderr)
        return 1
    logging.disable()  # what goes wrong is said here, once
    return anyio.run(_try, args.name, server, str(options.cwd))


def _is_installed(server: McpServer, workspace: str) -> bool:
    environment = server_environment(server.env)
    words = server_command(server.command, (), environment=environment, workspace=workspace)
    return bool(words) and os.access(Path(workspace, words[-1]), os.X_OK)


async def _try(name: str, server: McpServer, cwd: str) -> int:
    place = Place(thread_id=ThreadId(""), turn_id=TurnId(""), workspace=cwd, cwd=cwd, sandbox=ReadOnly())
    named = Server(
        name=name, command=server.command, args=server.args, env=server.env, url=server.url, headers=server.headers
    )
    connection = Connection(named, place, START_SECONDS)
    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(START_SECONDS):
            await tasks.start(connection.run)
        tasks.cancel_scope.cancel()
    if connection.problem or not connection.tools:
        why = connection.problem or f"it offered no tools within {START_SECONDS:g} s"
        print(f"{name} does not work: {printable(why)}", file=sys.stderr)
        return 1
    print(f"{name} works: {len(connection.tools)} tools")
    for tool in connection.tools:
        print(f"  {tool.spec.name:<32} {printable(tool.spec.description).partition(chr(10))[0][:80]}")
    return 0


def _section(name: str) -> str:
    return f"[mcp_servers.{name}]"
