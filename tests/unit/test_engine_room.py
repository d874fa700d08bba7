"""Of many threads, those that rest go back to the disk; nobody who uses one notices."""

from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hames.core.threads import IDLE_SECONDS, KEPT
from hames.domain.commands import InterruptTurn, ReadThread, ThreadPage
from hames.domain.commands import ListThreads as List
from hames.domain.state import ThreadState
from hames.ports import Place, Report, Store, Tool
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import ScriptedModel, hang, say
from support import created, engine, started, turn_end


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return JsonlStore(tmp_path / "data", places=Places(tmp_path / "state"))


async def test_threads_that_rest_are_let_go_and_come_back_whole(store: Store) -> None:
    clock = FakeClock()
    model = ScriptedModel([say("One.")], [say("Two.")])
    async with engine(model, store=store, clock=clock) as house:
        spoken = await created(house)
        watcher = await house.watch(spoken.id)
        await started(house, spoken.id)
        before = (await turn_end(watcher))[-1].after
        watcher.close()
        for _ in range(KEPT + 10):
            await created(house)
        assert house.loaded(spoken.id) is not None  # too young
        clock.advance(IDLE_SECONDS + 1)
        await created(house)
        assert house.loaded(spoken.id) is None
        page = await house.execute(List(limit=500))
        assert isinstance(page, ThreadPage)
        assert sum(one.standing == "idle" for one in page.threads) <= KEPT
        after = await house.execute(ReadThread(thread_id=spoken.id))
        assert isinstance(after, ThreadState)
        assert (after.turns, after.settings, after.title) == (before.turns, before.settings, before.title)
        watcher = await house.watch(spoken.id)
        await started(house, spoken.id, "more")
        ended = (await turn_end(watcher))[-1].after
        assert [turn.status for turn in ended.turns] == ["completed", "completed"]


async def test_a_thread_that_runs_or_is_watched_stays(store: Store) -> None:
    clock = FakeClock()
    model = ScriptedModel([hang()])
    async with engine(model, store=store, clock=clock) as house:
        running, watched = await created(house), await created(house)
        await started(house, running.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        watcher = await house.watch(watched.id)
        clock.advance(IDLE_SECONDS + 1)
        for _ in range(KEPT + 10):
            await created(house)
        assert house.loaded(running.id) is not None
        assert house.loaded(watched.id) is not None
        assert not watcher.closed
        await house.execute(InterruptTurn(thread_id=running.id))


class CountedTools:
    """Tools that are held open, as a server behind a pipe is."""

    def __init__(self) -> None:
        self.held = 0

    @asynccontextmanager
    async def open(self, place: Place, report: Report):
        self.held += 1
        try:
            tools: Sequence[Tool] = ()
            yield tools
        finally:
            self.held -= 1


async def test_what_a_thread_held_open_is_closed_with_it(store: Store) -> None:
    clock, tools = FakeClock(), CountedTools()
    house = engine(ScriptedModel([say("One.")]), store=store, clock=clock)
    house._turns._loop.tools = tools  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    async with house:
        thread = await created(house)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        await turn_end(watcher)
        watcher.close()
        assert tools.held == 1
        clock.advance(IDLE_SECONDS + 1)
        for _ in range(KEPT + 1):
            await created(house)
        with anyio.fail_after(60):
            while tools.held:
                await anyio.sleep(0.01)
