"""A connection: slow readers, several clients on one thread, and bugs of our own."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectSendStream
from msgspec.structs import replace

from hames.core import watcher as watchers
from hames.core.engine import Engine
from hames.domain.commands import ArchiveThread
from hames.domain.ids import ThreadId
from hames.domain.models import ModelCard
from hames.domain.state import Change
from hames.ports import Tell
from hames.protocols.bootstrap.session import BootstrapSession
from hames.stdio.connection import Connection, read_lines
from hames.testing.fakes.model import OneModel, ScriptedModel, call, hang, say, wait_for
from support import ASKING, PlainTool, engine


class SlowOutbox:
    """An outbox with a door: while it is shut there is no room."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self._open = anyio.Event()
        self._open.set()
        self._news = anyio.Event()

    def write(self, data: bytes) -> None:
        self.lines += [json.loads(line) for line in data.splitlines()]
        self._news.set()
        self._news = anyio.Event()

    async def room(self) -> None:
        await self._open.wait()

    def shut(self) -> None:
        self._open = anyio.Event()

    def open(self) -> None:
        self._open.set()

    async def until(self, **members: Any) -> Any:
        """The first message with these members."""
        with anyio.fail_after(60):
            while True:
                for line in self.lines:
                    if isinstance(line, dict) and members.items() <= line.items():
                        return line
                await self._news.wait()

    async def until_told(self, method: str, times: int) -> None:
        with anyio.fail_after(60):
            while len(self.told(method)) < times:
                await self._news.wait()

    def told(self, method: str) -> list[Any]:
        return [line["params"] for line in self.lines if line.get("method") == method]


class Client:
    def __init__(self, engine: Engine, tasks: TaskGroup, session: BootstrapSession | None = None) -> None:
        self.outbox = SlowOutbox()
        self.connection = Connection(engine, session or BootstrapSession(), self.outbox, tasks)
        self._sent: MemoryObjectSendStream[bytes]
        self._sent, received = anyio.create_memory_object_stream[bytes](10_000)
        self._last = 0
        tasks.start_soon(self.connection.serve, read_lines(received))

    async def send(self, method: str, **params: Any) -> int:
        self._last += 1
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        await self._sent.send(json.dumps(message).encode() + b"\n")
        return self._last

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.outbox.until(id=await self.send(method, **params))

    async def thread(self) -> str:
        return (await self.ask("thread.create"))["result"]["thread"]["threadId"]

    async def prompt(self, thread_id: str) -> Any:
        return await self.ask("turn.start", threadId=thread_id, input=[{"type": "text", "text": "go"}])

    def leave(self) -> None:
        self._sent.close()
        self.connection.close()


@asynccontextmanager
async def clients(engine: Engine, number: int = 1) -> AsyncGenerator[list[Client]]:
    async with anyio.create_task_group() as tasks, engine:
        yield [Client(engine, tasks) for _ in range(number)]
        tasks.cancel_scope.cancel()


def text_of(events: list[Any], item_id: str) -> str:
    return "".join(event["delta"] for event in events if event["itemId"] == item_id)


def check_nothing_lost(outbox: SlowOutbox, history: list[Any]) -> None:
    """Every item streamed to its end, and every other event told once, as the history has it."""
    for item in outbox.told("item.completed"):
        data = item["item"]["data"]
        streamed = text_of(outbox.told("item.delta"), item["itemId"])
        assert streamed == data.get("output", data["text"] if data.get("kind") else ""), item["itemId"]
    for method in ("item.started", "item.completed", "turn.started", "turn.completed"):
        kept = [(event["seq"], event.get("itemId")) for event in history if event["type"] == method]
        assert [(params["seq"], params.get("itemId")) for params in outbox.told(method)] == kept


@pytest.mark.spec("bootstrap/thread-list")
async def test_every_thread_is_listed_however_many_there_are() -> None:
    async with clients(engine(ScriptedModel())) as [client]:
        made = [await client.thread() for _ in range(120)]
        listed = (await client.ask("thread.list"))["result"]["threads"]
    assert {thread["threadId"] for thread in listed} == set(made)
    assert len(listed) == len(made)


@pytest.mark.spec("bootstrap/thread-list")
async def test_archived_threads_are_listed_and_marked() -> None:
    the_engine = engine(ScriptedModel())
    async with clients(the_engine) as [client]:
        kept, archived = await client.thread(), await client.thread()
        await the_engine.execute(ArchiveThread(thread_id=ThreadId(archived)))
        listed = (await client.ask("thread.list"))["result"]["threads"]
    assert {thread["threadId"]: thread.get("archived") for thread in listed} == {kept: None, archived: True}


async def test_a_reader_that_stalls_is_cut_off_and_catches_up_to_the_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "PENDING_CHANGES", 3)
    go, words = anyio.Event(), "".join(f"{number} " for number in range(500))
    model = ScriptedModel(
        [say("Once upon a time", cut=True), wait_for(go), say(words, pieces=97), call("echo", x=1)], [say("The end.")]
    )
    async with clients(engine(model)) as [client]:
        thread_id = await client.thread()
        await client.prompt(thread_id)
        await client.outbox.until(method="item.delta")
        client.outbox.shut()
        go.set()
        await model.asked(2)
        for _ in range(100):  # the turn runs to its end behind the reader's back
            await checkpoint()
        assert client.outbox.told("turn.completed") == []
        client.outbox.open()
        await client.outbox.until(method="turn.completed")
        history = (await client.ask("thread.get", threadId=thread_id))["result"]["events"]
    check_nothing_lost(client.outbox, history)


async def test_a_reader_that_stalls_in_the_middle_of_a_tools_output_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "PENDING_CHANGES", 3)
    go = anyio.Event()

    async def chatter(arguments: dict[str, object], tell: Tell) -> str:
        await tell("begun ")
        await go.wait()
        for number in range(50):
            await tell(f"{number} ")
            await checkpoint()  # so that the follower takes a piece in the middle
        return "done"

    model = ScriptedModel([call("chatter")], [say("The end.", pieces=8), call("chatter")], [say("The end.")])
    async with clients(engine(model, PlainTool("chatter", chatter))) as [client]:
        thread_id = await client.thread()
        await client.prompt(thread_id)
        await client.outbox.until(method="item.delta")
        client.outbox.shut()
        go.set()
        await model.asked(3)
        client.outbox.open()
        await client.outbox.until(method="turn.completed")
        history = (await client.ask("thread.get", threadId=thread_id))["result"]["events"]
    check_nothing_lost(client.outbox, history)


async def test_requests_wait_for_a_reader_that_stalls_and_are_answered_in_order_when_it_reads() -> None:
    async with clients(engine(ScriptedModel())) as [client]:
        client.outbox.shut()
        numbers = [await client.send("thread.list") for _ in range(50)]
        for _ in range(100):
            await checkpoint()
        assert client.outbox.lines == []
        client.outbox.open()
        await client.outbox.until(id=numbers[-1])
    assert [line["id"] for line in client.outbox.lines] == numbers


async def test_a_thread_read_in_the_middle_of_a_text_goes_on_from_there() -> None:
    go = anyio.Event()
    words = "It was a dark and stormy night."
    model = ScriptedModel([say("It was a dark", cut=True, pieces=5), wait_for(go), hang()])
    async with clients(engine(model), 2) as [writer, reader]:
        thread_id = await writer.thread()
        await writer.prompt(thread_id)
        await writer.outbox.until(method="item.delta")
        got = (await reader.ask("thread.get", threadId=thread_id))["result"]
        go.set()
        await reader.ask("turn.cancel", threadId=thread_id)
        await reader.outbox.until(method="turn.error")
    [item] = [item for item in reader.outbox.told("item.completed") if item["item"]["type"] == "assistant_message"]
    before = [event for event in got["events"] if event["type"] == "item.delta"]
    heard = text_of(before, item["itemId"]) + text_of(reader.outbox.told("item.delta"), item["itemId"])
    assert heard == item["item"]["data"]["text"] == words[: len(heard)] != ""


async def test_one_thread_is_followed_by_several_clients_and_the_first_answer_wins() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with clients(engine(model, ASKING), 2) as [first, second]:
        thread_id = await first.thread()
        await second.ask("thread.get", threadId=thread_id)
        await first.prompt(thread_id)
        asked = await first.outbox.until(method="approval.requested")
        assert await second.outbox.until(method="approval.requested") == asked
        request_id = asked["params"]["requestId"]
        answer = await second.ask("approval.respond", requestId=request_id, decision="once")
        assert answer["result"] == {"ok": True}
        late = await first.ask("approval.respond", requestId=request_id, decision="reject")
        assert late["error"]["code"] == -32004
        await first.outbox.until(method="turn.completed")
        await second.outbox.until(method="turn.completed")
    for client in (first, second):
        [settled] = [p["item"] for p in client.outbox.told("item.completed") if p["item"]["type"] == "approval"]
        assert settled["data"]["decision"] == "once"


async def test_a_question_survives_its_client_and_is_asked_again_of_the_next() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with clients(engine(model, ASKING), 2) as [first, second]:
        thread_id = await first.thread()
        await first.prompt(thread_id)
        asked = await first.outbox.until(method="approval.requested")
        first.leave()
        await second.ask("thread.get", threadId=thread_id)
        assert await second.outbox.until(method="approval.requested") == asked
        await second.ask("approval.respond", requestId=asked["params"]["requestId"], decision="once")
        await second.outbox.until(method="turn.completed")
    model.assert_finished()


async def test_a_question_is_asked_once_of_a_client_that_reads_the_thread_in_between() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    async with clients(engine(model, ASKING)) as [client]:
        thread_id = await client.thread()
        await client.prompt(thread_id)
        asked = await client.outbox.until(method="approval.requested")
        for _ in range(2):
            history = (await client.ask("thread.get", threadId=thread_id))["result"]["events"]
            assert [event["seq"] for event in history if event["type"] == "approval.requested"] == [
                asked["params"]["seq"]
            ]
        await client.ask("approval.respond", requestId=asked["params"]["requestId"], decision="once")
        await client.outbox.until(method="turn.completed")
    assert client.outbox.told("approval.requested") == [asked["params"]]


async def test_a_client_hears_only_of_the_threads_it_opened() -> None:
    model = ScriptedModel([say("Secret.")])
    async with clients(engine(model), 2) as [first, second]:
        thread_id = await first.thread()
        await first.prompt(thread_id)
        await first.outbox.until(method="turn.completed")
        await second.ask("thread.list")
    assert [line for line in second.outbox.lines if "method" in line] == []


async def test_a_turn_refused_does_not_make_its_client_a_follower() -> None:
    async with clients(engine(ScriptedModel([hang()])), 2) as [first, second]:
        thread_id = await first.thread()
        await first.prompt(thread_id)
        assert (await second.prompt(thread_id))["error"]["code"] == -32002
        await first.ask("turn.cancel", threadId=thread_id)
        await first.outbox.until(method="turn.error")
        await second.ask("thread.list")
    assert [line for line in second.outbox.lines if "method" in line] == []


class TwoModels(OneModel):
    """Also has a model `scripted/other`."""

    def find(self, name: str) -> ModelCard:
        return replace(super().find("test"), model="other") if name == "scripted/other" else super().find(name)


@pytest.mark.spec("bootstrap/turn-start-model")
async def test_the_model_of_a_turn_is_the_one_that_is_asked() -> None:
    model = ScriptedModel([say("One.")], [say("Two.")], [say("Three.")])
    async with clients(engine(TwoModels(model))) as [client]:
        thread_id = await client.thread()
        for number, more in enumerate(
            ({}, {"model": {"providerID": "scripted", "modelID": "other"}}, {}),
            start=1,  # the third turn goes on with the model of the second
        ):
            await client.ask("turn.start", threadId=thread_id, input=[{"type": "text", "text": "go"}], **more)
            with anyio.fail_after(60):
                await model.asked(number)
            await client.outbox.until_told("turn.completed", number)
    assert [request.model for request in model.requests] == ["test", "other", "other"]


class BuggyModels(OneModel):
    def find(self, name: str) -> Any:
        if name.endswith("buggy"):
            raise ZeroDivisionError("a bug of our own")
        return super().find(name)


@pytest.mark.spec("bootstrap/error-internal")
async def test_a_bug_of_our_own_is_an_internal_error_and_the_server_lives() -> None:
    async with clients(engine(BuggyModels(ScriptedModel()))) as [client]:
        thread_id = await client.thread()
        answer = await client.ask(
            "turn.start",
            threadId=thread_id,
            input=[{"type": "text", "text": "go"}],
            model={"providerID": "a", "modelID": "buggy"},
        )
        assert answer["error"] == {"code": -32603, "message": "internal error"}
        assert (await client.ask("thread.list"))["result"]["threads"]


class Mumbling(BootstrapSession):
    """Cannot tell of the user's messages."""

    def project(self, change: Change) -> Any:
        if type(change.record.event).__name__ == "ItemStarted":
            raise ZeroDivisionError("a bug of our own")
        return super().project(replace(change))


async def test_a_change_that_cannot_be_told_does_not_silence_the_rest() -> None:
    async with anyio.create_task_group() as tasks, engine(ScriptedModel([say("Done.")])) as the_engine:
        client = Client(the_engine, tasks, Mumbling())
        await client.prompt(await client.thread())
        await client.outbox.until(method="turn.completed")
        tasks.cancel_scope.cancel()
    assert client.outbox.told("item.started") == []
