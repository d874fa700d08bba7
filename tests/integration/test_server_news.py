"""The list of threads, pushed: titles, dots and new threads reach whoever asked, whichever thread it looks at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from hames.clock_and_ids import SystemClock
from hames.domain.commands import ArchiveThread, RenameThread
from hames.protocols.session import Session
from hames.protocols.sync.encoder import LIST_CHANGED, sync_encoder
from hames.protocols.sync.session import SyncSession
from hames.protocols.sync.view import Offer
from hames.server.fanout import Fanout
from hames.server.slow_clients import Payload
from hames.testing.fakes.model import ScriptedModel, call, say
from server_support import SyncFollower, following, http, running
from support import ASKING, created, engine

OFFERED = {"type": "threads", "threads": []}


async def hear_of(client: SyncFollower, **wanted: Any) -> None:
    """Until a row says what is wanted."""
    while True:
        message = await client.hear()
        if message["type"] == "threads" and any(wanted.items() <= row.items() for row in message["threads"]):
            return


async def test_who_asks_hears_of_every_thread(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with (
        engine(model, ASKING, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
    ):
        here, there = await created(house), await created(house)
        async with (
            following(server, f"{here.id}&threads=1") as looking,
            following(server, f"{there.id}&answers=1") as other,
        ):
            assert (await looking.hear())["type"] == "state"
            assert await looking.hear() == OFFERED
            await other.send({"type": "submit", "prompt": "say it twice"})
            await hear_of(looking, id=there.id, preview="say it twice", status="approval")
            state = await other.until(lambda state: bool(state["approvals"]))
            await other.send({"type": "approve", "id": state["approvals"][0]["id"], "decision": "once"})
            await hear_of(looking, id=there.id, status="idle")
            async with http(server) as browser:
                new = (await browser.post("/threads", json={"title": "Elsewhere"})).json()["thread"]
            await hear_of(looking, id=new["id"], title="Elsewhere")
            await house.execute(RenameThread(thread_id=here.id, title="A name"))
            await hear_of(looking, id=here.id, title="A name")
            await house.execute(ArchiveThread(thread_id=new["id"], archived=True))
            await hear_of(looking, id=new["id"], archived=True)
            assert not any(message["type"] == "threads" for message in other.heard)


class DeafWriter:
    """A connection whose other side reads when it is told to."""

    on_room: Callable[[], None] | None = None
    gone, unsent, framed = False, 0, True

    def __init__(self) -> None:
        self.paused = False
        self.sent: list[bytes] = []

    def write(self, payload: Payload) -> None:
        self.sent.append(payload.data)

    def drop(self, code: int, why: str) -> None:
        raise AssertionError(code, why)


async def test_a_client_that_was_started_over_is_told_to_look_again() -> None:
    writer = DeafWriter()
    async with engine(ScriptedModel(), clock=SystemClock()) as house, anyio.create_task_group() as tasks:
        encoder = sync_encoder(Offer(models=house.models))
        thread = await created(house)
        session: Session = SyncSession(thread.id, encoder, str, can_answer=False, follows_list=True)
        fanout = Fanout(house, tasks)
        connection = fanout.connect(session, writer, tasks)
        await connection.open()
        first, listed = writer.sent
        assert listed == LIST_CHANGED
        writer.paused = True
        title = "x" * encoder().rules.outbox_bytes
        await house.execute(RenameThread(thread_id=thread.id, title=title))
        with anyio.fail_after(60):
            while not fanout.sent:
                await anyio.sleep(0.01)
        writer.paused = False
        assert writer.on_room is not None
        writer.on_room()
        assert writer.sent[:2] == [first, LIST_CHANGED]
        assert title.encode() in writer.sent[2]
        assert writer.sent[2].startswith(b'{"type":"state"')
        assert writer.sent[3] == LIST_CHANGED
        connection.close()
        tasks.cancel_scope.cancel()
