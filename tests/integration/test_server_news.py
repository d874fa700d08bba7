"""The list of threads, pushed: titles, dots and new threads reach whoever asked, whichever thread it looks at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hames.clock_and_ids import SystemClock
from hames.domain.commands import ArchiveThread, RenameThread
from hames.server.clients import OUTBOX_BYTES, SyncClient
from hames.server.news import LOOK, News
from hames.server.websocket.protocol import TextFrame
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


class DeafWire:
    """A connection whose other side reads when it is told to."""

    on_room: Callable[[], None] | None = None
    gone, unsent = False, 0

    def __init__(self) -> None:
        self.paused = False
        self.sent: list[bytes] = []

    def write(self, frame: TextFrame) -> None:
        self.sent.append(frame.text)

    def drop(self, code: int, why: str) -> None:
        raise AssertionError(code, why)


def test_a_client_that_was_started_over_is_told_to_look_again() -> None:
    wire = DeafWire()
    client = SyncClient(wire, lambda: TextFrame(b"state"), 0.0)
    with News(SystemClock()).telling(client):
        wire.paused = True
        for _ in range(3):
            client.offer(TextFrame(b"x" * (OUTBOX_BYTES // 2)), 1.0)
        wire.paused = False
        assert wire.on_room is not None
        wire.on_room()
    assert wire.sent == [b"state", LOOK.text, b"state", LOOK.text]
