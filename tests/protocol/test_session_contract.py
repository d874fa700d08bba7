"""The session contract, held by every protocol; on the real engine by ACP beside bootstrap."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import given, settings
from msgspec.structs import replace
from stage import Stage

from hames.core import watcher as broadcast
from hames.core.engine import Engine
from hames.domain.commands import StartTurn
from hames.domain.events import Record
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.state import blank
from hames.protocols.acp.session import AcpSession
from hames.protocols.bootstrap.session import BootstrapSession
from hames.protocols.flint.session import FlintSession
from hames.protocols.runner.session import RunnerSession
from hames.protocols.session import ReadClientFile, Session
from hames.protocols.sse.session import SseSession
from hames.protocols.sync.encoder import sync_encoder
from hames.protocols.sync.session import SyncSession
from hames.protocols.sync.view import Offer
from hames.stdio.connection import Connection, read_lines
from hames.testing.checks.session import check_session, receive
from hames.testing.fakes.model import OneModel, ScriptedModel, call, hang, say
from hames.testing.generators.histories import changes, histories

WORDS = " ".join(f"word{number}" for number in range(400))
ASKS = ([say("Let me try."), call("shell", command="touch made && echo done")], [say("It is made.")])


# -- the contract, without an engine


def flint() -> Session:
    session = FlintSession(OneModel(ScriptedModel()), blank(ThreadId("t")).settings)
    receive(session, b'{"id":0,"method":"initialize","params":{"clientInfo":{"name":"me","version":"1"}}}')
    return session


def codex() -> Session:
    session = FlintSession(OneModel(ScriptedModel()), blank(ThreadId("t")).settings)
    receive(session, b'{"id":0,"method":"initialize","params":{"clientInfo":{"name":"codex","version":"1"}}}')
    return session


def acp() -> Session:
    session = AcpSession(OneModel(ScriptedModel()), replace(blank(ThreadId("t")).settings, model="scripted"))
    params = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}}
    receive(session, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
    return session


def acp_v2() -> Session:
    session = AcpSession(OneModel(ScriptedModel()), replace(blank(ThreadId("t")).settings, model="scripted"))
    params = {"protocolVersion": 2, "info": {"name": "me", "version": "1"}}
    receive(session, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
    return session


def requests(head: dict[str, Any], *messages: tuple[str, Any]) -> list[bytes]:
    return [
        json.dumps({**head, "id": number, "method": method, "params": params}).encode()
        for number, (method, params) in enumerate(messages, 1)
    ]


TEXT = [{"type": "text", "text": "go"}]
RPC = {"jsonrpc": "2.0"}
FLINT = requests(
    {},
    ("thread/start", {}),
    ("thread/resume", {"threadId": "ses_1"}),
    ("thread/read", {"threadId": "ses_1"}),
    ("turn/start", {"threadId": "ses_1", "input": TEXT}),
    ("thread/list", {}),
    ("config/list", {}),
    ("thread/unsubscribe", {"threadId": "ses_1"}),
)
ENCODER = sync_encoder(Offer(models=OneModel(ScriptedModel())))
PROTOCOLS: dict[str, tuple[Callable[[], Session], list[bytes]]] = {
    "bootstrap": (
        BootstrapSession,
        requests(
            RPC,
            ("thread.create", {}),
            ("thread.get", {"threadId": "ses_1"}),
            ("turn.start", {"threadId": "ses_1", "input": TEXT}),
            ("thread.list", {}),
            ("turn.cancel", {"threadId": "ses_1"}),
        ),
    ),
    "flint": (flint, FLINT),
    "codex": (codex, FLINT),
    "acp": (
        acp,
        requests(
            RPC,
            ("session/new", {"cwd": "/w", "mcpServers": []}),
            ("session/load", {"sessionId": "ses_1", "cwd": "/w", "mcpServers": []}),
            ("session/resume", {"sessionId": "ses_1", "cwd": "/w", "mcpServers": [{"name": "m", "command": "/m"}]}),
            ("session/fork", {"sessionId": "ses_1", "cwd": "/w"}),
            ("session/prompt", {"sessionId": "ses_1", "prompt": TEXT}),
            ("session/list", {}),
            ("session/set_mode", {"sessionId": "ses_1", "modeId": "plan"}),
            ("session/set_config_option", {"sessionId": "ses_1", "configId": "mode", "value": "plan"}),
            ("session/close", {"sessionId": "ses_1"}),
            ("session/delete", {"sessionId": "ses_1"}),
            ("logout", {}),
            ("authenticate", {"methodId": "api-key"}),
        ),
    ),
    "acp v2": (
        acp_v2,
        requests(
            RPC,
            ("session/new", {"cwd": "/w"}),
            ("session/resume", {"sessionId": "ses_1", "cwd": "/w", "replayFrom": {"type": "start"}}),
            ("session/prompt", {"sessionId": "ses_1", "prompt": TEXT}),
            ("session/list", {}),
            ("session/set_config_option", {"sessionId": "s", "configId": "mode", "type": "id", "value": "plan"}),
            ("tool_call/cancel", {"sessionId": "ses_1", "toolCallId": "i"}),
            ("session/close", {"sessionId": "ses_1"}),
            ("session/delete", {"sessionId": "ses_1"}),
            ("auth/login", {"methodId": "api-key"}),
        ),
    ),
}

RUN = StartTurn(thread_id=ThreadId("ses_1"), content=(TextInput(text="go"),))

SYNC = [
    json.dumps({"type": "commands", "commands": [command]}).encode()
    for command in (
        {"type": "submit", "prompt": "go", "id": "s1"},
        {"type": "approve", "id": "a", "decision": "once"},
        {"type": "configure", "model": "m"},
        {"type": "rename", "title": "t"},
        {"type": "compact"},
    )
]
PROTOCOLS |= {
    "sync": (lambda: SyncSession(ThreadId("ses_1"), ENCODER, str, can_answer=False, follows_list=True), SYNC),
    "sse": (lambda: SseSession(ThreadId("ses_1"), "3.1", can_answer=False), []),
    "runner": (lambda: RunnerSession(RUN, can_answer=False), []),
}


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=25)
@given(history=histories(max_turns=2).filter(lambda history: any("text" in str(one.event) for one in history)))
def test_every_protocol_keeps_the_session_contract(name: str, history: list[Record]) -> None:
    open_session, messages = PROTOCOLS[name]
    check_session(open_session, messages, list(changes(history)))


# -- on the real engine


class Outbox:
    """Sends bytes to a reader that may stop reading. `largest` is the most that ever waited."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size, self.largest, self.reading = limit, 0, 0, True
        self._data: list[bytes] = []
        self._written, self._sent = anyio.Event(), anyio.Event()

    def write(self, data: bytes) -> None:
        self._data.append(data)
        self.size += len(data)
        self.largest = max(self.largest, self.size)
        self._written.set()

    async def room(self) -> None:
        while self.size > self.limit:
            await self._sent.wait()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while not self._data or not self.reading:
                self._written = anyio.Event()
                await self._written.wait()
            data, self._data = b"".join(self._data), []
            self.size = 0
            sent, self._sent = self._sent, anyio.Event()
            sent.set()
            yield data

    def read_again(self) -> None:
        self.reading = True
        self._written.set()


class Client:
    def __init__(self, engine: Engine, session: Session, tasks: TaskGroup) -> None:
        self.outbox = Outbox(64 << 10)
        self.messages: list[Any] = []
        self.connection = Connection(engine, session, self.outbox, tasks)
        self._send, chunks = anyio.create_memory_object_stream[bytes](100)
        self._news, self._last = anyio.Event(), 0
        tasks.start_soon(self.connection.serve, read_lines(chunks))
        tasks.start_soon(self._read)

    async def _read(self) -> None:
        async for data in self.outbox.chunks():
            self.messages += [json.loads(line) for line in data.splitlines()]
            self._news.set()
            self._news = anyio.Event()

    async def send(self, message: Any) -> None:
        await self._send.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def request(self, method: str, **params: Any) -> int:
        self._last += 1
        await self.send({"id": self._last, "method": method, "params": params})
        return self._last

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.request(method, **params))

    async def answer(self, request_id: int) -> Any:
        message = await self.until(lambda one: one.get("id") == request_id and "method" not in one)
        assert "error" not in message, message
        return message["result"]

    async def until(self, wanted: Any) -> Any:
        with anyio.fail_after(60):
            while True:
                for message in self.messages:
                    if wanted(message):
                        return message
                await self._news.wait()

    def told(self, method: str) -> list[Any]:
        return [one["params"] for one in self.messages if one.get("method") == method]

    def acp_said(self, kind: str = "agent_message_chunk") -> str:
        updates = [one["update"] for one in self.told("session/update")]
        return "".join(one["content"]["text"] for one in updates if one["sessionUpdate"] == kind)

    def streamed(self) -> str:
        return "".join(one["delta"] for one in self.told("item.delta") if one["field"] == "text")


class Room:
    def __init__(self, engine: Engine, tasks: TaskGroup) -> None:
        self.engine, self.tasks = engine, tasks

    def bootstrap(self) -> Client:
        return Client(self.engine, BootstrapSession(), self.tasks)

    async def acp(self) -> Client:
        client = Client(self.engine, AcpSession(self.engine.models, self.engine.rules.defaults), self.tasks)
        await client.call("initialize", protocolVersion=1, clientCapabilities={"fs": {"readTextFile": True}})
        return client


@asynccontextmanager
async def room(directory: Path, *script: Any) -> AsyncGenerator[Room]:
    stage = Stage(directory, ScriptedModel(*script))
    async with anyio.create_task_group() as tasks, stage.engine() as engine:
        yield Room(engine, tasks)
        tasks.cancel_scope.cancel()


def text(said: str) -> list[Any]:
    return [{"type": "text", "text": said}]


async def new_thread(client: Client) -> str:
    return (await client.call("thread.create"))["thread"]["threadId"]


async def test_a_prompt_is_answered_when_its_turn_ends_and_permission_is_asked_of_the_client(tmp_path: Path) -> None:
    async with room(tmp_path, *ASKS) as here:
        bootstrap, acp = here.bootstrap(), await here.acp()
        thread = await new_thread(bootstrap)
        await acp.call("session/load", sessionId=thread, cwd=str(tmp_path), mcpServers=[])
        prompt = await acp.request("session/prompt", sessionId=thread, prompt=text("make it"))
        asked = await acp.until(lambda one: one.get("method") == "session/request_permission")
        await bootstrap.until(lambda one: one.get("method") == "approval.requested")
        assert not any(one.get("id") == prompt for one in acp.messages), "answered too early"
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        await acp.send({"id": asked["id"], "result": outcome})
        assert (await acp.answer(prompt))["stopReason"] == "end_turn"
        await bootstrap.until(lambda one: one.get("method") == "turn.completed")
        assert (tmp_path / "work" / "made").exists()
        assert acp.acp_said() == bootstrap.streamed() == "Let me try.It is made."
        assert acp.acp_said("user_message_chunk") == "", "this client shows its own prompts itself"
        assert acp.messages[-1].get("id") == prompt, "the answer comes after everything the turn said"


async def test_an_approval_answered_by_another_client_withdraws_the_request(tmp_path: Path) -> None:
    async with room(tmp_path, *ASKS) as here:
        bootstrap, acp = here.bootstrap(), await here.acp()
        thread = (await acp.call("session/new", cwd=str(tmp_path / "work"), mcpServers=[]))["sessionId"]
        prompt = await acp.request("session/prompt", sessionId=thread, prompt=text("make it"))
        asked = await acp.until(lambda one: one.get("method") == "session/request_permission")
        await bootstrap.call("thread.get", threadId=thread)  # a late joiner gets the open question
        question = await bootstrap.until(lambda one: one.get("method") == "approval.requested")
        await bootstrap.call("approval.respond", requestId=question["params"]["requestId"], decision="reject")
        withdrawn = await acp.until(lambda one: one.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == asked["id"]
        assert (await acp.answer(prompt))["stopReason"] == "end_turn"
        assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request", "turn.cancel"])
async def test_a_cancel_in_the_middle_of_a_stream(tmp_path: Path, how: str) -> None:
    async with room(tmp_path, [say("one two three ", cut=True), hang()]) as here:
        bootstrap, acp = here.bootstrap(), await here.acp()
        thread = await new_thread(bootstrap)
        prompt = await acp.request("session/prompt", sessionId=thread, prompt=text("go"))
        await acp.until(lambda _: acp.acp_said() == "one two three ")
        if how == "turn.cancel":
            await bootstrap.call("turn.cancel", threadId=thread)
        else:
            params = {"sessionId": thread} if how == "session/cancel" else {"requestId": prompt}
            await acp.send({"method": how, "params": params})
        assert (await acp.answer(prompt))["stopReason"] == "cancelled"
        failed = await bootstrap.until(lambda one: one.get("method") == "turn.error")
        assert failed["params"]["error"]["info"] == "Cancelled"


async def test_a_file_is_asked_of_the_client_and_the_deadline_holds(tmp_path: Path) -> None:
    async with room(tmp_path, [say("Hello.")]) as here:
        acp, bootstrap = await here.acp(), here.bootstrap()
        wanted = ReadClientFile(thread_id=ThreadId("ses"), path="/a.py")
        with anyio.fail_after(60):
            assert (await bootstrap.connection.ask("r1", wanted, 1)).error == "the client cannot do this"
            assert (await acp.connection.ask("r2", wanted, 0.05)).error == "the client did not answer in time"
            await acp.until(lambda one: one.get("params") == {"requestId": "r2"})

            async def answer() -> None:
                await acp.until(lambda one: one.get("id") == "r3")
                await acp.send({"id": "r3", "result": {"content": "print()"}})

            here.tasks.start_soon(answer)
            assert (await acp.connection.ask("r3", wanted, 15)).result == {"content": "print()"}


async def test_a_client_can_reply_while_the_command_that_asked_it_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(tmp_path, [say("Hello.")]) as here:
        acp, execute = await here.acp(), here.engine.execute

        async def execute_with_client_file(command: Any) -> Any:
            wanted = ReadClientFile(thread_id=ThreadId("ses"), path="/AGENTS.md")
            assert (await acp.connection.ask("r1", wanted, 15)).result == {"content": "be kind"}
            return await execute(command)

        monkeypatch.setattr(here.engine, "execute", execute_with_client_file)
        new = await acp.request("session/new", cwd=str(tmp_path / "work"), mcpServers=[])
        await acp.until(lambda one: one.get("id") == "r1")
        await acp.send({"id": "r1", "result": {"content": "be kind"}})
        assert (await acp.answer(new))["sessionId"]


async def test_late_joiners_lose_no_character_and_hear_none_twice(tmp_path: Path) -> None:
    async with room(tmp_path, [say(WORDS, pieces=400)]) as here:
        first = here.bootstrap()
        thread = await new_thread(first)
        await first.call("turn.start", threadId=thread, input=text("go"))
        late: list[tuple[str, Client]] = []
        for number in range(8):
            joiner = await here.acp() if number % 2 else here.bootstrap()
            if number % 2:
                await joiner.call("session/load", sessionId=thread, cwd="/", mcpServers=[])
                late.append(("", joiner))
            else:
                kept = (await joiner.call("thread.get", threadId=thread))["events"]
                late.append(("".join(one.get("delta", "") for one in kept), joiner))
        await first.until(lambda one: one.get("method") == "turn.completed")
        for before, joiner in late:
            await joiner.until(lambda _, b=before, j=joiner: len(b + j.acp_said() + j.streamed()) >= len(WORDS))
            assert before + joiner.acp_said() + joiner.streamed() == WORDS


async def test_a_slow_reader_is_bounded_and_hears_everything_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "PENDING_CHARS", 100_000)
    long = "x" * 1_000_000
    async with room(tmp_path, [say(long, pieces=1000)]) as here:
        slow, quick = await here.acp(), here.bootstrap()
        thread = (await slow.call("session/new", cwd=str(tmp_path / "work"), mcpServers=[]))["sessionId"]
        await quick.call("thread.get", threadId=thread)
        slow.outbox.reading = False
        prompt = await slow.request("session/prompt", sessionId=thread, prompt=text("go"))
        await quick.until(lambda one: one.get("method") == "turn.completed")
        assert quick.streamed() == long, "others do not wait for the slow one"
        assert slow.outbox.largest < (64 << 10) + 3 * 100_000
        slow.outbox.read_again()
        assert (await slow.answer(prompt))["stopReason"] == "end_turn"
        assert slow.acp_said() == long


async def test_a_prompt_queued_behind_another_clients_turn_is_answered_at_its_own_end(tmp_path: Path) -> None:
    async with room(tmp_path, [say(WORDS, pieces=100)], [say("Second.")]) as here:
        bootstrap, acp = here.bootstrap(), await here.acp()
        thread = await new_thread(bootstrap)
        await acp.call("session/load", sessionId=thread, cwd="/", mcpServers=[])
        await bootstrap.call("turn.start", threadId=thread, input=text("first"))
        ended = await acp.call("session/prompt", sessionId=thread, prompt=text("second"))
        assert ended["stopReason"] == "end_turn"
        assert acp.acp_said().endswith("Second.")
        await bootstrap.until(lambda _: len(bootstrap.told("turn.completed")) == 2)
