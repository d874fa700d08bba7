"""A flint conversation in the test's own hands: a real connection on a real engine, with no pipe in between."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.domain.models import ModelCard
from hames.domain.options import Choice, Selector, Settings
from hames.protocols.flint.session import FlintSession
from hames.protocols.session import Session
from hames.sandbox.local import LocalSandbox
from hames.server.peers.sockets import PeerSockets
from hames.stdio.connection import Connection, read_lines
from hames.stdio.principals import Principal
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.model import OneModel, ScriptedModel
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import BuiltinTools
from node_support import node_parts
from support import NoTrust, create_in

Message = dict[str, Any]


class Box:
    """The outbox of a connection, read from the other side."""

    def __init__(self, feed: MemoryObjectSendStream[bytes]) -> None:
        self._feed = feed

    def write(self, data: bytes) -> None:
        if data:
            self._feed.send_nowait(data)

    async def room(self) -> None:
        return


class Wire:
    """What a client holds: an anyio byte stream, as far as our clients need one."""

    def __init__(self, send: MemoryObjectSendStream[bytes], receive: MemoryObjectReceiveStream[bytes]) -> None:
        self._send = send
        self._receive = receive

    async def send(self, item: bytes) -> None:
        await self._send.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._receive.receive()

    async def aclose(self) -> None:
        self._send.close()


@asynccontextmanager
async def wired(
    engine: Engine, session: Session | None = None, principal: Principal | None = None
) -> AsyncGenerator[Wire]:
    """A client's end of a new connection."""
    session = session or FlintSession(engine.models, engine.rules.defaults, home="/h")
    up_send, up_receive = anyio.create_memory_object_stream[bytes](float("inf"))
    down_send, down_receive = anyio.create_memory_object_stream[bytes](float("inf"))
    async with anyio.create_task_group() as tasks:
        connection = Connection(engine, session, Box(down_send), tasks, principal)

        async def serve() -> None:
            await connection.serve(read_lines(up_receive))
            await connection.finish()
            down_send.close()

        tasks.start_soon(serve)
        try:
            yield Wire(up_send, down_receive)
        finally:
            up_send.close()
            tasks.cancel_scope.cancel()
    for stream in (up_receive, down_send, down_receive):
        stream.close()


class Talk:
    """Says messages and hears them, in order. What was passed over stays in `heard`."""

    def __init__(self, wire: Wire, version: str = "") -> None:
        """`version` is the `jsonrpc` member of every message, where a protocol has one."""
        self._wire = wire
        self._version = {"jsonrpc": version} if version else {}
        self._lines: list[bytes] = []
        self._rest = b""
        self.heard: list[Message] = []
        self._last_id = 0

    async def say(self, message: Message | bytes | str) -> None:
        line = message if isinstance(message, bytes) else message.encode() if isinstance(message, str) else None
        await self._wire.send((line if line is not None else msgspec.json.encode(message)) + b"\n")

    async def hear(self) -> Message:
        with anyio.fail_after(60):
            while not self._lines:
                *self._lines, self._rest = (self._rest + await self._wire.receive()).split(b"\n")
        message = json.loads(self._lines.pop(0))
        assert isinstance(message, dict)
        self.heard.append(message)
        return message

    async def until(self, wanted: str | Callable[[Message], bool]) -> Message:
        """The next message with this method, or of this kind."""
        test = (lambda message: message.get("method") == wanted) if isinstance(wanted, str) else wanted
        while True:
            message = await self.hear()
            if test(message):
                return message

    async def call(self, method: str, **params: Any) -> Any:
        """The result. What is told before it stays in `heard`."""
        answer = await self.answer(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    async def refused(self, method: str, **params: Any) -> int:
        """The error's number."""
        answer = await self.answer(method, **params)
        assert "result" not in answer, answer
        assert answer["error"]["message"]
        return answer["error"]["code"]

    async def answer(self, method: str, **params: Any) -> Message:
        self._last_id += 1
        number = self._last_id
        await self.say({**self._version, "id": number, "method": method, "params": params})
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def meet(self, name: str = "test", **capabilities: Any) -> Self:
        given = {"capabilities": capabilities} if capabilities else {}
        await self.call("initialize", clientInfo={"name": name, "version": "1"}, **given)
        await self.say({"method": "initialized", "params": {}})
        return self

    async def start(self, **params: Any) -> str:
        """A new thread's id, when all that is said about its making was said."""
        opened = await self.call("thread/start", **params)
        await self.until("thread/started")
        return opened["thread"]["id"]

    async def prompt(self, thread_id: str, text: str = "go", **params: Any) -> Message:
        """A whole turn: `turn/completed`'s parameters."""
        await self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": text}], **params)
        return (await self.until("turn/completed"))["params"]

    def methods(self) -> list[str]:
        return [message["method"] for message in self.heard if "method" in message]

    def params(self, method: str) -> list[Message]:
        return [message["params"] for message in self.heard if message.get("method") == method]

    def forget(self) -> None:
        self.heard.clear()


@asynccontextmanager
async def talking(engine: Engine, name: str | None = "test", **capabilities: Any) -> AsyncGenerator[Talk]:
    """A conversation, with the handshake behind it unless `name` is None."""
    async with wired(engine) as wire:
        talk = Talk(wire)
        if name is not None:
            await talk.meet(name, **capabilities)
        yield talk


SELECTORS = (
    Selector(
        id="reasoning_effort",
        name="Reasoning effort",
        description="How hard the model thinks",
        group="Reasoning",
        choices=(Choice(id="low", name="Low"), Choice(id="high", name="High", description="Slower")),
        default="low",
        models=("scripted/test",),
    ),
    Selector(
        id="temperature",
        name="Temperature",
        choices=tuple(Choice(id=value, name=value) for value in ("0.0", "0.3", "0.7", "1.0")),
        default="0.7",
    ),
)


class TwoModels(OneModel):
    """`scripted/test`, which is the default, and `scripted/other`."""

    def cards(self) -> list[ModelCard]:
        return [*super().cards(), ModelCard(provider="scripted", model="other", display_name="Other")]

    def find(self, name: str) -> ModelCard:
        return self.cards()[1] if name in ("other", "scripted/other") else super().find(name)


@asynccontextmanager
async def real_engine(
    model: ScriptedModel, folder: Path, *, created_elsewhere: bool = False, database: str = ""
) -> AsyncGenerator[Engine]:
    """Real tools, a real store, a real sandbox; only the model is scripted.

    `created_elsewhere`: another engine on the same directory makes the threads, and so runs their turns.
    `database`: threads are kept there, and the engine is a gateway whose threads run on a worker.
    """
    if database:
        async with _real_engine(model, folder, database), _real_engine(model, folder, database, works=False) as engine:
            yield engine
        return
    if created_elsewhere:
        async with _real_engine(model, folder) as owner, _real_engine(model, folder) as engine:
            create_in(owner, engine)
            yield engine
        return
    async with _real_engine(model, folder) as engine:
        yield engine


def _real_engine(model: ScriptedModel, folder: Path, database: str = "", *, works: bool = True) -> Engine:
    clock, models, sandbox = SystemClock(), TwoModels(model, selectors=SELECTORS), LocalSandbox()
    if database:
        kept = node_parts(database, "worker" if works else "gateway", works=works)
    else:
        store = JsonlStore(folder / "data", places=Places(folder / "state"))
        kept = {"store": store, "peers": PeerSockets(store.private_directory)}
    return Engine(
        **kept,
        models=models,
        workspace=LocalWorkspace(),
        tools=BuiltinTools(sandbox=sandbox, clock=clock),
        sandbox=sandbox,
        trust=NoTrust(),
        clock=clock,
        ids=RandomIds(),
        rules=EngineRules(
            defaults=Settings(model=models.default, cwd=str(folder / "ws")), works=works, leaves_turns=bool(database)
        ),
    )
