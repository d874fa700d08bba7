"""A server whose turns run on a runner."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from hames.agents.runner.agent import RunnerAgent
from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.core.engine_rules import EngineRules
from hames.domain.commands import (
    StartTurn,
)
from hames.domain.items import (
    ImageInput,
    TextInput,
    UserInput,
)
from hames.domain.json import NOTHING, Json
from hames.domain.options import Overrides, Settings
from hames.domain.request import TextBlock
from hames.domain.state import Change, ThreadState, Turn
from hames.store.memory import MemoryStore
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import ScriptedModel
from hames.tools.files.workspace import LocalWorkspace
from runner_turns import STREAM, event, stranger
from support import ECHO, NoTrust, TheseTools, turn_end

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


IMAGE = ImageInput(url="data:image/png;base64," + base64.b64encode(PIXEL).decode())


HELLO = TextInput(text="Hello")


@asynccontextmanager
async def server(url: str, directory: Path, *, store: Any = None, memory: Path | None = None) -> AsyncGenerator[Engine]:
    """A server's engine, which has only the runner at `url` to run turns with."""
    agent = RunnerAgent(url, stall_s=60.0, cwd=str(directory), memory=lambda: memory)
    await agent.learn()
    rules = EngineRules(
        defaults=Settings(model=agent.models.default, cwd=str(directory), approval_policy="never"), only_agent="runner"
    )
    house = Engine(
        store=store or MemoryStore(),
        models=agent.models,
        workspace=LocalWorkspace(),
        tools=TheseTools([ECHO]),
        trust=NoTrust(),
        clock=SystemClock(),
        ids=CountingIds(),
        rules=rules,
        agents={agent.name: agent},
    )
    async with house:
        yield house
    await agent.aclose()


async def ended(house: Engine, command: Any) -> Turn:
    return (await changes(house, command))[-1].after.turns[-1]


async def changes(house: Engine, command: Any) -> list[Change]:
    watcher = await house.watch(command.thread_id)
    await house.execute(command)
    try:
        return await turn_end(watcher)
    finally:
        watcher.close()


def prompt(thread: ThreadState, *content: UserInput, schema: Json = NOTHING, **overrides: Any) -> StartTurn:
    return StartTurn(
        thread_id=thread.id, content=content or (HELLO,), overrides=Overrides(**overrides), output_schema=schema
    )


def spoken(model: ScriptedModel, number: int = -1) -> list[str]:
    """What the model was shown, in words."""
    blocks = [block for message in model.requests[number].messages for block in message.blocks]
    return [block.text for block in blocks if isinstance(block, TextBlock)]


@asynccontextmanager
async def seed_only(announcement: bytes = b"") -> AsyncGenerator[tuple[str, list[Json]]]:
    """A runner that knows the specification and nothing else; and the bodies of the runs it was asked for."""
    bodies: list[Json] = []
    done = [event("run.started", prompt="go"), event("assistant.delta", text="Done."), event("run.completed")]
    found = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(announcement), announcement)
    missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received:
                received += await stream.receive()
            head, _, body = received.partition(b"\r\n\r\n")
            if head.startswith(b"GET "):
                await stream.send(found if announcement and b"/capabilities" in head else missing)
                return
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            while len(body) < length:
                body += await stream.receive()
            bodies.append(msgspec.json.decode(body))
            await stream.send(STREAM + b"".join(done))

    async with stranger(serve) as url:
        yield url, bodies
