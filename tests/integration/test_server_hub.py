"""A hub: one thread watched once for everybody, and nothing lost between the past and the present."""

from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from hames.clock_and_ids import SystemClock
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.protocols.sse.stream import Place
from hames.protocols.sync.view import Offer
from hames.server import fanout as server_hub
from hames.server.fanout import Hub, Hubs
from hames.store.memory import MemoryStore
from hames.testing.fakes.model import ScriptedModel, call, say
from server_support import events, following, http, running
from support import created, engine, whole_turn


class SlowStore(MemoryStore):
    """Reading for looking takes until it is let go. `early`: it returns what was there when it began."""

    def __init__(self, *, early: bool) -> None:
        super().__init__()
        self.early = early
        self.reading = anyio.Event()
        self.go_on = anyio.Event()
        self.slow = False

    async def read(self, thread_id: ThreadId, *, after: int = 0) -> list[Record]:
        found = await super().read(thread_id, after=after)
        if self.slow:
            self.reading.set()
            await self.go_on.wait()
        return found if self.early else await super().read(thread_id, after=after)


@pytest.mark.parametrize("early", [True, False])
async def test_what_happens_while_the_past_is_read_is_told_once(early: bool) -> None:
    store = SlowStore(early=early)
    model = ScriptedModel([say("One.")], [say("Two.")], [say("Three.")])
    async with engine(model, store=store, clock=SystemClock()) as house, anyio.create_task_group() as tasks:
        thread = await created(house)
        await whole_turn(house, thread.id)
        hub = Hub(house, Offer(models=house.models), thread.id)
        await tasks.start(hub.run)
        store.slow = True
        early = hub.attach_sse()
        past: list[bytes] = []

        async def read() -> None:
            blocks = await hub.past()
            past.extend(one.behind(Place(seq=0)) for one in blocks if one.seq <= early.seq)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as reader:
                reader.start_soon(read)
                await store.reading.wait()
                store.slow = False
                last = (await whole_turn(house, thread.id))[-1].record.seq
                while hub.state.seq < last:
                    await anyio.sleep(0.01)
                store.go_on.set()
            early.end("enough")
            live, _ = await early.take()
            told = b"".join(past) + live
            assert told.count(b"One.") == told.count(b"Two.") == 1

            late = hub.attach_sse()
            everything = await hub.past()
            all_of_it = b"".join(one.behind(Place(seq=0)) for one in everything)
            assert all_of_it.count(b"One.") == all_of_it.count(b"Two.") == 1
            await whole_turn(house, thread.id)
            live = b""
            while b"Three." not in live:
                live += (await late.take())[0]
            assert (await hub.past())[-1].seq > everything[0].seq
        tasks.cancel_scope.cancel()


async def test_a_hub_that_fell_behind_starts_everybody_over(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("hames.core.watcher.PENDING_CHANGES", 3)
    model = ScriptedModel([say("Hello.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await client.send({"type": "submit", "prompt": "go"})
        state = await client.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
        assert state["messages"][1]["content"] == "Hello."
        assert [message["type"] for message in client.heard].count("state") > 1


async def test_nobody_looks_means_nobody_watches(tmp_path: Path) -> None:
    async with engine(ScriptedModel(), clock=SystemClock()) as house, anyio.create_task_group() as tasks:
        thread = await created(house)
        hubs = Hubs(house, Offer(models=house.models), tasks)
        async with hubs.looking(thread.id) as first, hubs.looking(thread.id) as second:
            assert first is second
            assert hubs.count == 1
        assert hubs.count == 0
        assert first.closed
        async with hubs.looking(thread.id) as again:
            assert again is not first
            assert not again.closed


async def test_a_question_is_declined_where_nobody_can_answer_it(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking")], [say("Then not.")])
    async with (
        engine(model, clock=SystemClock(), patience_s=0.2) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        following(server) as plain,
        events(client) as reader,
    ):
        await plain.hear()
        await plain.send({"type": "submit", "prompt": "go"})
        resolved = await reader.until("approval_resolved")
        assert resolved["decision"] == "reject"
        await reader.until("text", content="Then not.")


@pytest.mark.parametrize("who", ["page", "program", "reader"])
async def test_a_question_stays_open_where_somebody_can(tmp_path: Path, who: str) -> None:
    model = ScriptedModel([call("asking")], [say("Thanks.")])
    async with (
        engine(model, clock=SystemClock(), patience_s=0.1) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        AsyncExitStack() as stack,
    ):
        thread = (await created(house)).id
        if who == "page":
            await (await stack.enter_async_context(following(server, thread, origin=server.url))).hear()
        elif who == "program":
            await (await stack.enter_async_context(following(server, f"{thread}&answers=1"))).hear()
        reader = await stack.enter_async_context(
            events(client, f"/events?thread={thread}" + ("&answers=1" if who == "reader" else ""))
        )
        await client.post("/prompt", params={"thread": thread}, json={"content": "go"})
        asked = await reader.until("approval")
        await anyio.sleep(0.5)  # several times as long as a question waits for nobody
        await client.post(f"/approvals/{asked['id']}", json={"decision": "once"})
        assert (await reader.until("approval_resolved"))["decision"] == "once"


def test_a_frame_is_short_enough_for_the_eye() -> None:
    assert 0.016 <= server_hub.FRAME_SECONDS <= 0.033
