"""The contract suites of `hames.testing.checks`, run against every implementation there is."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from hames.agents.codex.agent import CodexAgent
from hames.agents.runner.agent import RunnerAgent
from hames.clock_and_ids import SystemClock
from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import AgentMessage, UserMessage
from hames.domain.json import Json
from hames.domain.options import Settings
from hames.domain.policy import WorkspaceWrite
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState
from hames.ports import Ability, Place, Store, Task, TurnHandle
from hames.sandbox.local import LocalSandbox
from hames.server.listener import Address
from hames.server.runner import running as runner_running
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.checks.agent import check_agent
from hames.testing.checks.sandbox import check_sandbox
from hames.testing.checks.store import check_store
from hames.testing.checks.tool import check_tool
from hames.testing.fakes.model import ScriptedModel, say
from hames.testing.fakes.turn import FakeTurn
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import BuiltinTools
from support import BROKEN, ECHO, created, engine

PLAYER = Path(__file__).parents[1] / "integration" / "codex" / "player.py"


@pytest.mark.parametrize("kind", ["jsonl", "memory"])
async def test_a_store_keeps_its_promises(kind: str, tmp_path: Path) -> None:
    stores: dict[str, Store] = {
        "jsonl": JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state")),
        "memory": MemoryStore(),
    }
    await check_store(stores[kind])
    await stores[kind].close()


@pytest.mark.needs("bwrap")
async def test_the_sandbox_keeps_its_promises(tmp_path: Path) -> None:
    sandbox = LocalSandbox()
    await check_sandbox(sandbox, tmp_path)
    sandbox.close()


CALLS: dict[str, Json] = {
    "read": {"path": "a.txt"},
    "list": {"path": "."},
    "glob": {"pattern": "*.txt"},
    "grep": {"pattern": "hello"},
    "edit": {"path": "a.txt", "old_string": "hello", "new_string": "goodbye"},
    "multi_edit": {"path": "a.txt", "edits": [{"old_string": "goodbye", "new_string": "hello"}]},
    "write": {"path": "b.txt", "content": "new"},
    "patch": {"patch": "*** Begin Patch\n*** Add File: c.txt\n+c\n*** End Patch\n"},
    "shell": {"command": "echo hello"},
    "process": {"action": "list"},
    "plan": {"entries": [{"step": "one", "status": "pending"}]},
    "artifact": {"path": "a.txt"},
    "ask_user": {"questions": [{"question": "Which?"}]},
}


@pytest.mark.needs("bwrap")
async def test_every_tool_keeps_its_promises(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    sandbox = LocalSandbox()
    place = _place(tmp_path)

    async def report(status: object) -> None:
        raise AssertionError(status)

    async with BuiltinTools(sandbox, SystemClock()).open(place, report) as tools:
        assert {tool.spec.name for tool in tools} <= {*CALLS, "web_fetch"}
        for tool in tools:
            if tool.spec.name == "web_fetch":  # no test leaves the machine
                continue
            ended = await check_tool(tool, place, CALLS[tool.spec.name])
            assert ended.status == "completed", ended
    sandbox.close()


async def test_a_tool_that_fails_fails_with_a_result(tmp_path: Path) -> None:
    assert (await check_tool(ECHO, _place(tmp_path), {})).status == "completed"
    with pytest.raises(ValueError, match="it broke"):
        await check_tool(BROKEN, _place(tmp_path), {})


def _place(workspace: Path) -> Place:
    return Place(
        files=LocalWorkspace(),
        thread_id=ThreadId("ses_1"),
        turn_id=TurnId("turn_1"),
        workspace=str(workspace),
        cwd=str(workspace),
        sandbox=WorkspaceWrite(),
    )


def _spoken(turn: FakeTurn) -> str:
    return "".join(item.text for item in turn.state.turns[-1].items if isinstance(item, AgentMessage))


async def test_our_own_loop_is_an_agent_like_any_other() -> None:
    async with engine(ScriptedModel([say("Hello.")], [say("Hello again.")])) as house:
        thread = await created(house)
        turn = await check_agent(house._turns._loop, thread)  # pyright: ignore[reportPrivateUsage]
    assert _spoken(turn) == "Hello."


async def test_codex_is_an_agent_like_any_other(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CODEX_PLAYER": str(tmp_path / "played")}
    agent = CodexAgent(
        [str(PLAYER)], memory=lambda: tmp_path / "memory", model_list=tmp_path / "models", environment=environment
    )
    settings = Settings(model="codex/default", cwd=str(tmp_path))
    turn = await check_agent(agent, ThreadState(id=ThreadId("ses_1"), settings=settings))
    assert _spoken(turn) == "tok tok tok "


async def test_a_runner_is_an_agent_like_any_other(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello.")], [say("Hello again.")])
    async with (
        engine(model, clock=SystemClock(), policy="never") as house,
        runner_running(house, Address(port=0), version="0") as runner,
    ):
        agent = RunnerAgent(runner.url, stall_s=5)
        settings = Settings(model="runner/default", cwd=str(tmp_path))
        turn = await check_agent(agent, ThreadState(id=ThreadId("ses_1"), settings=settings))
        await agent.aclose()
    assert _spoken(turn) == "Hello."


class Careless:
    """An agent that says it cannot review and does, and completes its items twice."""

    name = "careless"

    def __init__(self, *abilities: Ability) -> None:
        self.abilities = frozenset(abilities)

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["Careless"]:
        yield self

    async def run(self, task: Task, turn: TurnHandle) -> str:
        item = AgentMessage(id=turn.new_item_id(), step=1)
        await turn.start(item)
        for _ in range(2):
            await turn.complete(replace(item, status="completed"))
        return "end"

    async def steer(self, message: UserMessage) -> None: ...

    def servers(self) -> Mapping[str, ServerStatus]:
        return {}


@pytest.mark.parametrize(
    ("abilities", "words"), [((), "no ability of this agent"), (("review", "compact"), "starts once")]
)
async def test_an_agent_that_breaks_a_promise_is_found_out(abilities: tuple[Ability, ...], words: str) -> None:
    state = ThreadState(id=ThreadId("ses_1"), settings=Settings(model="careless/model", cwd="/"))
    with pytest.raises(AssertionError, match=words):
        await check_agent(Careless(*abilities), state)
