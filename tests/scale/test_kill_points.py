"""A node is killed or stopped at each round trip to the database, one after the other: start, claim, append, renewal.

To the database, a node whose round trip never comes back is dead; one that goes on later is a process that was stopped.
Another node must bring the turn to its end, once; what a third one heard has no gap; the first writes nothing.
"""

import os
from contextlib import AsyncExitStack, suppress

import anyio
import pytest

from frozen_database import FrozenDatabase, frozen_database
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import SubmitPrompt
from hames.domain.errors import HarnessError
from hames.domain.events import TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
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


class Counted:
    """A tool that remembers with what it ran."""

    def __init__(self) -> None:
        self.runs: list[object] = []

    def tool(self) -> PlainTool:
        async def run(arguments: dict[str, object], tell: Tell) -> str:
            self.runs.append(arguments["text"])
            return "counted"

        return PlainTool("count", run)


def script(name: str) -> ScriptedModel:
    return ScriptedModel([say("Let me look."), call("count", text=name)], [say("All done.")])


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


async def one_point(cluster: Cluster, database: str, point: int, *, answered: bool, killed: bool) -> bool:
    """Whether the first node was stopped before the turn ended."""
    counted, stop, over, left = Counted(), anyio.Event(), anyio.Event(), anyio.Event()
    name = f"a{point}{'r' if answered else 'q'}{'k' if killed else 'f'}"
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        thread = await created(gate)
        watcher = await gate.watch(thread.id)
        before, heard = watcher.state, list[Change]()
        relay = await stack.enter_async_context(frozen_database(cluster.home, freeze_at=point, answered=answered))
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def listen() -> None:
            heard.extend(await end_of_turn(gate, watcher))
            over.set()

        async def live() -> None:
            """A node that may be stuck anywhere, also in its start."""
            with suppress(HarnessError):
                async with node(relay.address(database), script("a"), counted.tool(), name=name):
                    await stop.wait()
            left.set()

        tasks.start_soon(live)
        tasks.start_soon(
            gate.execute, SubmitPrompt(thread_id=thread.id, content=(TextInput(text="go"),), client_id=name)
        )
        tasks.start_soon(listen)
        with anyio.fail_after(60):
            stopped = await first_of(relay, over)
        if stopped:
            await anyio.to_thread.run_sync(end_lease, cluster, database, name)
            await stack.enter_async_context(node(database, script("b"), counted.tool(), name=f"b{name}"))
        with anyio.fail_after(60):
            await over.wait()
        kept = await log_of(gate, thread.id)
        relay.cut() if killed else relay.thaw()
        stop.set()
        with anyio.fail_after(60):
            await left.wait()
        check_continuous(before, heard)
        assert heard[-1].after.turns[0].status == "completed", heard[-1].after.turns[0].error
        assert sum(isinstance(event, TurnStarted) for event in kept) == 1
        assert sum(isinstance(event, TurnEnded) for event in kept) == 1
        assert await log_of(gate, thread.id) == kept, "a node that was taken for dead wrote something"
        for text in ("a", "b"):
            assert counted.runs.count(text) <= 1, counted.runs
        return stopped


async def first_of(relay: FrozenDatabase, over: anyio.Event) -> bool:
    async with anyio.create_task_group() as tasks:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(wait, relay.frozen)
        tasks.start_soon(wait, over)
    return relay.frozen.is_set()


async def log_of(gate: Engine, thread_id: ThreadId) -> list[object]:
    return events(list(await gate.history(thread_id)))


async def test_a_node_that_is_lost_in_the_middle_of_its_turn_loses_nothing(cluster: Cluster, database: str) -> None:
    assert await one_point(cluster, database, 40, answered=True, killed=False)


@pytest.mark.slow
@pytest.mark.parametrize("answered", [True, False], ids=["carried_out", "not_carried_out"])
async def test_a_node_is_stopped_at_each_round_trip_and_goes_on_later(
    cluster: Cluster, database: str, answered: bool
) -> None:
    point = 1
    while await one_point(cluster, database, point, answered=answered, killed=False):
        point += STEP
        assert point < HOMEWARD
    assert point > 30, "these are too few to have reached the end of the turn"


@pytest.mark.slow
@pytest.mark.parametrize("point", [1, 8, 15, 22, 29, 36, 43, 50])
async def test_a_node_is_killed_at_a_round_trip(cluster: Cluster, database: str, point: int) -> None:
    """Until it is gone it looks like one that was stopped; only how it ends is different."""
    await one_point(cluster, database, point, answered=point % 2 == 0, killed=True)
