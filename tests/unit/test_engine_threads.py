"""The engine's threads: their settings, the queue of prompts, forks, lists, compaction, logs of others."""

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
    ResumeThread,
    ReviewTarget,
    StartReview,
    StartTurn,
    SteerTurn,
    SubmitPrompt,
    ThreadPage,
)
from hames.domain.errors import (
    InvalidCommand,
    QueueFull,
    ThreadNotFound,
    TurnNotFound,
)
from hames.domain.events import (
    ItemDelta,
)
from hames.domain.ids import PromptId, ThreadId
from hames.domain.items import (
    Compaction,
    FileInput,
    LocalImageInput,
    TextInput,
    ToolCall,
)
from hames.domain.options import Overrides
from hames.domain.policy import ReadOnly
from hames.domain.request import (
    CallBlock,
    PictureBlock,
    ResultBlock,
    TextBlock,
)
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.testing.fakes.clock import FakeClock
from hames.testing.fakes.model import (
    ScriptedModel,
    call,
    call_raw,
    hang,
    say,
    usage,
)
from support import ECHO, blocks, created, engine, question, started, turn_end, until, whole_turn

TEXT = (TextInput(text="go"),)


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4) + b"\x08\x02\0\0\0"


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
