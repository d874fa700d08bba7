"""An agent program that speaks ACP carries out the turns: items, approvals, cancels, its own history."""

from pathlib import Path

import anyio
import pytest

from acp_agents import NOTICES, agent, follow_turn, models, of, said, say
from hames.agents.acp.agent import AcpAgent
from hames.config.agents import AgentProgram
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import (
    CompactThread,
    CreateThread,
    ReviewTarget,
    StartReview,
)
from hames.domain.errors import HarnessError, Misconfigured
from hames.domain.items import (
    AgentMessage,
    CommandExecution,
    FileChange,
    Plan,
    Reasoning,
    ToolCall,
)
from hames.domain.options import Overrides
from hames.domain.state import ThreadState, Turn
from hames.testing.checks.agent import check_agent
from support import engine

VERSIONS = pytest.mark.parametrize("version", ["1", "2"])


def make_engine(folder: Path, version: str = "1", *, after_crash: str = "go_on") -> Engine:
    NOTICES.clear()
    small = agent(folder, version, after_crash=after_crash)
    return engine(models(folder, version), cwd=folder, agents={"small": small})


async def play(
    folder: Path,
    *prompts: str,
    decision: str = "once",
    policy: str = "unlessTrusted",
    version: str = "1",
    after_crash: str = "go_on",
) -> list[Turn]:
    """One turn for each prompt, on one thread."""
    house = make_engine(folder, version, after_crash=after_crash)
    async with house:
        state = await house.execute(CreateThread(overrides=Overrides(approval_policy=policy)))  # type: ignore[arg-type]
        assert isinstance(state, ThreadState)
        for words in prompts:
            state = await follow_turn(house, state, say(state, words), decision=decision)
        return list(state.turns)


@VERSIONS
async def test_it_keeps_the_promises_of_an_agent(tmp_path: Path, version: str) -> None:
    state = ThreadState(id="ses_1", settings=make_engine(tmp_path, version).rules.defaults)  # type: ignore[arg-type]
    await check_agent(agent(tmp_path, version), state)


@VERSIONS
async def test_its_updates_become_items(tmp_path: Path, version: str) -> None:
    [turn] = await play(tmp_path, "edit, look and plan", version=version)
    assert turn.status == "completed", turn.error
    [message] = of(turn, AgentMessage)
    assert isinstance(message, AgentMessage)
    assert message.text == "You said: edit, look and plan"
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
    [look] = of(turn, ToolCall)
    assert isinstance(look, ToolCall)
    assert (look.name, look.arguments) == ("Read a", {"locations": ["/w/a"]})
    assert turn.usage.context_tokens == 12


@VERSIONS
@pytest.mark.parametrize(
    ("decision", "policy", "status", "said"),
    [
        ("once", "unlessTrusted", "completed", "x-allow_once"),
        ("always", "unlessTrusted", "completed", "x-allow_once"),
        ("reject", "unlessTrusted", "declined", "x-reject_once"),
        ("reject", "never", "completed", "x-allow_once"),
    ],
)
async def test_its_questions_are_asked_here(
    tmp_path: Path, *, decision: str, policy: str, status: str, said: str, version: str
) -> None:
    [turn] = await play(tmp_path, "ask", decision=decision, policy=policy, version=version)
    [command] = of(turn, CommandExecution)
    assert isinstance(command, CommandExecution)
    assert command.command == "touch made"
    assert (command.status, command.output) == (status, f"it was {said}")


@VERSIONS
async def test_it_goes_on_with_its_own_session_and_replays_nothing_here(tmp_path: Path, version: str) -> None:
    turns = await play(tmp_path, "first", "second", version=version)
    assert [of(turn, AgentMessage)[0].text for turn in turns] == ["You said: first", "You said: second"]  # type: ignore[union-attr]
    assert (tmp_path / "theirs" / "s0").read_text() == "first\nsecond\n"


@VERSIONS
async def test_a_session_that_it_has_lost_is_begun_anew_with_the_conversation(tmp_path: Path, version: str) -> None:
    async with make_engine(tmp_path, version) as house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        state = await follow_turn(house, state, say(state, "first"))
        (tmp_path / "theirs" / "s0").unlink()
        state = await follow_turn(house, state, say(state, "second"))
    assert "history_lost" in NOTICES
    seen = (tmp_path / "theirs" / "s0").read_text()
    assert "user: first" in seen
    assert "assistant: You said: first" in seen
    assert seen.endswith("second\n")


@VERSIONS
async def test_an_interrupt_cancels_its_prompt(tmp_path: Path, version: str) -> None:
    turns = await play(tmp_path, "hang", "again", version=version)
    assert [turn.status for turn in turns] == ["interrupted", "completed"]
    assert (tmp_path / "theirs" / "cancelled").exists()
    assert (tmp_path / "theirs" / "s0").read_text() == "hang\nagain\n"  # the interrupted turn is not told twice


async def test_what_it_asks_and_we_do_not_offer_is_refused_at_once(tmp_path: Path) -> None:
    [turn] = await play(tmp_path, "unknown")
    assert of(turn, AgentMessage)[0].text == "You said: unknown -32601"  # type: ignore[union-attr]


async def test_an_agent_that_dies_fails_the_turn_with_its_last_words(tmp_path: Path) -> None:
    turns = await play(tmp_path, "die", "better")
    assert turns[0].error is not None
    assert "out of patience" in turns[0].error.message
    assert turns[1].status == "completed"


@VERSIONS
async def test_an_agent_that_is_killed_is_started_again_and_its_session_goes_on(tmp_path: Path, version: str) -> None:
    [turn] = await play(tmp_path, "be killed", version=version)
    assert turn.status == "completed", turn.error
    assert "agent_restarted" in NOTICES
    cut_off, whole = of(turn, AgentMessage)
    assert (cut_off.text, whole.text) == ("Half a ", "You said: be killed")  # type: ignore[union-attr]
    [command] = of(turn, CommandExecution)
    assert command.status == "interrupted"
    assert "may have run" in command.result.text  # type: ignore[union-attr]
    seen = (tmp_path / "theirs" / "s0").read_text()
    assert seen.count("be killed") == 2
    assert "look before you run it again" in seen


@pytest.mark.slow
async def test_an_agent_that_is_killed_again_and_again_ends_the_turn_in_words(tmp_path: Path) -> None:
    turns = await play(tmp_path, "always-killed", "better")
    assert turns[0].error is not None
    assert "was killed by signal 9" in turns[0].error.message
    assert (tmp_path / "theirs" / "s0").read_text().count("always-killed") == 3
    assert turns[1].status == "completed"


@pytest.mark.parametrize(("decision", "status"), [("once", "completed"), ("reject", "failed")])
async def test_a_person_is_asked_whether_a_killed_agent_goes_on(tmp_path: Path, decision: str, status: str) -> None:
    [turn] = await play(tmp_path, "be killed", after_crash="ask", decision=decision)
    assert turn.status == status
    assert [one.status for one in of(turn, ToolCall)] == ["completed" if decision == "once" else "declined"]


async def test_a_killed_agent_is_not_started_again_where_turns_end_after_a_crash(tmp_path: Path) -> None:
    [turn] = await play(tmp_path, "be killed", after_crash="end")
    assert turn.status == "failed"
    assert "agent_restarted" not in NOTICES


@pytest.mark.slow
@VERSIONS
async def test_output_of_its_commands_streams(tmp_path: Path, version: str) -> None:
    [turn] = await play(tmp_path, "stream", version=version)
    [command] = of(turn, CommandExecution)
    assert isinstance(command, CommandExecution)
    assert (command.command, command.output, command.exit_code) == ("seq 2", "1\n2\n", 0)


@pytest.mark.slow
async def test_a_whole_message_adds_what_was_not_streamed_of_it(tmp_path: Path) -> None:
    [turn] = await play(tmp_path, "whole", version="2")
    assert [one.text for one in of(turn, AgentMessage)] == ["All of it.", "You said: whole"]  # type: ignore[union-attr]


@pytest.mark.slow
@VERSIONS
async def test_two_questions_at_once_are_both_asked(tmp_path: Path, version: str) -> None:
    [turn] = await play(tmp_path, "two", version=version)
    assert turn.status == "completed"
    assert {one.command for one in of(turn, CommandExecution)} == {"touch c8", "touch c9"}  # type: ignore[union-attr]


@VERSIONS
async def test_a_question_that_it_takes_back_is_withdrawn(tmp_path: Path, version: str) -> None:
    house = make_engine(tmp_path, version)
    async with house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        watcher = await house.follow(state.id)
        await house.execute(say(state, "withdraw"))
        with anyio.fail_after(60):
            while state.running is not None or not state.turns:
                state = (await watcher.next())[-1].after
    assert "-32800" in said(state)
    assert not state.approvals


@VERSIONS
async def test_its_forms_are_filled_in_here(tmp_path: Path, version: str) -> None:
    [turn] = await play(tmp_path, "form", version=version)
    [message] = of(turn, AgentMessage)
    assert '{"action": "accept", "content": {"colour": "blue"}}' in message.text  # type: ignore[union-attr]


@pytest.mark.parametrize("version", ["shape", "refuses-2"])
async def test_an_agent_that_cannot_do_version_2_is_spoken_to_in_version_1(tmp_path: Path, version: str) -> None:
    [turn] = await play(tmp_path, "edit", version=version)
    assert turn.status == "completed", turn.error
    assert len(of(turn, FileChange)) == 1


async def test_an_agent_that_wants_a_login_says_so_in_one_sentence(tmp_path: Path) -> None:
    [turn] = await play(tmp_path, "go", version="no-key")
    assert turn.error is not None
    assert turn.error.message == "small is not signed in: Authentication required"


@VERSIONS
async def test_its_models_and_options_are_ours_to_choose(tmp_path: Path, version: str) -> None:
    house = make_engine(tmp_path, version)
    async with house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        state = await follow_turn(house, state, say(state, "options"))
        # It begins with the mode `auto`, which asks nothing: people want to be asked.
        assert '{"model": "small", "mode": "approve", "effort": "low", "loud": false}' in said(state)
        assert {card.id for card in house.models.cards()} >= {"small/default", "small/small", "small/large"}
        selectors = {one.id: [choice.id for choice in one.choices] for one in house.models.selectors()}
        assert selectors["agent_mode"] == ["default", "auto", "approve", "plan"]
        assert selectors["loud"] == ["default", "true", "false"]
        chosen = {"agent_mode": "auto", "reasoning_effort": "high", "loud": "true"}
        state = await follow_turn(house, state, say(state, "options", model="small/large", options=chosen))
        assert '{"model": "large", "mode": "auto", "effort": "high", "loud": true}' in said(state)
        unset = dict.fromkeys(chosen, "default")
        state = await follow_turn(house, state, say(state, "options", model="small/default", options=unset))
        assert '{"model": "small", "mode": "approve", "effort": "low", "loud": false}' in said(state)
        state = await follow_turn(house, state, say(state, "options", model="small/none"))
        assert state.turns[-1].error is not None
        assert "small has no model 'none'; it has: small, large" in state.turns[-1].error.message


async def test_its_models_can_be_listed_without_a_turn(tmp_path: Path) -> None:
    known = models(tmp_path, "2")
    assert await known.refresh("small") == 2
    assert [card.id for card in known.cards() if card.provider == "small"] == [
        "small/default",
        "small/small",
        "small/large",
    ]


@VERSIONS
async def test_plans_and_reviews_run_in_its_mode_that_changes_nothing(tmp_path: Path, version: str) -> None:
    house = make_engine(tmp_path, version)
    async with house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        state = await follow_turn(house, state, say(state, "ask options", agent="plan"))
        assert '"mode": "plan"' in said(state)
        [command] = of(state.turns[-1], CommandExecution)
        assert command.status == "declined"
        target = ReviewTarget(kind="custom", text="options")
        state = await follow_turn(house, state, StartReview(thread_id=state.id, target=target))
        assert state.turns[-1].status == "completed", state.turns[-1].error


@pytest.mark.slow
async def test_its_own_summary_is_asked_for_with_its_command(tmp_path: Path) -> None:
    house = make_engine(tmp_path, "2")
    async with house:
        state = await house.execute(CreateThread())
        assert isinstance(state, ThreadState)
        with pytest.raises(HarnessError):
            await house.execute(CompactThread(thread_id=state.id))
        state = await follow_turn(house, state, say(state, "first"))
        state = await follow_turn(house, state, CompactThread(thread_id=state.id))
    assert (tmp_path / "theirs" / "s0").read_text().endswith("/compact\n")


async def test_instructions_are_told_once(tmp_path: Path) -> None:
    house = make_engine(tmp_path)
    async with house:
        state = await house.execute(CreateThread(overrides=Overrides(instructions="Speak softly")))
        assert isinstance(state, ThreadState)
        for words in ("first", "second"):
            state = await follow_turn(house, state, say(state, words))
    assert (tmp_path / "theirs" / "s0").read_text().count("Speak softly") == 1


def test_agents_are_configured_by_name(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[agents.small]\ncommand = ["prog", "acp"]\n')
    environment = {"HAMES_CONFIG": str(file), "HOME": str(tmp_path)}
    assert load({"cwd": str(tmp_path)}, environment).agents == {"small": AgentProgram(command=("prog", "acp"))}
    file.write_text('[agents.small]\ncommand = ["prog"]\nversion = 1\nenv = { KEY = "x" }\n')
    wanted = AgentProgram(command=("prog",), env={"KEY": "x"}, version=1)
    assert load({"cwd": str(tmp_path)}, environment).agents == {"small": wanted}


@pytest.mark.parametrize(
    "table",
    [
        '[agents.codex]\ncommand = ["x"]',
        '[agents."A B"]\ncommand = ["x"]',
        "[agents.small]\ncommand = []",
        '[agents.small]\ncommand = "x"',
        "[agents.small]\ncommand = [3]",
        '[agents.small]\ncommand = ["x"]\ncolour = "red"',
        '[agents.small]\ncommand = ["x"]\nversion = 3',
        '[agents.small]\ncommand = ["x"]\nversion = true',
        '[agents.small]\ncommand = ["x"]\nenv = "x"',
        '[agents.small]\ncommand = ["x"]\nenv = { A = 1 }',
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
    state = ThreadState(id="ses_1", settings=make_engine(tmp_path).rules.defaults)  # type: ignore[arg-type]
    with pytest.raises((HarnessError, AssertionError), match="cannot start gone"):
        await check_agent(missing, state)
