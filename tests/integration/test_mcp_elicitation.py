"""An MCP server asks the person in the middle of a call: real servers, real protocols, a recorded answer or none."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from flint_support import Box, Talk, Wire, talking, wired
from hames.app import open_engine
from hames.client.appserver.client import AppServerClient
from hames.client.appserver.events import ApprovalAsked, TurnCompleted
from hames.client.appserver.link import Filled
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.approvals import Elicit
from hames.domain.commands import CreateThread, InterruptTurn, ResolveApproval
from hames.domain.errors import InvalidCommand
from hames.domain.events import ApprovalRequested, ApprovalResolved, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import McpToolCall
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState
from hames.ports import Tools
from hames.protocols.bootstrap.session import BootstrapSession
from hames.protocols.flint.messages import ApprovalWord, ElicitationParams
from hames.stdio.connection import Connection, read_lines
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from hames.tools.mcp.servers import McpServerSettings, McpTools
from server_support import events, following, http, running
from support import TheseTools, started

HERE = Path(__file__).parent
FILLED = {"name": "Ada", "size": "l", "count": 2}


@asynccontextmanager
async def asking(
    tmp_path: Path, *tools: str, policy: str = "unlessTrusted", server: str = "mcp_elicits.py", own: Tools | None = None
) -> AsyncGenerator[Engine]:
    """An engine whose model calls these tools of the server, one after the other."""
    (tmp_path / "work").mkdir(exist_ok=True)
    (tmp_path / "config.toml").write_text(
        f'approval_policy = "{policy}"\n[mcp_servers.shop]\ncommand = "{sys.executable}"\nargs = ["{HERE / server}"]\n'
    )
    environment = {"HOME": str(tmp_path), "HAMES_CONFIG": str(tmp_path / "config.toml"), "PATH": os.environ["PATH"]}
    options = load({"cwd": str(tmp_path / "work")}, environment)
    model = ScriptedModel(*([call(f"mcp__shop__{tool}")] for tool in tools), [say("Done.")])
    async with open_engine(options, models=OneModel(model), tools=own) as engine:
        yield engine


async def thread_of(engine: Engine) -> ThreadId:
    made = await engine.execute(CreateThread())
    assert isinstance(made, ThreadState)
    return made.id


Answers = Callable[[Engine, ApprovalRequested], Awaitable[None]]


async def turn(engine: Engine, thread_id: ThreadId, answers: Answers) -> list[Change]:
    """A whole turn. Calls are approved; what the server asks is left to `answers`."""
    watcher = await engine.watch(thread_id)
    await started(engine, thread_id)
    heard: list[Change] = []
    with anyio.fail_after(60):
        while not heard or not isinstance(heard[-1].record.event, TurnEnded):
            for change in await watcher.next():
                heard.append(change)
                event = change.record.event
                if isinstance(event, ApprovalRequested):
                    if isinstance(event.approval.intent, Elicit):
                        await answers(engine, event)
                    else:
                        await engine.execute(ResolveApproval(approval_id=event.approval.id, decision="once"))
    return heard


def told(heard: list[Change]) -> list[Json]:
    """What the servers heard: the last call's answers, by question."""
    return json.loads(result(heard))


def result(heard: list[Change]) -> str:
    item = mcp_calls(heard)[-1]
    assert item.result is not None
    return item.result.text


def mcp_calls(heard: list[Change]) -> list[McpToolCall]:
    return [item for item in heard[-1].after.turns[-1].items if isinstance(item, McpToolCall)]


def resolutions(heard: list[Change]) -> list[ApprovalResolved]:
    """What was recorded about the server's questions."""
    asked = [c.record.event.approval for c in heard if isinstance(c.record.event, ApprovalRequested)]
    ours = {approval.id for approval in asked if isinstance(approval.intent, Elicit)}
    recorded = [change.record.event for change in heard]
    return [event for event in recorded if isinstance(event, ApprovalResolved) and event.approval_id in ours]


def deciding(decision: str, content: Json = None) -> Answers:
    async def decide(engine: Engine, event: ApprovalRequested) -> None:
        await engine.execute(
            ResolveApproval(approval_id=event.approval.id, decision=decision, content=content)  # type: ignore[arg-type]
        )

    return decide


@pytest.mark.parametrize(
    ("tool", "decision", "content", "heard_by_the_server"),
    [
        ("form", "once", FILLED, {"action": "accept", "content": FILLED}),
        ("form", "reject", None, {"action": "decline"}),
        ("form", "void", None, {"action": "cancel"}),
        ("confirm", "once", None, {"action": "accept", "content": {}}),
        ("confirm", "always", None, {"action": "accept", "content": {}}),
        ("confirm", "reject", None, {"action": "decline"}),
        ("visit", "once", None, {"action": "accept"}),
        ("visit", "reject", None, {"action": "decline"}),
    ],
)
async def test_a_server_hears_what_the_person_said_and_so_does_the_log(
    tmp_path: Path, tool: str, decision: str, content: Json, heard_by_the_server: Json
) -> None:
    async with asking(tmp_path, tool) as engine:
        heard = await turn(engine, await thread_of(engine), deciding(decision, content))
    assert told(heard) == [heard_by_the_server]
    (resolved,) = resolutions(heard)
    assert (resolved.decision, resolved.grant) == (decision, None)
    assert resolved.content == heard_by_the_server.get("content")
    assert heard[-1].after.turns[-1].status == "completed"
    unanswered = "the question was left unanswered" in mcp_calls(heard)[-1].output
    assert unanswered == (decision == "void")


async def test_a_form_that_does_not_fit_is_refused_in_a_sentence_and_can_be_tried_again(tmp_path: Path) -> None:
    refused: list[str] = []

    async def clumsy(engine: Engine, event: ApprovalRequested) -> None:
        name = event.approval.id
        for content in (None, {}, {"name": 3}, {"name": "A", "size": "xl"}, {"name": "A", "siez": "m"}, [1]):
            with pytest.raises(InvalidCommand) as refusal:
                await engine.execute(ResolveApproval(approval_id=name, decision="once", content=content))
            refused.append(str(refusal.value).removeprefix("the form is not valid: "))
        await engine.execute(ResolveApproval(approval_id=name, decision="once", content={"name": "Ada"}))

    async with asking(tmp_path, "form") as engine:
        heard = await turn(engine, await thread_of(engine), clumsy)
    assert refused == [
        "`name` is missing",
        "`name` is missing",
        "`name` must be a string, not 3",
        "`size` must be 's', 'm' or 'l', not 'xl'",
        "`siez` is not known; did you mean `size`?",
        "the content of a form must be an object",
    ]
    assert told(heard) == [{"action": "accept", "content": {"name": "Ada"}}]
    assert len(resolutions(heard)) == 1


async def test_a_newer_server_asks_by_the_way_and_is_called_again_with_the_answer(tmp_path: Path) -> None:
    async with asking(tmp_path, "book", server="mcp_server.py") as engine:
        heard = await turn(engine, await thread_of(engine), deciding("once", {"guests": 3}))
    assert result(heard) == "a table for 3"
    assert [resolved.content for resolved in resolutions(heard)] == [{"guests": 3}]


async def test_questions_that_come_together_are_asked_one_after_the_other(tmp_path: Path) -> None:
    most = 0

    async def count(engine: Engine, event: ApprovalRequested) -> None:
        nonlocal most
        await anyio.wait_all_tasks_blocked()
        state = engine.loaded(thread)
        assert state is not None
        most = max(most, len(state.approvals))
        decision = "once" if "first" in event.approval.reason else "reject"
        await deciding(decision)(engine, event)

    async with asking(tmp_path, "two") as engine:
        thread = await thread_of(engine)
        heard = await turn(engine, thread, count)
    assert told(heard) == [{"action": "accept", "content": {}}, {"action": "decline"}]
    assert most == 1


@pytest.mark.parametrize("tool", ["given_up", "returned"])
async def test_a_question_is_void_when_the_server_does_not_wait_for_it(tmp_path: Path, tool: str) -> None:
    async def leave_the_first(engine: Engine, event: ApprovalRequested) -> None:
        if "Still there?" not in event.approval.reason:
            await deciding("once")(engine, event)
            return
        (tmp_path / "work" / "go").touch()
        while (state := engine.loaded(thread)) and event.approval in state.approvals:
            await anyio.sleep(0.01)
        (tmp_path / "work" / "on").touch()

    async with asking(tmp_path, tool, "confirm") as engine:
        thread = await thread_of(engine)
        heard = await turn(engine, thread, leave_the_first)
    assert [resolved.decision for resolved in resolutions(heard)] == ["void", "once"]
    assert told(heard) == [{"action": "accept", "content": {}}]
    assert [item.status for item in mcp_calls(heard)] == ["completed", "completed"]


async def test_an_interrupted_turn_leaves_no_question_and_the_server_stays_useful(tmp_path: Path) -> None:
    async def interrupt(engine: Engine, event: ApprovalRequested) -> None:
        await engine.execute(InterruptTurn(thread_id=thread))

    async with asking(tmp_path, "form", "confirm") as engine:
        thread = await thread_of(engine)
        heard = await turn(engine, thread, interrupt)
        assert [resolved.decision for resolved in resolutions(heard)] == ["void"]
        assert heard[-1].after.turns[-1].status == "interrupted"
        assert heard[-1].after.approvals == ()
        again = await turn(engine, thread, deciding("once"))
    assert told(again) == [{"action": "accept", "content": {}}]


async def test_under_never_nobody_is_asked_and_the_server_hears_a_no(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(tmp_path, "confirm", policy="never") as engine:
        heard = await turn(engine, await thread_of(engine), deciding("once"))
    assert told(heard) == [{"action": "decline"}]
    assert resolutions(heard) == []
    assert "nobody is asked" in mcp_calls(heard)[0].output
    assert "elicitation.declined" in caplog.messages


async def test_what_is_too_long_to_be_judged_is_declined_unseen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(tmp_path, "huge") as engine:
        heard = await turn(engine, await thread_of(engine), deciding("once"))
    assert told(heard) == [{"action": "decline"}]
    assert resolutions(heard) == []
    assert "mcp.elicitation_declined" in caplog.messages


async def test_the_time_a_person_takes_is_not_the_servers(tmp_path: Path) -> None:
    async def slowly(engine: Engine, event: ApprovalRequested) -> None:
        await anyio.sleep(1.0)  # longer than a call may take
        await deciding("once")(engine, event)

    shop = McpServerSettings(name="shop", command=sys.executable, args=(str(HERE / "mcp_elicits.py"),))
    own = McpTools(TheseTools(()), [shop], call_seconds=0.7)
    async with asking(tmp_path, "confirm", own=own) as engine:
        heard = await turn(engine, await thread_of(engine), slowly)
    assert told(heard) == [{"action": "accept", "content": {}}]


async def test_a_question_that_nobody_answered_before_a_crash_is_void_after_it(tmp_path: Path) -> None:
    """The log of a process that died is one without the last words."""
    async with asking(tmp_path, "confirm") as engine:
        thread = await thread_of(engine)

        async def crash(engine: Engine, event: ApprovalRequested) -> None:
            for log in (tmp_path / "work" / ".harness" / "threads" / thread).iterdir():
                (kept / log.name).write_bytes(log.read_bytes())
            await deciding("reject")(engine, event)

        kept = tmp_path / "kept"
        kept.mkdir()
        await turn(engine, thread, crash)
    for log in kept.iterdir():
        (tmp_path / "work" / ".harness" / "threads" / thread / log.name).write_bytes(log.read_bytes())
    async with asking(tmp_path) as engine:
        await engine.watch(thread)
        state = engine.loaded(thread)
        history = await engine.history(thread)
    assert state is not None
    assert state.approvals == ()
    assert [resolved.decision for resolved in resolutions(list(history))] == ["void"]
    assert [item.status for item in state.turns[-1].items if item.id == resolutions(list(history))[0].item_id] == [
        "interrupted"
    ]


# -- through the protocols


async def asked_over_flint(talk: Talk, thread: str) -> dict[str, Any]:
    """The question, once the call itself is approved."""
    await talk.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
    approval = await talk.until("item/mcpToolCall/requestApproval")
    await talk.say({"id": approval["id"], "result": {"decision": "accept"}})
    return await talk.until("mcpServer/elicitation/request")


async def answered_over_flint(talk: Talk, asked: dict[str, Any], result: Json) -> tuple[Json, dict[str, Any]]:
    """What the server heard, and the item."""
    await talk.say({"id": asked["id"], "result": result})
    done = await talk.until(lambda message: is_mcp(message, "item/completed"))
    await talk.until("turn/completed")
    item = done["params"]["item"]
    return json.loads(item["result"]["content"][0]["text"])[0], item


def is_mcp(message: dict[str, Any], method: str) -> bool:
    return message.get("method") == method and message["params"]["item"]["type"] == "mcpToolCall"


@pytest.mark.parametrize(
    ("tool", "answer", "heard_by_the_server"),
    [
        ("form", {"action": "accept", "content": FILLED}, {"action": "accept", "content": FILLED}),
        ("form", {"action": "decline"}, {"action": "decline"}),
        ("form", {"action": "cancel"}, {"action": "cancel"}),
        ("form", {"decision": "accept"}, {"action": "decline"}),
        ("confirm", {"action": "accept"}, {"action": "accept", "content": {}}),
        ("visit", {"action": "accept"}, {"action": "accept"}),
    ],
)
async def test_a_question_is_answered_over_flint(
    tmp_path: Path, tool: str, answer: Json, heard_by_the_server: Json
) -> None:
    async with asking(tmp_path, tool) as engine, talking(engine) as talk:
        thread = await talk.start()
        asked = await asked_over_flint(talk, thread)
        params = asked["params"]
        assert params["serverName"] == "shop"
        assert params["availableDecisions"] == ["accept", "decline", "cancel"]
        match tool:
            case "form":
                assert (params["mode"], params["message"]) == ("form", "Who is it for?")
                assert params["requestedSchema"]["required"] == ["name"]
                assert "name: text, required" in params["reason"]
            case "visit":
                assert (params["mode"], params["url"]) == ("url", "https://example.com/in?a=1")
                assert "https://example.com/in?a=1" in params["reason"]
        server_heard, _ = await answered_over_flint(talk, asked, answer)
    assert server_heard == heard_by_the_server


async def test_over_flint_a_form_that_does_not_fit_is_a_decline_that_says_why(tmp_path: Path) -> None:
    async with asking(tmp_path, "form") as engine, talking(engine) as talk:
        asked = await asked_over_flint(talk, await talk.start())
        server_heard, _ = await answered_over_flint(talk, asked, {"action": "accept", "content": {"size": "m"}})
        (delta,) = talk.params("item/mcpToolCall/outputDelta")
    assert server_heard == {"action": "decline"}
    assert delta["delta"] == "declined: the form is not valid: `name` is missing\n"


@pytest.mark.parametrize(
    ("tool", "decision", "heard_by_the_server"),
    [
        ("form", Filled(content=FILLED), {"action": "accept", "content": FILLED}),
        ("form", "decline", {"action": "decline"}),
        ("confirm", "acceptForSession", {"action": "accept", "content": {}}),
    ],
)
async def test_a_program_answers_with_what_its_callback_returns(
    tmp_path: Path, tool: str, decision: ApprovalWord | Filled, heard_by_the_server: Json
) -> None:
    async def decide(asked: ApprovalAsked) -> ApprovalWord | Filled:
        return decision if isinstance(asked.params, ElicitationParams) else "accept"

    async with asking(tmp_path, tool) as engine, wired(engine) as wire:
        async with AppServerClient.connect(wire, on_approval=decide) as client:
            opened = await client.start_thread()
            with client.events(opened.thread.id) as heard, anyio.fail_after(60):
                await client.start_turn(opened.thread.id, "go")
                async for event in heard:
                    if isinstance(event, TurnCompleted):
                        break
        history = list(await engine.history(ThreadId(opened.thread.id)))
    assert told(history) == [heard_by_the_server]


@asynccontextmanager
async def bootstrap(engine: Engine) -> AsyncGenerator[Talk]:
    up_send, up_receive = anyio.create_memory_object_stream[bytes](float("inf"))
    down_send, down_receive = anyio.create_memory_object_stream[bytes](float("inf"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Connection(engine, BootstrapSession(), Box(down_send), tasks).serve, read_lines(up_receive))
        yield Talk(Wire(up_send, down_receive))
        tasks.cancel_scope.cancel()
    for stream in (up_send, up_receive, down_send, down_receive):
        stream.close()


async def test_a_question_is_answered_over_bootstrap(tmp_path: Path) -> None:
    async with asking(tmp_path, "form") as engine, bootstrap(engine) as talk:

        async def request(number: int, method: str, **params: Json) -> dict[str, Any]:
            await talk.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await talk.until(lambda message: message.get("id") == number)

        made = await request(1, "thread.create")
        thread = made["result"]["thread"]["threadId"]
        await request(2, "turn.start", threadId=thread, input=[{"type": "text", "text": "go"}])
        first = await talk.until("approval.requested")
        await request(3, "approval.respond", requestId=first["params"]["requestId"], decision="once")
        asked = (await talk.until("approval.requested"))["params"]
        assert asked["tool"] == "elicitation"
        assert (asked["input"]["server"], asked["input"]["message"]) == ("shop", "Who is it for?")
        assert asked["input"]["requestedSchema"]["required"] == ["name"]
        name = asked["requestId"]
        refusal = await request(4, "approval.respond", requestId=name, decision="once")
        assert refusal["error"] == {"code": -32602, "message": "the form is not valid: `name` is missing"}
        good = await request(5, "approval.respond", requestId=name, decision="once", content=FILLED)
        assert good["result"] == {"ok": True}
        await talk.until("turn.completed")
        state = engine.loaded(ThreadId(thread))
    assert state is not None
    (item,) = [item for item in state.turns[-1].items if isinstance(item, McpToolCall)]
    assert item.result is not None
    assert json.loads(item.result.text) == [{"action": "accept", "content": FILLED}]


async def test_a_question_is_answered_over_http(tmp_path: Path) -> None:
    async with asking(tmp_path, "form", "visit") as engine:
        thread = await thread_of(engine)
        async with (
            running(engine, tmp_path / "data") as server,
            http(server) as client,
            events(client, f"/events?thread={thread}") as stream,
        ):
            assert (await client.post(f"/prompt?thread={thread}", json={"content": "go"})).is_success
            assert (await answer(client, await stream.until("approval"), decision="once")).is_success
            asked = await stream.until("approval")
            assert (asked["kind"], asked["server"], asked["input"]["mode"]) == ("elicitation", "shop", "form")
            assert asked["input"]["requestedSchema"]["required"] == ["name"]
            refused = await answer(client, asked, decision="once", content={"name": "Ada", "count": 0})
            assert refused.status_code == 400
            assert "`count` must be at least 1, not 0" in refused.text
            assert (await answer(client, asked, decision="once", content=FILLED)).is_success
            form = await stream.until("tool_result")
            assert json.loads(form["result"]) == [{"action": "accept", "content": FILLED}]
            assert (await answer(client, await stream.until("approval"), decision="once")).is_success
            visit = await stream.until("approval")
            assert visit["input"]["url"] == "https://example.com/in?a=1"
            assert (await answer(client, visit, decision="reject")).is_success
            declined = await stream.until("tool_result")
            assert json.loads(declined["result"]) == [{"action": "decline"}]


async def answer(client: httpx2.AsyncClient, asked: Json, **body: Json) -> httpx2.Response:
    return await client.post(f"/approvals/{asked['id']}", json=body)


async def test_a_question_is_answered_over_sync(tmp_path: Path) -> None:
    async with asking(tmp_path, "form") as engine:
        thread = await thread_of(engine)
        async with running(engine, tmp_path / "data") as server, following(server, thread) as page:
            await page.send({"type": "submit", "prompt": "go"})
            state = await page.until(lambda state: state["approvals"])
            await page.send({"type": "approve", "id": state["approvals"][0]["id"], "decision": "once"})
            state = await page.until(
                lambda state: any(approval["kind"] == "elicitation" for approval in state["approvals"])
            )
            (asked,) = state["approvals"]
            assert (asked["server"], asked["input"]["message"]) == ("shop", "Who is it for?")
            await page.send({"type": "approve", "id": asked["id"], "decision": "once"})
            while not page.errors:
                await page.hear()
            assert "`name` is missing" in page.errors[0]["message"]
            await page.send({"type": "approve", "id": asked["id"], "decision": "once", "content": FILLED})
            await page.until(lambda state: state["status"] == "idle")
        history = list(await engine.history(thread))
    assert told(history) == [{"action": "accept", "content": FILLED}]
