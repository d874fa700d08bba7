"""What every agent promises. `check_agent` runs two prompts with it: one to its end, one that is cancelled."""

from collections import Counter
from typing import get_args

import anyio

from hames.domain.commands import ReviewTarget
from hames.domain.errors import HarnessError
from hames.domain.events import Event, ItemCompleted, ItemDelta, ItemStarted
from hames.domain.ids import ItemId
from hames.domain.items import TextInput, UserMessage
from hames.domain.state import ThreadState
from hames.ports import Ability, Agent, AgentThread, Compact, Prompt, Review, Task
from hames.testing.fakes.turn import FakeTurn

LIMIT_SECONDS = 60


async def check_agent(agent: Agent, state: ThreadState) -> FakeTurn:
    """Raises `AssertionError` for a broken promise. `state` is a thread whose model belongs to the agent.

    Returns the turn that ran to its end.
    """
    with anyio.fail_after(LIMIT_SECONDS):
        async with agent.open(state) as thread:
            assert thread.abilities <= set(get_args(Ability))
            await _check_refusals(thread, state)
            turn = await _check_prompt(thread, state)
            await _check_cancel(thread, turn.state)
            return turn


def prompt(text: str = "go") -> UserMessage:
    return UserMessage(id=ItemId("item_prompt"), step=0, content=(TextInput(text=text),))


async def _check_refusals(thread: AgentThread, state: ThreadState) -> None:
    missing: list[Task] = []
    if "review" not in thread.abilities:
        missing.append(Review(target=ReviewTarget(kind="uncommittedChanges"), message=prompt()))
    if "compact" not in thread.abilities:
        missing.append(Compact())
    for task in missing:
        turn = FakeTurn(state, task)
        before = len(turn.events)
        try:
            await thread.run(task, turn)
        except HarnessError as refusal:
            assert str(refusal), "it says why not"
        else:
            raise AssertionError(f"{type(task).__name__} is no ability of this agent, and it ran")
        assert len(turn.events) == before


async def _check_prompt(thread: AgentThread, state: ThreadState) -> FakeTurn:
    task = Prompt(message=prompt())
    turn = FakeTurn(state, task)
    word = await thread.run(task, turn)
    assert isinstance(word, str)
    started = Counter(event.item.id for event in turn.events if isinstance(event, ItemStarted))
    completed = Counter(event.item.id for event in turn.events[2:] if isinstance(event, ItemCompleted))
    assert all(count == 1 for count in (started | completed).values()), "each item starts once and completes once"
    assert completed.keys() <= started.keys()
    assert all(
        event.item_id in started and getattr(event, "turn_id", turn.turn_id) == turn.turn_id
        for event in turn.events
        if isinstance(event, ItemDelta)
    )
    for event in turn.events:
        if isinstance(event, ItemCompleted):
            assert event.item.status != "running"
    return turn


async def _check_cancel(thread: AgentThread, state: ThreadState) -> None:
    """Cancelled at the first thing it writes, it stops and raises nothing else."""
    task = Prompt(message=prompt())
    with anyio.CancelScope() as scope:

        def stop(event: Event) -> None:
            if isinstance(event, ItemStarted):
                scope.cancel()

        await thread.run(task, FakeTurn(state, task, on_event=stop))
    assert scope.cancel_called, "the second prompt showed nothing"
