"""HTTP + SSE against the real server."""

from pathlib import Path

import anyio
import pytest

from hames.clock_and_ids import SystemClock
from hames.domain.approvals import RunCommand
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import ScriptedModel, call, fail, hang, say, think, wait_for
from server_support import HandClock, events, http, running
from support import ASKING, ECHO, PlainTool, created, echo, engine


@pytest.mark.spec(
    "core/http-server",
    "core/sse-get-events",
    "core/sse-content-type",
    "core/rest-prompt",
    "core/event-user",
    "core/event-text",
    "core/event-tool-call",
    "core/event-tool-result",
    "core/event-reasoning",
    "core/event-status",
    "core/event-status-states",
)
async def test_a_prompt_is_submitted_and_the_work_is_told(tmp_path: Path) -> None:
    model = ScriptedModel([think("Hm."), say("Let me see."), call("echo", text="x")], [say("Done.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        assert reader.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        answer = await client.post("/prompt", json={"content": "Hi"})
        assert (answer.status_code, answer.json()["ok"]) == (200, True)
        await reader.until("status", state="idle")
    told = [(event["type"], event.get("content") or event.get("name") or event.get("state")) for event in reader.events]
    assert told == [
        ("status", "thinking"),
        ("user", "Hi"),
        ("reasoning", "Hm."),
        ("text", "Let me see."),
        ("tool_call", "echo"),
        ("status", "running_tool"),
        ("tool_result", None),
        ("status", "thinking"),
        ("text", "Done."),
        ("status", "idle"),
    ]
    called, result = reader.events[4], reader.events[6]
    assert (called["id"], called["input"]) == (result["id"], {"text": "x"})
    assert (result["result"], result["isError"]) == ("echo {'text': 'x'}", False)
    assert all(isinstance(event["timestamp"], int) for event in reader.events)


@pytest.mark.spec("core/sse-real-time")
async def test_events_arrive_while_the_agent_still_works(tmp_path: Path) -> None:
    going = anyio.Event()
    model = ScriptedModel([say("Let me see."), call("echo", text="x")], [wait_for(going), say("Done.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        await client.post("/prompt", json={"content": "Hi"})
        await reader.until("text", content="Let me see.")
        going.set()  # the model says nothing more before this
        await reader.until("status", state="idle")


async def test_a_prompt_while_one_runs_is_a_conflict(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        assert (await client.post("/prompt", json={"content": "one"})).status_code == 200
        second = await client.post("/prompt", json={"content": "two"})
        assert second.status_code == 409
        assert "already runs" in second.json()["error"]["message"]


@pytest.mark.spec("core/rest-cancel")
async def test_a_cancel_stops_what_runs_and_is_safe_when_nothing_does(tmp_path: Path) -> None:
    model = ScriptedModel([say("Half", cut=True), hang()])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        assert (await client.post("/cancel")).json() == {"ok": True, "cancelled": False}
        async with events(client) as reader:
            await client.post("/prompt", json={"content": "go"})
            with anyio.fail_after(60):
                await model.hanging.wait()
            assert (await client.post("/cancel")).json() == {"ok": True, "cancelled": True}
            ended = await reader.until("status", state="idle")
        assert ended["outcome"] == "cancelled"
        assert [event["content"] for event in reader.events if event["type"] == "text"] == ["Half"]
        assert (await client.post("/cancel")).json()["cancelled"] is False


async def test_a_failed_turn_says_why(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel([fail("no credit")]), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        await client.post("/prompt", json={"content": "go"})
        ended = await reader.until("status", state="idle")
        assert (ended["outcome"], ended["message"]) == ("failed", "no credit")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"content": ""}', b'{"content": 1}', b"[]", b"{", b'{"content":"a","content":"b"}']
)
async def test_a_prompt_that_is_none_is_refused(tmp_path: Path, body: bytes) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        answer = await client.post("/prompt", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]


@pytest.mark.spec("core/sse-heartbeat")
async def test_a_heartbeat_comes_every_thirty_seconds(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        engine(ScriptedModel([say("Hi.")]), clock=clock) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        await clock.advance(29)
        await client.post("/prompt", json={"content": "Hi"})
        await reader.until("status", state="idle")  # a heartbeat would stand before it
        assert reader.comments == []
        await clock.advance(1)
        await reader.line()
        await reader.line()
        assert reader.comments == ["heartbeat"]
        await clock.advance(30)
        await reader.line()
        await reader.line()
        assert reader.comments == ["heartbeat", "heartbeat"]


@pytest.mark.parametrize("cut", range(11))
async def test_a_reader_that_comes_back_misses_nothing_and_hears_nothing_twice(tmp_path: Path, cut: int) -> None:
    model = ScriptedModel([say("One."), call("echo", text="x")], [say("Two.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = await created(house)
        path = f"/events?thread={thread.id}"
        async with events(client, path) as first:
            await client.post("/prompt", params={"thread": thread.id}, json={"content": "go"})
            for _ in range(min(cut, 9)):
                await first.next()
        async with events(client, path, **{"Last-Event-ID": first.last_id}) as second:
            if cut < 9:
                await second.until("status", state="idle")
        told = [event for event in first.events + second.events if event["type"] != "status"]
        assert [(event["type"], event.get("content")) for event in told] == [
            ("user", "go"),
            ("text", "One."),
            ("tool_call", None),
            ("tool_result", None),
            ("text", "Two."),
        ]
        async with events(client, f"{path}&after=0") as whole:
            await whole.until("status", state="idle")
        assert whole.events == first.events + second.events


async def test_a_reader_comes_back_to_another_server(tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))

    async with (
        engine(ScriptedModel([say("One.")]), clock=SystemClock(), store=store()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as first,
    ):
        await client.post("/prompt", json={"content": "go"})
        await first.until("user")
    async with (
        engine(ScriptedModel([say("Two.")]), clock=SystemClock(), store=store()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client, **{"Last-Event-ID": first.last_id}) as second,
    ):
        await second.until("status", state="idle")
        await client.post("/prompt", json={"content": "more"})
        await second.until("text", content="Two.")
    users = [event["content"] for event in first.events + second.events if event["type"] == "user"]
    assert users == ["go", "more"]


async def test_a_question_is_told_and_answered(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Thanks.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        await client.post("/prompt", json={"content": "go"})
        asked = await reader.until("approval")
        assert (asked["kind"], asked["tool"]) == ("tool", "asking")
        async with events(client) as late:
            assert (await late.next())["id"] == asked["id"]
        unknown = await client.post("/approvals/apr_none", json={"decision": "once"})
        assert unknown.status_code == 404
        bad = await client.post(f"/approvals/{asked['id']}", json={"decision": "yes"})
        assert bad.status_code == 400
        good = await client.post(f"/approvals/{asked['id']}", json={"decision": "once"})
        assert good.json() == {"ok": True}
        assert (await reader.until("approval_resolved"))["decision"] == "once"
        await reader.until("text", content="Thanks.")
        again = await client.post(f"/approvals/{asked['id']}", json={"decision": "reject"})
        assert again.status_code == 404


async def test_a_command_that_is_asked_about_is_shown_as_it_would_run(tmp_path: Path) -> None:
    command = RunCommand(command="rm -rf x", cwd="/w", unsandboxed=True, why="because")
    model = ScriptedModel([call("danger")], [say("ok")])
    tool = PlainTool("danger", echo, intent=command)
    async with (
        engine(model, tool, ECHO, ASKING, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        await client.post("/prompt", json={"content": "go"})
        asked = await reader.until("approval")
        assert (asked["command"], asked["cwd"], asked["unsandboxed"], asked["why"]) == (
            "rm -rf x",
            "/w",
            True,
            "because",
        )
        await client.post(f"/approvals/{asked['id']}", json={"decision": "reject", "note": "never"})
        result = await reader.until("tool_result")
        assert result["isError"] is True
        assert "never" in result["result"]


async def test_a_thread_that_is_not_there_is_not_watched(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        for name in ("ses_none", "../../etc/passwd", "x" * 5000):
            answer = await client.get("/events", params={"thread": name})
            assert answer.status_code == 404
            assert answer.headers["content-type"] == "application/json"


async def test_the_newest_thread_is_meant_where_none_is_named(tmp_path: Path) -> None:
    model = ScriptedModel([say("A.")], [say("B.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        first = (await client.post("/prompt", json={"content": "one"})).json()["threadId"]
        async with events(client, f"/events?thread={first}&after=0") as reader:
            await reader.until("status", state="idle")
        assert (await client.post("/prompt", json={"content": "two"})).json()["threadId"] == first


async def test_open_streams_end_with_a_word_when_the_server_stops(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        events(client) as reader,
    ):
        with anyio.fail_after(60):
            server.stop()
            with pytest.raises(StopAsyncIteration):
                while True:
                    await reader.line()
            await server.wait()
        assert reader.comments == ["the server is restarting"]
