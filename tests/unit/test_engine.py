"""The engine, as its clients see it: turns, watchers, interrupts, faults of the model."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from hames.domain.commands import (
    InterruptTurn,
    ReadThread,
)
from hames.domain.errors import (
    TurnBusy,
    TurnNotFound,
)
from hames.domain.events import (
    ItemCompleted,
    ItemDelta,
    Record,
    StepVoided,
    TurnEnded,
    TurnStarted,
)
from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import (
    AgentMessage,
    Reasoning,
    ToolCall,
    UserMessage,
    WebSearch,
)
from hames.domain.request import (
    CallBlock,
    ModelEvent,
    ModelRequest,
    ReplyEnded,
    ResultBlock,
    TextBlock,
    TextDelta,
    TextEnded,
)
from hames.domain.state import ThreadState, apply, blank
from hames.store.memory import MemoryStore
from hames.testing.fakes.clock import FakeClock
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
    wait_for,
)
from support import blocks, created, engine, events, names, started, turn_end, until, whole_turn


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
