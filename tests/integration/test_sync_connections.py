"""Connections of sync: quiet and slow ones, floods, a server that stops, compression, uploads."""

import socket
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from hames.clock_and_ids import SystemClock
from hames.server.app import Server
from hames.server.listener import Address
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import ScriptedModel, hang, say
from server_support import HandClock, SyncFollower, following, http, port_of, running
from support import created, engine
from sync_clients import settled, submit

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes([0, 0, 0, 8, 0, 0, 0, 8])


async def test_a_thread_is_chosen_by_the_address(tmp_path: Path) -> None:
    async with engine(ScriptedModel(), clock=SystemClock()) as house, running(house, tmp_path / "data") as server:
        first, second = await created(house), await created(house)
        for thread in (first, second):
            async with following(server, thread.id) as client:
                assert (await client.hear())["state"]["thread"]["id"] == thread.id
        for name in ("ses_none", "..%2f..%2fetc"):
            async with following(server, name) as client:
                with pytest.raises(ConnectionClosed):
                    await client.hear()
                assert client.socket.close_code == 4404


async def test_a_quiet_connection_hears_empty_deltas(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        engine(ScriptedModel(), clock=clock) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        first = await client.hear()
        await clock.advance(20)
        assert await client.hear() == {"type": "delta", "operations": [], "rev": first["rev"]}


async def test_a_flood_of_tokens_becomes_few_messages_and_no_letter_is_lost(tmp_path: Path) -> None:
    text = "".join(f"{number} " for number in range(2000))
    async with (
        engine(ScriptedModel([say(text, pieces=2000)]), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await submit(client)
        state = await client.until(settled)
        assert state["messages"][1]["content"] == text
        assert len(client.heard) < 1000
        appends = [
            operation
            for message in client.heard[1:]
            for operation in message["operations"]
            if operation["type"] == "append-text"
        ]
        assert len(appends) <= len(client.heard)


async def test_a_client_that_stops_reading_is_started_over_and_others_notice_nothing(tmp_path: Path) -> None:
    rounds = 30
    model = ScriptedModel(*[[say("x" * 300_000, pieces=30)] for _ in range(rounds)])
    async with (
        engine(model, clock=SystemClock(), compacts=False) as house,
        running(house, tmp_path / "data") as server,
        following(server, max_queue=1, sock=small_ears(server)) as lazy,
        following(server) as eager,
    ):
        await lazy.hear()
        await eager.hear()
        for number in range(rounds):
            await submit(eager, str(number))
            await eager.until(lambda state, n=number: settled(state) and len(state["messages"]) == 2 * n + 2)
        with anyio.fail_after(60):
            await lazy.until(lambda state: len(state["messages"]) == 2 * rounds and settled(state))
        assert lazy.state == eager.state
        assert [message["type"] for message in lazy.heard].count("state") > 1
        assert [message["type"] for message in eager.heard].count("state") == 1


def small_ears(server: Server) -> socket.socket:
    """A connection whose end takes little at a time."""
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small.connect(("127.0.0.1", port_of(server)))
    return small


async def test_a_stopping_server_says_so_and_a_new_one_goes_on(tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))

    model = ScriptedModel([say("Half", cut=True), hang()])
    async with (
        engine(model, clock=SystemClock(), store=store()) as house,
        running(house, tmp_path / "data") as server,
        following(server) as client,
    ):
        await client.hear()
        await submit(client)
        with anyio.fail_after(60):
            await model.hanging.wait()
        await client.until(lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"] == "Half")
        with anyio.fail_after(60):
            server.stop()
            with pytest.raises(ConnectionClosed):
                while True:
                    await client.hear()
        assert client.socket.close_code == 1012
        thread = client.state["thread"]["id"]
    async with (
        engine(ScriptedModel([say("Again.")]), clock=SystemClock(), store=store()) as house,
        running(house, tmp_path / "data") as server,
        following(server, thread) as again,
    ):
        state = (await again.hear())["state"]
        assert state["status"] == "error"
        assert state["error"].startswith("interrupted")
        assert (state["messages"][1]["content"], state["messages"][1]["status"]) == ("Half", "error")
        await submit(again, "go on")
        state = await again.until(lambda state: settled(state) and len(state["messages"]) == 4)
        assert state["messages"][3]["content"] == "Again."


async def test_compression_is_spoken_with_other_machines_only(tmp_path: Path) -> None:
    token = "a-token-that-nobody-guesses"
    answer = "The same words, the same words. " * 50
    async with (
        engine(ScriptedModel([say(answer, pieces=5)]), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=token, address=Address(host="0.0.0.0", port=0)) as server,
    ):
        url = f"ws://127.0.0.1:{port_of(server)}/ws"
        async with connect(url, additional_headers={"authorization": f"Bearer {token}"}, proxy=None) as socket_:
            assert [extension.name for extension in socket_.protocol.extensions] == ["permessage-deflate"]
            client = SyncFollower(socket_)
            await client.hear()
            await submit(client)
            assert (await client.until(settled))["messages"][1]["content"] == answer


async def test_a_picture_travels_from_an_upload_into_the_conversation(tmp_path: Path) -> None:
    picture = PNG + b"\0" * 20
    model = ScriptedModel([say("I see.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        following(server) as page,
    ):
        await page.hear()
        sent = await client.post(
            "/uploads", content=picture, params={"name": "../evil name.exe"}, headers={"content-type": "image/png"}
        )
        assert sent.status_code == 201
        upload = sent.json()
        assert (upload["name"], upload["mediaType"], upload["size"]) == ("_evil name.png", "image/png", len(picture))
        await submit(page, "look", id="p_1", attachments=[{"type": "image", "id": upload["id"]}])
        state = await page.until(settled)
        [attached] = state["messages"][0]["attachments"]
        assert (attached["kind"], attached["name"]) == ("image", "_evil name.png")
        shown = await client.get(attached["url"])
        assert (shown.content, shown.headers["content-type"]) == (picture, "image/png")
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert (await client.get(attached["url"].replace("/0", "/1"))).status_code == 404
        await submit(page, "x", attachments=[{"type": "image", "id": "up_" + "0" * 32}])
        while not page.errors:
            await page.hear()
        assert model.requests[0].messages[0].blocks[1].picture.media_type == "image/png"


@pytest.mark.parametrize(
    ("data", "kind", "code"),
    [
        (b"not a picture", "image/png", 400),
        (PNG, "image/png", 201),
        (PNG, "image/jpeg", 400),
        (b"GIF89a" + bytes([64, 0, 32, 0]), "image/gif", 201),
        (b"GIF89a" + bytes([255, 255, 255, 255]), "image/gif", 400),
        (b"<svg/>", "image/svg+xml", 415),
        (PNG + b"\0" * (10 << 20), "image/png", 413),
    ],
)
async def test_only_pictures_are_taken_as_pictures(tmp_path: Path, data: bytes, kind: str, code: int) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        answer = await client.post("/uploads", content=data, headers={"content-type": kind})
        assert answer.status_code == code
