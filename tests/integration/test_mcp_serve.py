"""Hames as an MCP server, driven by the official SDK in both eras of the protocol, over lines and over HTTP."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from hames.cli import flags
from hames.cli.mcp import add_arguments
from hames.cli.parsing import parser_for
from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.approvals import RunCommand
from hames.domain.commands import ListThreads, ReadThread, ThreadPage
from hames.domain.ids import ThreadId
from hames.domain.state import ThreadState
from hames.protocols.mcp.session import McpServerSession
from hames.stdio.connection import Connection, read_lines
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import events, following, http, running
from support import ECHO, PlainTool, echo, engine

ERAS = ("legacy", "2026-07-28")
RUN = PlainTool("run", echo, intent=RunCommand(command="make it", cwd="/"))


class Lines:
    """An outbox that hands messages to the SDK."""

    def __init__(self, received: Any) -> None:
        self._received = received

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            self._received.send_nowait(SessionMessage(message))

    async def room(self) -> None:
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def transport(house: Engine) -> AsyncGenerator[Any]:
    """What `stdio_client` gives, without the process."""
    received, read = anyio.create_memory_object_stream[Any](10_000)
    write, written = anyio.create_memory_object_stream[Any](100)
    to_server, chunks = anyio.create_memory_object_stream[bytes](100)

    async def forward() -> None:
        async for one in written:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            await to_server.send(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        connection = Connection(house, McpServerSession(house.rules.defaults), Lines(received), tasks)
        tasks.start_soon(forward)
        tasks.start_soon(connection.serve, read_lines(chunks))
        yield read, write
        tasks.cancel_scope.cancel()


def said(result: Any) -> dict[str, Any]:
    assert result.structured_content is not None, result
    return result.structured_content


async def state_of(house: Engine, thread_id: str) -> ThreadState:
    state = await house.execute(ReadThread(thread_id=ThreadId(thread_id)))
    assert isinstance(state, ThreadState)
    return state


@pytest.mark.parametrize(
    ("words", "cwd"), [("serve", "."), ("serve --cwd below", "below"), ("--cwd below serve", "below")]
)
def test_the_workspace_is_named_before_or_after_serve_or_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, cwd: str
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    parser = parser_for("hames mcp", None)
    add_arguments(parser)
    assert flags.options(parser.parse_args(words.split())).cwd == tmp_path / cwd


@pytest.mark.parametrize("mode", [*ERAS, "auto"])
async def test_a_thread_is_started_and_gone_on_with(mode: str) -> None:
    progress: list[str] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        progress.append(message or "")

    model = ScriptedModel([say("Looking. "), call("echo", text="hello")], [say("One.")], [say("Two.")])
    async with engine(model, ECHO) as house:
        with anyio.fail_after(60):
            async with Client(transport(house), mode=mode) as client:
                listed = await client.list_tools()
                assert {"hames", "hames-reply", "hames-status", "hames-answer", "hames-interrupt"} <= {
                    tool.name for tool in listed.tools
                }
                first = await client.call_tool("hames", {"prompt": "go"}, progress_callback=hear)
                assert (said(first)["status"], said(first)["content"]) == ("completed", "One.")
                thread_id = said(first)["threadId"]
                again = await client.call_tool("hames-reply", {"threadId": thread_id, "prompt": "more"})
                assert said(again) == {"threadId": thread_id, "status": "completed", "content": "Two."}
                status = await client.call_tool("hames-status", {"threadId": thread_id})
                assert said(status)["status"] == "completed"
                threads = await client.list_resources()
                assert [str(one.uri) for one in threads.resources] == [f"hames://threads/{thread_id}"]
                read = await client.read_resource(f"hames://threads/{thread_id}")
                assert "Two." in getattr(read.contents[0], "text", "")
        assert "".join(progress).startswith("Looking. ")
        assert any(line.startswith("echo") for line in progress)
        assert (await state_of(house, thread_id)).turns[0].by is not None


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("decision", ["once", "reject"])
async def test_an_approval_is_an_elicitation(mode: str, decision: str) -> None:
    asked: list[Any] = []

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"decision": decision})

    async with engine(ScriptedModel([call("run", text="make it")], [say("Done.")]), RUN) as house:
        with anyio.fail_after(60):
            async with Client(transport(house), mode=mode, elicitation_callback=answer) as client:
                done = await client.call_tool("hames", {"prompt": "go"})
        assert said(done)["status"] == "completed"
        assert "make it" in asked[0].message
        state = await state_of(house, said(done)["threadId"])
        tool = next(item for item in state.turns[0].items if item.step and hasattr(item, "call_id"))
        assert tool.status == ("completed" if decision == "once" else "declined")


@pytest.mark.parametrize("mode", ERAS)
async def test_without_elicitation_the_result_names_the_approval_and_a_tool_answers_it(mode: str) -> None:
    async with engine(ScriptedModel([call("run", text="make it")], [say("Done.")]), RUN) as house:
        with anyio.fail_after(60):
            async with Client(transport(house), mode=mode) as client:
                result = said(await client.call_tool("hames", {"prompt": "go"}))
                assert result["status"] == "approval_needed"
                (approval,) = result["approvals"]
                assert approval["command"] == "make it"
                given = {"threadId": result["threadId"], "approvalId": approval["id"], "decision": "once"}
                done = await client.call_tool("hames-answer", given)
                assert said(done)["content"] == "Done."
                late = await client.call_tool("hames-answer", given)
                assert late.is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cancelled_call_interrupts_its_turn_and_one_that_need_not_wait_returns(mode: str) -> None:
    async with engine(ScriptedModel([hang()], [hang()]), ECHO) as house:
        with anyio.fail_after(60):
            async with Client(transport(house), mode=mode) as client:
                running_ = said(await client.call_tool("hames", {"prompt": "go", "wait-seconds": 0}))
                assert running_["status"] == "running"
                busy = await client.call_tool("hames-reply", {"threadId": running_["threadId"], "prompt": "more"})
                assert busy.is_error
                stopped = await client.call_tool("hames-interrupt", {"threadId": running_["threadId"]})
                assert said(stopped)["status"] == "interrupted"
                heard = anyio.Event()
                async with anyio.create_task_group() as tasks:

                    async def start() -> None:
                        await client.call_tool("hames", {"prompt": "hang"})

                    tasks.start_soon(start)
                    while True:
                        page = await house.execute(ListThreads())
                        assert isinstance(page, ThreadPage)
                        other = [one.id for one in page.threads if one.id != running_["threadId"]]
                        if other and (await state_of(house, other[0])).running is not None:
                            break
                        await anyio.lowlevel.checkpoint()
                    heard.set()
                    tasks.cancel_scope.cancel()
                watcher = await house.follow(ThreadId(other[0]))
                while (state := watcher.state).running is not None:
                    changes = await watcher.next()
                    watcher.state = changes[-1].after
                assert state.turns[-1].status == "interrupted"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"prompt": " "},
        {"prompt": "x", "nonsense": 1},
        {"prompt": "x", "sandbox": "danger-full-access"},
        {"prompt": "x", "approval-policy": "sometimes"},
        {"prompt": "x", "approval-policy": "never"},
        {"prompt": "x", "cwd": "/"},
        {"prompt": "x", "model": "no/such-model"},
        {"prompt": "x", "wait-seconds": -1},
    ],
)
async def test_what_a_model_may_not_ask_for_is_refused_in_words(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with engine(ScriptedModel([say("never")]), ECHO, cwd=tmp_path) as house:
        with anyio.fail_after(60):
            async with Client(transport(house), mode="legacy") as client:
                refused = await client.call_tool("hames", arguments)
        assert refused.is_error
        assert getattr(refused.content[0], "text", "")
        page = await house.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert not page.threads


@pytest.mark.parametrize("mode", ERAS)
async def test_over_http_one_thread_is_seen_live_over_sse_and_sync(tmp_path: Path, mode: str) -> None:
    async def answer(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"decision": "once"})

    script = ([call("run", text="make it")], [say("Done.")], [say("More.")])
    async with (
        engine(ScriptedModel(*script), RUN, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as plain,
    ):
        transport_ = streamable_http_client(f"{server.url}/mcp")
        with anyio.fail_after(60):
            async with Client(transport_, mode=mode, elicitation_callback=answer) as client:
                done = said(await client.call_tool("hames", {"prompt": "go"}, progress_callback=_ignore))
                assert (done["status"], done["content"]) == ("completed", "Done.")
                thread = done["threadId"]
                async with (
                    events(plain, f"/events?thread={thread}") as stream,
                    following(server, thread) as follower,
                ):
                    await client.call_tool("hames-reply", {"threadId": thread, "prompt": "more"})
                    await follower.until(lambda state: "More." in json.dumps(state))
                    await stream.until("text", content="More.")


async def _ignore(_progress: float, _total: float | None, _message: str | None) -> None:
    pass


async def test_http_refuses_strangers_and_other_sites(tmp_path: Path) -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}},
    }
    async with (
        engine(ScriptedModel(), ECHO, clock=SystemClock()) as house,
        running(house, tmp_path / "data", token="t" * 32) as server,
        http(server) as client,
    ):
        assert (await client.post("/mcp", json=initialize)).status_code == 401
        key = {"authorization": f"Bearer {'t' * 32}"}
        foreign = await client.post("/mcp", json=initialize, headers={**key, "origin": "https://evil.example"})
        assert foreign.status_code == 403
        opened = await client.post("/mcp", json=initialize, headers=key)
        assert opened.status_code == 200
        assert opened.json()["result"]["serverInfo"]["name"] == "hames"
        session = {**key, "mcp-session-id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await client.post("/mcp", json=ping, headers=session)).json()["result"] == {}
        assert (await client.post("/mcp", json=ping, headers=key)).status_code == 400
        assert (await client.post("/mcp", json=[ping], headers=session)).status_code == 400
        assert (await client.get("/mcp", headers=session)).status_code == 406
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post("/mcp", json=note, headers=session)).status_code == 202
        assert (await client.delete("/mcp", headers=session)).status_code == 204
        assert (await client.post("/mcp", json=ping, headers=session)).status_code == 404


async def test_a_header_that_contradicts_the_body_is_refused(tmp_path: Path) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": meta}}
    async with (
        engine(ScriptedModel(), ECHO, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as it,
    ):
        headers = {"mcp-protocol-version": "2026-07-28"}
        good: httpx2.Response = await it.post("/mcp", json=message, headers={**headers, "mcp-method": "tools/list"})
        assert (good.status_code, good.json()["id"]) == (200, 7)
        bad = await it.post("/mcp", json=message, headers={**headers, "mcp-method": "tools/call"})
        assert (bad.status_code, bad.json()["error"]["code"]) == (400, -32020)
        unknown = {**message, "method": "no/such"}
        assert (await it.post("/mcp", json=unknown, headers=headers)).status_code == 404
        other = {**meta, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
        newer = await it.post("/mcp", json={**message, "params": {"_meta": other}})
        assert newer.json()["error"]["data"]["supported"][-1] == "2026-07-28"
