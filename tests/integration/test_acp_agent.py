"""An agent program that speaks ACP carries out the turns: items, approvals, cancels, its own history."""

import sys
from pathlib import Path

import pytest

from hames.agents.acp.agent import AcpAgent
from hames.config.load import load
from hames.domain.commands import CreateThread, InterruptTurn, ResolveApproval, StartTurn
from hames.domain.errors import HarnessError, Misconfigured
from hames.domain.events import ApprovalRequested, ItemStarted, TurnEnded
from hames.domain.items import (
    AgentMessage,
    CommandExecution,
    FileChange,
    Item,
    Plan,
    Reasoning,
    TextInput,
)
from hames.domain.models import ModelCard
from hames.domain.options import Overrides
from hames.domain.state import ThreadState, Turn
from hames.ports import Models
from hames.providers.agent_models import AgentModels
from hames.providers.single_model import SingleModel
from hames.testing.checks.agent import check_agent
from hames.testing.fakes.model import ScriptedModel
from support import engine

PROGRAM = str(Path(__file__).parent / "acp_agent_program.py")


def agent(folder: Path) -> AcpAgent:
    (folder / "theirs").mkdir(exist_ok=True)
    command = [sys.executable, PROGRAM, str(folder / "theirs")]
    return AcpAgent("small", command, memory=lambda: folder / "memory", environment={})


def models() -> Models:
    card = AgentModels("small", display_name="small", description="").cards()[0]
    return SingleModel(ScriptedModel(name="small"), ModelCard(provider="small", model=card.model, display_name="small"))


async def play(folder: Path, *prompts: str, decision: str = "once", policy: str = "unlessTrusted") -> list[Turn]:
    """One turn for each prompt, on one thread."""
    house = engine(models(), cwd=folder, agents={"small": agent(folder)})
    async with house:
        opened = await house.execute(CreateThread(overrides=Overrides(approval_policy=policy)))  # type: ignore[arg-type]
        assert isinstance(opened, ThreadState)
        watcher = await house.follow(opened.id)
        for words in prompts:
            await house.execute(StartTurn(thread_id=opened.id, content=(TextInput(text=words),)))
            ended = False
            while not ended:
                for change in await watcher.next():
                    match change.record.event:
                        case ApprovalRequested(approval=approval):
                            await house.execute(ResolveApproval(approval_id=approval.id, decision=decision))  # type: ignore[arg-type]
                        case ItemStarted(item=AgentMessage()) if "hang" in words:
                            await house.execute(InterruptTurn(thread_id=opened.id))
                        case TurnEnded():
                            ended = True
                            state = change.after
                        case _:
                            pass
        return list(state.turns)


def of(turn: Turn, kind: type[Item]) -> list[Item]:
    return [item for item in turn.items if isinstance(item, kind)]


async def test_it_keeps_the_promises_of_an_agent(tmp_path: Path) -> None:
    state = ThreadState(id="ses_1", settings=engine(models(), cwd=tmp_path).rules.defaults)  # type: ignore[arg-type]
    await check_agent(agent(tmp_path), state)


async def test_its_updates_become_items(tmp_path: Path) -> None:
    [turn] = await play(tmp_path, "edit and plan")
    assert turn.status == "completed", turn.error
    [message] = of(turn, AgentMessage)
    assert isinstance(message, AgentMessage)
    assert message.text == "You said: edit and plan"
    [thought] = of(turn, Reasoning)
    assert isinstance(thought, Reasoning)
    assert thought.text == "Hm."
    [change] = of(turn, FileChange)
    assert isinstance(change, FileChange)
    assert change.status == "completed"
    assert "-a\n+b\n" in change.changes[0].diff
    [plan] = of(turn, Plan)
    assert isinstance(plan, Plan)
    assert plan.entries[0].step == "look"


@pytest.mark.parametrize(
    ("decision", "policy", "status", "said"),
    [
        ("once", "unlessTrusted", "completed", "x-allow_once"),
        ("always", "unlessTrusted", "completed", "x-allow_once"),
        ("reject", "unlessTrusted", "failed", "x-reject_once"),
        ("reject", "never", "completed", "x-allow_once"),
    ],
)
async def test_its_questions_are_asked_here(tmp_path: Path, decision: str, policy: str, status: str, said: str) -> None:
    [turn] = await play(tmp_path, "ask", decision=decision, policy=policy)
    [command] = of(turn, CommandExecution)
    assert isinstance(command, CommandExecution)
    assert command.command == "touch made"
    assert (command.status, command.output) == (status, f"it was {said}")


async def test_it_goes_on_with_its_own_session_and_replays_nothing_here(tmp_path: Path) -> None:
    turns = await play(tmp_path, "first", "second")
    assert [of(turn, AgentMessage)[0].text for turn in turns] == ["You said: first", "You said: second"]  # type: ignore[union-attr]
    assert (tmp_path / "theirs" / "s0").read_text() == "first\nsecond\n"


async def test_a_session_that_it_has_lost_is_begun_anew_with_the_conversation(tmp_path: Path) -> None:
    await play(tmp_path, "first")
    # The same thread id again, from another engine whose store is new: the session is known, and gone.
    (tmp_path / "theirs" / "s0").unlink()
    turns = await play(tmp_path, "first again", "second")
    assert turns[-1].status == "completed"
    seen = (tmp_path / "theirs" / "s0").read_text()
    assert seen.endswith("second\n")


async def test_an_interrupt_cancels_its_prompt(tmp_path: Path) -> None:
    turns = await play(tmp_path, "hang")
    assert turns[-1].status == "interrupted"


async def test_what_it_asks_and_we_do_not_offer_is_refused_at_once(tmp_path: Path) -> None:
    [turn] = await play(tmp_path, "unknown")
    assert of(turn, AgentMessage)[0].text == "You said: unknown -32601"  # type: ignore[union-attr]


async def test_an_agent_that_dies_fails_the_turn_with_its_last_words(tmp_path: Path) -> None:
    turns = await play(tmp_path, "die", "better")
    assert turns[0].error is not None
    assert "out of patience" in turns[0].error.message
    assert turns[1].status == "completed"


def test_agents_are_configured_by_name(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[agents.small]\ncommand = ["prog", "acp"]\n')
    environment = {"HAMES_CONFIG": str(file), "HOME": str(tmp_path)}
    assert load({"cwd": str(tmp_path)}, environment).agents == {"small": ("prog", "acp")}


@pytest.mark.parametrize(
    "table",
    [
        '[agents.codex]\ncommand = ["x"]',
        '[agents."A B"]\ncommand = ["x"]',
        "[agents.small]\ncommand = []",
        '[agents.small]\ncommand = "x"',
        "[agents.small]\ncommand = [3]",
        '[agents.small]\ncommand = ["x"]\ncolour = "red"',
        "[agents]\nsmall = 3",
    ],
)
def test_an_agent_that_cannot_be_started_is_refused_in_words(tmp_path: Path, table: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(table)
    with pytest.raises(Misconfigured, match="agents"):
        load({"cwd": str(tmp_path)}, {"HAMES_CONFIG": str(file), "HOME": str(tmp_path)})


async def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    missing = AcpAgent("gone", ["/no/such/program"], memory=lambda: None, environment={})
    state = ThreadState(id="ses_1", settings=engine(models(), cwd=tmp_path).rules.defaults)  # type: ignore[arg-type]
    with pytest.raises((HarnessError, AssertionError), match="cannot start gone"):
        await check_agent(missing, state)
