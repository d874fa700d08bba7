"""Questions that were open when their process stopped are open again in the next one."""

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from cut_off_turns import (
    APPEND_A,
    APPEND_B,
    Lines,
    again_state,
    blocks,
    finished,
    next_engine,
    notices,
    one_turn,
    records,
)
from hames.domain.approvals import Elicit, UseTool
from hames.domain.commands import (
    ResolveApproval,
)
from hames.domain.errors import ApprovalNotFound
from hames.domain.events import (
    ApprovalRequested,
    ApprovalResolved,
)
from hames.domain.ids import ThreadId
from hames.domain.items import ToolCall
from hames.domain.request import ResultBlock
from hames.store.memory import MemoryStore
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import ScriptedModel, Step, call, call_raw, say
from hames.tools.ask_user import AskUserTool
from support import ASKING, PlainTool, copied, created, engine, question, started, turn_end

pytestmark = pytest.mark.anyio


async def cut_off_asking(
    *tools: object, calls: tuple[Step, ...] = (), **overrides: object
) -> tuple[ThreadId, MemoryStore, ApprovalRequested]:
    """A thread whose process was killed while an approval waited for its answer."""
    store, model = (
        MemoryStore(),
        ScriptedModel([say("May I?"), *(calls or (APPEND_A,))]),
    )
    async with engine(model, *tools, store=store, clock=FakeClock()) as first:
        thread = await created(first, **overrides)
        watcher = await first.watch(thread.id)
        await started(first, thread.id)
        asked = await question(watcher)
        left = copied(store)
    return thread.id, left, asked


async def test_an_approval_is_open_after_a_restart_and_its_answer_runs_the_tool_once() -> None:
    lines = Lines()
    calls = (APPEND_A, APPEND_B)
    thread_id, left, asked = await cut_off_asking(lines.asking, calls=calls)
    async with next_engine(ScriptedModel([say("Done.")]), lines.asking, store=left) as again:
        watcher = await again.watch(thread_id)
        assert [one.id for one in watcher.state.approvals] == [asked.approval.id]
        assert watcher.state.approvals[0].asked_at_ms == 1_700_000_000_000
        assert lines.ran == []
        await again.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        with pytest.raises(ApprovalNotFound):
            await again.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        second = await question(watcher)
        assert second.approval.id != asked.approval.id
        assert lines.ran == ["a"]
        await again.execute(ResolveApproval(approval_id=second.approval.id, decision="once"))
        await turn_end(watcher)
    assert lines.ran == ["a", "b"]
    assert one_turn(left, thread_id).status == "completed"
    assert notices(left, thread_id)[0].endswith("an approval still waits for an answer")


async def test_a_rejected_approval_of_another_process_skips_the_calls_behind_it() -> None:
    lines = Lines()
    calls = (APPEND_A, APPEND_B)
    thread_id, left, asked = await cut_off_asking(lines.asking, calls=calls)
    async with next_engine(ScriptedModel([say("Fine.")]), lines.asking, store=left) as again:
        watcher = await again.watch(thread_id)
        await again.execute(ResolveApproval(approval_id=asked.approval.id, decision="reject", note="no"))
        state = (await turn_end(watcher))[-1].after
    assert lines.ran == []
    assert [i.status for i in state.turns[-1].items if isinstance(i, ToolCall)] == ["declined", "skipped"]
    assert one_turn(left, thread_id).status == "completed"


async def test_what_would_run_now_must_be_what_was_shown() -> None:
    lines = Lines()
    thread_id, left, asked = await cut_off_asking(lines.asking)
    other = PlainTool("append", lines.asking.run, intent=UseTool(name="append", arguments={"more": True}))
    async with next_engine(ScriptedModel([say("Done.")]), other, store=left) as again:
        watcher = await again.watch(thread_id)
        anew = await question(watcher)
        assert anew.approval.id != asked.approval.id
        assert anew.approval.item_id == asked.approval.item_id
        assert [one.id for one in again_state(left, thread_id).approvals] == [anew.approval.id]
        await again.execute(ResolveApproval(approval_id=anew.approval.id, decision="once"))
        state = (await turn_end(watcher))[-1].after
    assert lines.ran == ["a"]
    assert state.turns[-1].unanswered == ()
    ends = [record.event.ended for record in records(left, thread_id) if isinstance(record.event, ApprovalResolved)]
    assert ends == ["withdrawn", "answered"]


async def test_an_approval_whose_tool_is_gone_is_withdrawn() -> None:
    lines = Lines()
    thread_id, left, _asked = await cut_off_asking(lines.asking)
    async with next_engine(ScriptedModel([say("Then not.")]), ASKING, store=left) as again:
        state = await finished(again, thread_id)
    assert state.approvals == ()
    assert one_turn(left, thread_id).status == "completed"


async def test_questions_of_the_agent_are_asked_again_and_forms_of_servers_are_not() -> None:
    asks = call_raw("ask_user", '{"questions": [{"question": "Which?"}]}', call_id="q")
    thread_id, left, asked = await cut_off_asking(AskUserTool(), calls=(asks,))
    assert isinstance(asked.approval.intent, Elicit)
    model = ScriptedModel([say("Blue it is.")])
    async with next_engine(model, AskUserTool(), store=left) as again:
        watcher = await again.watch(thread_id)
        assert [one.id for one in watcher.state.approvals] == [asked.approval.id]
        answer = ResolveApproval(approval_id=asked.approval.id, decision="once", content={"answer": "blue"})
        await again.execute(answer)
        await turn_end(watcher)
    assert any("blue" in block.text for block in blocks(model) if isinstance(block, ResultBlock))
    forged = copied(left)
    form = replace(asked.approval, intent=replace(asked.approval.intent, server="files"))
    kept = [
        replace(record, event=ApprovalRequested(approval=replace(form, intent=replace(form.intent, server="files"))))
        if isinstance(record.event, ApprovalRequested)
        else record
        for record in records(left, thread_id)
    ]
    place = next(n for n, record in enumerate(kept) if isinstance(record.event, ApprovalRequested))
    forged._logs[thread_id]._records = kept[: place + 1]
    async with next_engine(ScriptedModel([say("Well.")]), AskUserTool(), store=forged, number=2) as third:
        state = await finished(third, thread_id)
    assert state.approvals == ()
    assert [i.status for i in state.turns[-1].items if isinstance(i, ToolCall)] == ["interrupted"]


async def test_an_approval_in_a_server_that_continued_waits_for_its_client() -> None:
    lines = Lines()
    thread_id, left, asked = await cut_off_asking(lines.asking)
    lasting = next_engine(ScriptedModel([say("Done.")]), lines.asking, store=left, patience_s=0.0, leaves_turns=True)
    async with lasting as again:
        left.marked = {thread_id}
        await again.continue_turns()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        state = again.loaded(thread_id)
        assert state is not None
        assert [one.id for one in state.approvals] == [asked.approval.id]
        watcher = await again.watch(thread_id)
        await again.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        await turn_end(watcher)
    assert lines.ran == ["a"]


@pytest.mark.parametrize(("default", "ran"), [("reject", []), ("once", ["a"])])
async def test_a_deadline_counts_from_when_it_was_first_asked(default: str, ran: list[str]) -> None:
    lines = Lines()
    thread_id, left, asked = await cut_off_asking(lines.asking)
    later = FakeClock(1_700_000_000_000 + 599_000)
    late = {"approval_deadline_s": 600.0, "approval_default": default, "clock": later}
    async with next_engine(ScriptedModel([say("Done.")]), lines.asking, store=left, **late) as again:
        watcher = await again.watch(thread_id)
        assert watcher.state.approvals
        assert not lines.ran
        later.advance(2.0)
        await turn_end(watcher)
    assert lines.ran == ran
    resolved = [record.event for record in records(left, thread_id) if isinstance(record.event, ApprovalResolved)]
    assert [(event.approval_id, event.decision, event.ended) for event in resolved] == [
        (asked.approval.id, default, "timedOut")
    ]
    assert resolved[0].note == "nobody answered within 600 s"


async def test_without_a_client_an_approval_says_that_nobody_was_there() -> None:
    store = MemoryStore()
    async with engine(ScriptedModel([call("asking")], [say("Well.")]), store=store, patience_s=0.0) as the_engine:
        thread = await created(the_engine)
        await started(the_engine, thread.id)
        await the_engine.wait(thread.id)
    kept = [record.event for record in records(store, thread.id)]
    assert [event.ended for event in kept if isinstance(event, ApprovalResolved)] == ["noClient"]
