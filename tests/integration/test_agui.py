"""`/agui` of a server: runs of AG-UI, their events in order, frontend tools, interrupts, and history told once."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.approvals import RunCommand
from hames.domain.commands import ListThreads, ReadThread, ThreadPage
from hames.domain.items import ToolCall
from hames.domain.state import ThreadState
from hames.server.app import Server
from hames.testing.fakes.model import ScriptedModel, call, fail, hang, say, think, wait_for
from server_support import following, http, running
from support import ECHO, PlainTool, echo, engine

RUN = PlainTool("run", echo, intent=RunCommand(command="make it", cwd="/"))
GREET = {"name": "greet", "description": "d", "parameters": {"type": "object", "properties": {"who": {}}}}
PAIRS = {
    "TEXT_MESSAGE": "messageId",
    "REASONING_MESSAGE": "messageId",
    "REASONING": "messageId",
    "TOOL_CALL": "toolCallId",
}
"""What is started and ended, and by which name."""


def check_order(events: list[dict[str, Any]]) -> None:
    """What the protocol demands of one run."""
    kinds = [one["type"] for one in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] in ("RUN_FINISHED", "RUN_ERROR")
    assert not {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"} & set(kinds[1:-1])
    started: set[tuple[str, str]] = set()
    for one in events[1:-1]:
        head, _, how = one["type"].rpartition("_")
        if head not in PAIRS:
            continue
        name = (head, one[PAIRS[head]])
        if how == "START":
            assert name not in started
            started.add(name)
        elif how in ("CONTENT", "ARGS"):
            assert name in started
            assert one["delta"]
        elif how == "END":
            started.remove(name)
    assert kinds[-1] == "RUN_ERROR" or not started


class House:
    def __init__(self, engine: Engine, server: Server, client: httpx2.AsyncClient, model: ScriptedModel) -> None:
        self.engine, self.server, self.client, self.model = engine, server, client, model
        self._runs = 0

    async def run(self, thread: str, messages: list[Any], **more: Any) -> list[dict[str, Any]]:
        self._runs += 1
        name = f"r{self._runs}"
        body = {"threadId": thread, "runId": name, "messages": messages, "protocolVersion": "1.0", **more}
        answer = await self.client.post("/agui", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]
        check_order(events)
        assert (events[0]["threadId"], events[0]["runId"]) == (thread, name)
        return events

    async def threads(self) -> list[ThreadState]:
        page = await self.engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        found = [await self.engine.execute(ReadThread(thread_id=one.id)) for one in page.threads]
        return [one for one in found if isinstance(one, ThreadState)]


@asynccontextmanager
async def serving(directory: Path, *script: Any) -> AsyncGenerator[House]:
    model = ScriptedModel(*script)
    async with (
        engine(model, ECHO, RUN, clock=SystemClock()) as here,
        running(here, directory / "data") as server,
        http(server) as client,
    ):
        with anyio.fail_after(60):
            yield House(here, server, client, model)


def user(text: str) -> dict[str, Any]:
    return {"id": f"m-{text}", "role": "user", "content": text}


def said(events: list[dict[str, Any]]) -> str:
    return "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")


async def test_a_run_is_told_in_order_and_the_next_one_tells_the_model_nothing_twice(tmp_path: Path) -> None:
    script = ([think("Hm."), say("Looking."), call("echo", text="x")], [say("One.")], [say("Two.")])
    async with serving(tmp_path, *script) as here:
        events = await here.run("mine", [user("first")], state={"a": 1}, context=[{"description": "d", "value": "v"}])
        kinds = [one["type"] for one in events]
        assert "REASONING_MESSAGE_CONTENT" in kinds
        assert said(events) == "Looking.One."
        assert {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}} in events
        result = next(one for one in events if one["type"] == "TOOL_CALL_RESULT")
        assert "x" in result["content"]
        assert events[-1]["outcome"] == {"type": "success"}
        history = [user("first"), {"id": "a", "role": "assistant", "content": "Looking.One."}, user("second")]
        assert said(await here.run("mine", history)) == "Two."
        (state,) = await here.threads()
        assert len(state.turns) == 2
        assert str(here.model.requests[-1]).count("first") == 1


async def test_a_message_that_is_sent_again_is_answered_from_the_thread(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")]) as here:
        await here.run("mine", [user("first")])
        events = await here.run("mine", [user("first")])
        snapshot = next(one for one in events if one["type"] == "MESSAGES_SNAPSHOT")
        assert [one["content"] for one in snapshot["messages"]] == ["first", "One."]
        assert len(here.model.requests) == 1


async def test_a_thread_of_ours_goes_on_by_its_id_and_its_history_is_sent(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")], [say("Two.")]) as here:
        await here.run("mine", [user("first")])
        (state,) = await here.threads()
        events = await here.run(state.id, [user("second")])
        snapshot = next(one for one in events if one["type"] == "MESSAGES_SNAPSHOT")
        assert [one["role"] for one in snapshot["messages"]] == ["user", "assistant", "user"]
        assert len(await here.threads()) == 1


async def test_a_server_that_remembers_nothing_finds_the_thread_and_a_foreign_past_is_told_once(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")], [say("Two.")], [say("Three.")]) as here:
        await here.run("mine", [user("first")])
        async with running(here.engine, tmp_path / "other") as other, http(other) as client:
            past = [user("first"), {"id": "a", "role": "assistant", "content": "One."}, user("second")]
            await client.post("/agui", json={"threadId": "mine", "runId": "r", "messages": past}, timeout=60)
        assert len(await here.threads()) == 1
        past = [user("elsewhere"), {"id": "a", "role": "assistant", "content": "Yes."}, user("go on")]
        await here.run("foreign", past)
        assert len(await here.threads()) == 2
        assert str(here.model.requests[-1]).count("elsewhere") == 1


async def test_frontend_tools_end_the_run_and_the_next_one_brings_their_results(tmp_path: Path) -> None:
    script = ([call("greet", who="Ada"), call("greet", who="Bob")], [say("Greeted.")])
    async with serving(tmp_path, *script) as here:
        events = await here.run("mine", [user("greet")], tools=[GREET])
        pending = events[-1]["outcome"]["pendingToolCallIds"]
        started = [one["toolCallId"] for one in events if one["type"] == "TOOL_CALL_START"]
        assert pending == started
        assert len(pending) == 2
        calls = [{"id": one, "type": "function", "function": {"name": "greet", "arguments": "{}"}} for one in pending]
        messages = [user("greet"), {"id": "a", "role": "assistant", "toolCalls": calls}]
        messages += [{"id": f"t{one}", "role": "tool", "toolCallId": one, "content": f"hi {one}"} for one in pending]
        assert said(await here.run("mine", messages, tools=[GREET])) == "Greeted."
        (state,) = await here.threads()
        (turn,) = state.turns
        results = [item.result.text for item in turn.items if isinstance(item, ToolCall) and item.result]
        assert results == [f"hi {one}" for one in pending]


@pytest.mark.parametrize(
    ("resume", "status"),
    [
        ({"status": "resolved", "payload": {"decision": "once"}}, "completed"),
        ({"status": "resolved", "payload": {"approved": True}}, "completed"),
        ({"status": "resolved", "payload": {"decision": "reject"}}, "declined"),
        ({"status": "resolved", "payload": "whatever"}, "declined"),
        ({"status": "cancelled"}, "declined"),
    ],
)
async def test_an_approval_is_an_interrupt_that_the_next_run_resumes(
    tmp_path: Path, resume: dict[str, Any], status: str
) -> None:
    async with serving(tmp_path, [call("run", text="x")], [say("Done.")]) as here:
        events = await here.run("mine", [user("go")])
        (asked,) = events[-1]["outcome"]["interrupts"]
        assert events[-1]["outcome"]["type"] == "interrupt"
        assert "make it" in asked["message"]
        assert asked["toolCallId"] in [one["toolCallId"] for one in events if one["type"] == "TOOL_CALL_START"]
        busy = await here.run("mine", [user("go"), user("something else")])
        assert busy[-1]["type"] == "RUN_ERROR"
        answer = [{"interruptId": asked["id"], **resume}]
        assert said(await here.run("mine", [user("go")], resume=answer)) == "Done."
        (state,) = await here.threads()
        tool = next(item for item in state.turns[0].items if isinstance(item, ToolCall))
        assert tool.status == status


async def test_failures_are_run_errors_and_nonsense_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, [fail()]) as here:
        assert (await here.run("mine", [user("go")]))[-1]["type"] == "RUN_ERROR"
        assert (await here.run("mine", []))[-1]["type"] == "RUN_ERROR"
        for body in ({}, {"threadId": "", "runId": "r", "messages": []}, {"threadId": 1, "runId": "r"}):
            assert (await here.client.post("/agui", json=body)).status_code == 400


async def test_runs_of_one_new_name_at_once_make_one_thread(tmp_path: Path) -> None:
    goes_on = anyio.Event()
    async with serving(tmp_path, [wait_for(goes_on), say("One.")], *[[say("More.")]] * 5) as here:
        ends: list[dict[str, Any]] = []

        async def run() -> None:
            ends.append((await here.run("mine", [user("go")]))[-1])
            if len(ends) == 5:
                goes_on.set()

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(run)
        assert [one["type"] for one in ends] == ["RUN_ERROR"] * 5 + ["RUN_FINISHED"]
        words = ("another run is about to start this thread", "the thread already runs a turn")
        assert all(one["message"] in words for one in ends[:5])
        (state,) = await here.threads()
        assert len(state.turns) == 1


async def test_a_run_whose_thread_cannot_be_made_leaves_its_name_to_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One.")]) as here:
        nothing = await here.run("mine", [])
        assert nothing[-1]["type"] == "RUN_ERROR"
        assert said(await here.run("mine", [user("go")])) == "One."


@pytest.mark.parametrize("role", ["robot", "", None, 3])
async def test_a_message_of_an_unknown_role_is_refused_by_name(tmp_path: Path, role: Any) -> None:
    async with serving(tmp_path) as here:
        body = {"threadId": "mine", "runId": "r", "messages": [{"id": "m", "role": role, "content": "go"}]}
        answer = await here.client.post("/agui", json=body)
        assert answer.status_code == 400
        assert f"no role is called {role!r}" in answer.json()["error"]["message"]


async def test_a_client_that_goes_interrupts_its_run_and_others_see_the_thread_live(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("one two three ", cut=True), hang()]) as here:
        body = {"threadId": "mine", "runId": "r", "messages": [user("go")]}
        async with here.client.stream("POST", "/agui", json=body, timeout=60) as response:
            thread = response.headers["x-hames-thread"]
            async with following(here.server, thread) as follower:
                await follower.until(lambda state: "one two" in json.dumps(state))
        (state,) = await here.threads()
        watcher = await here.engine.follow(state.id)
        while watcher.state.running is not None:
            watcher.state = (await watcher.next())[-1].after
        assert watcher.state.turns[-1].status == "interrupted"


async def test_a_client_that_names_no_version_gets_no_member_that_it_does_not_know(tmp_path: Path) -> None:
    script = ([call("greet", who="you")], [say("Greeted.")])
    async with serving(tmp_path, *script) as here:
        ask: Any = [{"id": "m1", "role": "user", "content": "greet"}]
        events = await here.run("mine", ask, tools=[GREET], protocolVersion=None)
        assert "outcome" not in events[-1]  # "success" would tell assistant-ui that nothing is left to do
        made = next(one for one in events if one["type"] == "TOOL_CALL_START")["toolCallId"]
        calls = [{"id": made, "type": "function", "function": {"name": "greet", "arguments": "{}"}}]
        ask += [
            {"id": "a1", "role": "assistant", "toolCalls": calls},
            {"id": "t1", "role": "tool", "toolCallId": made, "content": "hello"},
        ]
        events = await here.run("mine", ask, tools=[GREET], protocolVersion=None)
        assert said(events) == "Greeted."
        assert events[-1]["outcome"] == {"type": "success"}
