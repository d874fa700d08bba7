"""Two agents on one thread: each gets the part of the conversation that it has not seen, and one reviews the other."""

import sys
from pathlib import Path

import pytest

from acp_agents import PROGRAM, follow_turn, of, say
from hames.agents.acp.agent import AcpAgent
from hames.agents.acp.models import AcpModels, CatalogFile
from hames.agents.acp.prompts import HISTORY_CHARS, unseen_note
from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, ReadThread, ReviewTarget, StartReview, split_reviewer
from hames.domain.errors import InvalidCommand, UnknownModel
from hames.domain.ids import ItemId, TurnId
from hames.domain.items import AgentMessage, TextInput, UserMessage
from hames.domain.options import Overrides
from hames.domain.state import ThreadState, Turn
from hames.protocols.acp.inbound import prompt
from hames.providers.catalogue import Catalogue
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from support import engine


def make(folder: Path) -> Engine:
    agents: dict[str, AcpAgent] = {}
    sources: list[AcpModels] = []
    for name, version in (("first", "1"), ("second", "2")):
        (folder / name).mkdir(exist_ok=True)
        file = CatalogFile(folder / f"{name}.json")
        command = [sys.executable, PROGRAM, str(folder / name), version]
        memory = folder / f"memory-{name}"
        agents[name] = AcpAgent(name, command, memory=lambda at=memory: at, environment={}, catalog=file)
        sources.append(AcpModels(name, command, file=file, start=agents[name].start))
    catalogue = Catalogue({}, clock=SystemClock(), default="first/default", sources=sources)
    (folder / "work").mkdir(exist_ok=True)
    store = JsonlStore(folder / "work" / ".harness", places=Places(folder / "state"))
    return engine(catalogue, cwd=folder / "work", agents=agents, store=store)


async def test_a_thread_changes_its_agent_and_the_conversation_goes_along(tmp_path: Path) -> None:
    async with make(tmp_path) as house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        state = await follow_turn(house, state, say(state, "one"))
        state = await follow_turn(house, state, say(state, "two words", model="second/default"))
        state = await follow_turn(house, state, say(state, "three", model="first/default"))
        state = await follow_turn(house, state, say(state, "four", model="second/default"))
    assert [turn.status for turn in state.turns] == ["completed"] * 4
    first, second = (tmp_path / "first" / "s0").read_text(), (tmp_path / "second" / "s0").read_text()
    assert first.startswith("one\n")
    assert first.count("user: two words") == 1
    assert "user: one" not in first  # it has its own
    assert second.count("user: one") == second.count("assistant: You said: one") == 1
    assert second.count("user: three") == 1
    assert second.count("user: two words") == 0


async def test_another_agent_reviews_and_the_thread_stays_with_its_own(tmp_path: Path) -> None:
    async with make(tmp_path) as house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        state = await follow_turn(house, state, say(state, "one"))
        review = StartReview(thread_id=state.id, target=ReviewTarget(kind="custom", text="options"), reviewer="second")
        state = await follow_turn(house, state, review)
        assert state.turns[-1].error is None, state.turns[-1].error
        assert (state.turns[-1].model, state.settings.model) == ("second/default", "first/default")
        [message] = of(state.turns[-1], AgentMessage)
        assert '"mode": "plan"' in message.text  # type: ignore[union-attr]
        state = await follow_turn(house, state, say(state, "two words"))
    assert "You said: one" in (tmp_path / "second" / "s0").read_text()
    assert (
        "You said: options" in (tmp_path / "first" / "s0").read_text()
    )  # what the reviewer said is told to the writer
    async with make(tmp_path) as house:  # and the log keeps who reviewed
        again = await house.execute(ReadThread(thread_id=state.id))
        assert isinstance(again, ThreadState)
        assert [turn.model for turn in again.turns] == ["", "second/default", ""]


async def test_a_reviewer_that_nobody_knows_is_refused_before_the_turn(tmp_path: Path) -> None:
    async with make(tmp_path) as house:
        state = await house.execute(CreateThread(overrides=Overrides()))
        assert isinstance(state, ThreadState)
        target = ReviewTarget(kind="uncommittedChanges")
        with pytest.raises((UnknownModel, InvalidCommand)):
            await house.execute(StartReview(thread_id=state.id, target=target, reviewer="nobody"))
        again = await house.execute(ReadThread(thread_id=state.id))
        assert isinstance(again, ThreadState)
        assert not again.turns


@pytest.mark.parametrize(
    ("typed", "reviewer", "text"),
    [
        ("/review", "", ""),
        ("/review --agent claude", "claude", ""),
        ("/review --agent=claude the last commit", "claude", "the last commit"),
        ("/review  --agent  claude  the last commit", "claude", "the last commit"),
        ("/review what --agent does", "", "what --agent does"),
    ],
)
def test_an_editor_names_the_reviewer_behind_the_command(typed: str, reviewer: str, text: str) -> None:
    command = prompt({"sessionId": "ses_1", "prompt": [{"type": "text", "text": typed}]})
    assert isinstance(command, StartReview)
    assert (command.reviewer, command.target.text) == (reviewer, text)
    assert split_reviewer(typed.removeprefix("/review")) == (reviewer, text)


def test_a_long_conversation_is_told_in_part() -> None:
    turns = [
        Turn(
            id=TurnId(f"turn_{number}"),
            started_at_ms=0,
            items=(
                UserMessage(id=ItemId(f"u{number}"), step=0, content=(TextInput(text=f"prompt {number}"),)),
                AgentMessage(id=ItemId(f"a{number}"), step=1, text=f"answer {number} " + "x" * 20_000),
            ),
        )
        for number in range(20)
    ]
    told = unseen_note(turns)
    assert len(told) < HISTORY_CHARS + 1000
    assert "prompt 0" in told
    assert "answer 19" in told
    assert "answer 3 " not in told
    assert "older messages are left out" in told
    assert unseen_note([]) == ""
