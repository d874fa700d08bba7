"""Nodes on one database: claims, fail-over, fencing, commands from anywhere. Engines here, a real PostgreSQL."""

from contextlib import AsyncExitStack

import anyio
import pytest

from hames.core.engine import Engine
from hames.domain.commands import (
    ReadThread,
    ResolveApproval,
)
from hames.domain.errors import ApprovalNotFound
from hames.domain.events import ItemDelta, Noticed, TurnEnded, TurnStarted
from hames.domain.items import TextInput
from hames.domain.state import ThreadState
from hames.testing.fakes.model import ScriptedModel, call, say, wait_for
from hames.testing.services.postgres import Cluster
from node_support import cluster, database, end_lease, node
from support import check_continuous, created, events, question, started, turn_end, until

__all__ = ["cluster", "database"]
TEXT = (TextInput(text="go"),)


async def status(engine: Engine, thread_id: str) -> ThreadState:
    state = await engine.execute(ReadThread(thread_id=thread_id))
    assert isinstance(state, ThreadState)
    return state


async def ended(engine: Engine, thread_id: str) -> ThreadState:
    watcher = await engine.watch(thread_id, answers=False)
    state = watcher.state
    with anyio.fail_after(60):
        while state.running is not None or not state.turns:
            state = (await watcher.next())[-1].after
    watcher.close()
    return state


async def test_a_turn_started_on_a_gateway_runs_on_a_worker(database: str) -> None:
    async with node(database, slots=0, name="gate") as gate:
        thread = await created(gate)
        async with node(database, ScriptedModel([say("Hello.")]), name="worker") as worker:
            watcher = await gate.watch(thread.id)
            await started(gate, thread.id)
            changes = await turn_end(watcher)
            check_continuous(watcher.state, changes)
            assert "Hello." in "".join(one.text for one in events(changes) if isinstance(one, ItemDelta))
            assert gate.loaded(thread.id) is not None
            assert worker.node is not None
            assert worker.node.claimed == 1


async def test_a_dead_nodes_turn_goes_on_elsewhere_and_the_old_node_writes_nothing(
    cluster: Cluster, database: str
) -> None:
    go = anyio.Event()
    first = ScriptedModel([say("One,", cut=True), wait_for(go), say(" never.")])
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(node(database, first, name="a", lease_s=60))
        thread = await created(a)
        watcher = await a.watch(thread.id)
        await started(a, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        b = await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="b"))
        end_lease(cluster, database, "a")
        state = await ended(b, thread.id)
        assert [turn.status for turn in state.turns] == ["completed"]
        go.set()  # the old node goes on, and is refused
        while changes := await watcher.next():
            assert not any(isinstance(event, TurnEnded) for event in events(changes)), "an ending that is not true"
        assert watcher.cut_off
        again = await a.follow(thread.id, since=watcher.state)
        assert again.state.seq <= state.seq
        kept = events(list(await b.history(thread.id)))
        assert sum(isinstance(one, TurnStarted) for one in kept) == 1
        assert sum(isinstance(one, TurnEnded) for one in kept) == 1
        assert a.loaded(thread.id) is None or a.loaded(thread.id).running is None
        again.close()


async def test_an_approval_asked_on_one_node_is_answered_from_another_after_the_first_died(
    cluster: Cluster, database: str
) -> None:
    script = [[call("asking", text="x")], [say("Done.")]]
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(node(database, ScriptedModel(*script), name="a", lease_s=60))
        thread = await created(a)
        watcher = await a.watch(thread.id)
        await started(a, thread.id)
        asked = await question(watcher)
        await stack.enter_async_context(node(database, ScriptedModel(*script[1:]), name="b"))
        c = await stack.enter_async_context(node(database, slots=0, name="c"))
        end_lease(cluster, database, "a")
        there = await c.watch(thread.id)
        await until(there, lambda event: isinstance(event, Noticed) and event.name == "turn_continued")
        await c.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        state = await ended(c, thread.id)
        assert [turn.status for turn in state.turns] == ["completed"]
        with pytest.raises(ApprovalNotFound):
            await c.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        there.close()
