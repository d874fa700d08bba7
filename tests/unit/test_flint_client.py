"""`AppServerClient`, against a real connection on a real engine."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve

from flint_support import Wire, wired
from hames.client.appserver.blocking import SyncAppServerClient
from hames.client.appserver.client import AppServerClient, text_of
from hames.client.appserver.events import (
    AgentEvent,
    ApprovalAsked,
    ApprovalSettled,
    Closed,
    ItemCompleted,
    ItemDelta,
    ItemStarted,
    PlanUpdated,
    SettingsChanged,
    ThreadArchived,
    ThreadRenamed,
    ThreadStarted,
    TurnCompleted,
    TurnStarted,
    Unknown,
    UsageUpdated,
    read_event,
)
from hames.client.appserver.link import AppServerError, ConnectionClosed, OnApproval
from hames.client.appserver.websocket import websocket
from hames.core.engine import Engine
from hames.domain.options import Choice, Selector
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import ToolCallItem, UnknownItem, UserMessageItem
from hames.testing.fakes.model import OneModel, ScriptedModel, call, hang, notice, say, think
from support import ASKING, ECHO, engine

EFFORT = Selector(
    id="reasoning_effort",
    name="Effort",
    choices=(Choice(id="low", name="Low"), Choice(id="high", name="High")),
    default="low",
)


@asynccontextmanager
async def connected(the_engine: Engine, on_approval: OnApproval | None = None) -> AsyncGenerator[AppServerClient]:
    async with wired(the_engine) as wire, AppServerClient.connect(wire, on_approval=on_approval) as client:
        yield client


async def until(events: Any, kind: type[AgentEvent]) -> list[AgentEvent]:
    seen: list[AgentEvent] = []
    with anyio.fail_after(60):
        async for event in events:
            seen.append(event)
            if isinstance(event, kind):
                return seen
    raise AssertionError(f"no {kind.__name__} in {seen}")


@pytest.mark.spec("flint/plan-sdk-events")
async def test_a_turn_arrives_as_typed_events_in_order() -> None:
    model = ScriptedModel([think("hm"), say("Let me see."), call("echo", x=1)], [say("Done.")])
    async with engine(model, ECHO) as the_engine, connected(the_engine) as client:
        assert client.agent.agent_info.name == "hames"
        with client.events() as events:
            thread = (await client.start_thread()).thread
            await client.start_turn(thread.id, "go", meta={"trace": 1})
            seen = await until(events, TurnCompleted)
    kinds = [type(event).__name__ for event in seen if type(event).__name__ != "StatusChanged"]
    assert kinds == [
        "ThreadStarted",
        "TurnStarted",
        *("ItemStarted", "ItemCompleted"),
        *("ItemStarted", "ItemDelta", "ItemDelta", "ItemCompleted"),
        *("ItemStarted", "ItemDelta", "ItemDelta", "ItemCompleted"),
        "UsageUpdated",
        *("ItemStarted", "ItemDelta", "ItemCompleted"),
        *("ItemStarted", "ItemDelta", "ItemDelta", "ItemCompleted"),
        "UsageUpdated",
        "TurnCompleted",
    ]
    assert [event.channel for event in seen if isinstance(event, ItemDelta)][::2] == [
        "reasoning/textDelta",
        "agentMessage/delta",
        "toolCall/outputDelta",
        "agentMessage/delta",
    ]
    last = seen[-1]
    assert isinstance(last, TurnCompleted)
    assert text_of(last.turn) == "Done."
    assert last.turn.meta == {"trace": 1}
    assert any(isinstance(item, ToolCallItem) and item.name == "echo" for item in last.turn.items)


async def test_run_returns_the_whole_turn() -> None:
    async with engine(ScriptedModel([say("Hello.")])) as the_engine, connected(the_engine) as client:
        thread = (await client.start_thread()).thread
        with anyio.fail_after(60):
            turn = await client.run(thread.id, "go")
        assert turn.status == "completed"
        assert text_of(turn) == "Hello."


async def test_an_approval_is_decided_by_the_callback() -> None:
    asked: list[ApprovalAsked] = []

    async def decide(question: ApprovalAsked) -> m.ApprovalWord:
        asked.append(question)
        return "accept"

    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with engine(model, ASKING) as the_engine, connected(the_engine, decide) as client:
        thread = (await client.start_thread(approval_policy="always")).thread
        with client.events() as events, anyio.fail_after(60):
            turn = await client.run(thread.id, "go")
            seen = await until(events, TurnCompleted)
    (question,) = asked
    assert isinstance(question.params, m.ToolApprovalParams)
    assert question.params.name == "asking"
    assert ApprovalSettled(thread_id=thread.id, request_id=question.request_id) in seen
    assert [item.status for item in turn.items if isinstance(item, ToolCallItem)] == ["completed"]


async def test_without_a_callback_the_question_is_an_event_and_answer_decides() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("As you wish.")])
    async with engine(model, ASKING) as the_engine, connected(the_engine) as client:
        thread = (await client.start_thread()).thread
        with client.events() as events:
            await client.start_turn(thread.id, "go")
            question = (await until(events, ApprovalAsked))[-1]
            assert isinstance(question, ApprovalAsked)
            await client.answer(question.request_id, "decline")
            await client.answer(question.request_id, "accept")  # too late, and not sent
            ended = (await until(events, TurnCompleted))[-1]
    assert isinstance(ended, TurnCompleted)
    assert [item.status for item in ended.turn.items if isinstance(item, ToolCallItem)] == ["declined"]


async def test_a_callback_that_fails_declines_and_the_failure_is_seen() -> None:
    async def decide(question: ApprovalAsked) -> m.ApprovalWord:
        raise ValueError("no idea")

    model = ScriptedModel([call("asking", x=1)], [say("As you wish.")])
    async with engine(model, ASKING) as the_engine:
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no idea"), flatten_subgroups=True):
            async with connected(the_engine, decide) as client:
                thread = (await client.start_thread()).thread
                with anyio.fail_after(60):
                    await client.run(thread.id, "go")


async def test_a_callback_is_cancelled_when_another_client_was_faster() -> None:
    began, stopped = anyio.Event(), anyio.Event()

    async def dither(question: ApprovalAsked) -> m.ApprovalWord:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async def agree(question: ApprovalAsked) -> m.ApprovalWord:
        await began.wait()
        return "acceptForSession"

    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with engine(model, ASKING) as the_engine, connected(the_engine, dither) as slow:
        thread = (await slow.start_thread()).thread
        async with connected(the_engine, agree) as fast:
            await fast.resume_thread(thread.id)
            with anyio.fail_after(60):
                turn = await slow.run(thread.id, "go")
                await stopped.wait()
    assert [item.status for item in turn.items if isinstance(item, ToolCallItem)] == ["completed"]


@pytest.mark.spec("flint/plan-sdk-config")
async def test_the_selectors_can_be_read_and_chosen() -> None:
    model = ScriptedModel([say("Hm.")])
    models = OneModel(model, selectors=(EFFORT,))
    async with engine(models) as the_engine, connected(the_engine) as client:
        assert [option.id for option in await client.config_options()] == ["reasoning_effort", "agent"]
        chosen = await client.set_config("reasoning_effort", "high")
        assert [option.value for option in chosen] == ["high", "code"]
        thread = (await client.start_thread()).thread
        assert [option.value for option in (await client.read_config(thread.id)).options] == ["high", "code"]
        with client.events() as events:
            await client.set_config("agent", "plan", thread_id=thread.id)
            changed = (await until(events, SettingsChanged))[-1]
        assert isinstance(changed, SettingsChanged)
        assert changed.settings.config == {"reasoning_effort": "high", "agent": "plan"}
        with anyio.fail_after(60):
            await client.run(thread.id, "go")
        assert [model.id for model in await client.models()] == ["scripted/test"]
    assert model.requests[0].options == {"reasoning_effort": "high"}


async def test_threads_are_listed_renamed_archived_forked_and_deleted() -> None:
    async with engine(ScriptedModel([say("Hello.")])) as the_engine, connected(the_engine) as client:
        thread = (await client.start_thread()).thread
        with anyio.fail_after(60):
            turn = await client.run(thread.id, "Say hello")
        with client.events(thread.id) as events:
            await client.rename_thread(thread.id, "Greetings")
            assert isinstance((await until(events, ThreadRenamed))[-1], ThreadRenamed)
            await client.archive_thread(thread.id)
            assert isinstance((await until(events, ThreadArchived))[-1], ThreadArchived)
        assert [listed.name for listed in (await client.list_threads(archived=True)).data] == ["Greetings"]
        assert (await client.unarchive_thread(thread.id)).id == thread.id
        fork = (await client.fork_thread(thread.id, last_turn_id=turn.id)).thread
        assert fork.forked_from_id == thread.id
        assert [turn.status for turn in fork.turns] == ["completed"]
        await client.delete_thread(fork.id)
        assert [listed.id for listed in (await client.list_threads()).data] == [thread.id]
        assert len((await client.read_thread(thread.id)).turns) == 1
        assert len((await client.resume_thread(thread.id)).thread.turns) == 1


async def test_a_running_turn_is_steered_queued_behind_and_interrupted() -> None:
    model = ScriptedModel([say("Once", cut=True), hang()], [say("Next.")])
    async with engine(model) as the_engine, connected(the_engine) as client:
        thread = (await client.start_thread()).thread
        with client.events(thread.id) as events:
            turn = await client.start_turn(thread.id, "go")
            await until(events, ItemDelta)
            assert await client.steer_turn(thread.id, "hurry", turn_id=turn.id) == turn.id
            waiting = await client.queue_prompt(thread.id, "afterwards")
            assert waiting.queued is not None
            await client.drop_prompt(thread.id, waiting.queued.id)
            await client.interrupt_turn(thread.id, turn.id)
            ended = (await until(events, TurnCompleted))[-1]
        assert isinstance(ended, TurnCompleted)
        assert ended.turn.status == "interrupted"
        assert sum(isinstance(item, UserMessageItem) for item in ended.turn.items) == 2


async def test_a_refused_request_raises_with_its_number() -> None:
    async with engine(ScriptedModel()) as the_engine, connected(the_engine) as client:
        with pytest.raises(AppServerError) as refused:
            await client.resume_thread("ses_nobody")
        assert refused.value.code == -32001
        with pytest.raises(AppServerError) as refused:
            await client.start_thread(model="no-such-model")
        assert refused.value.code == -32602


@pytest.mark.spec("flint/client-ignores-unknown-notifications", "flint/extension-notifications")
async def test_a_notification_of_a_providers_own_is_kept() -> None:
    model = ScriptedModel([notice("cache_updated", "warm"), say("Hello.")])
    async with engine(model) as the_engine, connected(the_engine) as client:
        thread = (await client.start_thread()).thread
        with client.events() as events:
            await client.start_turn(thread.id, "go")
            seen = await until(events, TurnCompleted)
    (unknown,) = [event for event in seen if isinstance(event, Unknown)]
    assert unknown.method == "scripted/cache_updated"
    assert unknown.thread_id == thread.id
    assert unknown.params["message"] == "warm"


@pytest.mark.spec("flint/client-renders-unknown-items")
def test_an_item_of_an_unknown_type_is_kept_with_its_id_and_its_text() -> None:
    item = {"type": "hologram", "id": "item_9", "text": "It glows", "depth": 3}
    event = read_event("item/completed", {"threadId": "t", "turnId": "u", "item": item})
    assert isinstance(event, ItemCompleted)
    assert isinstance(event.item, UnknownItem)
    assert (event.item.kind, event.item.id, event.item.text) == ("hologram", "item_9", "It glows")
    assert event.item.members["depth"] == 3
    turn = {"id": "u", "status": "completed", "items": [item, {"type": "agentMessage", "id": "i", "text": "Hi"}]}
    told = read_event("turn/completed", {"threadId": "t", "turn": turn})
    assert isinstance(told, TurnCompleted)
    assert [type(item).__name__ for item in told.turn.items] == ["UnknownItem", "AgentMessageItem"]


def test_a_server_that_says_only_what_the_specification_demands_is_understood() -> None:
    thread = {"id": "t", "preview": "", "modelProvider": "p", "createdAt": 1}
    assert isinstance(read_event("thread/started", {"thread": thread}), ThreadStarted)
    usage = {"threadId": "t", "turnId": "u", "usage": {"inputTokens": 1, "outputTokens": 2}}
    assert isinstance(read_event("thread/tokenUsage/updated", usage), UsageUpdated)
    plan = {"threadId": "t", "turnId": "u", "explanation": "", "plan": [{"step": "a", "status": "failed"}]}
    assert isinstance(read_event("turn/plan/updated", plan), PlanUpdated)
    item = {"type": "commandExecution", "id": "i", "command": "ls", "cwd": "/", "status": "inProgress"}
    started = read_event("item/started", {"threadId": "t", "turnId": "u", "item": item})
    assert isinstance(started, ItemStarted)
    assert not isinstance(started.item, UnknownItem)
    turn = {"id": "u", "status": "inProgress", "items": []}
    assert isinstance(read_event("turn/started", {"threadId": "t", "turn": turn}), TurnStarted)


class Hand:
    """The other end of a wire, held by the test."""

    def __init__(self) -> None:
        self._up, self.heard = anyio.create_memory_object_stream[bytes](float("inf"))
        self.say, self._down = anyio.create_memory_object_stream[bytes](float("inf"))

    def wire(self) -> Wire:
        return Wire(self._up, self._down)

    async def answer_the_handshake(self) -> None:
        asked = msgspec.json.decode(await self.heard.receive())
        capabilities = dict.fromkeys(("streaming", "configOptions", "reasoning", "plans", "review"), False)
        agent = {"name": "a", "version": "1", "provider": "p"}
        result = {"agentInfo": agent, "capabilities": capabilities}
        await self.say.send(msgspec.json.encode({"id": asked["id"], "result": result}) + b"\n")


async def test_an_agent_that_goes_away_fails_what_waits_and_ends_the_events() -> None:
    hand = Hand()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hand.answer_the_handshake)
        async with AppServerClient.connect(hand.wire()) as client:
            events = client.events()
            async with anyio.create_task_group() as inner:

                async def ask() -> None:
                    with pytest.raises(ConnectionClosed):
                        await client.list_threads()

                inner.start_soon(ask)
                await hand.heard.receive()  # `initialized`
                await hand.heard.receive()  # the request
                hand.say.close()
            seen = await until(events, Closed)
            assert isinstance(seen[-1], Closed)
            with pytest.raises(ConnectionClosed):
                await client.models()
            assert isinstance((await until(client.events(), Closed))[-1], Closed)


async def test_what_the_client_does_not_know_to_answer_is_refused_and_noise_is_ignored() -> None:
    hand = Hand()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hand.answer_the_handshake)
        async with AppServerClient.connect(hand.wire()):
            await hand.heard.receive()  # `initialized`
            await hand.say.send(b'not JSON\n[1]\n{"id":99,"result":1}\n{"id":7,"method":"tea/make","params":{}}\n')
            with anyio.fail_after(60):
                answer = msgspec.json.decode(await hand.heard.receive())
    assert answer["id"] == 7
    assert answer["error"]["code"] == -32601


async def test_the_client_talks_over_a_websocket_one_message_in_each_frame() -> None:
    frames: list[str] = []
    async with engine(ScriptedModel([say("Hello.")])) as the_engine:

        async def bridge(socket: ServerConnection) -> None:
            async with wired(the_engine) as wire, anyio.create_task_group() as tasks:

                async def down() -> None:
                    while True:
                        for line in (await wire.receive()).splitlines():
                            await socket.send(line.decode())

                tasks.start_soon(down)
                async for frame in socket:
                    assert isinstance(frame, str)
                    frames.append(frame)
                    await wire.send(frame.encode() + b"\n")
                tasks.cancel_scope.cancel()

        async with serve(bridge, "127.0.0.1", 0) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with websocket(url) as stream, AppServerClient.connect(stream) as client:
                thread = (await client.start_thread()).thread
                with anyio.fail_after(60):
                    assert text_of(await client.run(thread.id, "go")) == "Hello."
    assert [msgspec.json.decode(frame)["method"] for frame in frames] == [
        "initialize",
        "initialized",
        "thread/start",
        "turn/start",
    ]


def test_the_client_without_an_event_loop_runs_a_real_agent(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[[{"call": "shell", "with": {"command": "touch made"}}], "Done."]')
    hames = str(Path(sys.executable).parent / "hames")
    words = [hames, "app-server", "--cwd", str(tmp_path), "--model", f"scripted/{script}"]
    asked: list[str] = []

    def decide(question: ApprovalAsked) -> m.ApprovalWord:
        assert isinstance(question.params, m.CommandApprovalParams)
        asked.append(question.params.command)
        return "accept"

    with SyncAppServerClient(words, on_approval=decide) as client:
        thread = client.start_thread(sandbox=m.DangerFullAccess()).thread
        seen = list(client.stream(thread.id, "go"))
        assert client.list_threads()[0].preview == "go"
        assert client.read_config(thread.id).cwd == str(tmp_path.resolve())
    assert asked == ["touch made"]
    assert (tmp_path / "made").exists()
    assert isinstance(seen[-1], TurnCompleted)
    assert text_of(seen[-1].turn) == "Done."


QUESTION = {"threadId": "t1", "turnId": "u1", "itemId": "i1", "command": "ls", "cwd": "/"}


@pytest.mark.parametrize("number", [7, 0, "seven"])
@pytest.mark.parametrize("calls_back", [True, False])
async def test_an_approval_request_with_any_id_is_answered_under_that_id(number: int | str, calls_back: bool) -> None:
    async def accept(asked: ApprovalAsked) -> m.ApprovalWord:
        assert asked.request_id == str(number)
        return "accept"

    hand = Hand()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hand.answer_the_handshake)
        async with AppServerClient.connect(hand.wire(), on_approval=accept if calls_back else None) as client:
            await hand.heard.receive()  # `initialized`
            events = client.events()
            asked = {"id": number, "method": "item/commandExecution/requestApproval", "params": QUESTION}
            await hand.say.send(msgspec.json.encode(asked) + b"\n")
            with anyio.fail_after(60):
                if not calls_back:
                    await until(events, ApprovalAsked)
                    await client.answer(str(number), "accept")
                answer = msgspec.json.decode(await hand.heard.receive())
    assert answer == {"id": number, "result": {"decision": "accept"}}


async def test_a_question_with_a_number_can_be_settled_by_another_client() -> None:
    settled = read_event("serverRequest/resolved", {"threadId": "t1", "requestId": 7})
    assert settled == ApprovalSettled(thread_id="t1", request_id="7")
