"""The fan-out: one thread watched once for all its clients, and nothing lost between its history and the present."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from hames.clock_and_ids import SystemClock
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.protocols.sse.encoder import SseEncoder
from hames.protocols.sse.session import SseSession
from hames.protocols.sync.encoder import SyncEncoder, sync_encoder
from hames.protocols.sync.view import Offer
from hames.server.fanout import Fanout
from hames.server.slow_clients import Payload
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


class OpenWriter:
    """A client that reads everything."""

    on_room: Callable[[], None] | None = None
    gone, unsent, framed, paused = False, 0, False, False

    def __init__(self) -> None:
        self.sent = b""

    def write(self, payload: Payload) -> None:
        self.sent += payload.data

    def drop(self, code: int, why: str) -> None:
        raise AssertionError(code, why)


async def until_sent(writer: OpenWriter, text: bytes) -> None:
    while text not in writer.sent:
        await anyio.sleep(0.01)


@pytest.mark.parametrize("early", [True, False])
async def test_what_happens_while_the_history_is_read_is_sent_once(early: bool) -> None:
    store = SlowStore(early=early)
    model = ScriptedModel([say("One.")], [say("Two.")], [say("Three.")])
    async with engine(model, store=store, clock=SystemClock()) as house, anyio.create_task_group() as tasks:
        thread = await created(house)
        await whole_turn(house, thread.id)
        fanout = Fanout(house, tasks)
        present, back = OpenWriter(), OpenWriter()
        with anyio.fail_after(60):
            await fanout.connect(SseSession(thread.id, "", can_answer=False), present, tasks).open()
            store.slow = True
            async with anyio.create_task_group() as reader:
                reader.start_soon(fanout.connect(SseSession(thread.id, "0", can_answer=False), back, tasks).open)
                await store.reading.wait()
                store.slow = False
                await whole_turn(house, thread.id)
                await until_sent(present, b"Two.")
                store.go_on.set()
            assert back.sent.count(b"One.") == back.sent.count(b"Two.") == 1
            assert (present.sent.count(b"One."), present.sent.count(b"Two.")) == (0, 1)

            late = OpenWriter()
            await fanout.connect(SseSession(thread.id, "0", can_answer=False), late, tasks).open()
            assert late.sent.count(b"One.") == late.sent.count(b"Two.") == 1
            await whole_turn(house, thread.id)
            for writer in (present, back, late):
                await until_sent(writer, b"Three.")
            again = OpenWriter()
            await fanout.connect(SseSession(thread.id, "0", can_answer=False), again, tasks).open()
            assert again.sent == late.sent
        tasks.cancel_scope.cancel()


async def test_a_channel_that_fell_behind_starts_its_clients_over(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("hames.core.watcher.PENDING_CHANGES", 0)  # every change is one too many
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


async def test_a_thread_that_nobody_follows_is_not_watched() -> None:
    async with engine(ScriptedModel(), clock=SystemClock()) as house, anyio.create_task_group() as tasks:
        thread = await created(house)
        fanout = Fanout(house, tasks)
        encoder = sync_encoder(Offer(models=house.models))
        first, second = await fanout.open(thread.id, encoder), await fanout.open(thread.id, encoder)
        other = await fanout.open(thread.id, SseEncoder)
        assert first is second
        assert other is not first
        fanout.release(other)
        fanout.release(first)
        assert (fanout.thread_count, first.closed) == (1, False)
        fanout.release(second)
        assert (fanout.thread_count, first.closed) == (0, True)
        again = await fanout.open(thread.id, encoder)
        assert again is not first
        fanout.release(again)


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
    assert 0.016 <= SyncEncoder.rules.frame_s <= 0.033
