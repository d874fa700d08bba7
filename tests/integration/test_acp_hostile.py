"""What rough clients do at `/acp`, over event streams and WebSocket: everybody is answered, nothing happens twice."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_support import AcpClient, Desk, acp_desk
from acp_transports import TRANSPORTS, SocketClient, StreamsClient
from hames.domain.commands import ReadThread
from hames.domain.ids import ThreadId
from hames.domain.items import ToolCall
from hames.domain.state import ThreadState
from hames.testing.fakes.model import ScriptedModel, call, hang, say, wait_for
from server_support import running

pytestmark = pytest.mark.parametrize("way", list(TRANSPORTS))
Client = SocketClient | StreamsClient
VERSIONS = pytest.mark.parametrize("version", [1, 2])

ASK = {"questions": [{"question": "Which one?", "choices": [{"label": "left"}, {"label": "right"}]}]}
TOUCH = [call("shell", command="echo once >> made")]
ALL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class House:
    """A server on a scripted model, and clients that come to it in one way."""

    def __init__(self, desk: Desk, model: ScriptedModel, make: Callable[[str | None], Client]) -> None:
        self.work, self.model = desk.work, model
        self._engine = desk.engine
        self._make = make

    async def client(self, *, answer: str | None = None, offered: Any = None) -> Client:
        client = self._make(answer)
        await client.initialize(offered)
        return client

    async def thread(self, session: str) -> ThreadState:
        state = await self._engine.execute(ReadThread(thread_id=ThreadId(session)))
        assert isinstance(state, ThreadState)
        return state


@asynccontextmanager
async def house(directory: Path, way: str, version: int, *script: Any) -> AsyncGenerator[House]:
    model = ScriptedModel(*script)
    async with (
        acp_desk(directory, model, version) as desk,
        running(desk.engine, directory / "data") as server,
    ):
        with anyio.fail_after(120):
            yield House(desk, model, lambda answer: TRANSPORTS[way](server, desk.tasks, version, answer))


async def heard(client: AcpClient, count: int) -> None:
    await client.until(lambda _: len(client.messages) >= count)


LINES = [b"{", b"\xff\xfe", b"[]", b"3", b"null", b'{"id":1}', b'{"jsonrpc":"1.0","id":1,"method":"x"}', b"{}"]


@VERSIONS
async def test_malformed_messages_are_refused_and_the_connection_goes_on(
    tmp_path: Path, way: str, version: int
) -> None:
    async with house(tmp_path, way, version, [say("Hello.")]) as here:
        client = await here.client()
        before = len(client.messages)
        for line in LINES:
            await client.send_raw(line)
        if isinstance(client, StreamsClient):  # what is no JSON object is refused as a request of HTTP
            await heard(client, before + len(LINES) - len(client.refusals))
            assert client.refusals == [400] * 5
        else:
            await heard(client, before + len(LINES))
        assert all(one["error"]["code"] in (-32700, -32600) for one in client.messages[before:])
        assert (await client.refusal("no/such"))[0] == -32601
        assert (await client.refusal("session/prompt", sessionId="nope", prompt=[{"type": "text", "text": "x"}]))[0]
        assert await client.turn(await client.new(here.work), "go") == "end_turn"


@VERSIONS
async def test_cancel_at_once_and_during_a_permission(tmp_path: Path, way: str, version: int) -> None:
    async with house(tmp_path, way, version, [hang()], TOUCH, [say("Again.")]) as here:
        client = await here.client()
        session = await client.new(here.work)
        number = await client.prompt(session, "go")
        await client.notify("session/cancel", sessionId=session)
        assert await client.ended(session, number) == "cancelled"
        if not here.model.requests:  # it was cancelled before the model was asked
            number = await client.prompt(session, "go")
            await here.model.hanging.wait()
            await client.notify("session/cancel", sessionId=session)
            assert await client.ended(session, number) == "cancelled"
        number = await client.prompt(session, "make it")
        [question] = await client.asked()
        await client.notify("session/cancel", sessionId=session)
        assert await client.ended(session, number) == "cancelled"
        await client.select(question, "allow_once")  # too late
        assert await client.turn(session, "again") == "end_turn"
        assert not (here.work / "made").exists()


@VERSIONS
async def test_two_permissions_at_once_are_answered_in_the_other_order(tmp_path: Path, way: str, version: int) -> None:
    async with house(tmp_path, way, version, TOUCH, TOUCH, [say("A.")], [say("B.")]) as here:
        client = await here.client()
        sessions = [await client.new(here.work), await client.new(here.work)]
        numbers = [await client.prompt(session, "go") for session in sessions]
        questions = await client.asked(2)
        assert {one["params"]["sessionId"] for one in questions} == set(sessions)
        for question in reversed(questions):
            await client.select(question, "allow_once")
            await client.select(question, "reject_once")  # answered already
        for session, number in zip(sessions, numbers, strict=True):
            assert await client.ended(session, number) == "end_turn"
        assert (here.work / "made").read_text() == "once\nonce\n"


@VERSIONS
async def test_who_asked_vanishes_and_another_client_answers_the_permission(
    tmp_path: Path, way: str, version: int
) -> None:
    async with house(tmp_path, way, version, TOUCH, [say("It is made.")]) as here:
        first, second = await here.client(), await here.client()
        session = await first.new(here.work)
        await first.prompt(session, "make it")
        await first.asked()
        await second.open(session, here.work)
        [question] = await second.asked()
        await first.vanish()
        await second.select(question, "allow_once")
        await second.until(lambda _: second.said() == "It is made.")
        third = await here.client()
        await third.open(session, here.work)
        assert third.said() == "It is made."
        assert (here.work / "made").read_text() == "once\n"


@VERSIONS
async def test_a_running_thread_is_loaded_by_three_clients(tmp_path: Path, way: str, version: int) -> None:
    goes_on = anyio.Event()
    script = [say("Before. ", cut=True), wait_for(goes_on), say(" ".join(["word"] * 200), pieces=100)]
    async with house(tmp_path, way, version, script) as here:
        first = await here.client()
        session = await first.new(here.work)
        number = await first.prompt(session, "talk")
        await first.until(lambda _: first.said() == "Before. ")
        late = [await here.client() for _ in range(3)]
        for client in late:
            await client.open(session, here.work)
            await client.until(lambda _, c=client: c.said() == "Before. ")
            assert client.said("user_message") == "talk"
        await late[0].vanish()
        await late[1].hang_up()
        goes_on.set()
        assert await first.ended(session, number) == "end_turn"
        await late[2].until(lambda _: late[2].said() == first.said())


@VERSIONS
@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"action": "decline"}},
        {"result": {"action": "cancel"}},
        {"result": 3},
        {"error": {"code": -1, "message": "no"}},
    ],
    ids=["decline", "cancel", "nonsense", "error"],
)
async def test_a_question_that_is_declined_is_no_answer_and_the_turn_goes_on(
    tmp_path: Path, way: str, version: int, answer: dict[str, Any]
) -> None:
    async with house(tmp_path, way, version, [call("ask_user", **ASK)], [say("As you like.")]) as here:
        client = await here.client()
        session = await client.new(here.work)
        number = await client.prompt(session, "go")
        [question] = await client.asked(method="elicitation/create")
        await client.send(id=question["id"], **answer)
        assert await client.ended(session, number) in ("end_turn", "cancelled")
        (turn,) = (await here.thread(session)).turns
        [asked] = [item for item in turn.items if isinstance(item, ToolCall)]
        assert asked.status in ("completed", "declined", "interrupted")
        assert "left" not in str(asked.result)


async def test_files_and_terminals_that_are_refused_midway_are_not_needed(tmp_path: Path, way: str) -> None:
    script = (
        [call("read", path="a.txt")],
        [call("edit", path="a.txt", old_string="unsaved", new_string="changed")],
        [call("shell", command="echo once >> made")],
        [say("Done.")],
    )
    async with house(tmp_path, way, 1, *script) as here:
        file = here.work / "a.txt"
        file.write_text("saved, unsaved\n")
        client = await here.client(answer="allow_once", offered=ALL)
        client.buffers = {}
        assert await client.turn(await client.new(here.work), "go") == "end_turn"
        asked = [one["method"] for one in client.messages if one.get("method", "")[:3] in ("fs/", "ter")]
        assert "fs/read_text_file" in asked
        assert asked[-1] == "terminal/create"
        assert file.read_text() == "saved, changed\n"
        assert (here.work / "made").read_text() == "once\n"
