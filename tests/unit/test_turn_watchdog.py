"""No turn without a task: one that is in the log runs, and an interrupt always ends something."""

import anyio
import pytest

from hames.domain.commands import InterruptTurn, ReadThread
from hames.domain.events import TurnStarted
from hames.domain.ids import TurnId
from hames.domain.state import Change, ThreadState
from hames.testing.fakes.model import ScriptedModel, say
from support import created, engine, started, turn_end, whole_turn


async def test_a_turn_that_was_written_runs_though_telling_it_failed() -> None:
    def fails(change: Change) -> None:
        assert not isinstance(change.record.event, TurnStarted), "whoever listens is broken"

    async with engine(ScriptedModel([say("one")], [say("two")])) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        the_engine.observers.append(fails)
        with pytest.raises(AssertionError):
            await started(the_engine, thread.id)
        await turn_end(watcher)
        the_engine.observers.remove(fails)
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"


async def test_an_interrupt_ends_a_turn_that_nobody_runs() -> None:
    async with engine(ScriptedModel([say("one")])) as the_engine:
        thread = await created(the_engine)
        loaded = await the_engine._threads.open(thread.id)  # pyright: ignore[reportPrivateUsage]
        await loaded.thread.emit(TurnStarted(turn_id=TurnId("lost")))
        with anyio.fail_after(60):
            await the_engine.execute(InterruptTurn(thread_id=thread.id))
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.turns[-1].status == "interrupted"
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"
