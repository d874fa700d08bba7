"""The fence: whoever takes a thread over has read all that its former owners ever write.

Two nodes append, pause before their commit, crash and take the thread from each other, in any order. The statement of
the store must hold; one that only looks whether the epoch is the same, without a lock, must not.
"""

import asyncio
import itertools
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from asyncpg import Connection, UniqueViolationError
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import booleans

from hames.store.postgres.batch import WRITE
from hames.store.postgres.connection import connect
from hames.store.postgres.store import TAKE

T = TypeVar("T")

LOCKED = """won as (
    update hames.thread t set head = w.hi, running = coalesce(w.running, t.running),
        deaths = case when w.running then 0 else t.deaths end, wake_at = case when $1 = '' then null else t.wake_at end
    from wanted w where t.id = w.id and t.epoch = w.epoch and t.head = w.lo - 1
    returning t.id, w.hi
),"""
ONLY_LOOKED = """won as (
    select w.id, w.hi from wanted w
    where exists (select from hames.thread t where t.id = w.id and t.epoch = w.epoch)
),"""
PLAIN_EXISTS = WRITE.replace(LOCKED, ONLY_LOOKED)

LIVE_NODES = """
insert into hames.node (id, name, until) select n, n, now() + interval '1 day' from unnest(array['a', 'b']) as n
on conflict do nothing
"""
ROWS = "select seq, body from hames.ev where thread = $1 order by seq"
WAITS = "select wait_event_type = 'Lock' from pg_stat_activity where pid = $1"


@dataclass
class Node:
    connection: Connection
    pid: int
    name: str
    epoch: int = 0
    head: int = 0
    transaction: Any = None
    """Of an append that is written and not committed."""
    won: bool = False
    taking: "asyncio.Task[None] | None" = None
    read: list[bytes] = field(default_factory=list)
    """What it read when it took the thread."""


class Fence(RuleBasedStateMachine):
    statement = WRITE
    address = ""
    loop: asyncio.AbstractEventLoop
    connections: list[Connection]
    """Of both nodes, and one to look. They are kept for the next example."""
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.thread = f"t{next(self.numbers)}"
        connections = self.connections
        while len(connections) < 3:
            connections.append(self.run(connect(self.address, "test")))
        self.watch = connections[2]
        self.nodes = [Node(one, one.get_server_pid(), name) for one, name in zip(connections, "ab", strict=False)]
        self.newest = 0
        self.kept: dict[int, bytes] = {}
        self.run(self.watch.execute("insert into hames.thread (id) values ($1)", self.thread))
        self.run(self.watch.execute(LIVE_NODES))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 60))

    @rule(which=booleans())
    def take(self, which: bool) -> None:
        """A node takes the thread, though its owner may live: the lease is not what is tested."""
        node = self.nodes[which]
        if node.taking is None and node.transaction is None:
            node.taking = self.loop.create_task(self.take_over(node))
            self.run(self.until_done_or_blocked(node))

    async def take_over(self, node: Node) -> None:
        await node.connection.execute("update hames.thread set owner = null where id = $1", self.thread)
        row = await node.connection.fetchrow(TAKE, self.thread, node.name, 99, None)
        assert row is not None
        rows = await node.connection.fetch(ROWS, self.thread)
        node.epoch, node.head, node.read = row[0], rows[-1][0] if rows else 0, [body for _, body in rows]
        self.newest = max(self.newest, node.epoch)

    async def until_done_or_blocked(self, node: Node) -> None:
        assert node.taking is not None
        while not node.taking.done() and not await self.watch.fetchval(WAITS, node.pid):
            await asyncio.sleep(0)
        await self.collect(node)

    async def collect(self, node: Node) -> None:
        if node.taking is not None and node.taking.done():
            task, node.taking = node.taking, None
            task.result()

    @rule(which=booleans())
    def append(self, which: bool) -> None:
        """Written, and not committed yet. A node whose append waits for the other's is left alone."""
        node, other = self.nodes[which], self.nodes[not which]
        busy = node.taking is not None or node.transaction is not None or other.taking is not None
        if not node.epoch or busy or other.transaction is not None:
            return
        self.run(self.begin(node))

    async def begin(self, node: Node) -> None:
        node.transaction = node.connection.transaction()
        await node.transaction.start()
        seq = node.head + 1
        columns = [[self.thread], [node.epoch], [seq], [seq], [None]]
        facts = [[self.thread], [seq], [f"{node.epoch}:{seq}".encode()]]
        empty: list[list[object]] = [[] for _ in range(10)]
        try:
            rows = await node.connection.fetch(self.statement, "off", *columns, *facts, *empty)
        except UniqueViolationError:
            raise AssertionError("two owners wrote a record of one number") from None
        node.won = any(row[0] == self.thread for row in rows)

    @precondition(lambda self: any(node.transaction for node in self.nodes))
    @rule()
    def commit(self) -> None:
        self.run(self.commit_all())

    async def commit_all(self) -> None:
        for node in self.nodes:
            if node.transaction is not None:
                await node.transaction.commit()
                node.transaction = None
                if node.won:
                    node.head += 1
                    self.kept[node.head] = f"{node.epoch}:{node.head}".encode()
        await self.let_go()

    async def let_go(self) -> None:
        for node in self.nodes:
            if node.taking is not None:
                await node.taking
                await self.collect(node)
        await self.check()

    @precondition(lambda self: any(node.transaction for node in self.nodes))
    @rule()
    def crash(self) -> None:
        self.run(self.crash_all())

    async def crash_all(self) -> None:
        for place, node in enumerate(self.nodes):
            if node.transaction is not None:
                node.connection.terminate()
                fresh = self.connections[place] = await connect(self.address, "test")
                self.nodes[place] = replace(node, connection=fresh, pid=fresh.get_server_pid(), transaction=None)
        await self.let_go()

    async def check(self) -> None:
        rows: dict[int, bytes] = dict(await self.watch.fetch(ROWS, self.thread))
        assert sorted(rows) == list(range(1, len(rows) + 1)), "a number is missing"
        for seq, body in self.kept.items():
            assert rows.get(seq) == body, "what was kept is gone, or is something else"
        owner = max(self.nodes, key=lambda node: node.epoch)
        earlier = [body for body in rows.values() if int(body.split(b":")[0]) < owner.epoch]
        assert earlier == owner.read, "an earlier owner wrote after the thread was taken from it"

    def teardown(self) -> None:
        try:
            self.run(self.commit_all())
        except BaseException:  # they are in the middle of something
            for node in self.nodes:
                if node.taking is not None:
                    node.taking.cancel()
            while self.connections:
                self.connections.pop().terminate()
            raise


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.run_until_complete(asyncio.sleep(0.01))  # for what the driver has still to do
    made.close()


def machine(database: str, loop: asyncio.AbstractEventLoop, statement: str) -> type[Fence]:
    about = {"statement": statement, "address": database, "loop": loop, "connections": []}
    return type("FenceOf", (Fence,), about)


def budget(examples: int) -> settings:
    health = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(
        max_examples=examples,
        stateful_step_count=14,
        deadline=None,
        suppress_health_check=health,
        derandomize=True,
        phases=[Phase.generate],  # the shortest example is worth less than the minutes it takes
        database=None,
        report_multiple_bugs=False,
    )


def test_nobody_writes_to_a_thread_after_it_was_taken_over(database: str, loop: asyncio.AbstractEventLoop) -> None:
    run_state_machine_as_test(machine(database, loop, WRITE), settings=budget(15))


@pytest.mark.slow
def test_the_fence_holds_in_many_orders(database: str, loop: asyncio.AbstractEventLoop) -> None:
    run_state_machine_as_test(machine(database, loop, WRITE), settings=budget(400))


def test_a_fence_without_a_lock_fails_the_same_test(database: str, loop: asyncio.AbstractEventLoop) -> None:
    assert PLAIN_EXISTS != WRITE
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine(database, loop, PLAIN_EXISTS), settings=budget(60))
