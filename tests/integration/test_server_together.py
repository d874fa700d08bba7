"""One live thread through every protocol at once; and the other ways in: JSON-RPC sockets, the unix socket, stdio."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect

from hames.clock_and_ids import SystemClock
from hames.domain.approvals import RunCommand
from hames.domain.errors import Misconfigured
from hames.domain.json import Json
from hames.server import unix
from hames.server.app import Server
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import ScriptedModel, call, hang, say, think
from server_support import events, following, http, running
from support import ECHO, PlainTool, echo, engine


class Rpc:
    """A JSON-RPC client over a WebSocket: one message a frame."""

    def __init__(self, socket: ClientConnection, **head: Json) -> None:
        self._socket = socket
        self._head = head
        self._last = 0
        self.told: list[Json] = []

    async def ask(self, method: str, **params: Json) -> Json:
        self._last += 1
        await self.send({**self._head, "id": self._last, "method": method, "params": params})
        while True:
            message = await self.hear()
            if message.get("id") == self._last and "method" not in message:
                return message.get("result", message)

    async def hear(self) -> Json:
        with anyio.fail_after(60):
            frame = await self._socket.recv()
        assert isinstance(frame, str)
        message = msgspec.json.decode(frame)
        if "method" in message:
            self.told.append(message)
        return message

    async def until(self, method: str) -> Json:
        while True:
            for message in self.told:
                if message["method"] == method:
                    return message
            await self.hear()

    async def send(self, message: Json) -> None:
        await self._socket.send(msgspec.json.encode(message).decode())

    def count(self, method: str) -> int:
        return sum(message["method"] == method for message in self.told)


@asynccontextmanager
async def speaking(server: Server, name: str, **head: Json) -> AsyncGenerator[Rpc]:
    url = server.url.replace("http", "ws", 1) + f"/{name}"
    async with connect(url, max_size=None, compression=None, proxy=None) as socket:
        yield Rpc(socket, **head)


async def test_one_thread_through_every_protocol_at_once(tmp_path: Path) -> None:
    """Started over flint, watched over SSE and sync, approved over bootstrap; at the end all agree."""
    danger = PlainTool("danger", echo, intent=RunCommand(command="rm x", cwd="/w"))
    model = ScriptedModel([think("Hm."), say("Let me see."), call("danger", text="x")], [say("All done.")])
    store = JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))
    async with (
        engine(model, danger, ECHO, clock=SystemClock(), store=store, cwd=tmp_path) as house,
        running(house, tmp_path / "data") as server,
        speaking(server, "flint") as flint,
        speaking(server, "bootstrap", jsonrpc="2.0") as bootstrap,
        http(server) as client,
    ):
        await flint.ask("initialize", clientInfo={"name": "editor", "version": "1"})
        await flint.send({"method": "initialized"})
        thread = (await flint.ask("thread/start", cwd=str(tmp_path)))["thread"]["id"]
        async with events(client, f"/events?thread={thread}") as sse, following(server, thread) as sync:
            await sync.hear()
            await bootstrap.ask("thread.get", threadId=thread)
            await flint.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "Hi"}])

            question = await bootstrap.until("approval.requested")
            asked = await sse.until("approval")
            state = await sync.until(lambda state: bool(state["approvals"]))
            assert question["params"]["requestId"] == asked["id"] == state["approvals"][0]["id"]
            assert asked["command"] == state["approvals"][0]["command"] == "rm x"
            answer = await bootstrap.ask("approval.respond", requestId=asked["id"], decision="once")
            assert "error" not in answer

            await flint.until("turn/completed")
            await bootstrap.until("turn.completed")
            await sse.until("status", state="idle")
            final = await sync.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)

        said = ["Let me see.", "All done."]
        assert [message["content"] for message in final["messages"] if message["role"] == "assistant"] == said
        assert [event["content"] for event in sse.events if event["type"] == "text"] == said
        assert _texts(flint, "item/completed", "agentMessage") == said
        assert _texts(bootstrap, "item.completed", "assistant_message") == said
        for rpc, begun, ended in (
            (flint, "item/started", "item/completed"),
            (bootstrap, "item.started", "item.completed"),
        ):
            started, completed = _items(rpc, begun), _items(rpc, ended)
            assert started == completed
            assert set(started.values()) == {1}, "each saw each item once"
        kinds = Counter(event["type"] for event in sse.events)
        assert (kinds["user"], kinds["text"], kinds["reasoning"], kinds["tool_call"], kinds["tool_result"]) == (
            1,
            2,
            1,
            1,
            1,
        )
        kept = (await client.get(f"/threads/{thread}")).json()["state"]
        assert kept == final


def _items(rpc: Rpc, method: str) -> Counter[str]:
    found = (message["params"] for message in rpc.told if message["method"] == method)
    return Counter(params.get("itemId") or params["item"]["id"] for params in found)


def _texts(rpc: Rpc, method: str, kind: str) -> list[str]:
    items = [message["params"]["item"] for message in rpc.told if message["method"] == method]
    found = [item.get("data", item) for item in items if item["type"] == kind]
    return [data["text"] for data in found if data.get("kind", "text") == "text"]


async def test_a_frame_is_a_message_whatever_is_in_it(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        speaking(server, "bootstrap", jsonrpc="2.0") as rpc,
    ):
        socket: Any = rpc._socket
        await socket.send('{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "method": "initialize",\n  "params": {}\n}')
        assert (await rpc.hear())["id"] == 1
        await socket.send('{"jsonrpc":"2.0","id":2,"method":"initi\nalize"}')
        assert (await rpc.hear())["error"]["code"] == -32700
        await socket.send(b'{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}')
        assert (await rpc.hear())["error"]["code"] == -32700
        await rpc.send([{"jsonrpc": "2.0", "id": 4, "method": "initialize"}, 1])
        batch = await socket.recv()
        assert len(msgspec.json.decode(batch)) == 2


async def test_a_client_that_goes_leaves_its_turn_running(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with engine(model, clock=SystemClock(), cwd=tmp_path) as house, running(house, tmp_path / "data") as server:
        async with speaking(server, "bootstrap", jsonrpc="2.0") as rpc:
            thread = (await rpc.ask("thread.create", directory=str(tmp_path)))["thread"]["threadId"]
            await rpc.ask("turn.start", threadId=thread, input=[{"type": "text", "text": "go"}])
            with anyio.fail_after(60):
                await model.hanging.wait()
        async with following(server, thread) as sync:
            assert (await sync.hear())["state"]["status"] == "running"


@asynccontextmanager
async def joined(directory: Path, first: bytes) -> AsyncGenerator[anyio.abc.SocketStream]:
    with unix.short_path(directory) as path:
        stream = await anyio.connect_unix(path)
    async with stream:
        await stream.send(first)
        yield stream


async def _lines(stream: anyio.abc.SocketStream, count: int) -> list[Json]:
    received = b""
    with anyio.fail_after(60):
        while received.count(b"\n") < count:
            received += await stream.receive()
    return [msgspec.json.decode(line) for line in received.splitlines()]


@pytest.mark.parametrize("deep", [0, 12], ids=["a short path", "a path too long for a socket"])
async def test_programs_of_this_user_come_in_through_the_data_directory(tmp_path: Path, deep: int) -> None:
    data = tmp_path.joinpath(*["a-rather-long-name"] * deep, "data")
    data.parent.mkdir(parents=True, exist_ok=True)
    async with engine(ScriptedModel(), clock=SystemClock()) as house, running(house, data):
        assert (data / "hames.sock").stat().st_mode & 0o777 == 0o600
        assert data.stat().st_mode & 0o777 == 0o700
        hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
        async with joined(data, b"bootstrap\n" + hello) as stream:
            [answer] = await _lines(stream, 1)
            assert answer["id"] == 1
        async with joined(data, b"flint\n") as stream:
            await stream.send(b'{"id":7,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}\n')
            [answer] = await _lines(stream, 1)
            assert answer["id"] == 7
        async with joined(data, b"gopher\n") as stream:
            assert b"bootstrap or flint" in await stream.receive()
    assert not (data / "hames.sock").exists()


async def test_a_socket_that_a_dead_server_left_is_taken_over_and_a_live_one_is_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "hames.sock").write_text("left behind")
    async with engine(ScriptedModel(), clock=SystemClock()) as house, running(house, data):
        async with engine(ScriptedModel(), clock=SystemClock()) as other:
            with pytest.raises(Misconfigured, match="is already running here"):
                async with running(other, data):
                    pass
        assert (data / "hames.sock").is_socket()


def _hames(*words: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", *words]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "HAMES_STATE": str(tmp_path / "state"),
        "HAMES_CONFIG": str(tmp_path / "none"),
    }


@pytest.mark.parametrize(
    ("command", "hello"),
    [
        ("harness", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
        ("app-server", {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "x", "version": "1"}}}),
    ],
)
async def test_stdio_is_joined_to_a_running_server(
    tmp_path: Path, environment: dict[str, str], command: str, hello: Json
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    where = ("--cwd", str(work))
    async with await anyio.open_process(_hames("serve", "--port", "0", *where), env=environment) as server:
        assert server.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await server.stdout.receive()
            done = await anyio.run_process(
                _hames(command, "--attach", *where),
                input=msgspec.json.encode(hello) + b"\n",
                env=environment,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        assert msgspec.json.decode(done.stdout)["id"] == 1
        server.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            assert await server.wait() == 0
    alone = subprocess.run(
        _hames(command, "--attach", *where), env=environment, input=b"", capture_output=True, timeout=60, check=False
    )
    assert alone.returncode == 2
    assert b"hames serve" in alone.stderr
    assert alone.stdout == b""
