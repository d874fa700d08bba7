"""List the agent programs that can carry out turns instead of a model, and how to install those that are missing.

  hames agents
  hames agents --check
  hames --agent claude

Agents of your configuration ([agents.NAME]) come first. --check starts each one, and says which version of ACP it
speaks and whether it wants a login.
"""

import os
import sys
from argparse import ArgumentParser, Namespace

import anyio
import msgspec

from hames.agents.acp.known import KNOWN
from hames.agents.codex.command import NAME as CODEX
from hames.agents.codex.command import codex_command
from hames.app.acp_agents import acp_programs, check_acp_agent
from hames.cli import flags
from hames.cli.paint import Paint
from hames.config.load import Options
from hames.domain.display import visible
from hames.domain.errors import Misconfigured
from hames.domain.value import Value

INSTALL_CODEX = "npm install -g @openai/codex"


class AgentRow(Value, rename="camel"):
    """`from_where` is `configuration`, `found` or `missing`; `command` is empty for one that is missing."""

    name: str
    title: str
    from_where: str
    command: tuple[str, ...] = ()
    install: str = ""
    checked: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("name", metavar="NAME", nargs="?", help="only this agent")
    parser.add_argument("--check", action="store_true", help="start each agent and ask what it speaks")
    flags.add_shared(parser, flags.WORKSPACE)


def run(args: Namespace) -> int:
    options = flags.options(args)
    rows = [row for row in _rows(options) if not args.name or row.name == args.name]
    if not rows:
        raise Misconfigured(f"no agent {args.name!r}; hames agents lists them all")
    if args.check:
        rows = anyio.run(_checked, options, rows)
    if args.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    paint = Paint.for_stream(sys.stdout)
    width = max(len(row.name) for row in rows)
    for row in rows:
        name = paint.accent(visible(row.name).ljust(width)) if row.command else visible(row.name).ljust(width)
        about = _shown_command(row.command) if row.command else f"not installed: {row.install}"
        print(f"{name}  {visible(row.title)}  {paint.dim(visible(about))}")
        if row.checked:
            print(f"{' ' * width}  {paint.dim(visible(row.checked))}")
    return 0


def _rows(options: Options) -> list[AgentRow]:
    programs, titles = acp_programs(options), {one.name: one.title for one in KNOWN}
    configured = [
        AgentRow(name=name, title=titles.get(name, "speaks ACP"), from_where="configuration", command=program.command)
        for name, program in options.agents.items()
    ]
    codex = tuple(codex_command(options.environment, str(options.cwd)))
    rest = [
        AgentRow(
            name=CODEX, title="Codex", from_where="found" if codex else "missing", command=codex, install=INSTALL_CODEX
        )
    ]
    for one in KNOWN:
        if one.name in options.agents:
            continue
        command = programs[one.name].command if one.name in programs else ()
        where = "found" if command else "missing"
        rest.append(AgentRow(name=one.name, title=one.title, from_where=where, command=command, install=one.install))
    return [*configured, *sorted(rest, key=lambda row: not row.command)]


async def _checked(options: Options, rows: list[AgentRow]) -> list[AgentRow]:
    programs = acp_programs(options)
    return [
        msgspec.structs.replace(row, checked=await check_acp_agent(row.name, programs[row.name], options))
        if row.name in programs
        else row
        for row in rows
    ]


def _shown_command(command: tuple[str, ...]) -> str:
    """Without the directories: the names say enough."""
    return " ".join(word.rpartition(os.sep)[2] or word for word in command)
