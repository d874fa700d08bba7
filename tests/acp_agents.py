"""A program that speaks ACP as the agent of a thread."""

import sys
from pathlib import Path

import anyio

from hames.agents.acp.agent import AcpAgent
from hames.agents.acp.models import AcpModels, CatalogFile
from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.approvals import Approval
from hames.domain.commands import (
    InterruptTurn,
    ResolveApproval,
    StartTurn,
)
from hames.domain.events import ApprovalRequested, ItemStarted, Noticed, TurnEnded
from hames.domain.items import (
    AgentMessage,
    Item,
    TextInput,
)
from hames.domain.options import Overrides
from hames.domain.state import ThreadState, Turn
from hames.providers.catalogue import Catalogue

PROGRAM = str(Path(__file__).parent / "integration/acp_agent_program.py")


def agent(folder: Path, version: str = "1", *, after_crash: str = "go_on") -> AcpAgent:
    (folder / "theirs").mkdir(exist_ok=True)
    command = [sys.executable, PROGRAM, str(folder / "theirs"), version]
    return AcpAgent(
        "small",
        command,
        memory=lambda: folder / "memory",
        environment={},
        catalog=CatalogFile(folder / "catalog.json"),
        after_crash=after_crash,  # type: ignore[arg-type]
    )


def models(folder: Path, version: str = "1") -> Catalogue:
    small = agent(folder, version)
    source = AcpModels("small", small.command, file=CatalogFile(folder / "catalog.json"), start=small.start)
    return Catalogue({}, clock=SystemClock(), default="small/default", sources=[source])


APPROVALS: list[Approval] = []


NOTICES: list[str] = []
"""The names of the notices of the test's own turns."""


async def follow_turn(house: Engine, thread: ThreadState, *commands: object, decision: str = "once") -> ThreadState:
    """Carries out the commands, answers what is asked, and returns the thread when the turn has ended."""
    watcher = await house.follow(thread.id)
    with anyio.fail_after(60):
        for command in commands:
            await house.execute(command)  # type: ignore[arg-type]
        while True:
            for change in await watcher.next():
                match change.record.event:
                    case ApprovalRequested(approval=approval):
                        APPROVALS.append(approval)
                        await house.execute(ResolveApproval(approval_id=approval.id, decision=decision))  # type: ignore[arg-type]
                    case ItemStarted(item=AgentMessage()) if "hang" in str(commands):
                        await house.execute(InterruptTurn(thread_id=thread.id))
                    case Noticed(name=name):
                        NOTICES.append(name)
                    case TurnEnded():
                        return change.after
                    case _:
                        pass


def say(thread: ThreadState, words: str, **overrides: object) -> StartTurn:
    content = (TextInput(text=words),)
    return StartTurn(thread_id=thread.id, content=content, overrides=Overrides(**overrides))  # type: ignore[arg-type]


def of(turn: Turn, kind: type[Item]) -> list[Item]:
    return [item for item in turn.items if isinstance(item, kind)]


def said(state: ThreadState) -> str:
    assert state.turns[-1].error is None, state.turns[-1].error
    return "".join(one.text for one in of(state.turns[-1], AgentMessage))  # type: ignore[union-attr]
