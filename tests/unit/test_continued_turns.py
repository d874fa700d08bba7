"""A turn whose process stopped goes on when its thread is opened again.

A kill is played by giving a second engine a copy of what the first had written so far.
"""

import anyio
import anyio.lowlevel
import pytest

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
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import (
    CompactThread,
    DeleteThread,
    InterruptTurn,
    ReadThread,
    ResolveApproval,
    ResumeThread,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
)
from hames.domain.errors import InvalidCommand, TurnBusy
from hames.domain.events import (
    TURN_PAUSED,
    ApprovalRequested,
    ApprovalResolved,
    ItemCompleted,
    ItemStarted,
    TurnEnded,
    TurnStarted,
)
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput, ToolCall
from hames.domain.options import Overrides
from hames.domain.request import CallBlock, ResultBlock, TextBlock
from hames.domain.state import ThreadState
from hames.ports import Tell
from hames.store.memory import MemoryStore
from hames.testing.fakes.model import ScriptedModel, Step, call_raw, hang, say, think
from support import STUCK, BareAgent, PlainTool, copied, created, engine, question, started, turn_end, until

pytestmark = pytest.mark.anyio


TEXT = (TextInput(text="go"),)


APPEND_C = call_raw("append", '{"word": "c"}', call_id="c")


async def cut_off(*steps: Step, **overrides: object) -> tuple[ThreadId, MemoryStore]:
    """A thread whose process was killed while the model hung behind these steps."""
    store, model = MemoryStore(), ScriptedModel([*steps, hang()])
    async with engine(model, store=store) as first:
        thread = await created(first, **overrides)
        await started(first, thread.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        left = copied(store)
    return thread.id, left


@pytest.mark.parametrize(
    "steps", [[say("Half an answ", cut=True)], [think("Half a thou", cut=True)]], ids=["text", "thinking"]
)
async def test_a_reply_without_calls_is_thrown_away_and_asked_for_again(steps: list[Step]) -> None:
    thread_id, left = await cut_off(*steps)
    model = ScriptedModel([say("The whole answer.")])
    async with next_engine(model, store=left) as again:
        state = await finished(again, thread_id)
    model.assert_finished()
    ended = one_turn(left, thread_id)
    assert ended.status == "completed"
    assert len(state.turns[-1].void_steps) == 1
    assert [type(block) for block in blocks(model)] == [TextBlock]
    assert notices(left, thread_id) == [
        "Hames stopped while this turn ran. The turn continues: the reply that was cut off is asked for again"
    ]


async def test_before_the_first_word_the_model_is_simply_asked_again() -> None:
    thread_id, left = await cut_off()
    async with next_engine(ScriptedModel([say("Yes.")]), store=left) as again:
        await finished(again, thread_id)
    assert one_turn(left, thread_id).status == "completed"
    assert notices(left, thread_id) == ["Hames stopped while this turn ran. The turn continues"]


async def test_calls_of_a_reply_that_was_cut_off_were_not_executed_and_the_model_reads_that() -> None:
    thread_id, left = await cut_off(say("I look."), call_raw("echo", "{}", call_id="first"))
    model = ScriptedModel([say("Then not.")])
    async with next_engine(model, store=left) as again:
        await finished(again, thread_id)
    assert one_turn(left, thread_id).status == "completed"
    results = [block for block in blocks(model) if isinstance(block, ResultBlock)]
    assert [(block.call.id, block.failed) for block in results] == [("first", True)]
    assert results[0].text.startswith("not executed")


async def test_a_tool_that_may_have_run_is_not_run_again_and_the_model_reads_that() -> None:
    ran: list[str] = []

    async def append(arguments: dict[str, object], tell: Tell) -> str:
        ran.append(str(arguments["word"]))
        await tell("half of it")
        await anyio.sleep_forever()
        return ""

    tool, store = PlainTool("append", append), MemoryStore()
    model = ScriptedModel([APPEND_A, APPEND_B])
    async with engine(model, tool, store=store) as first:
        thread = await created(first)
        watcher = await first.watch(thread.id)
        await started(first, thread.id)
        await until(watcher, lambda event: type(event).__name__ == "ItemDelta")
        left = copied(store)
    model = ScriptedModel([say("I see.")])
    async with next_engine(model, tool, store=left) as again:
        state = await finished(again, thread.id)
    assert ran == ["a"]
    assert one_turn(left, thread.id).status == "completed"
    results = [block for block in blocks(model) if isinstance(block, ResultBlock)]
    assert results[0].text.startswith("interrupted; it may have run")
    assert results[1].text.startswith("not executed")
    shown = [item for item in state.turns[-1].items if isinstance(item, ToolCall)]
    assert [item.status for item in shown] == ["interrupted", "skipped"]
    assert shown[0].output == "half of it"
    assert notices(left, thread.id)[0].endswith("1 tool call was cut off and may have run; 1 tool call was not started")


async def test_the_queue_and_what_was_said_to_the_turn_survive() -> None:
    store, model = MemoryStore(), ScriptedModel([say("Hm", cut=True), hang()])
    async with engine(model, store=store) as first:
        thread = await created(first)
        await started(first, thread.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
        await first.execute(SteerTurn(thread_id=thread.id, content=(TextInput(text="in French"),)))
        await first.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text="and then"),)))
        left = copied(store)
    model = ScriptedModel([say("Oui.")], [say("Et puis.")])
    async with next_engine(model, store=left) as again:
        watcher = await again.watch(thread.id)
        await turn_end(watcher)
        changes = await turn_end(watcher)
    state = changes[-1].after
    assert [turn.status for turn in state.turns] == ["completed", "completed"]
    assert not state.queue
    assert [block.text for block in blocks(model, 0) if isinstance(block, TextBlock)] == ["go", "in French"]
    assert TextBlock(text="and then") in blocks(model, 1)


async def test_a_prompt_that_waited_between_two_turns_starts_by_itself() -> None:
    store, model = MemoryStore(), ScriptedModel([say("Hm", cut=True), hang()])
    async with engine(model, store=store) as first:
        thread = await created(first)
        await started(first, thread.id)
        await first.execute(SubmitPrompt(thread_id=thread.id, content=(TextInput(text="and then"),)))
        left = copied(store)
    async with next_engine(ScriptedModel([say("One.")], [say("Two.")]), store=left) as again:
        watcher = await again.watch(thread.id)
        ended = (await turn_end(watcher))[-1].record.seq
        await turn_end(watcher)
    between = copied(left, until_seq=ended)
    between.marked = {thread.id}
    async with next_engine(ScriptedModel([say("Two.")]), store=between, number=2) as third:
        await third.continue_turns()
        watcher = await third.watch(thread.id)
        changes = await turn_end(watcher)
    assert [turn.status for turn in changes[-1].after.turns] == ["completed", "completed"]
    assert between.marked == set()


async def test_a_compaction_is_begun_again() -> None:
    store, model = MemoryStore(), ScriptedModel([say("An answer.")], [say("Summ", cut=True), hang()])
    async with engine(model, store=store) as first:
        thread = await created(first)
        watcher = await first.watch(thread.id)
        await started(first, thread.id)
        await turn_end(watcher)
        await first.execute(CompactThread(thread_id=thread.id))
        with anyio.fail_after(60):
            await model.hanging.wait()
        left = copied(store)
    async with next_engine(ScriptedModel([say("The whole summary.")]), store=left) as again:
        state = await finished(again, thread.id)
    assert [(turn.kind, turn.status) for turn in state.turns] == [("prompt", "completed"), ("compact", "completed")]


@pytest.mark.parametrize("asks", [False, True])
async def test_a_kill_behind_any_record_runs_nothing_twice_and_the_turn_completes(asks: bool) -> None:
    first_lines, store = Lines(), MemoryStore()
    script = [
        [think("hm"), say("I begin."), APPEND_A],
        [
            say("More."),
            APPEND_B,
            APPEND_C,
        ],
        [say("The end.")],
    ]
    async with engine(ScriptedModel(*script), first_lines.asking if asks else first_lines.tool, store=store) as first:
        thread = await created(first)
        watcher = await first.watch(thread.id)
        await started(first, thread.id)
        await _answered(first, watcher)
    whole = records(store, thread.id)
    begun = next(number for number, record in enumerate(whole) if isinstance(record.event, ItemCompleted))
    for number in range(begun, len(whole) - 1):
        left, lines = copied(store, until_seq=whole[number].seq), Lines()
        kept = [record.event for record in records(left, thread.id)]
        waits = {event.approval.item_id for event in kept if isinstance(event, ApprovalRequested)}
        waits -= {event.item_id for event in kept if isinstance(event, ApprovalResolved)}
        over = {event.item.id for event in kept if isinstance(event, ItemCompleted)}
        may_have_run = [
            event.item.arguments["word"]
            for event in kept
            if isinstance(event, ItemStarted) and isinstance(event.item, ToolCall) and event.item.id not in waits
        ]
        model = ScriptedModel([say("The end.")])
        async with next_engine(model, lines.asking if asks else lines.tool, store=left) as again:
            watcher = await again.watch(thread.id)
            await _answered(again, watcher)
        assert one_turn(left, thread.id).status == "completed", whole[number]
        assert not set(may_have_run) & set(lines.ran), whole[number]
        assert len(lines.ran) == len(set(lines.ran))
        assert len(lines.ran) >= len(waits)
        model.assert_finished()
        called = {block.call.id for block in blocks(model) if isinstance(block, CallBlock)}
        assert called == {block.call.id for block in blocks(model) if isinstance(block, ResultBlock)}
        assert over <= {item.id for item in again_state(left, thread.id).turns[-1].items}


async def _answered(the_engine: Engine, watcher: Watcher) -> None:
    """Allows whatever is asked until the turn has ended."""
    if watcher.state.running is None and any(turn.status != "running" for turn in watcher.state.turns):
        return
    for approval in watcher.state.approvals:
        await the_engine.execute(ResolveApproval(approval_id=approval.id, decision="once"))
    while True:
        event = (await until(watcher, lambda event: isinstance(event, ApprovalRequested | TurnEnded)))[-1].record.event
        if isinstance(event, TurnEnded):
            return
        assert isinstance(event, ApprovalRequested)
        await the_engine.execute(ResolveApproval(approval_id=event.approval.id, decision="once"))


async def test_a_thread_that_wants_its_turns_to_end_has_them_ended() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True), after_crash="end")
    async with next_engine(ScriptedModel(), store=left) as again:
        await again.watch(thread_id)
    ended = one_turn(left, thread_id)
    assert ended.status == "interrupted"
    assert ended.error is not None
    assert ended.error.message == "interrupted: the harness stopped while this turn ran"


async def test_a_client_sets_it_for_its_thread_where_it_sets_options_of_the_model() -> None:
    async with engine(ScriptedModel()) as the_engine:
        thread = await created(the_engine, options={"after_crash": "ask"})
        assert thread.settings.after_crash == "ask"
        assert thread.settings.options == {}
        with pytest.raises(InvalidCommand, match="its values are: go_on, ask, end"):
            await created(the_engine, options={"after_crash": "perhaps"})


async def test_the_configuration_counts_for_threads_that_say_nothing() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    async with next_engine(ScriptedModel(), store=left, after_crash="end") as again:
        await again.watch(thread_id)
    assert one_turn(left, thread_id).status == "interrupted"


@pytest.mark.parametrize(("decision", "status"), [("once", "completed"), ("reject", "interrupted")])
async def test_a_thread_that_wants_to_be_asked_goes_on_with_a_yes(decision: str, status: str) -> None:
    thread_id, left = await cut_off(say("Hm", cut=True), after_crash="ask")
    model = ScriptedModel([say("Yes.")])
    async with next_engine(model, store=left) as again:
        watcher = await again.watch(thread_id)
        asked = await question(watcher)
        assert not model.requests
        assert asked.approval.reason == "This turn was cut off when Hames stopped. Continue it?"
        twice = copied(left)
        await again.execute(ResolveApproval(approval_id=asked.approval.id, decision=decision))
        await turn_end(watcher)
    assert one_turn(left, thread_id).status == status
    # The process that asked may die as well: the same question is open in the next.
    async with next_engine(ScriptedModel([say("Yes.")]), store=twice, number=2) as third:
        watcher = await third.watch(thread_id)
        assert [one.id for one in watcher.state.approvals] == [asked.approval.id]
        await third.execute(ResolveApproval(approval_id=asked.approval.id, decision=decision))
        await turn_end(watcher)
    assert one_turn(twice, thread_id).status == status


async def test_a_turn_whose_process_died_three_times_ends_with_the_reason() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    for number in (1, 2):
        model = ScriptedModel([say("Hm", cut=True), hang()])
        async with next_engine(model, store=left, number=number) as again:
            await again.watch(thread_id)
            with anyio.fail_after(60):
                await model.hanging.wait()
            dead = copied(left)
        left = dead
    assert len(notices(left, thread_id)) == 2
    async with next_engine(ScriptedModel([say("New.")]), store=left, number=3) as last:
        watcher = await last.watch(thread_id)
        ended = one_turn(left, thread_id)
        assert ended.error is not None
        assert "stopped 3 times" in ended.error.message
        await started(last, thread_id)
        await turn_end(watcher)


async def test_a_foreign_thread_is_never_continued_by_itself() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    left._logs[thread_id].foreign = True
    left.marked = {thread_id}
    model = ScriptedModel()
    async with next_engine(model, store=left) as again:
        await again.continue_turns()
    assert one_turn(left, thread_id).status == "interrupted"
    assert not model.requests


async def test_a_prompt_that_was_not_stored_ends_its_turn() -> None:
    thread_id, left = await cut_off()
    place = next(r.seq for r in records(left, thread_id) if isinstance(r.event, TurnStarted))
    torn = copied(left, until_seq=place)
    async with next_engine(ScriptedModel(), store=torn) as again:
        await again.watch(thread_id)
    ended = one_turn(torn, thread_id)
    assert ended.error is not None
    assert "before the prompt was stored" in ended.error.message


async def test_an_agent_that_cannot_continue_ends_the_turn_and_says_so() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    async with next_engine(ScriptedModel(), store=left, agents={"scripted": BareAgent()}) as again:
        await finished(again, thread_id)
    ended = one_turn(left, thread_id)
    assert ended.status == "failed"
    assert ended.error is not None
    assert "'scripted' cannot continue a turn" in ended.error.message


async def test_looking_changes_nothing_and_needs_no_lock() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    before = list(records(left, thread_id))
    async with next_engine(ScriptedModel([say("Yes.")]), store=left) as looking:
        state = await looking.execute(ReadThread(thread_id=thread_id))
        assert isinstance(state, ThreadState)
        assert state.running is not None
        assert await looking.history(thread_id)
        assert looking.loaded(thread_id) is None
        assert not left._logs[thread_id].held
        assert list(records(left, thread_id)) == before
        await looking.execute(ResumeThread(thread_id=thread_id))
        assert (await finished(looking, thread_id)).turns[-1].status == "completed"


async def test_an_engine_that_continues_nothing_leaves_the_turn_and_ends_it_only_for_a_new_one() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    async with next_engine(ScriptedModel(), store=left, continues=False) as short:
        state = await short.execute(ResumeThread(thread_id=thread_id, overrides=Overrides(instructions="x")))
        assert isinstance(state, ThreadState)
        assert state.running is not None
    assert again_state(left, thread_id).running is not None
    deleted = copied(left)
    async with next_engine(ScriptedModel(), store=deleted, continues=False) as short:
        await short.execute(DeleteThread(thread_id=thread_id))
    async with next_engine(ScriptedModel([say("New.")]), store=left, continues=False) as short:
        watcher = await short.watch(thread_id)
        await started(short, thread_id)
        state = (await until(watcher, lambda e: isinstance(e, TurnEnded) and e.status == "completed"))[-1].after
    assert [turn.status for turn in state.turns] == ["interrupted", "completed"]


async def test_a_new_prompt_waits_for_a_turn_that_goes_on() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    async with next_engine(ScriptedModel([say("One.")], [say("Two.")]), store=left) as again:
        with pytest.raises(TurnBusy):
            await again.execute(StartTurn(thread_id=thread_id, content=TEXT))
        await again.execute(SubmitPrompt(thread_id=thread_id, content=TEXT))
        watcher = await again.watch(thread_id)
        await turn_end(watcher)
        state = (await turn_end(watcher))[-1].after
    assert [turn.status for turn in state.turns] == ["completed", "completed"]


async def test_an_interrupt_in_the_moment_of_opening_ends_the_turn() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    async with next_engine(ScriptedModel([hang()]), store=left) as again:
        await again.execute(InterruptTurn(thread_id=thread_id))
        await again.wait(thread_id)
    assert one_turn(left, thread_id).status == "interrupted"
    assert left.marked == set()


@pytest.mark.parametrize("where", ["text", "tool", "approval"])
async def test_a_server_that_is_stopped_leaves_its_turn_to_the_next_start(where: str) -> None:
    store, lines = MemoryStore(), Lines()
    steps: dict[str, list[Step]] = {
        "text": [say("Half", cut=True), hang()],
        "tool": [call_raw("stuck", "{}", call_id="s")],
        "approval": [APPEND_A],
    }
    model = ScriptedModel(steps[where])
    async with engine(model, lines.asking, STUCK, store=store, leaves_turns=True) as first:
        thread = await created(first)
        watcher = await first.watch(thread.id)
        await started(first, thread.id)
        if where == "approval":
            await question(watcher)
        else:
            await until(watcher, lambda event: type(event).__name__ == "ItemDelta")
    assert store.marked == {thread.id}
    state = again_state(store, thread.id)
    assert state.running is not None
    assert state.running.paused
    assert len(state.approvals) == len(state.running.open) == (1 if where == "approval" else 0)
    assert notices(store, thread.id, TURN_PAUSED)[0].startswith("Hames is stopping. The turn continues when")
    async with next_engine(ScriptedModel([say("Done.")]), lines.asking, STUCK, store=store) as again:
        await again.continue_turns()
        watcher = await again.watch(thread.id)
        await _answered(again, watcher)
        state = again.loaded(thread.id)
        assert state is not None
    assert state.turns[-1].crashes == 0
    assert lines.ran == (["a"] if where == "approval" else [])
    assert one_turn(store, thread.id).status == "completed"
    assert notices(store, thread.id)[0].startswith("Hames was restarted while this turn ran. The turn continues")


async def test_a_terminal_that_is_left_ends_its_turn() -> None:
    store, model = MemoryStore(), ScriptedModel([say("Half", cut=True), hang()])
    async with engine(model, store=store) as first:
        thread = await created(first)
        await started(first, thread.id)
        with anyio.fail_after(60):
            await model.hanging.wait()
    assert one_turn(store, thread.id).status == "interrupted"
    assert store.marked == set()


async def test_only_marked_threads_are_opened_and_stale_marks_go() -> None:
    thread_id, left = await cut_off(say("Hm", cut=True))
    gone = ThreadId("ses_gone")
    async with next_engine(ScriptedModel([say("Yes.")]), store=left) as again:
        rest = await created(again)
        left.marked = {thread_id, gone, rest.id}
        await again.continue_turns()
        await finished(again, thread_id)
    assert left.marked == set()
