"""Which tasks reach which agent: ours, or another by the provider's part of the model's name."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from hames.core.context import messages
from hames.core.engine import Engine
from hames.domain.commands import CompactThread, ReviewTarget, StartReview, SteerTurn
from hames.domain.errors import InvalidCommand
from hames.domain.items import AgentMessage, Compaction, TextInput, UserMessage
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState
from hames.ports import Ability, Compact, Prompt, Review, Task, TurnHandle
from hames.testing.fakes.model import ScriptedModel, say
from support import created, engine, started, turn_end

REVIEW = ReviewTarget(kind="commit", text="abc123")


class Recorder:
    """An agent that notes what it is asked to do. A prompt that says `wait` lasts until something else is said."""

    def __init__(self, *abilities: Ability, name: str = "scripted") -> None:
        self.name = name
        self.abilities = frozenset(abilities)
        self.tasks: list[Task] = []
        self.steered: list[UserMessage] = []
        self.opened = self.closed = 0
        self.heard = anyio.Event()

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["Recorder"]:
        self.opened += 1
        try:
            yield self
        finally:
            self.closed += 1

    async def run(self, task: Task, turn: TurnHandle) -> str:
        self.tasks.append(task)
        if isinstance(task, Compact):
            item = Compaction(id=turn.new_item_id(), step=1)
        else:
            item = AgentMessage(id=turn.new_item_id(), step=1)
            if task.message.content == (TextInput(text="wait"),):
                await self.heard.wait()
        await turn.start(item)
        await turn.append(item.id, "Done.", "summary" if isinstance(task, Compact) else "text")
        await turn.complete(item)
        return "its own word"

    async def steer(self, message: UserMessage) -> None:
        if message.content == (TextInput(text="never"),):
            raise InvalidCommand("not that")
        self.steered.append(message)
        self.heard.set()

    def servers(self) -> Mapping[str, ServerStatus]:
        return {}


def with_agent(agent: Recorder) -> Engine:
    return engine(ScriptedModel([say("The model itself was asked.")]), agents={agent.name: agent})


async def test_prompts_reviews_and_summaries_reach_the_agent_of_the_thread() -> None:
    agent = Recorder("review", "compact")
    async with with_agent(agent) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        for command in (None, StartReview(thread_id=thread.id, target=REVIEW), CompactThread(thread_id=thread.id)):
            await (started(the_engine, thread.id) if command is None else the_engine.execute(command))
            last = (await turn_end(watcher))[-1].after.turns[-1]
            assert (last.status, last.stop_reason) == ("completed", "its own word")
        assert [type(task) for task in agent.tasks] == [Prompt, Review, Compact]
        assert isinstance(agent.tasks[1], Review)
        assert agent.tasks[1].target == REVIEW
        assert (agent.opened, agent.closed) == (1, 0)
    assert agent.closed == 1, "it is closed with its thread"


@pytest.mark.parametrize(
    ("task", "words"), [("review", "cannot do reviews"), ("compact", "cannot compact its conversation")]
)
async def test_what_an_agent_cannot_do_is_refused_in_words_before_a_turn_starts(task: str, words: str) -> None:
    agent = Recorder()
    async with with_agent(agent) as the_engine:
        thread = await created(the_engine)
        review, compact = StartReview(thread_id=thread.id, target=REVIEW), CompactThread(thread_id=thread.id)
        with pytest.raises(InvalidCommand, match=words):
            await the_engine.execute(review if task == "review" else compact)
        state = the_engine.loaded(thread.id)
        assert state is not None
        assert state.turns == ()
        await started(the_engine, thread.id)  # and the thread is not left claimed


async def test_what_is_said_in_between_is_in_the_log_once_the_agent_has_taken_it() -> None:
    agent = Recorder("steer")
    async with with_agent(agent) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id, "wait")
        refused = SteerTurn(thread_id=thread.id, content=(TextInput(text="never"),))
        with pytest.raises(InvalidCommand, match="not that"):
            await the_engine.execute(refused)
        await the_engine.execute(SteerTurn(thread_id=thread.id, content=(TextInput(text="go on"),)))
        turn = (await turn_end(watcher))[-1].after.turns[-1]
    said = [item.content for item in turn.items if isinstance(item, UserMessage)]
    assert said == [(TextInput(text="wait"),), (TextInput(text="go on"),)]
    assert [message.content for message in agent.steered] == [(TextInput(text="go on"),)]


async def test_an_agent_that_cannot_be_steered_says_what_to_do_instead() -> None:
    agent = Recorder()
    async with with_agent(agent) as the_engine:
        thread = await created(the_engine)
        await started(the_engine, thread.id, "wait")
        with pytest.raises(InvalidCommand, match="queue the prompt, or interrupt the turn"):
            await the_engine.execute(SteerTurn(thread_id=thread.id, content=(TextInput(text="psst"),)))


async def test_a_summary_that_another_agent_keeps_to_itself_hides_nothing_from_our_model() -> None:
    agent = Recorder("compact")
    async with with_agent(agent) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id, "remember this")
        state = (await turn_end(watcher))[-1].after
    silent = Compaction(id=state.turns[0].items[0].id, step=1, status="completed", summary="")
    turn = replace(state.turns[0], items=(*state.turns[0].items, silent))
    shown = str(messages(replace(state, turns=(turn,))))
    assert "remember this" in shown
    assert "Done." in shown
