"""`kill -9` of an ACP agent at random moments of its turns: each goes on or ends in words, and nothing is shown twice.

`HAMES_KILLS=N` kills more often; `HAMES_SEED=N` repeats a run.
"""

import os
import random
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from hames.agents.acp.agent import AcpAgent
from hames.agents.acp.models import AcpModels, CatalogFile
from hames.app import open_engine
from hames.clock_and_ids import SystemClock
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, ResolveApproval, StartTurn
from hames.domain.events import ApprovalRequested, ItemCompleted, ItemStarted, Noticed, TurnEnded
from hames.domain.items import AgentMessage, TextInput
from hames.domain.state import ThreadState
from hames.providers.catalogue import Catalogue

PROGRAM = str(Path(__file__).parent / "acp_agent_program.py")
KILLS = int(os.environ.get("HAMES_KILLS", "100"))
SEED = int(os.environ.get("HAMES_SEED", "0")) or random.randrange(1 << 30)
PROMPTS = (
    "ask two stream edit look plan whole",
    "terminal echo one; echo two",
    "handed permitted named echo three",
    "handed running plain echo four",
    "form ask",
)
"""By the words that the program knows: text, questions, output, its own commands and those that it hands to us."""


class Killer:
    """Kills the agent's process at a random moment, again and again while a turn runs."""

    def __init__(self, memory: Path, chance: random.Random) -> None:
        self.kills = 0
        self._memory = memory
        self._chance = chance

    async def run(self, most: int) -> None:
        """So often at most: an agent that is killed for the third time ends the turn."""
        for _ in range(most):
            pid = await self._next_pid()
            await anyio.sleep(self._chance.choice((0.0, 0.05, 0.2, 0.5, 1.0)) * self._chance.random())
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills += 1

    async def _next_pid(self) -> int:
        file = self._memory / "pid"
        while True:
            with suppress(FileNotFoundError, ValueError):
                pid = int(file.read_text())
                file.unlink()
                return pid
            await anyio.sleep(0.005)


async def _run_turn(house: Engine, thread: ThreadState, words: str) -> ThreadState:
    watcher = await house.follow(thread.id)
    await house.execute(StartTurn(thread_id=thread.id, content=(TextInput(text=words),)))
    while True:
        for change in await watcher.next():
            match change.record.event:
                case ApprovalRequested(approval=approval):
                    with suppress(Exception):  # the agent that asked may be gone by now
                        await house.execute(ResolveApproval(approval_id=approval.id, decision="once"))
                case TurnEnded():
                    watcher.close()
                    return change.after
                case _:
                    pass


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("version", ["1", "2"])
async def test_an_agent_that_is_killed_at_any_moment_loses_and_repeats_nothing(tmp_path: Path, version: str) -> None:
    chance = random.Random(SEED)
    memory, workspace = tmp_path / "theirs", tmp_path / "workspace"
    memory.mkdir()
    workspace.mkdir()
    catalog = CatalogFile(tmp_path / "catalog.json")
    command = [sys.executable, PROGRAM, str(memory), version]
    agent = AcpAgent("small", command, memory=lambda: tmp_path / "memory", environment={}, catalog=catalog)
    source = AcpModels("small", agent.command, file=catalog, start=agent.start)
    models = Catalogue({}, clock=SystemClock(), default="small/default", sources=[source])
    environment = {"HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state"), "PATH": os.environ["PATH"]}
    killer = Killer(memory, chance)
    outcomes: Counter[str] = Counter()
    async with open_engine(load({"cwd": str(workspace)}, environment), models=models, agents={"small": agent}) as house:
        thread = await house.execute(CreateThread())
        assert isinstance(thread, ThreadState)
        while killer.kills < KILLS // 2:
            words = chance.choice(
                [one for one in PROMPTS if version == "1" or ("terminal" not in one and "handed" not in one)]
            )
            with anyio.fail_after(120):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(killer.run, chance.randrange(1, 5))
                    state = await _run_turn(house, thread, words)
                    tasks.cancel_scope.cancel()
            turn = state.turns[-1]
            outcomes[turn.status] += 1
            assert turn.status in ("completed", "failed"), f"seed {SEED}: {turn}"
            if turn.status == "failed":
                assert turn.error is not None
                assert "small" in turn.error.message, f"seed {SEED}: {turn.error}"
            assert not turn.open, f"seed {SEED}"
            assert not state.approvals, f"seed {SEED}: {state.approvals}"
        events = [change.record.event for change in await house.history(thread.id)]
        (memory / "pid").unlink(missing_ok=True)
        state = await _run_turn(house, thread, "still there")
        last = [one.text for one in state.turns[-1].items if isinstance(one, AgentMessage)]
        assert last == ["You said: still there"], f"seed {SEED}: {state.turns[-1]}"
    started = Counter(event.item.id for event in events if isinstance(event, ItemStarted))
    completed = Counter(event.item.id for event in events if isinstance(event, ItemCompleted))
    assert set(started.values()) == {1}, f"seed {SEED}"
    assert started == completed, f"seed {SEED}: {started - completed} {completed - started}"
    restarts = sum(isinstance(event, Noticed) and event.name == "agent_restarted" for event in events)
    assert restarts > 0
    assert restarts <= killer.kills
    print(f"seed {SEED}: {killer.kills} kills, {restarts} restarts, turns: {dict(outcomes)}")
