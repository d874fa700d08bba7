"""Why something did not happen reaches every face: each reason in a row, each protocol and command line in a column."""

import io
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from flint_support import wired
from hames.cli.output.json_lines import JsonLinesView
from hames.cli.output.terminal import Ending, TerminalView
from hames.cli.paint import Paint
from hames.client.appserver import events as agent_events
from hames.client.appserver.client import AppServerClient
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.approvals import RunCommand
from hames.domain.errors import SandboxUnavailable
from hames.domain.items import CommandExecution, ToolItem
from hames.domain.policy import SandboxPolicy
from hames.domain.rules import Rule
from hames.domain.servers import ServerStatus
from hames.domain.state import Change
from hames.ports import Job, Place, Report, Tell, Tool, ToolSpec
from hames.protocols.bootstrap import outbound as bootstrap
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.items import TextInput
from hames.protocols.flint.outbound import project as flint
from hames.protocols.runner import outbound as runner
from hames.protocols.sse import outbound as sse
from hames.protocols.sync.view import Offer, view
from hames.sandbox.trust.rules.book import FileRuleBook
from hames.testing.fakes.model import OneModel, ScriptedModel, call, fail, say
from support import BROKEN, ECHO, engine, turn_end

ABOUT = About(version="1", provider="p", home="/h")
SEED, CODEX = FlintDialect(ABOUT, lambda _: None), CodexDialect(ABOUT, lambda _: None)
NO_SANDBOX = "bubblewrap is not installed: apt install bubblewrap"


class Shell:
    """A command that finds no sandbox."""

    spec = ToolSpec(name="shell", description="Runs.", schema={"type": "object"})

    async def prepare(self, job: Job) -> "ShellWork":
        return ShellWork(job)


class ShellWork:
    def __init__(self, job: Job) -> None:
        command = str(job.arguments["command"])
        self.item = CommandExecution(id=job.item_id, step=job.step, call_id=job.call.id, command=command, cwd="/")
        self.intent = RunCommand(command=command, cwd="/")

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:
        raise SandboxUnavailable(NO_SANDBOX)


class Servers:
    """Tools whose MCP servers report these states."""

    def __init__(self, *statuses: ServerStatus) -> None:
        self._statuses = statuses

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        for status in self._statuses:
            await report(status)
        yield []


DENY = Rule(action="deny", command="git push *", source="config.toml:3")
BOOK = FileRuleBook(lambda _: (DENY,), lambda rule: rule)


def with_servers(*statuses: ServerStatus) -> Engine:
    made = engine(ScriptedModel([say("Done.")]))
    made._turns._loop.tools = Servers(*statuses)  # pyright: ignore[reportPrivateUsage]
    made._threads.rules = replace(made.rules, mcp_servers=("s",))  # pyright: ignore[reportPrivateUsage]
    return made


def with_warning() -> Engine:
    made = engine(ScriptedModel([say("Done.")]))
    words = "hames.toml is ignored because this project is not trusted. Run `hames trust`"
    made._threads.rules = replace(made.rules, warnings=(words,))  # pyright: ignore[reportPrivateUsage]
    return made


SLOW = ServerStatus(name="s", state="starting", waited=True)
ROWS: dict[str, tuple[Callable[[], Engine], str]] = {
    "refused by a rule": (
        lambda: engine(
            ScriptedModel([call("shell", command="git push")], [say("Done.")]), Shell(), policy="never", rulebook=BOOK
        ),
        "denied by the rule deny `git push *` (config.toml:3)",
    ),
    "refused because nobody is asked": (
        lambda: engine(
            ScriptedModel([call("shell", command="$x push")], [say("Done.")]), Shell(), policy="never", rulebook=BOOK
        ),
        "approvals are off (`never`)",
    ),
    "failed tool": (lambda: engine(ScriptedModel([call("broken")], [say("Done.")]), BROKEN), "it broke"),
    "no sandbox": (
        lambda: engine(ScriptedModel([call("shell", command="ls")], [say("Done.")]), Shell(), policy="never"),
        NO_SANDBOX,
    ),
    "dead MCP server": (
        lambda: with_servers(ServerStatus(name="s", state="failed", reason="it exited with code 3")),
        "it exited with code 3",
    ),
    "slow MCP server": (lambda: with_servers(SLOW, replace(SLOW, state="ready")), "starting MCP server"),
    "ignored configuration": (with_warning, "Run `hames trust`"),
    "skipped call": (
        lambda: engine(ScriptedModel([call("broken"), call("echo", x=1)], [say("Done.")]), BROKEN, ECHO),
        "skipped: an earlier call of the same reply failed",
    ),
    "stopped reply": (
        lambda: engine(ScriptedModel([fail("the service closed the connection")])),
        "the service closed the connection",
    ),
}
SHORT = {("codex", "skipped call"): "not executed: an earlier call of the same reply failed"}
"""Where a protocol says it in other words."""
SILENT = {
    ("runner", "dead MCP server"),
    ("runner", "slow MCP server"),
    ("runner", "ignored configuration"),  # a runner has no servers and no project of its own
    ("codex", "slow MCP server"),  # Codex tells it as a status, and has no words for it
    ("sync", "slow MCP server"),  # the state has what lasts; when the server fails, that is in it
}


def encoded(told: object) -> str:
    return msgspec.json.encode(told).decode().replace('\\"', '"')


PROTOCOLS: dict[str, Callable[[Change], object]] = {
    "flint": lambda change: flint(change, SEED),
    "codex": lambda change: flint(change, CODEX),
    "bootstrap": bootstrap.project,
    "sse": sse.project,
    "runner": runner.project,
    "sync": lambda change: view(change.after, Offer(OneModel(ScriptedModel()))),
}


async def lived(the_engine: Engine) -> tuple[list[Change], str, str]:
    """One turn through a client: its changes, what `run` prints, and what `run --json` prints."""
    aside, lines = io.StringIO(), io.StringIO()
    views: list[Any] = [TerminalView(aside, aside, paint=Paint(colour=False), asks=False), JsonLinesView(lines)]
    with anyio.fail_after(60):
        async with the_engine, wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            opened = await client.start_thread()
            watcher: Watcher = await the_engine.watch(opened.thread.id)  # type: ignore[arg-type]
            for shown in views:
                shown.opened(opened)
            with client.events(opened.thread.id) as events:
                await client.start_turn(opened.thread.id, [TextInput(text="go")])
                async for event in events:
                    for shown in views:
                        shown.handle_event(event)
                    if isinstance(event, agent_events.TurnCompleted):
                        why = event.turn.error.message if event.turn.error else ""
                        for shown in views:
                            shown.ended(Ending(code=1 if why else 0, why=why, said=""))
                        break
            changes = await turn_end(watcher)
    return changes, aside.getvalue(), lines.getvalue()


@pytest.mark.parametrize("row", ROWS)
async def test_a_reason_reaches_every_face(row: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, words = ROWS[row]
    changes, printed, lines = await lived(make())
    printed += "".join(capfd.readouterr())
    missing: list[str] = []
    for name, project in PROTOCOLS.items():
        said = "\n".join(encoded(project(change)) for change in changes)
        if (SHORT.get((name, row)) or words) not in said and (name, row) not in SILENT:
            missing.append(name)
    if words not in " ".join(printed.split()):
        missing.append("run")
    if words not in lines.replace('\\"', '"'):
        missing.append("run --json")
    assert missing == []
