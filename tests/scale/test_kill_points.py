"""A node is killed or stopped at each round trip to the database, one after the other: start, claim, append, renewal.

To the database, a node whose round trip never comes back is dead; one that goes on later is a process that was stopped.
Between two round trips nothing changes that others can see, so these are all moments at which a node can be lost.
Another node must bring the turn to its end, once; what a third one heard has no gap; the first writes nothing. The
same for the node that takes the turn over from the first.
"""

import os
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

import anyio
import pytest

from frozen_database import FrozenDatabase, frozen_database
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import SubmitPrompt
from hames.domain.errors import HarnessError
from hames.domain.events import TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage, TextInput, ToolCall
from hames.domain.request import ModelEvent, ModelRequest
from hames.domain.state import Change
from hames.ports import Tell
from hames.testing.fakes.model import ScriptedModel, call, say
from hames.testing.services.postgres import Cluster
from node_support import cluster, database, end_lease, node
from support import PlainTool, check_continuous, created, events

__all__ = ["cluster", "database"]
STEP = int(os.environ.get("HAMES_KILL_POINT_STEP", "1"))
"""Every so many round trips; 1: all."""
HOMEWARD = 400
"""More round trips than any of these turns needs."""
LANES = 5


class Counted:
    """A tool that remembers with what it ran."""

    def __init__(self) -> None:
        self.runs: list[object] = []

    def tool(self) -> PlainTool:
        async def run(arguments: dict[str, object], tell: Tell) -> str:
            self.runs.append(arguments["text"])
            return "counted"

        return PlainTool("count", run)


REPLIES = ([say("Let me look."), call("count", text="x")], [say("All done.")])


class Reader(ScriptedModel):
    """Which reply comes next is read from the history, as a model does: a reply that was lost comes again."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        number = sum(message.role == "assistant" for message in request.messages)
        async with aclosing(self._play(number, REPLIES[number])) as events:
            async for event in events:
                yield event


async def end_of_turn(gate: Engine, watcher: Watcher) -> list[Change]:
    heard: list[Change] = []
    while not any(isinstance(one.record.event, TurnEnded) for one in heard):
        if changes := await watcher.next():
            heard += changes
            watcher.state = changes[-1].after
        else:
            watcher = await gate.follow_again(watcher)
    watcher.close()
    return heard


class Crew:
    """The nodes of one turn: a gateway that listens, and workers of which each is lost before the next one comes."""

    def __init__(self, stack: AsyncExitStack, cluster: Cluster, database: str) -> None:
        self.counted = Counted()
        self.relays: list[FrozenDatabase] = []
        self.stop, self.over = anyio.Event(), anyio.Event()
        self.heard: list[Change] = []
        self._left: list[anyio.Event] = []
        self._stack, self._cluster, self._database = stack, cluster, database

    async def begin(self) -> None:
        self.gate = await self._stack.enter_async_context(node(self._database, slots=0, name="gate"))
        self.thread = await created(self.gate)
        watcher = await self.gate.watch(self.thread.id)
        self.before = watcher.state
        self.tasks = await self._stack.enter_async_context(anyio.create_task_group())

        async def listen() -> None:
            self.heard += await end_of_turn(self.gate, watcher)
            self.over.set()

        prompt = SubmitPrompt(thread_id=self.thread.id, content=(TextInput(text="go"),), client_id="prompt")
        self.tasks.start_soon(self.gate.execute, prompt)
        self.tasks.start_soon(listen)

    async def lose(self, name: str, point: int, *, answered: bool) -> bool:
        """A worker that is stopped at this round trip. False: the turn ended before."""
        relay = await self._stack.enter_async_context(
            frozen_database(self._cluster.home, freeze_at=point, answered=answered)
        )
        self.relays.append(relay)
        left = anyio.Event()
        self._left.append(left)

        async def live() -> None:
            """A node that may be stuck anywhere, also in its start."""
            with suppress(HarnessError):
                async with node(relay.address(self._database), Reader(), self.counted.tool(), name=name):
                    await self.stop.wait()
            left.set()

        self.tasks.start_soon(live)
        with anyio.fail_after(60):
            stopped = await first_of(relay, self.over)
        if stopped:
            await anyio.to_thread.run_sync(end_lease, self._cluster, self._database, name)
        return stopped

    async def end(self, *, killed: bool) -> None:
        last = node(self._database, Reader(), self.counted.tool(), name="last")
        if not self.over.is_set():
            await self._stack.enter_async_context(last)
        with anyio.fail_after(60):
            await self.over.wait()
        kept = await log_of(self.gate, self.thread.id)
        for relay in self.relays:
            relay.cut() if killed else relay.thaw()
        self.stop.set()
        with anyio.fail_after(60):
            for left in self._left:
                await left.wait()
        check_continuous(self.before, self.heard)
        [turn] = self.heard[-1].after.turns
        assert turn.status == "completed", turn.error
        assert sum(isinstance(event, TurnStarted) for event in kept) == 1
        assert sum(isinstance(event, TurnEnded) for event in kept) == 1
        assert await log_of(self.gate, self.thread.id) == kept, "a node that was taken for dead wrote something"
        assert max(Counter(self.counted.runs).values(), default=0) <= 1, self.counted.runs
        items = [item for item in turn.items if item.step not in turn.void_steps]
        texts = [item.text for item in items if isinstance(item, AgentMessage)]
        assert texts == ["Let me look.", "All done."]
        [asked] = [item for item in items if isinstance(item, ToolCall)]
        runs = {"completed": (1,), "skipped": (0,), "interrupted": (0, 1)}[asked.status]
        assert len(self.counted.runs) in runs, f"it ran {len(self.counted.runs)} times and is said to be {asked.status}"


async def one_point(
    cluster: Cluster, database: str, point: int, *, answered: bool, killed: bool, before: int = 0
) -> bool:
    """Whether the node was stopped before the turn ended. `before`: it took over from one that was stopped there."""
    async with AsyncExitStack() as stack:
        crew = Crew(stack, cluster, database)
        await crew.begin()
        if before:
            assert await crew.lose("first", before, answered=True)
        stopped = await crew.lose("lost", point, answered=answered)
        await crew.end(killed=killed)
        return stopped


async def sweep(cluster: Cluster, **how: Any) -> int:
    """Every round trip, some side by side, each with a database of its own. Returns how many there are."""
    reached = list[int]()
    rest = iter(range(1, HOMEWARD, STEP))
    over = False

    async def lane() -> None:
        nonlocal over
        for point in rest:
            database = await anyio.to_thread.run_sync(cluster.new_database)
            try:
                if over or not await one_point(cluster, database, point, **how):
                    over = True
                    return
            except BaseException as problem:
                problem.add_note(f"at round trip {point}, {how}")
                raise
            reached.append(point)

    async with anyio.create_task_group() as tasks:
        for _ in range(LANES):
            tasks.start_soon(lane)
    return max(reached)


async def first_of(relay: FrozenDatabase, over: anyio.Event) -> bool:
    async with anyio.create_task_group() as tasks:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(wait, relay.frozen)
        tasks.start_soon(wait, over)
    return relay.frozen.is_set()


async def log_of(gate: Engine, thread_id: ThreadId) -> Sequence[object]:
    return events(list(await gate.history(thread_id)))


async def test_a_node_that_is_lost_in_the_middle_of_its_turn_loses_nothing(cluster: Cluster, database: str) -> None:
    assert await one_point(cluster, database, 40, answered=True, killed=False)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("answered", [True, False], ids=["carried_out", "not_carried_out"])
async def test_a_node_is_lost_at_each_round_trip(cluster: Cluster, answered: bool, killed: bool) -> None:
    count = await sweep(cluster, answered=answered, killed=killed)
    assert HOMEWARD > count > 30, "too few to have reached the end of the turn"


@pytest.mark.slow
@pytest.mark.parametrize("before", [28, 36, 44])
@pytest.mark.parametrize("answered", [True, False], ids=["carried_out", "not_carried_out"])
async def test_the_node_that_takes_over_is_lost_at_each_round_trip(
    cluster: Cluster, answered: bool, before: int
) -> None:
    count = await sweep(cluster, answered=answered, killed=False, before=before)
    assert HOMEWARD > count > 15, "too few to have reached the end of the turn"
