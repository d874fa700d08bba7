"""One connection, one slow command: reads, interrupts, answers and the news of other threads do not wait for it."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectSendStream

from hames.core.engine import Engine
from hames.domain.ids import ThreadId
from hames.protocols.bootstrap.session import BootstrapSession
from hames.protocols.flint.session import FlintSession
from hames.protocols.session import Session
from hames.protocols.sync.encoder import sync_encoder
from hames.protocols.sync.session import SyncSession
from hames.protocols.sync.view import Offer
from hames.server.fanout import Fanout
from hames.stdio.connection import Connection, read_lines
from hames.store.memory import MemoryLog, MemoryStore
from hames.testing.fakes.model import ScriptedModel, call, hang, say, wait_for
from support import created, engine, started


class SlowStore(MemoryStore):
    """A disk that makes new threads and opens old ones only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.waiting = anyio.Event()
        self.go_on = anyio.Event()

    async def create(self, thread_id: ThreadId, *, foreign: bool = False, ephemeral: bool = False) -> MemoryLog:
        await self._disk()
        return await super().create(thread_id, foreign=foreign, ephemeral=ephemeral)

    async def open(self, thread_id: ThreadId) -> MemoryLog:
        await self._disk()
        return await super().open(thread_id)

    async def _disk(self) -> None:
        if self.slow:
            self.waiting.set()
            await self.go_on.wait()


class Client:
    """Sends lines to a connection and waits for what comes back."""

    def __init__(self, engine: Engine, session: Session, tasks: anyio.abc.TaskGroup, *, rpc: bool) -> None:
        self.heard: list[Any] = []
        self._news = anyio.Event()
        self._head = {"jsonrpc": "2.0"} if rpc else {}
        self._number = 0
        self._sent: MemoryObjectSendStream[bytes]
        self._sent, received = anyio.create_memory_object_stream[bytes](1000)
        tasks.start_soon(Connection(engine, session, self, tasks).serve, read_lines(received))

    def write(self, data: bytes) -> None:
        self.heard += [json.loads(line) for line in data.splitlines()]
        self._news.set()
        self._news = anyio.Event()

    async def room(self) -> None:
        pass

    async def send(self, method: str, **params: Any) -> int:
        self._number += 1
        await self.line({**self._head, "id": self._number, "method": method, "params": params})
        return self._number

    async def line(self, message: Any) -> None:
        await self._sent.send(json.dumps(message).encode() + b"\n")

    async def until(self, **members: Any) -> Any:
        return await self.find(lambda one: members.items() <= one.items())

    async def find(self, wanted: Callable[[Any], bool]) -> Any:
        with anyio.fail_after(60):
            while True:
                for one in self.heard:
                    if wanted(one):
                        return one
                await self._news.wait()

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.until(id=await self.send(method, **params))

    def position(self, **members: Any) -> int:
        return next(n for n, one in enumerate(self.heard) if members.items() <= one.items())


@asynccontextmanager
async def connected(
    model: ScriptedModel, protocol: str, store: MemoryStore | None = None
) -> AsyncGenerator[tuple[Client, Engine]]:
    async with anyio.create_task_group() as tasks, engine(model, store=store) as house:
        if protocol == "flint":
            client = Client(house, FlintSession(house.models, house.rules.defaults), tasks, rpc=False)
            await client.ask("initialize", clientInfo={"name": "test", "version": "1"})
        else:
            client = Client(house, BootstrapSession(), tasks, rpc=True)
        yield client, house
        tasks.cancel_scope.cancel()


PROMPT = [{"type": "text", "text": "go"}]


async def test_flint_reads_and_interrupts_are_answered_while_a_thread_is_being_made() -> None:
    store, talking = SlowStore(), anyio.Event()
    model = ScriptedModel([say("first "), wait_for(talking), say("second"), hang()])
    async with connected(model, "flint", store) as (client, _):
        thread = (await client.ask("thread/start"))["result"]["thread"]["id"]
        turn = (await client.ask("turn/start", threadId=thread, input=PROMPT))["result"]["turn"]["id"]
        store.slow = True
        slow = await client.send("thread/start")
        await store.waiting.wait()
        for method in ("thread/list", "thread/loaded/list", "model/list", "config/read"):
            assert "result" in await client.ask(method), method
        assert (await client.ask("thread/read", threadId=thread))["result"]["thread"]["id"] == thread
        talking.set()  # the other thread's news arrive as well
        await client.find(lambda one: one.get("params", {}).get("delta") == "ond")
        assert "result" in await client.ask("turn/interrupt", threadId=thread, turnId=turn)
        await client.until(method="turn/completed")
        assert not [one for one in client.heard if one.get("id") == slow]
        store.go_on.set()
        assert "result" in await client.until(id=slow)


async def test_bootstrap_reads_and_cancels_are_answered_while_a_thread_is_being_made() -> None:
    store = SlowStore()
    async with connected(ScriptedModel([say("Hm."), hang()]), "bootstrap", store) as (client, _):
        thread = (await client.ask("thread.create"))["result"]["thread"]["threadId"]
        await client.ask("turn.start", threadId=thread, input=PROMPT)
        store.slow = True
        slow = await client.send("thread.create")
        await store.waiting.wait()
        assert len((await client.ask("thread.list"))["result"]["threads"]) == 1
        assert (await client.ask("thread.get", threadId=thread))["result"]["events"]
        cancel = await client.ask("turn.cancel", threadId=thread)
        assert cancel["result"] == {"ok": True}
        ended = await client.find(lambda one: one.get("method") in ("turn.completed", "turn.cancelled", "turn.error"))
        assert client.position(id=cancel["id"]) < client.heard.index(ended)
        assert not [one for one in client.heard if one.get("id") == slow]
        store.go_on.set()
        assert "result" in await client.until(id=slow)


@pytest.mark.parametrize("protocol", ["flint", "bootstrap"])
async def test_an_approval_is_answered_while_another_thread_is_being_opened(protocol: str) -> None:
    store = SlowStore()
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with connected(model, protocol, store) as (client, _):
        start, make = ("turn/start", "thread/start") if protocol == "flint" else ("turn.start", "thread.create")
        opened = (await client.ask(make))["result"]["thread"]
        thread = opened["id"] if protocol == "flint" else opened["threadId"]
        await client.ask(start, threadId=thread, input=PROMPT)
        asked = await client.find(lambda one: "pproval" in one.get("method", ""))
        store.slow = True
        slow = await client.send(make)
        await store.waiting.wait()
        if protocol == "flint":
            await client.line({"id": asked["id"], "result": {"decision": "accept"}})
            await client.until(method="turn/completed")
        else:
            asked_id = asked["params"]["requestId"]
            answered = await client.ask("approval.respond", requestId=asked_id, decision="once")
            assert answered["result"] == {"ok": True}
            await client.until(method="turn.completed")
        assert not [one for one in client.heard if one.get("id") == slow]
        store.go_on.set()
        await client.until(id=slow)


async def test_a_read_waits_for_an_earlier_change_of_the_same_thread() -> None:
    """However long it takes: what a client asked for first, it sees."""
    store = SlowStore()
    async with connected(ScriptedModel([hang()]), "flint", store) as (client, house):
        thread = (await created(house)).id
        await house._threads.loaded.pop(thread).thread.close()  # as after a restart
        store.slow = True
        resumed = await client.send("thread/resume", threadId=thread)
        await store.waiting.wait()
        started_turn = await client.send("turn/start", threadId=thread, input=PROMPT)
        read = await client.send("thread/read", threadId=thread, includeTurns=True)
        assert "result" in await client.ask("model/list")
        assert not [one for one in client.heard if one.get("id") in (resumed, started_turn, read)]
        store.go_on.set()
        assert len((await client.until(id=read))["result"]["thread"]["turns"]) == 1
    assert client.position(id=resumed) < client.position(id=started_turn) < client.position(id=read)


async def test_a_long_log_keeps_nobody_from_reading_another() -> None:
    store = SlowStore()
    async with connected(ScriptedModel(), "flint", store) as (client, house):
        long, short = (await created(house)).id, (await created(house)).id
        for thread in (long, short):
            await house._threads.loaded.pop(thread).thread.close()  # as after a restart
        store.slow = True
        slow = await client.send("thread/resume", threadId=long)
        await store.waiting.wait()
        store.slow = False
        assert (await client.ask("thread/read", threadId=short))["result"]["thread"]["id"] == short
        assert not [one for one in client.heard if one.get("id") == slow]
        store.go_on.set()
        await client.until(id=slow)


async def test_answers_to_quick_requests_keep_their_order() -> None:
    async with connected(ScriptedModel(), "flint") as (client, _):
        # So many that together they take longer than a read waits for one of them.
        sent = [await client.send(method) for method in ("thread/start", "thread/list", "model/list") * 100]
        await client.until(id=sent[-1])
        answered = [one["id"] for one in client.heard if one.get("id") in sent]
        assert answered == sent
        listed = next(one for one in client.heard if one.get("id") == sent[1])
        assert len(listed["result"]["data"]) == 1, "the list was read before the thread was there"


async def test_sync_takes_an_answer_while_a_change_of_settings_is_written() -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with anyio.create_task_group() as tasks, engine(model) as house:
        thread = await created(house)
        slow, waiting = anyio.Event(), anyio.Event()
        emit = house._threads.loaded[thread.id].thread.emit

        async def slow_emit(*events: Any, **more: Any) -> None:
            if type(events[0]).__name__ == "ThreadRenamed":
                waiting.set()
                await slow.wait()
            await emit(*events, **more)

        house._threads.loaded[thread.id].thread.emit = slow_emit
        offer = Offer(models=house.models, listed=())
        session = SyncSession(thread.id, sync_encoder(offer), str, can_answer=True)
        sent, received = anyio.create_memory_object_stream[bytes](10)
        connection = Fanout(house, tasks).connect(session, Silent(), tasks)
        await connection.open()
        tasks.start_soon(connection.serve, received)
        await started(house, thread.id)
        watcher = await house.watch(thread.id)
        with anyio.fail_after(60):
            while not watcher.state.approvals:
                watcher.state = (await watcher.next())[-1].after
            await sent.send(b'{"type":"commands","commands":[{"type":"rename","title":"x"}]}')
            await waiting.wait()
            answer = {"type": "approve", "id": watcher.state.approvals[0].id, "decision": "once"}
            await sent.send(json.dumps({"type": "commands", "commands": [answer]}).encode())
            while watcher.state.approvals:
                watcher.state = (await watcher.next())[-1].after
        assert watcher.state.title == ""
        slow.set()
        tasks.cancel_scope.cancel()


class Silent:
    """A WebSocket that takes everything."""

    framed = True
    gone = False
    unsent = 0
    paused = False

    def __init__(self) -> None:
        self.on_room = None

    def write(self, payload: Any) -> None:
        pass

    def drop(self, code: int, why: str) -> None:
        pass
