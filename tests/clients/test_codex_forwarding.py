"""What a client says about a thread and a turn reaches the model behind the real Codex."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from codex_side import WAITED_FOR, called, codex  # noqa: F401

from hames.app import open_engine
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, ResolveApproval, StartTurn
from hames.domain.events import ApprovalRequested, TurnEnded
from hames.domain.items import AgentMessage, McpToolCall, TextInput
from hames.domain.json import NOTHING, Json
from hames.domain.options import Overrides, ThreadServer
from hames.domain.state import ThreadState, Turn
from hames.testing.services.server import talk

SERVER = Path(__file__).resolve().parents[1] / "integration" / "mcp_server.py"


@pytest.fixture
def binary(node_modules: Path) -> str:
    return str(node_modules / ".bin" / "codex")


@asynccontextmanager
async def engine(live: Any) -> AsyncGenerator[Engine]:
    flags = {"cwd": str(live.side.place.work), "model": "codex/default", "sandbox": "dangerFullAccess"}
    async with open_engine(load({**flags, "approval_policy": "always"}, live.side.place.environment)) as house:
        yield house


async def thread(house: Engine, **overrides: Any) -> ThreadState:
    state = await house.execute(CreateThread(overrides=Overrides(**overrides)))
    assert isinstance(state, ThreadState)
    return state


async def run(house: Engine, state: ThreadState, text: str, *, schema: Json = NOTHING, **overrides: Any) -> Turn:
    watcher = await house.watch(state.id)
    await house.execute(
        StartTurn(
            thread_id=state.id,
            content=(TextInput(text=text),),
            overrides=Overrides(**overrides),
            output_schema=schema,
        )
    )
    with anyio.fail_after(120):
        while True:
            for change in await watcher.next():
                event = change.record.event
                if isinstance(event, ApprovalRequested):
                    await house.execute(ResolveApproval(approval_id=event.approval.id, decision="once"))
                if isinstance(event, TurnEnded):
                    watcher.close()
                    return change.after.turns[-1]


async def test_instructions_reach_the_model_behind_codex(tmp_path: Path, binary: str) -> None:
    answers = [talk("One."), talk("Two.")]
    async with codex(tmp_path, binary, answers=answers) as live, engine(live) as house:
        state = await thread(house, instructions="Answer in French.", base_instructions="You are a poet of code.")
        first = await run(house, state, "Hello")
        assert first.status == "completed", first.error
        second = await run(house, state, "Again", instructions="Answer in Dutch.", base_instructions="You are a cook.")
        assert second.status == "completed", second.error
        one, two = [request.raw.decode() for request in live.model.seen]
    assert "Answer in French." in one
    assert "You are a poet of code." in one
    assert "You are a cook." in two
    assert "You are a poet of code." not in two
    assert "Answer in Dutch." in two


async def test_a_schema_reaches_the_model_behind_codex(tmp_path: Path, binary: str) -> None:
    schema = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
        "additionalProperties": False,
    }
    async with codex(tmp_path, binary, answers=[talk('{"number": 7}')]) as live, engine(live) as house:
        turn = await run(house, await thread(house), "A number", schema=schema)
        assert turn.status == "completed", turn.error
        sent = msgspec.json.decode(live.model.seen[0].raw)
    assert sent["text"]["format"]["schema"] == schema
    [answer] = [item.text for item in turn.items if isinstance(item, AgentMessage)]
    assert msgspec.json.decode(answer) == {"number": 7}


async def test_an_mcp_server_of_a_client_is_codexs(tmp_path: Path, binary: str) -> None:
    server = ThreadServer(name="adder", command=sys.executable, args=(str(SERVER),), start_seconds=60, env={"KEY": "1"})
    answers = [called("call_1", "add", namespace="mcp__adder", a=40, b=2), talk("It is forty-two.")]
    async with codex(tmp_path, binary, answers=answers) as live, engine(live) as house:
        turn = await run(house, await thread(house, mcp_servers=(server,)), "Add")
        assert turn.status == "completed", turn.error
    [call] = [item for item in turn.items if isinstance(item, McpToolCall)]
    assert (call.server, call.tool, call.status) == ("adder", "add", "completed")
    assert call.result is not None
    assert "42" in call.result.text
