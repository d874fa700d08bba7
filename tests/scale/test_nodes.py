"""Nodes on one database: claims, fail-over, fencing, commands from anywhere. Engines here, a real PostgreSQL."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel
import pytest

import node_support
from hames.core import sharing
from hames.core.engine import Engine
from hames.domain.commands import (
    DeleteThread,
    ForkThread,
    InterruptTurn,
    ListThreads,
    ResolveApproval,
    SteerTurn,
    SubmitPrompt,
    ThreadPage,
)
from hames.domain.errors import ApprovalNotFound, StoreUnreachable, ThreadInUse
from hames.domain.events import Event, ItemDelta, Noticed, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.ports import Examined, Tell
from hames.server.peers import store_peers
from hames.server.peers.store_peers import StoreLink, StorePeers
from hames.store.postgres.store import PostgresStore
from hames.testing.fakes.model import ScriptedModel, call, hang, say, wait_for
from hames.testing.services.postgres import Cluster
from node_support import cluster, database, end_lease, node
from support import PlainTool, check_continuous, created, events, question, started, turn_end, until

__all__ = ["cluster", "database"]
TEXT = (TextInput(text="go"),)


def is_continued(event: Event) -> bool:
    return isinstance(event, Noticed) and event.name == "turn_continued"


async def ended(engine: Engine, thread_id: str) -> ThreadState:
    watcher = await engine.watch(thread_id, answers=False)
    state = watcher.state
    with anyio.fail_after(60):
        while state.running is not None or not state.turns:
            state = (await watcher.next())[-1].after
    watcher.close()
    return state


@pytest.mark.slow
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
        a = await stack.enter_async_context(node(database, first, name="a"))
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
        a = await stack.enter_async_context(node(database, ScriptedModel(*script), name="a"))
        thread = await created(a)
        watcher = await a.watch(thread.id)
        await started(a, thread.id)
        asked = await question(watcher)
        await stack.enter_async_context(node(database, ScriptedModel(*script[1:]), name="b"))
        c = await stack.enter_async_context(node(database, slots=0, name="c"))
        there = await c.watch(thread.id)  # before the take-over, which its snapshot could have already
        end_lease(cluster, database, "a")
        await until(there, is_continued)
        await c.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        state = await ended(c, thread.id)
        assert [turn.status for turn in state.turns] == ["completed"]
        with pytest.raises(ApprovalNotFound):  # the same answer may be taken for a repetition of the first
            await c.execute(ResolveApproval(approval_id=asked.approval.id, decision="reject"))
        there.close()


@pytest.mark.slow
async def test_every_command_works_from_every_node(database: str) -> None:
    go = anyio.Event()
    model = ScriptedModel(
        [say("One", cut=True), wait_for(go), say("."), call("echo", text="x")], [hang()], [say("Two.")]
    )
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(node(database, model, name="owner"))
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        other = await stack.enter_async_context(node(database, name="other", slots=1))
        thread = await created(gate)
        await ready(owner, thread.id)
        watcher = await gate.watch(thread.id)
        turn = await started(gate, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        steered = await other.execute(SteerTurn(thread_id=thread.id, turn_id=turn.id, content=TEXT))
        assert isinstance(steered, ThreadState)
        assert steered.running is not None
        queued = await gate.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="mine"))
        assert isinstance(queued, QueuedPrompt)
        again = await other.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="mine"))
        assert again == queued, "the same prompt was queued twice"
        fork = await other.execute(ForkThread(thread_id=thread.id))
        assert isinstance(fork, ThreadState)
        assert fork.forked_from == thread.id
        for engine in (owner, gate, other):
            assert await standing(engine, thread.id, "running") == "running"
        go.set()
        with anyio.fail_after(60):
            await model.hanging.wait()
        await other.execute(InterruptTurn(thread_id=thread.id))
        state = await ended(gate, thread.id)
        assert state.turns[-1].status == "interrupted"
        assert [prompt.id for prompt in state.queue] == ["mine"]
        await gate.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="third"))
        await gate.execute(DeleteThread(thread_id=thread.id, interrupt=True))
        page = await other.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert thread.id not in [one.id for one in page.threads]


async def ready(engine: Engine, thread_id: str) -> None:
    """The engine writes the thread from now on."""
    (await engine.watch(thread_id, answers=False)).close()


async def standing(engine: Engine, thread_id: str, wanted: str) -> str:
    found = ""
    with anyio.fail_after(60):
        while found != wanted:
            page = await engine.execute(ListThreads())
            assert isinstance(page, ThreadPage)
            found = next(one.standing for one in page.threads if one.id == thread_id)
            await anyio.lowlevel.checkpoint()
    return found


@pytest.mark.slow
async def test_a_node_that_is_stopped_hands_its_turns_over_at_once(database: str) -> None:
    async with AsyncExitStack() as stack:
        b = await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="b", slots=0))
        model = ScriptedModel([say("One", cut=True), hang()])
        async with node(database, model, name="a") as a:
            thread = await created(a)
            watcher = await b.watch(thread.id)
            await started(a, thread.id)
            await until(watcher, lambda event: isinstance(event, ItemDelta))
        await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="c"))
        changes = await turn_end(watcher)
        check_continuous(changes[0].before, changes)
        state = changes[-1].after
        assert [turn.status for turn in state.turns] == ["completed"]
        assert state.turns[0].crashes == 0, "a restart is no crash"
        watcher.close()


@pytest.mark.slow
async def test_a_turn_waits_for_its_place_says_so_once_and_goes_on_there(cluster: Cluster, database: str) -> None:
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        thread = await created(gate, options={"place": "label:gpu"})
        watcher = await gate.watch(thread.id)
        async with node(database, ScriptedModel([say("One", cut=True), hang()]), name="a", labels=("gpu",)):
            await started(gate, thread.id)
            await until(watcher, lambda event: isinstance(event, ItemDelta))
        await stack.enter_async_context(node(database, name="b"))
        heard = await until(watcher, lambda event: isinstance(event, Noticed) and event.name == "place_gone")
        notice = events(heard)[-1]
        assert isinstance(notice, Noticed)
        assert "label:gpu" in notice.message
        await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="c", labels=("gpu",)))
        rest = await turn_end(watcher)
        assert rest[-1].after.turns[0].status == "completed"
        assert not any(isinstance(event, Noticed) and event.name == "place_gone" for event in events(rest))


@pytest.mark.slow
async def test_a_turn_whose_place_is_gone_ends_if_the_thread_says_so(database: str) -> None:
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(node(database, slots=0, name="gate"))
        thread = await created(gate, options={"place": "node:a", "after_crash": "end"})
        watcher = await gate.watch(thread.id)
        asks = ScriptedModel([call("asking", text="x")])
        async with node(database, asks, name="a"):
            await started(gate, thread.id)
            await question(watcher)
        await stack.enter_async_context(node(database, name="b"))
        with anyio.fail_after(60):
            state = await ended(gate, thread.id)
        assert state.turns[0].status == "interrupted"


@pytest.mark.slow
async def test_a_gateway_without_workers_says_so(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_peers, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.1)
    async with node(database, slots=0, name="gate") as gate:
        thread = await created(gate)
        with pytest.raises(ThreadInUse, match="hames nodes"):
            await started(gate, thread.id)
        monkeypatch.setattr(store_peers, "ANSWER_SECONDS", 60.0)
        async with node(database, ScriptedModel([say("Once.")]), name="late"):
            await started(gate, thread.id, "again")
            state = await ended(gate, thread.id)
    assert len(state.turns) == 1, "a command that was refused was carried out later"


class UnreadableStore(PostgresStore):
    """Logs cannot be read while `gone`."""

    gone = False

    async def examine(self, thread_id: ThreadId) -> Examined:
        if self.gone:
            raise StoreUnreachable("the database cannot be reached")
        return await super().examine(thread_id)


async def test_a_prompt_that_was_taken_is_not_refused_because_the_log_cannot_be_read(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = UnreadableStore(database, name="gate", lease_seconds=60.0)
    monkeypatch.setattr(node_support, "PostgresStore", lambda *_, **__: store)
    gate = node(database, slots=0, name="gate")
    monkeypatch.undo()
    model = ScriptedModel([say("Hello.")])
    async with gate, node(database, model, name="worker") as worker:
        thread = await created(worker)
        seen = StorePeers.links

        async def links(peers: StorePeers, *, patient: bool = False) -> Sequence[StoreLink]:
            store.gone = peers is gate._sharing._peers  # from now on: the command is about to be sent
            return await seen(peers, patient=patient)

        monkeypatch.setattr(StorePeers, "links", links)
        turn = await gate.execute(SubmitPrompt(thread_id=thread.id, content=TEXT))
        assert isinstance(turn, Turn)
        store.gone = False
        await ended(worker, thread.id)


@pytest.mark.slow
async def test_a_command_waits_until_its_node_has_left_a_thread_that_it_may_no_longer_write(database: str) -> None:
    asked, go = anyio.Event(), anyio.Event()

    async def run(_arguments: dict[str, object], _tell: Tell) -> str:
        with anyio.CancelScope(shield=True):  # it cannot be killed at once
            asked.set()
            await go.wait()
        return "done"

    model = ScriptedModel([call("stubborn")], [say("Done.")], [say("Next.")])
    async with node(database, model, PlainTool("stubborn", run)) as a, anyio.create_task_group() as tasks:
        thread = await created(a)
        await started(a, thread.id)
        with anyio.fail_after(60):
            await asked.wait()
        a._lost.lose_all("is left to other nodes")

        async def submit() -> None:
            await a.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="next"))

        tasks.start_soon(submit)
        await anyio.sleep(sharing.PATIENCE_SECONDS + 1)  # longer than a command waits for another process
        go.set()
        with anyio.fail_after(60):
            while len((await ended(a, thread.id)).turns) < 2:
                await anyio.sleep(0.05)
