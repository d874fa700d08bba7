"""Which take-overs count as deaths of a turn, and what becomes of turns while the database is gone."""

from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel
import pytest

from frozen_database import frozen_database
from hames.core.engine import Engine
from hames.core.node_work import WAITS
from hames.core.watcher import STORE_GONE, Watcher
from hames.domain.events import Event, ItemCompleted, ItemDelta, Noticed, Record, TurnEnded, TurnStarted
from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import ToolCall
from hames.domain.state import Change, ThreadState
from hames.store.postgres.log import PostgresLog
from hames.store.postgres.store import PostgresStore
from hames.testing.fakes.model import ScriptedModel, call, hang, say, wait_for
from hames.testing.services.postgres import Cluster
from node_support import cluster, database, end_lease, node
from support import check_continuous, created, events, started, turn_end, until

__all__ = ["cluster", "database"]
HERE = ThreadId("ses_here")
TURN = TurnId("turn_1")


def tool_result(status: str) -> ItemCompleted:
    item = ToolCall(id=ItemId("i"), step=1, call_id=CallId("c"), name="t", arguments={}, status=status)  # type: ignore[arg-type]
    return ItemCompleted(turn_id=TURN, item=item)


class Takers:
    """Nodes that take the thread one from the other, because its lease has ended."""

    def __init__(self, stack: AsyncExitStack, address: str) -> None:
        self.stack, self.address, self.seq = stack, address, 0
        self.store = self.new_store()

    def new_store(self) -> PostgresStore:
        store = PostgresStore(self.address)
        self.stack.push_async_callback(store.close)
        return store

    async def append(self, log: PostgresLog, event: Event) -> None:
        self.seq += 1
        await log.append([Record(seq=self.seq, at_ms=0, thread_id=HERE, event=event)], sync=True)

    async def take(self, *, goes_on: bool = True) -> PostgresLog:
        ended = "update hames.node set until = now() - interval '1 s' where id = $1"
        await self.store.connections.execute(ended, self.store.node_id)
        self.store = self.new_store()
        log = await self.store.open(HERE)
        if goes_on:
            await self.append(log, Noticed(source="hames", name="turn_continued", message="", turn_id=TURN))
        return log


async def test_only_writers_that_never_come_back_count_as_dead_and_only_since_the_last_progress(database: str) -> None:
    async with AsyncExitStack() as stack:
        takers = Takers(stack, database)
        first = await takers.store.create(HERE)
        first.mark_running(running=True)
        await takers.append(first, TurnStarted(turn_id=TURN))
        assert (await takers.take()).deaths == 1
        assert (await takers.take(goes_on=False)).deaths == 2
        assert (await takers.take()).deaths == 2, "a node died that had opened the thread and not gone on with it"
        await first.close()  # it was only slow
        fourth = await takers.take()
        assert fourth.deaths == 2
        await takers.append(fourth, tool_result("interrupted"))  # what a take-over closes is no progress
        fifth = await takers.take()
        assert fifth.deaths == 3
        await takers.append(fifth, tool_result("completed"))
        sixth = await takers.take()
        assert sixth.deaths == 1
        await sixth.close()  # given back: nobody died
        assert (await takers.take()).deaths == 1


async def heard_until_over(engine: Engine, watcher: Watcher) -> list[Change]:
    """Everything that a client hears until the turn ends, however often it has to come back."""
    heard: list[Change] = []
    with anyio.fail_after(60):
        while not any(isinstance(one.record.event, TurnEnded) for one in heard):
            changes = await watcher.next()
            if changes:
                heard += changes
                watcher.state = changes[-1].after
            else:
                assert watcher.cut_off
                watcher = await engine.follow_again(watcher)
    watcher.close()
    return heard


def check_once(changes: list[Change], state: ThreadState) -> None:
    check_continuous(state, changes)
    assert changes[-1].after.turns[0].status == "completed", changes[-1].after.turns[0].error
    assert sum(isinstance(event, TurnEnded) for event in events(changes)) == 1


async def no_deaths(cluster: Cluster, address: str) -> None:
    name = address.partition("?")[0].rpartition("/")[2]
    with anyio.fail_after(60):
        while (
            await anyio.to_thread.run_sync(lambda: cluster.psql("select sum(deaths) from hames.thread", database=name))
            != "0"
        ):
            pass


@pytest.mark.slow
async def test_a_turn_is_not_ended_because_its_nodes_were_slow(cluster: Cluster, database: str) -> None:
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        thread = await created(gate)
        watcher = await gate.watch(thread.id)
        before = watcher.state
        heard: list[Change] = []
        last = anyio.Event()
        for number in range(4):
            go, name = anyio.Event(), f"n{number}"
            model = ScriptedModel([say("One", cut=True), wait_for(go), say(" more")])
            await stack.enter_async_context(node(database, model, name=name))
            if number == 0:
                await started(gate, thread.id)
            heard += await until(watcher, lambda event: isinstance(event, ItemDelta))
            last.set()  # the node before goes on, and finds that it was taken for dead
            await no_deaths(cluster, database)
            end_lease(cluster, database, name)
            last = go
        last.set()
        await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="last"))
        heard += await turn_end(watcher)
        check_once(heard, before)


@pytest.mark.slow
async def test_a_turn_whose_nodes_died_three_times_without_progress_ends(cluster: Cluster, database: str) -> None:
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        thread = await created(gate)
        watcher = await gate.watch(thread.id)
        for name in ("a", "b", "c"):
            relay = await stack.enter_async_context(frozen_database(cluster.home))
            model = ScriptedModel([say("One", cut=True), hang()])
            await stack.enter_async_context(node(relay.address(database), model, name=name))
            if name == "a":
                await started(gate, thread.id)
            with anyio.fail_after(60):
                await model.hanging.wait()
            await until(watcher, lambda event: isinstance(event, ItemDelta))
            relay.freeze()
            end_lease(cluster, database, name)
        await stack.enter_async_context(node(database, name="d"))
        end = events(await turn_end(watcher))[-1]
        assert isinstance(end, TurnEnded)
        assert end.error is not None
        assert "3 times" in end.error.message


@pytest.mark.slow
async def test_a_turn_waits_while_the_database_is_gone_and_goes_on_when_it_is_back(
    cluster: Cluster, database: str
) -> None:
    """For longer than the lease: the node stops the turn itself, says why, and takes it up again."""
    go = anyio.Event()
    async with frozen_database(cluster.home) as relay:
        model = ScriptedModel([say("One", cut=True), wait_for(go), say(" two.")], *([say("Done.")] for _ in range(50)))
        async with node(relay.address(database), model, name="a", lease_s=4.0) as a:
            thread = await created(a)
            watcher = await a.watch(thread.id)
            before = watcher.state
            await started(a, thread.id)
            heard = await until(watcher, lambda event: isinstance(event, ItemDelta))
            relay.freeze()
            go.set()
            heard += await until(watcher, lambda event: isinstance(event, Noticed) and event.name == STORE_GONE)
            notice = events(heard)[-1]
            assert isinstance(notice, Noticed)
            assert notice.message == WAITS
            with anyio.fail_after(60):
                while more := await watcher.next():
                    heard += more
            assert watcher.cut_off
            watcher.state = heard[-1].after
            relay.thaw()
            heard += await heard_until_over(a, await a.follow_again(watcher))
            check_once(heard, before)
            assert heard[-1].after.turns[0].crashes == 0, "nobody died"
            assert STORE_GONE not in [getattr(one.record.event, "name", "") for one in await a.history(thread.id)]


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
async def test_a_node_stops_in_time_though_the_database_is_gone(cluster: Cluster, database: str, cut: bool) -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(frozen_database(cluster.home))
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        model = ScriptedModel([say("One", cut=True), hang()])
        with anyio.fail_after(60):
            async with node(relay.address(database), model, name="a") as a:
                thread = await created(a)
                watcher = await gate.watch(thread.id)
                before = watcher.state
                await started(a, thread.id)
                heard = await until(watcher, lambda event: isinstance(event, ItemDelta))
                relay.freeze()
                if cut:
                    relay.cut()
        end_lease(cluster, database, "a")
        await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="b"))
        heard += await turn_end(watcher)
        check_once(heard, before)


@pytest.mark.slow
async def test_a_short_outage_is_not_noticed(cluster: Cluster, database: str) -> None:
    go = anyio.Event()
    async with frozen_database(cluster.home) as relay:
        model = ScriptedModel(
            [say("One", cut=True), wait_for(go), say(" two."), call("echo", text="x")], [say("Done.")]
        )
        async with node(relay.address(database), model, name="a") as a:
            thread = await created(a)
            watcher = await a.watch(thread.id)
            before = watcher.state
            await started(a, thread.id)
            heard = await until(watcher, lambda event: isinstance(event, ItemDelta))
            relay.freeze()
            go.set()
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            assert watcher.drain() == [], "told, and not kept"
            relay.thaw()
            heard += await turn_end(watcher)
            check_once(heard, before)
