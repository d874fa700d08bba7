"""The engine's approvals: nothing runs before an answer, and the first answer counts."""

from pathlib import Path

import anyio
import pytest

from hames.domain.commands import (
    InterruptTurn,
    ResolveApproval,
)
from hames.domain.errors import (
    ApprovalNotFound,
)
from hames.domain.events import (
    ApprovalResolved,
    ItemDelta,
    Noticed,
)
from hames.domain.ids import ApprovalId
from hames.domain.request import (
    ResultBlock,
)
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import (
    ScriptedModel,
    call,
    say,
)
from support import blocks, created, engine, events, question, started, turn_end

# -- approvals


async def test_nothing_runs_before_a_recorded_answer() -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    store = MemoryStore()
    async with engine(model, store=store) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        asked = await question(watcher)
        kept = await store.read(thread.id)
        assert not any(isinstance(record.event, ItemDelta) for record in kept)
        await the_engine.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        changes = await turn_end(watcher)
    order = [type(event).__name__ for event in events(changes) if not isinstance(event, Noticed)]
    assert order.index("ApprovalResolved") < order.index("ItemDelta")
    assert changes[-1].after.approvals == ()


async def test_a_declined_call_is_not_run_and_the_model_reads_why() -> None:
    model = ScriptedModel([call("asking"), call("echo")], [say("I see.")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        asked = await question(watcher)
        await the_engine.execute(
            ResolveApproval(approval_id=asked.approval.id, decision="reject", note="use the other one")
        )
        changes = await turn_end(watcher)
    item = changes[-1].after.turns[-1].items[1]
    assert item.status == "declined"
    results = [block.text for block in blocks(model) if isinstance(block, ResultBlock)]
    assert "declined" in results[0]
    assert "use the other one" in results[0]
    assert "not executed" in results[1]


async def test_the_first_answer_wins_and_later_ones_find_nothing() -> None:
    model = ScriptedModel([call("asking")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        asked = (await question(watcher)).approval.id
        refused: list[str] = []

        async def answer(decision: str) -> None:
            try:
                await the_engine.execute(ResolveApproval(approval_id=asked, decision=decision))  # type: ignore[arg-type]
            except ApprovalNotFound:
                refused.append(decision)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, "reject")
            tasks.start_soon(answer, "once")
        changes = await turn_end(watcher)
    resolved = [event for event in events(changes) if isinstance(event, ApprovalResolved)]
    assert len(resolved) == 1
    assert len(refused) == 1
    assert resolved[0].decision not in refused


@pytest.mark.parametrize("approval_id", ["nope", ""])
async def test_an_unknown_approval_is_not_found(approval_id: str) -> None:
    async with engine(ScriptedModel()) as the_engine:
        with pytest.raises(ApprovalNotFound):
            await the_engine.execute(ResolveApproval(approval_id=ApprovalId(approval_id), decision="once"))


async def test_an_interrupt_voids_the_question_and_a_late_answer_does_nothing() -> None:
    model = ScriptedModel([call("asking")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        asked = (await question(watcher)).approval.id
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        changes = await turn_end(watcher)
        assert [e.decision for e in events(changes) if isinstance(e, ApprovalResolved)] == ["void"]
        with pytest.raises(ApprovalNotFound):
            await the_engine.execute(ResolveApproval(approval_id=asked, decision="once"))
        assert changes[-1].after.turns[-1].items[-1].status == "interrupted"


async def test_a_call_that_is_declined_in_the_moment_its_turn_is_stopped_is_declined() -> None:
    async with engine(ScriptedModel([call("asking")])) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        asked = await question(watcher)
        loaded = the_engine._threads.loaded[thread.id]  # pyright: ignore[reportPrivateUsage] - no await in between
        assert loaded.turn is not None
        await the_engine._turns.questions.resolve(asked.approval.id, "reject")  # pyright: ignore[reportPrivateUsage]
        loaded.turn.scope.cancel()
        changes = await turn_end(watcher)
    turn = changes[-1].after.turns[-1]
    assert (turn.status, turn.items[1].status) == ("interrupted", "declined")


async def test_a_question_nobody_can_answer_is_declined_after_a_while_and_says_so() -> None:
    model = ScriptedModel([call("asking")], [say("ok")])
    async with engine(model, patience_s=0.01) as the_engine:
        thread = await created(the_engine)
        blind = await the_engine.watch(thread.id, answers=False)
        await started(the_engine, thread.id)
        changes = await turn_end(blind)
    resolved = next(event for event in events(changes) if isinstance(event, ApprovalResolved))
    assert resolved.decision == "reject"
    assert "no client that could answer" in resolved.note


async def test_a_question_waits_for_a_client_that_comes_back() -> None:
    model = ScriptedModel([call("asking")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        gone = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await question(gone)
        gone.close()
        back = await the_engine.watch(thread.id)
        assert len(back.state.approvals) == 1
        await the_engine.execute(ResolveApproval(approval_id=back.state.approvals[0].id, decision="once"))
        changes = await turn_end(back)
    assert changes[-1].after.turns[-1].status == "completed"


async def test_pending_questions_are_open_after_a_restart(tmp_path: Path) -> None:
    def store() -> JsonlStore:
        return JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))

    model = ScriptedModel([call("asking")])
    the_engine = engine(model, store=store())
    async with the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        asked = (await question(watcher)).approval.id
        import shutil

        shutil.copytree(tmp_path / ".harness" / "threads", tmp_path / "crashed")  # what a kill would leave
    shutil.rmtree(tmp_path / ".harness" / "threads")
    shutil.move(tmp_path / "crashed", tmp_path / ".harness" / "threads")
    async with engine(ScriptedModel([say("ok")]), store=store(), ids=CountingIds(1000)) as again:
        watcher = await again.watch(thread.id)
        assert [approval.id for approval in watcher.state.approvals] == [asked]
        await again.execute(ResolveApproval(approval_id=asked, decision="once"))
        changes = await turn_end(watcher)
        history = await again.history(thread.id)
    assert [e.decision for e in events(history) if isinstance(e, ApprovalResolved)] == ["once"]
    assert changes[-1].after.turns[-1].status == "completed"
    assert len(changes[-1].after.turns) == 1
