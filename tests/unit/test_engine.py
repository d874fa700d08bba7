"""The engine, as its clients see it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from hames.domain.commands import (
    ArchiveThread,
    CompactThread,
    DeleteThread,
    DropPrompt,
    ForkThread,
    InterruptTurn,
    ListThreads,
    ReadThread,
    RenameThread,
    ResolveApproval,
    ResumeThread,
    ReviewTarget,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
    ThreadPage,
)
from hames.domain.errors import (
    ApprovalNotFound,
    InvalidCommand,
    QueueFull,
    ThreadNotFound,
    TurnBusy,
    TurnNotFound,
)
from hames.domain.events import (
    ApprovalResolved,
    ItemCompleted,
    ItemDelta,
    Noticed,
    Record,
    StepVoided,
    TurnEnded,
    TurnStarted,
)
from hames.domain.ids import ApprovalId, PromptId, ThreadId, TurnId
from hames.domain.items import (
    AgentMessage,
    Compaction,
    FileInput,
    LocalImageInput,
    Reasoning,
    TextInput,
    ToolCall,
    UserMessage,
    WebSearch,
)
from hames.domain.options import Overrides
from hames.domain.policy import ReadOnly
from hames.domain.request import (
    CallBlock,
    ModelEvent,
    ModelRequest,
    PictureBlock,
    ReplyEnded,
    ResultBlock,
    TextBlock,
    TextDelta,
    TextEnded,
)
from hames.domain.state import QueuedPrompt, ThreadState, Turn, apply, blank
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.fakes.clock import CountingIds, FakeClock
from hames.testing.fakes.model import (
    ScriptedModel,
    call,
    call_raw,
    fail,
    hang,
    say,
    search,
    stop,
    think,
    usage,
    wait_for,
)
from support import ECHO, created, engine, events, names, question, started, turn_end, until, whole_turn

TEXT = (TextInput(text="go"),)


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4) + b"\x08\x02\0\0\0"


def blocks(model: ScriptedModel, request: int = -1) -> list[object]:
    return [block for message in model.requests[request].messages for block in message.blocks]


async def test_a_turn_is_told_in_order_and_ends_once() -> None:
    model = ScriptedModel([think("hm"), say("Let me see."), call("echo", x=1)], [say("Done.")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    model.assert_finished()
    kinds = [name for name in names(changes) if name != "ItemDelta"]
    assert kinds == [
        "TurnStarted",
        *("ItemStarted", "ItemCompleted"),  # what the user said
        *("ItemStarted", "ItemCompleted"),  # reasoning
        *("ItemStarted", "ItemCompleted"),  # text
        "ToolCalled",
        "UsageReported",
        *("ItemStarted", "ItemCompleted"),  # the tool
        *("ItemStarted", "ItemCompleted"),  # text
        "UsageReported",
        "TurnEnded",
    ]
    turn = changes[-1].after.turns[-1]
    assert turn.status == "completed"
    assert [type(item) for item in turn.items] == [UserMessage, Reasoning, AgentMessage, ToolCall, AgentMessage]
    assert all(item.status == "completed" for item in turn.items)


async def test_deltas_add_up_to_the_completed_item() -> None:
    async with engine(ScriptedModel([say("one two three", pieces=5)])) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    told = "".join(event.text for event in events(changes) if isinstance(event, ItemDelta))
    done = [e.item for e in events(changes) if isinstance(e, ItemCompleted) and isinstance(e.item, AgentMessage)]
    assert told == "one two three" == done[0].text


async def test_positions_have_no_gap_and_deltas_of_a_bundle_share_one() -> None:
    async with engine(ScriptedModel([say("a" * 50, pieces=50)])) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
        kept = await the_engine.history(thread.id)
    assert [change.record.seq for change in kept] == list(range(1, len(kept) + 1))
    live = [change.record.seq for change in changes]
    assert live == sorted(live)
    assert kept[-1].after == changes[-1].after


async def test_a_late_watcher_sees_the_half_streamed_message() -> None:
    go_on = anyio.Event()
    model = ScriptedModel([say("half", cut=True), hang()])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        await started(the_engine, thread.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        watcher = await the_engine.watch(thread.id)
        item = watcher.state.turns[-1].items[-1]
        assert isinstance(item, AgentMessage)
        assert (item.text, item.status) == ("half", "running")
        go_on.set()
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        await turn_end(watcher)


async def test_a_watcher_from_the_beginning_hears_everything_once() -> None:
    model = ScriptedModel([say("half of it", cut=True, pieces=4), hang()])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        first = await the_engine.follow(thread.id, replay=True)
        await started(the_engine, thread.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        late = await the_engine.follow(thread.id, replay=True)
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        one, other = await turn_end(first), await turn_end(late)
    assert one[-1].after == other[-1].after
    said = ["".join(e.text for e in events(changes) if isinstance(e, ItemDelta)) for changes in (one, other)]
    assert said == ["half of it", "half of it"]
    assert [n for n in names(one) if n != "ItemDelta"] == [n for n in names(other) if n != "ItemDelta"]


async def test_a_watcher_that_never_reads_is_cut_off_and_the_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hames.core.watcher.PENDING_CHANGES", 10)
    model = ScriptedModel(*[[call("echo", n=n)] for n in range(5)], [say("Done.")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        asleep = await the_engine.watch(thread.id)
        changes = await whole_turn_of_fast_reader(the_engine, thread.id)
        assert isinstance(changes[-1].record.event, TurnEnded)
        assert await asleep.next() == []
        assert "fell behind" in asleep.cut_off
        back = await the_engine.follow(thread.id, replay=True)
        assert (await turn_end(back))[-1].after == changes[-1].after


async def whole_turn_of_fast_reader(the_engine, thread_id):  # type: ignore[no-untyped-def]
    return await whole_turn(the_engine, thread_id)


async def test_a_stalled_watcher_gets_its_deltas_joined() -> None:
    model = ScriptedModel([say("x" * 500, pieces=500)])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        asleep = await the_engine.watch(thread.id)
        await whole_turn(the_engine, thread.id)
        changes = await turn_end(asleep)
    deltas = [event for event in events(changes) if isinstance(event, ItemDelta)]
    assert len(deltas) == 1
    assert deltas[0].text == "x" * 500


async def test_two_turns_at_once_on_one_thread_are_refused() -> None:
    model = ScriptedModel([hang()])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        outcomes: list[str] = []

        async def start() -> None:
            try:
                await started(the_engine, thread.id)
                outcomes.append("started")
            except TurnBusy:
                outcomes.append("busy")

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(start)
        assert sorted(outcomes) == ["busy", "busy", "started"]


async def test_threads_run_side_by_side() -> None:
    model = ScriptedModel([hang()], [say("Done.")])
    async with engine(model) as the_engine:
        one, other = await created(the_engine), await created(the_engine)
        await started(the_engine, one.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        changes = await whole_turn(the_engine, other.id)
        assert changes[-1].after.turns[-1].status == "completed"


async def test_interrupting_closes_the_message_with_what_there_was() -> None:
    model = ScriptedModel([say("half", cut=True), hang()], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        turn = await started(the_engine, thread.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        await the_engine.execute(InterruptTurn(thread_id=thread.id, turn_id=turn.id))
        after = (await turn_end(watcher))[-1].after.turns[-1]
        assert after.status == "interrupted"
        assert [(item.status, getattr(item, "text", "")) for item in after.items[1:]] == [("interrupted", "half")]
        assert model.open_streams == 0
        await whole_turn(the_engine, thread.id)
    assert TextBlock(text="half") in blocks(model)


async def test_interrupting_a_tool_gives_its_call_a_result_in_the_next_request() -> None:
    model = ScriptedModel([call("stuck"), call("echo")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        await turn_end(watcher)
        await whole_turn(the_engine, thread.id)
    results = [block for block in blocks(model) if isinstance(block, ResultBlock)]
    assert [("it may have run" in r.text, "not executed" in r.text, r.failed) for r in results] == [
        (True, False, True),
        (False, True, True),
    ]


async def test_interrupting_when_nothing_or_another_turn_runs_is_not_found() -> None:
    model = ScriptedModel([hang()])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        with pytest.raises(TurnNotFound):
            await the_engine.execute(InterruptTurn(thread_id=thread.id))
        await started(the_engine, thread.id)
        with pytest.raises(TurnNotFound):
            await the_engine.execute(InterruptTurn(thread_id=thread.id, turn_id=TurnId("turn_other")))
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.running is not None


async def test_leaving_the_engine_in_the_middle_of_a_turn_closes_the_log() -> None:
    store, model = MemoryStore(), ScriptedModel([call("stuck")])
    async with engine(model, store=store) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
    last = (await store.read(thread.id))[-1].event
    assert isinstance(last, TurnEnded)
    assert last.status == "interrupted"


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


# -- faults of the model


async def test_a_failing_model_fails_the_turn_and_the_thread_goes_on() -> None:
    model = ScriptedModel([fail("no key", status=401, info="Unauthorized")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
        error = changes[-1].after.turns[-1].error
        assert changes[-1].after.turns[-1].status == "failed"
        assert error is not None
        assert (error.message, error.info, error.http_status) == ("no key", "Unauthorized", 401)
        changes = await whole_turn(the_engine, thread.id)
        assert changes[-1].after.turns[-1].status == "completed"


async def test_a_reply_that_breaks_off_is_asked_for_again_and_the_model_never_sees_the_pieces() -> None:
    model = ScriptedModel(
        [say("half", cut=True), fail("reset", retryable=True)],
        [say("whole block"), say("cut", cut=True), fail("reset", retryable=True)],
        [say("All of it.")],
    )
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    model.assert_finished()
    turn = changes[-1].after.turns[-1]
    assert turn.status == "completed"
    assert [getattr(item, "text", "") for item in turn.items[1:]] == ["half", "whole blockcut", "All of it."]
    assert [event.step for event in events(changes) if isinstance(event, StepVoided)] == [1, 2]
    assert blocks(model) == [TextBlock(text="go")]


@pytest.mark.parametrize("jump_ms", [10 * 365 * 86_400_000, -86_400_000])
async def test_a_turn_takes_as_long_as_it_took_whatever_the_clock_on_the_wall_does(jump_ms: int) -> None:
    clock, gate = FakeClock(), anyio.Event()
    async with engine(ScriptedModel([say("a"), wait_for(gate), say("b")]), clock=clock) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        clock.advance(2.5)
        clock.at_ms += jump_ms
        gate.set()
        turn = (await turn_end(watcher))[-1].after.turns[-1]
    assert turn.duration_ms == 2500


def test_a_turn_that_another_process_ended_has_no_impossible_duration() -> None:
    for took, wanted in ((1000, 1000), (-1, None), (10 * 365 * 86_400_000, None)):
        state = blank(ThreadId("t"))
        for seq, (event, at) in enumerate(
            ((TurnStarted(turn_id=TurnId("x")), 5), (TurnEnded(turn_id=TurnId("x"), status="interrupted"), 5 + took)), 1
        ):
            state = apply(state, Record(seq=seq, at_ms=at, thread_id=ThreadId("t"), event=event))
        assert state.turns[0].duration_ms == wanted


async def test_a_reply_that_keeps_breaking_off_fails_the_turn() -> None:
    model = ScriptedModel(*[[say("half", cut=True), fail("reset", retryable=True)] for _ in range(3)])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    model.assert_finished()
    assert changes[-1].after.turns[-1].status == "failed"


class Unfinished:
    """A provider that breaks its promise: its first reply neither ends its block nor itself."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked += 1
        yield TextDelta(block=0, text="Half")
        if self.asked > 1:
            yield TextEnded(block=0)
            yield ReplyEnded(reason="end")


async def test_a_reply_that_just_stops_completes_each_of_its_items_once() -> None:
    async with engine(Unfinished()) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        changes = await turn_end(watcher)
    completed = [event.item.id for event in events(changes) if isinstance(event, ItemCompleted)]
    assert len(completed) == len(set(completed)) == 3, "the prompt, the half and the whole"
    assert changes[-1].after.turns[-1].status == "completed"


async def test_the_calls_of_a_broken_reply_are_not_run_and_the_model_reads_that() -> None:
    model = ScriptedModel([call("echo", x=1), fail("reset", retryable=True)], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    assert not any(isinstance(item, ToolCall) for item in changes[-1].after.turns[-1].items)
    results = [block for block in blocks(model) if isinstance(block, ResultBlock)]
    assert ["not executed" in result.text for result in results] == [True]


@pytest.mark.parametrize("reason", ["refusal", "context_exceeded"])
async def test_an_ending_that_is_none_fails_the_turn(reason: str) -> None:
    model = ScriptedModel([say("x"), stop(reason)])  # type: ignore[arg-type]
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    assert changes[-1].after.turns[-1].status == "failed"


async def test_a_pause_is_gone_on_from() -> None:
    model = ScriptedModel([search("weather"), stop("pause")], [say("Sunny.")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    model.assert_finished()
    assert [type(item) for item in changes[-1].after.turns[-1].items[1:]] == [WebSearch, AgentMessage]


async def test_two_calls_with_one_name_get_a_result_each() -> None:
    model = ScriptedModel([call_raw("echo", "{}", call_id="same"), call_raw("echo", "{}", call_id="same")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
    ids = [block.call.id for block in blocks(model) if isinstance(block, CallBlock)]
    assert len(ids) == len(set(ids)) == 2
    assert [block.call.id for block in blocks(model) if isinstance(block, ResultBlock)] == ids


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (call("nope"), "no tool 'nope'"),
        (call_raw("echo", "{not json"), "not JSON"),
        (call_raw("echo", "[1]"), "are not valid"),
        (call("broken"), "it broke"),
    ],
)
async def test_a_call_that_cannot_be_carried_out_is_a_failed_item_and_a_result(step: object, words: str) -> None:
    model = ScriptedModel([step], [say("I see.")])  # type: ignore[list-item]
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    turn = changes[-1].after.turns[-1]
    assert turn.status == "completed"
    assert turn.items[1].status == "failed"
    results = [block for block in blocks(model) if isinstance(block, ResultBlock)]
    assert results[0].failed
    assert words in results[0].text


async def test_an_endless_loop_stops_at_the_step_limit() -> None:
    model = ScriptedModel(*[[call("echo", n=n)] for n in range(4)])
    async with engine(model, max_steps=4) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    model.assert_finished()
    error = changes[-1].after.turns[-1].error
    assert error is not None
    assert error.info == "StepLimitReached"


# -- settings, threads, queue


async def test_overrides_of_a_turn_become_the_threads_settings(tmp_path: Path) -> None:
    async with engine(ScriptedModel([say("ok")])) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        overrides = Overrides(cwd=str(tmp_path), approval_policy="never", sandbox=ReadOnly(), agent="plan")
        await the_engine.execute(StartTurn(thread_id=thread.id, content=TEXT, overrides=overrides))
        settings = (await turn_end(watcher))[-1].after.settings
    assert (settings.cwd, settings.approval_policy, settings.sandbox, settings.agent) == (
        str(tmp_path),
        "never",
        ReadOnly(),
        "plan",
    )


@pytest.mark.parametrize(
    "overrides",
    [
        Overrides(model="nobody/nothing"),
        Overrides(cwd="relative"),
        Overrides(cwd="/no/such/place"),
        Overrides(cwd="/etc/passwd"),
        Overrides(cwd="/a\0b"),
        Overrides(options={"no_such": "x"}),
    ],
)
async def test_overrides_that_make_no_sense_change_nothing(overrides: Overrides) -> None:
    async with engine(ScriptedModel()) as the_engine:
        thread = await created(the_engine)
        with pytest.raises(InvalidCommand):
            await the_engine.execute(StartTurn(thread_id=thread.id, content=TEXT, overrides=overrides))
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.turns == ()
        assert state.settings == thread.settings
        with pytest.raises(InvalidCommand):
            await the_engine.execute(ResumeThread(thread_id=thread.id, overrides=overrides))


async def test_an_empty_input_and_a_missing_file_are_refused_before_anything_starts(tmp_path: Path) -> None:
    async with engine(ScriptedModel([say("ok")]), cwd=tmp_path) as the_engine:
        thread = await created(the_engine)
        (tmp_path / "text.png").write_text("not a picture")
        (tmp_path / "bomb.png").write_bytes(png(100_000, 100_000))
        for content in (
            (),
            (LocalImageInput(path="bomb.png"),),
            (LocalImageInput(path="missing.png"),),
            (LocalImageInput(path="text.png"),),
            (FileInput(path="."),),
        ):
            with pytest.raises(InvalidCommand):
                await the_engine.execute(StartTurn(thread_id=thread.id, content=content))
        await whole_turn(the_engine, thread.id)


async def test_files_of_a_prompt_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("as it was")
    (tmp_path / "p.png").write_bytes(png(64, 32))
    model = ScriptedModel([say("ok")], [say("ok")])
    async with engine(model, cwd=tmp_path) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        content = (FileInput(path="a.txt"), LocalImageInput(path=str(tmp_path / "p.png")))
        await the_engine.execute(StartTurn(thread_id=thread.id, content=content))
        await turn_end(watcher)
        (tmp_path / "a.txt").write_text("changed")
        await whole_turn(the_engine, thread.id)
    first, picture = blocks(model)[:2]
    assert isinstance(first, TextBlock)
    assert "as it was" in first.text
    assert isinstance(picture, PictureBlock)
    assert picture.picture is not None
    assert picture.picture.media_type == "image/png"


async def test_prompts_queue_behind_a_running_turn_and_run_in_order() -> None:
    model = ScriptedModel([say("1", cut=True), hang()], [say("2")], [say("3")])
    gate = anyio.Event()
    from hames.testing.fakes.model import wait_for

    model = ScriptedModel([say("1"), wait_for(gate)], [say("2")], [say("3")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        outcomes = [
            await the_engine.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text=text),)))
            for text in ("one", "two", "three")
        ]
        assert [type(outcome) for outcome in outcomes] == [Turn, QueuedPrompt, QueuedPrompt]
        gate.set()
        for _ in range(3):
            changes = await turn_end(watcher)
    assert changes[-1].after.queue == ()
    said = [turn.items[0].content[0].text for turn in changes[-1].after.turns]  # type: ignore[union-attr]
    assert said == ["one", "two", "three"]


async def test_stop_holds_the_queue_and_the_next_prompt_rearms_it_in_order() -> None:
    model = ScriptedModel([hang()], [say("2")], [say("3")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        for text in ("one", "two"):
            await the_engine.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text=text),)))
        await anyio.wait_all_tasks_blocked()  # the model has been asked
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        changes = await turn_end(watcher)
        await anyio.wait_all_tasks_blocked()
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.running is None
        assert state.queue_held
        assert [prompt.content[0].text for prompt in state.queue] == ["two"]  # type: ignore[union-attr]
        await the_engine.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text="three"),)))
        for _ in range(2):
            changes = await turn_end(watcher)
    said = [turn.items[0].content[0].text for turn in changes[-1].after.turns]  # type: ignore[union-attr]
    assert said == ["one", "two", "three"]


async def test_a_prompt_sent_twice_counts_once() -> None:
    model = ScriptedModel([hang()])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        submit = SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="mine")
        queued = SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="later")
        for command in (submit, submit, queued, queued):
            await the_engine.execute(command)
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert len(state.turns) == 1
        assert [prompt.id for prompt in state.queue] == ["later"]
        await the_engine.execute(DropPrompt(thread_id=thread.id, prompt_id=PromptId("later")))
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.queue == ()


async def test_the_queue_has_an_end() -> None:
    async with engine(ScriptedModel([hang()])) as the_engine:
        thread = await created(the_engine)
        with pytest.raises(QueueFull):
            for _ in range(40):
                await the_engine.execute(SubmitPrompt(thread_id=thread.id, content=TEXT))


async def test_steering_reaches_the_model_before_the_turn_ends() -> None:
    gate = anyio.Event()
    from hames.testing.fakes.model import wait_for

    model = ScriptedModel([say("working"), wait_for(gate)], [say("as you say")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        turn = await started(the_engine, thread.id)
        with anyio.fail_after(60):
            await model.asked(1)
        steer = SteerTurn(thread_id=thread.id, turn_id=turn.id, content=(TextInput(text="and hurry"),))
        await the_engine.execute(steer)
        gate.set()
        await turn_end(watcher)
        with pytest.raises(TurnNotFound):
            await the_engine.execute(steer)
    model.assert_finished()
    assert [message.role for message in model.requests[-1].messages] == ["user", "assistant", "user"]
    assert blocks(model)[-1] == TextBlock(text="and hurry")


async def test_a_fork_has_the_history_and_goes_its_own_way() -> None:
    model = ScriptedModel([call("stuck")], [say("in the fork")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        fork = await the_engine.execute(ForkThread(thread_id=thread.id))
        assert isinstance(fork, ThreadState)
        assert fork.id != thread.id
        assert fork.forked_from == thread.id
        assert fork.turns[-1].status == "interrupted"
        await whole_turn(the_engine, fork.id)
        original = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(original, ThreadState)
        assert original.running is not None
        early = await the_engine.execute(ForkThread(thread_id=thread.id, last_seq=1))
        assert isinstance(early, ThreadState)
        assert early.turns == ()
        with pytest.raises(InvalidCommand):
            await the_engine.execute(ForkThread(thread_id=thread.id, last_seq=0))


async def test_threads_are_listed_renamed_archived_and_deleted() -> None:
    async with engine(ScriptedModel([say("ok")])) as the_engine:
        one, other = await created(the_engine), await created(the_engine)
        await the_engine.execute(RenameThread(thread_id=one.id, title="first"))
        await whole_turn(the_engine, one.id, "what is the time")
        await the_engine.execute(ArchiveThread(thread_id=other.id))
        page = await the_engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert [(t.id, t.title, t.preview) for t in page.threads] == [(one.id, "first", "what is the time")]
        archived = await the_engine.execute(ListThreads(archived=True))
        assert isinstance(archived, ThreadPage)
        assert [t.id for t in archived.threads] == [other.id]
        await the_engine.execute(DeleteThread(thread_id=one.id))
        with pytest.raises(ThreadNotFound):
            await the_engine.execute(ReadThread(thread_id=one.id))


async def test_unknown_threads_are_not_found() -> None:
    nowhere = ThreadId("ses_nowhere")
    async with engine(ScriptedModel()) as the_engine:
        for command in (
            ReadThread(thread_id=nowhere),
            StartTurn(thread_id=nowhere, content=TEXT),
            InterruptTurn(thread_id=nowhere),
            ForkThread(thread_id=nowhere),
            DeleteThread(thread_id=nowhere),
        ):
            with pytest.raises(ThreadNotFound):
                await the_engine.execute(command)


async def test_a_full_window_is_compacted_and_the_work_goes_on() -> None:
    model = ScriptedModel(
        [say("long"), call("echo"), usage(input_tokens=190_000, output_tokens=10)],
        [say("Summary: we looked.")],
        [say("Done.")],
    )
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id, "the task")
    model.assert_finished()
    turn = changes[-1].after.turns[-1]
    assert turn.status == "completed"
    assert any(isinstance(item, Compaction) and item.status == "completed" for item in turn.items)
    shown = [block.text for block in blocks(model) if isinstance(block, TextBlock)]
    assert any("Summary: we looked." in text for text in shown)
    assert "the task" in shown
    assert "long" not in shown
    assert not any(isinstance(block, CallBlock | ResultBlock) for block in blocks(model))


async def test_compacting_can_be_asked_for() -> None:
    model = ScriptedModel([say("talk")], [say("Short.")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
        watcher = await the_engine.watch(thread.id)
        await the_engine.execute(CompactThread(thread_id=thread.id))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        await whole_turn(the_engine, thread.id, "next")
    texts = [block.text for block in blocks(model) if isinstance(block, TextBlock)]
    assert len(texts) == 2
    assert "Short." in texts[0]
    assert "1. go" in texts[0], "what the user said stays, word for word"
    assert texts[1] == "next"


async def test_a_review_reads_and_cannot_write() -> None:
    model = ScriptedModel([say("Looks fine.")])
    from support import PlainTool, echo

    writer = PlainTool("writer", echo)
    writer.spec = type(writer.spec)(name="writer", description="", schema={"type": "object"}, writes=True)
    async with engine(model, ECHO, writer) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        target = ReviewTarget(kind="baseBranch", text="main")
        await the_engine.execute(StartReview(thread_id=thread.id, target=target))
        changes = await turn_end(watcher)
        with pytest.raises(InvalidCommand):
            await the_engine.execute(StartReview(thread_id=thread.id, target=ReviewTarget(kind="commit")))
    assert changes[-1].after.turns[-1].kind == "review"
    assert [tool.name for tool in model.requests[0].tools] == ["echo"]
    assert "main" in str(blocks(model)[0])
    assert "reviewing" in model.requests[0].system


async def test_time_that_runs_backwards_changes_no_order() -> None:
    clock = FakeClock()
    model = ScriptedModel([say("one")], [say("two")])
    async with engine(model, clock=clock) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
        clock.at_ms = 0
        changes = await whole_turn(the_engine, thread.id)
        history = await the_engine.history(thread.id)
    assert [change.record.seq for change in history] == list(range(1, len(history) + 1))
    assert history[-1].after == changes[-1].after


async def test_a_planted_log_may_tell_a_story_and_not_set_the_rules(tmp_path: Path) -> None:
    import shutil

    def store(root: Path) -> JsonlStore:
        return JsonlStore(root / ".harness", places=Places(tmp_path / "state"))

    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    async with engine(ScriptedModel([say("hi")]), store=store(theirs), cwd=theirs) as the_engine:
        thread = await created(the_engine, approval_policy="never")
        await whole_turn(the_engine, thread.id)
    shutil.copytree(theirs, ours)
    model = ScriptedModel([call("asking")], [say("ok")])
    async with engine(model, store=store(ours), cwd=ours) as the_engine:
        state = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert len(state.turns) == 1
        assert state.settings.approval_policy == "unlessTrusted"
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await question(watcher)


@pytest.mark.parametrize("log", [b"", b"\0\xff\n", b'{"x":1}\n'])
async def test_a_log_that_does_not_say_how_it_began_is_no_thread(tmp_path: Path, log: bytes) -> None:
    store = JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))
    async with engine(ScriptedModel(), store=store) as the_engine:
        await created(the_engine)
        void = tmp_path / ".harness" / "threads" / "ses_void"
        void.mkdir()
        (void / "events.jsonl").write_bytes(log)
        for command in (
            ReadThread(thread_id=ThreadId("ses_void")),
            StartTurn(thread_id=ThreadId("ses_void"), content=TEXT),
        ):
            with pytest.raises(ThreadNotFound):
                await the_engine.execute(command)


async def test_a_call_of_an_unknown_tool_keeps_its_arguments() -> None:
    model = ScriptedModel([call("nope", a=1)], [call_raw("nope", "{half")], [say("ok")])
    async with engine(model) as the_engine:
        thread = await created(the_engine)
        changes = await whole_turn(the_engine, thread.id)
    items = [item for item in changes[-1].after.turns[-1].items if isinstance(item, ToolCall)]
    assert [item.arguments for item in items] == [{"a": 1}, {"text": "{half"}]
