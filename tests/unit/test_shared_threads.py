"""Two engines on one data directory, each with its own store and socket: every one can watch and drive every thread."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from hames.core import sharing
from hames.domain.commands import (
    AddHistory,
    ArchiveThread,
    ChangeSettings,
    Command,
    CompactThread,
    DeleteThread,
    DropPrompt,
    ForkThread,
    InterruptTurn,
    ListProcesses,
    ListServers,
    ListThreads,
    PastMessage,
    PastTurn,
    ReadContext,
    ReadThread,
    RenameThread,
    ResolveApproval,
    ResumeThread,
    ReviewTarget,
    StartReview,
    SteerTurn,
    SubmitPrompt,
    ThreadPage,
)
from hames.domain.context_report import ContextReport
from hames.domain.errors import (
    ApprovalNotFound,
    InvalidCommand,
    ThreadInUse,
    ThreadNotFound,
    TurnBusy,
    TurnNotFound,
)
from hames.domain.events import Event, ItemDelta, ThreadRenamed
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import TextInput, UserMessage
from hames.domain.options import Overrides
from hames.domain.processes import ProcessList
from hames.domain.servers import ServerList
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn
from hames.server.peers import link
from hames.server.peers.sockets import PeerSockets
from hames.testing.fakes.model import ScriptedModel, call, hang, say, wait_for
from support import check_continuous, created, events, question, started, turn_end, until
from support import shared_engine as process

TEXT = (TextInput(text="go"),)


def text(changes: list[Change]) -> str:
    return "".join(event.text for event in events(changes) if isinstance(event, ItemDelta))


def is_text(wanted: str) -> Callable[[Event], bool]:
    """True once the deltas so far contain it."""
    heard: list[str] = []

    def ready(event: Event) -> bool:
        if isinstance(event, ItemDelta):
            heard.append(event.text)
        return wanted in "".join(heard)

    return ready


async def test_text_of_another_process_is_heard_while_it_is_written(tmp_path: Path) -> None:
    more = anyio.Event()
    async with process(tmp_path, ScriptedModel([say("Hello", cut=True), wait_for(more), say(" world.")])) as a:
        thread = await created(a)
        async with process(tmp_path) as b:
            watcher = await b.watch(thread.id)
            snapshot = watcher.state
            assert snapshot == thread
            await started(a, thread.id)
            first = await until(watcher, is_text("Hello"))
            more.set()
            rest = await turn_end(watcher)
            check_continuous(snapshot, first + rest)
            await a.wait(thread.id)
            assert rest[-1].after == await a.execute(ReadThread(thread_id=thread.id))


async def test_who_comes_in_the_middle_of_a_reply_gets_the_text_so_far_and_the_rest(tmp_path: Path) -> None:
    more = anyio.Event()
    async with process(tmp_path, ScriptedModel([say("Hello", cut=True), wait_for(more), say(" world.")])) as a:
        thread = await created(a)
        here = await a.watch(thread.id)
        await started(a, thread.id)
        await until(here, is_text("Hello"))
        async with process(tmp_path) as b:
            watcher = await b.watch(thread.id)
            assert watcher.state.running is not None
            more.set()
            changes = await turn_end(watcher)
            check_continuous(watcher.state, changes)
            assert "world" in text(changes)
            assert "Hello" not in text(changes)


async def test_an_approval_asked_in_one_process_is_answered_in_a_second_while_a_third_watches(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        model = ScriptedModel([call("asking")], [say("done")])
        a = await stack.enter_async_context(process(tmp_path, model))
        b, c = [await stack.enter_async_context(process(tmp_path)) for _ in range(2)]
        thread = await created(a)
        watchers = [await one.watch(thread.id) for one in (a, b, c)]
        await started(a, thread.id)
        asked = [await question(watcher) for watcher in watchers]
        assert asked[0] == asked[1] == asked[2]
        approval_id = asked[0].approval.id
        state = await b.execute(ResolveApproval(approval_id=approval_id, decision="once"))
        assert isinstance(state, ThreadState)
        assert state.approvals == ()
        for watcher in watchers:
            assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        for late in (a, b, c):
            with pytest.raises(ApprovalNotFound, match=f"no approval {approval_id!r} waits for an answer"):
                await late.execute(ResolveApproval(approval_id=approval_id, decision="reject"))
        model.assert_finished()


async def test_an_approval_can_be_answered_by_a_process_that_does_not_watch_the_thread(tmp_path: Path) -> None:
    async with process(tmp_path, ScriptedModel([call("asking")], [say("done")])) as a, process(tmp_path) as b:
        thread = await created(a)
        watcher = await a.watch(thread.id)
        await started(a, thread.id)
        asked = await question(watcher)
        await b.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        with pytest.raises(ApprovalNotFound):
            await b.execute(ResolveApproval(approval_id=ApprovalId("nope"), decision="once"))


async def test_turns_are_started_steered_queued_and_interrupted_from_another_process(tmp_path: Path) -> None:
    model = ScriptedModel([say("one")], [say("two", cut=True), hang()], [say("three")])
    async with process(tmp_path, model) as a, process(tmp_path) as b:
        thread = await created(a)
        watcher = await b.watch(thread.id)
        turn = await started(b, thread.id)
        assert (await turn_end(watcher))[-1].after.turns[-1].id == turn.id
        await started(b, thread.id)
        await model.asked(2)
        with pytest.raises(TurnBusy, match="already runs a turn"):
            await started(b, thread.id)
        steered = await b.execute(SteerTurn(thread_id=thread.id, content=(TextInput(text="left"),), client_id="s"))
        assert isinstance(steered, ThreadState)
        assert any(isinstance(item, UserMessage) and item.client_id == "s" for item in steered.turns[-1].items)
        queued = await b.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="q"))
        again = await b.execute(SubmitPrompt(thread_id=thread.id, content=TEXT, client_id="q"))
        assert isinstance(queued, QueuedPrompt)
        assert queued == again
        dropped = await b.execute(DropPrompt(thread_id=thread.id, prompt_id=queued.id))
        assert isinstance(dropped, ThreadState)
        assert dropped.queue == ()
        await b.execute(InterruptTurn(thread_id=thread.id))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "interrupted"
        with pytest.raises(TurnNotFound, match="no turn is running on this thread"):
            await b.execute(InterruptTurn(thread_id=thread.id))
        await started(b, thread.id)
        await turn_end(watcher)
        assert await b.wait(thread.id) is None
        model.assert_finished()


@pytest.mark.parametrize("watches", [True, False])
async def test_every_other_command_reaches_the_process_that_has_the_thread(tmp_path: Path, watches: bool) -> None:
    async with process(tmp_path, ScriptedModel([say("summary")], [say("fine")])) as a, process(tmp_path) as b:
        thread = await created(a)
        if watches:
            await b.watch(thread.id)
        of = {"thread_id": thread.id}
        renamed = await b.execute(RenameThread(**of, title="new"))
        archived = await b.execute(ArchiveThread(**of))
        back = await b.execute(ArchiveThread(**of, archived=False))
        changed = await b.execute(ChangeSettings(**of, overrides=Overrides(approval_policy="onRequest")))
        resumed = await b.execute(ResumeThread(**of))
        for state in (renamed, archived, back, changed, resumed):
            assert isinstance(state, ThreadState)
        assert (renamed.title, archived.archived, back.archived) == ("new", True, False)
        assert changed.settings.approval_policy == "onRequest"
        past = PastTurn(messages=(PastMessage(role="user", content=TEXT),))
        added = await b.execute(AddHistory(**of, turns=(past,)))
        assert isinstance(added, ThreadState)
        assert len(added.turns) == 1
        assert isinstance(await b.execute(ListProcesses(**of)), ProcessList)
        assert isinstance(await b.execute(ListServers(**of)), ServerList)
        assert isinstance(await b.execute(ReadContext(**of)), ContextReport)
        with pytest.raises(InvalidCommand, match="runs no process 7"):
            await b.execute(ListProcesses(**of, end=7))
        review = await b.execute(StartReview(**of, target=ReviewTarget(kind="custom", text="look")))
        assert isinstance(review, Turn)
        assert review.kind == "review"
        await b.wait(thread.id)
        fork = await b.execute(ForkThread(**of))
        assert isinstance(fork, ThreadState)
        assert fork.forked_from == thread.id
        compacted = await b.execute(CompactThread(**of))
        assert isinstance(compacted, Turn)
        for one in (b, a):
            await one.wait(thread.id)
        assert (await a.execute(ReadThread(**of))) == (await b.execute(ReadThread(**of)))
        assert await b.execute(DeleteThread(**of)) is None
        for one in (a, b):
            with pytest.raises(ThreadNotFound):
                await one.execute(ReadThread(**of))


async def test_a_deleted_thread_ends_for_those_who_watch_it_elsewhere(tmp_path: Path) -> None:
    async with process(tmp_path) as a, process(tmp_path) as b:
        thread = await created(a)
        watcher = await b.watch(thread.id)
        await a.execute(DeleteThread(thread_id=thread.id))
        with anyio.fail_after(60):
            assert await watcher.next() == []
        assert not watcher.cut_off


async def test_a_question_stays_open_while_somebody_elsewhere_could_answer_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        model = ScriptedModel([call("asking")], [say("done")])
        a = await stack.enter_async_context(process(tmp_path, model, patience_s=0.05))
        b = await stack.enter_async_context(process(tmp_path))
        thread = await created(a)
        watcher = await b.watch(thread.id)
        opened = a._threads.loaded[thread.id].thread
        with anyio.fail_after(60):
            while not opened.answerable:
                await anyio.sleep(0.01)
        await started(a, thread.id)
        asked = await question(watcher)
        for _ in range(8):  # as many times as the question's patience
            await anyio.sleep(0.05)
        assert asked.approval.id in [approval.id for approval in opened.state.approvals]
        onlooker = await b.watch(thread.id, answers=False)
        watcher.close()
        resolved = (await turn_end(onlooker))[0].record.event
        assert "no client that could answer" in resolved.note


async def test_the_watchers_go_on_when_the_process_that_has_the_thread_ends(tmp_path: Path) -> None:
    async with process(tmp_path, ScriptedModel([say("later")])) as b:
        async with process(tmp_path, ScriptedModel([say("Hello", cut=True), hang()])) as a:
            thread = await created(a)
            watcher = await b.watch(thread.id)
            snapshot = watcher.state
            await started(a, thread.id)
            heard = await until(watcher, is_text("Hello"))
        heard += await turn_end(watcher)
        assert heard[-1].after.turns[-1].status == "interrupted"
        turn = await started(b, thread.id)
        assert turn.status == "running"
        heard += await turn_end(watcher)
        assert heard[-1].after.turns[-1].status == "completed"
        check_continuous(snapshot, heard)


async def test_the_list_says_what_threads_of_other_processes_do(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking")], [say("done", cut=True), hang()])
    async with process(tmp_path, model) as a, process(tmp_path) as b:

        async def standing() -> str:
            page = await b.execute(ListThreads())
            assert isinstance(page, ThreadPage)
            return page.threads[0].standing

        thread = await created(a)
        watcher = await a.watch(thread.id)
        assert await standing() == "idle"
        await started(a, thread.id)
        asked = await question(watcher)
        assert await standing() == "asking"
        await b.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        await model.asked(2)
        assert await standing() == "running"


async def test_a_list_is_told_of_what_another_process_changes(tmp_path: Path) -> None:
    async with process(tmp_path) as a, process(tmp_path) as b:
        thread = await created(a)
        told = anyio.Event()

        async def news() -> None:
            nonlocal told
            with anyio.fail_after(60):
                await told.wait()
            told = anyio.Event()

        def hear() -> None:
            told.set()

        b.follow_lists(hear)
        asks = a._sharing._peers
        assert isinstance(asks, PeerSockets)
        with anyio.fail_after(60):
            while not any(one.wants_news for one in asks._visitors):
                await anyio.sleep(0.01)
        await a.execute(RenameThread(thread_id=thread.id, title="new"))
        await news()
        page = await b.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert [one.title for one in page.threads] == ["new"]
        await created(a)
        await news()
        await a.execute(DeleteThread(thread_id=thread.id))
        await news()


async def test_a_command_waits_for_a_process_that_is_slow_to_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with too much to do a process misses the time that a look has, and is passed over for a while."""
    async with process(tmp_path) as a, process(tmp_path) as b:
        thread = await created(a)
        await b.watch(thread.id)
        monkeypatch.setattr(link, "LOOK_SECONDS", 0.0)
        monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.0)
        state = await b.execute(RenameThread(thread_id=thread.id, title="slowly"))
        assert isinstance(state, ThreadState)
        assert state.title == "slowly"


async def test_a_process_that_does_not_share_is_watched_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.1)
    async with process(tmp_path, alone=True) as a, process(tmp_path) as b:
        thread = await created(a)
        watcher = await b.watch(thread.id)
        await a.execute(RenameThread(thread_id=thread.id, title="new"))
        (change,) = await until(watcher, lambda event: isinstance(event, ThreadRenamed))
        assert change.after.title == "new"
        with pytest.raises(ThreadInUse, match=rf"process {os.getpid()}\b.*stop it"):
            await b.execute(RenameThread(thread_id=thread.id, title="newer"))


async def test_a_command_that_an_ending_process_wrote_is_not_carried_out_again(tmp_path: Path) -> None:
    """The other process ends after it wrote the turn and before it answers."""
    outcome: list[Turn] = []
    async with process(tmp_path) as b, anyio.create_task_group() as tasks:
        async with process(tmp_path, ScriptedModel([say("Hello", cut=True), hang()])) as a:
            thread = await created(a)
            service = a._sharing.service
            run_here, written = service._run_here, anyio.Event()

            async def never_answers(command: Command) -> object:
                await run_here(command)
                written.set()
                await anyio.sleep_forever()

            service._run_here = never_answers  # type: ignore[assignment] - the answer is lost on the way

            async def send() -> None:
                outcome.append(await started(b, thread.id, "only once"))

            tasks.start_soon(send)
            with anyio.fail_after(60):
                await written.wait()
        await b.wait(thread.id)
    assert [turn.id for turn in outcome] == [turn.id for turn in (await look(tmp_path, thread.id)).turns]


async def look(place: Path, thread_id: ThreadId) -> ThreadState:
    async with process(place) as one:
        state = await one.execute(ReadThread(thread_id=thread_id))
        assert isinstance(state, ThreadState)
        return state


async def test_nothing_of_the_sockets_is_left_and_others_cannot_open_them(tmp_path: Path) -> None:
    async with process(tmp_path) as a:
        await created(a)
        (directory,) = (tmp_path / "state").glob("workspaces/*/processes")
        (name,) = directory.iterdir()
        assert directory.stat().st_mode & 0o777 == 0o700
        assert name.stat().st_mode & 0o777 == 0o600
        (directory / f"1-{'0' * 16}.sock").write_text("no socket")
        async with process(tmp_path) as b:
            assert isinstance(await b.execute(ListThreads()), ThreadPage)
    assert list(directory.glob(f"{os.getpid()}-*")) == []
