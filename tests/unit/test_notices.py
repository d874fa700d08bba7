"""Warnings reach every protocol, and MCP servers are reported as they are."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from flint_support import talking
from hames.core.engine import Engine
from hames.domain.commands import ListServers
from hames.domain.events import Noticed, TurnEnded
from hames.domain.ids import TurnId
from hames.domain.servers import ServerList, ServerStatus, ServerTool, notice
from hames.domain.state import Change
from hames.ports import Place, Report, Tool
from hames.protocols.bootstrap import outbound as bootstrap
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.outbound import project as flint
from hames.protocols.sse import outbound as sse
from hames.protocols.sync.view import notices_of
from hames.testing.fakes.model import ScriptedModel, say
from support import created, engine, events, whole_turn

ABOUT = About(version="1", provider="p", home="/h")
SEED, CODEX = FlintDialect(ABOUT, lambda _: None), CodexDialect(ABOUT, lambda _: None)


class Reporting:
    """Tools that report these servers when they are opened."""

    def __init__(self, *statuses: ServerStatus) -> None:
        self.statuses = statuses
        self.opened = 0

    @asynccontextmanager
    async def open(self, place: Place, report: Report) -> AsyncGenerator[Sequence[Tool]]:
        self.opened += 1
        for status in self.statuses:
            await report(status)
        yield []


def with_servers(model: ScriptedModel, tools: Reporting, **rules: Any) -> Engine:
    made = engine(model)
    made._turns._loop.tools = tools  # pyright: ignore[reportPrivateUsage]
    made._threads.rules = replace(made.rules, mcp_servers=("good", "bad"), **rules)  # pyright: ignore[reportPrivateUsage]
    return made


GOOD = ServerStatus(name="good", state="ready", tools=(ServerTool(name="add", schema={"type": "object"}),))
BAD = ServerStatus(name="bad", state="failed", reason="it exited with code 3")


def told(changes: list[Change], project: Any) -> str:
    return "\n".join(msgspec.json.encode(said).decode() for change in changes for said in project(change))


async def test_a_failed_server_is_a_warning_in_every_protocol_and_the_turn_goes_on() -> None:
    async with with_servers(ScriptedModel([say("Done.")]), Reporting(GOOD, BAD)) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    last = changes[-1].record.event
    assert isinstance(last, TurnEnded)
    assert last.status == "completed"
    (warned,) = [event for event in events(changes) if isinstance(event, Noticed)]
    assert (warned.severity, warned.turn_id) == ("warning", last.turn_id)
    why = "it exited with code 3"
    assert '"hames/mcp_server"' in told(changes, lambda change: flint(change, SEED))
    for project in (lambda change: flint(change, SEED), bootstrap.project, sse.project):
        assert why in told(changes, project)
    codex = told(changes, lambda change: flint(change, CODEX))
    assert '"mcpServer/startupStatus/updated"' in codex
    assert '"warning"' in codex
    assert [shown.message for shown in notices_of(changes[-1].after)] == [warned.message]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, replace(GOOD, state="starting"), ""),
        (None, GOOD, ""),
        (replace(GOOD, state="starting"), GOOD, ""),
        (None, replace(GOOD, state="starting", waited=True), "starting MCP server 'good' …"),
        (replace(GOOD, state="starting", waited=True), GOOD, "MCP server 'good' is ready"),
        (None, BAD, "MCP server 'bad' is not available: it exited with code 3."),
        (replace(BAD, state="ready"), BAD, "MCP server 'bad' stopped: it exited with code 3."),
        (BAD, BAD, ""),
        (BAD, replace(BAD, state="ready"), "MCP server 'bad' is ready"),
    ],
)
def test_people_are_told_what_they_should_know_of_a_server(
    before: ServerStatus | None, after: ServerStatus, words: str
) -> None:
    said = notice(before, after, TurnId("turn_1"))
    assert (said.message if said else "").startswith(words)
    assert (said is None) == (words == "")


async def test_the_servers_of_a_thread_are_listed_and_begin_to_start_when_asked_for() -> None:
    tools = Reporting(GOOD, BAD)
    async with with_servers(ScriptedModel([say("Done.")]), tools) as the_engine:
        none = await the_engine.execute(ListServers())
        assert isinstance(none, ServerList)
        assert [(server.name, server.state) for server in none.servers] == [
            ("good", "notStarted"),
            ("bad", "notStarted"),
        ]
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await the_engine.execute(ListServers(thread_id=thread.id))
        with anyio.fail_after(60):
            await watcher.next()  # the warning about the bad one
        there = await the_engine.execute(ListServers(thread_id=thread.id))
        assert isinstance(there, ServerList)
        assert there.servers == (GOOD, BAD)
        await whole_turn(the_engine, thread.id)
        assert tools.opened == 1


async def test_flint_answers_with_the_servers_of_the_thread_opened_last() -> None:
    async with (
        with_servers(ScriptedModel([say("Done.")]), Reporting(GOOD, BAD)) as the_engine,
        talking(the_engine) as talk,
    ):
        before = await talk.call("mcpServerStatus/list")
        assert [server["status"] for server in before["data"]] == ["notStarted", "notStarted"]
        thread = await talk.start()
        await talk.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
        await talk.until("turn/completed")
        found = (await talk.call("mcpServerStatus/list"))["data"]
    assert [(server["name"], server["status"], server["error"]) for server in found] == [
        ("good", "ready", None),
        ("bad", "failed", "it exited with code 3"),
    ]
    assert found[0]["tools"]["add"]["inputSchema"] == {"type": "object"}
    assert {"resources", "resourceTemplates", "authStatus"} <= found[0].keys()


async def test_what_is_wrong_with_the_configuration_is_told_once_for_each_thread() -> None:
    model = ScriptedModel([say("One.")], [say("Two.")], [say("Three.")])
    async with with_servers(model, Reporting(), warnings=("hames.toml is ignored",)) as the_engine:
        first, second = await created(the_engine), await created(the_engine)
        heard = [
            [event.message for event in events(await whole_turn(the_engine, thread.id)) if isinstance(event, Noticed)]
            for thread in (first, first, second)
        ]
    assert heard == [["hames.toml is ignored"], [], ["hames.toml is ignored"]]
