"""The disk fails under a running engine: clients hear how it ended, and nothing that was acknowledged is lost."""

import errno
import os
import shutil
import threading
from pathlib import Path

import anyio
import pytest

from hames.core.watcher import Watcher
from hames.domain.approvals import UseTool
from hames.domain.commands import (
    CreateThread,
    InterruptTurn,
    ListThreads,
    ReadThread,
    RenameThread,
    ResolveApproval,
    StartTurn,
    ThreadPage,
)
from hames.domain.errors import Misconfigured, StorageFailed, ThreadReadOnly
from hames.domain.events import Event, ItemCompleted, ItemDelta, ItemStarted, Noticed, TurnEnded
from hames.domain.items import AgentMessage, TextInput
from hames.domain.state import ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import META, Places
from hames.store.system_calls import Disk
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import ScriptedModel, call, say
from support import PlainTool, created, engine, events, question, started, turn_end, whole_turn


class Faulty(Disk):
    """Fails at the n-th call of one kind, once or for ever after."""

    def __init__(self) -> None:
        self.kind = ""
        self.countdown = 0
        self.for_ever = False
        self.error = errno.EIO

    def _maybe(self, kind: str) -> None:
        if kind != self.kind:
            return
        self.countdown -= 1
        if self.countdown == 0 or (self.countdown < 0 and self.for_ever):
            raise OSError(self.error, os.strerror(self.error))

    def write(self, fd: int, data: bytes) -> int:
        self._maybe("write")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._maybe("sync")
        super().sync(fd)

    def truncate(self, fd: int, length: int) -> None:
        self._maybe("truncate")
        super().truncate(fd, length)


def store(tmp_path: Path, disk: Disk | None = None) -> JsonlStore:
    return JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"), disk=disk)


async def until_full_or_over(watcher: Watcher) -> list[Event]:
    """Everything up to the notice that the turn waits for room, or to its end."""
    heard: list[Event] = []
    with anyio.fail_after(60):
        while True:
            for change in await watcher.next():
                heard.append(change.record.event)
            last = [one for one in heard if isinstance(one, TurnEnded)]
            if last or any(isinstance(one, Noticed) and one.name == "disk_full" for one in heard):
                return heard


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize(("kind", "nth"), [("write", n) for n in range(1, 9)] + [("sync", n) for n in range(1, 5)])
async def test_a_failing_disk_ends_the_turn_a_full_one_holds_it_and_the_log_stays_whole(
    tmp_path: Path, kind: str, nth: int, error: int, for_ever: bool
) -> None:
    disk = Faulty()
    model = ScriptedModel([say("one"), call("echo", x=1)], [say("two")], [say("three")])
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        disk.kind, disk.countdown, disk.for_ever, disk.error = kind, nth, for_ever, error
        try:
            await started(the_engine, thread.id)
        except StorageFailed:
            acknowledged = False
        else:
            acknowledged = True
            full = await until_full_or_over(watcher)
            if not isinstance(full[-1], TurnEnded):
                disk.kind = ""
            heard = [*full, *([] if isinstance(full[-1], TurnEnded) else events(await turn_end(watcher)))]
            assert [type(e) for e in heard].count(TurnEnded) == 1
            if kind == "write" and error != errno.EIO:
                assert isinstance(heard[-1], TurnEnded)
                assert heard[-1].status == "completed"
                assert len([e for e in heard if isinstance(e, Noticed) and e.name == "disk_full"]) <= 1
            opened = {e.item.id for e in heard if isinstance(e, ItemStarted)}
            assert opened == {e.item.id for e in heard if isinstance(e, ItemCompleted)}
        disk.kind = ""
    # A turn whose end was told and could not be stored goes on: the log is what counts.
    model, ids = ScriptedModel([say("again")], [say("again")]), CountingIds(1000)
    async with engine(model, store=store(tmp_path), ids=ids) as again:
        watcher = await again.watch(thread.id)
        await again.wait(thread.id)
        watcher.close()
        state = await again.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        assert state.running is None
        assert len(state.turns) == 1 or not acknowledged
        kept = await again.history(thread.id)
        assert [change.record.seq for change in kept] == list(range(1, len(kept) + 1))
        changes = await whole_turn(again, thread.id)
        assert changes[-1].after.turns[-1].status == "completed"


async def test_after_a_failed_sync_the_thread_is_read_only_and_others_go_on(tmp_path: Path) -> None:
    disk = Faulty()
    model = ScriptedModel([say("one")], [say("other")])
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        thread, other = await created(the_engine), await created(the_engine)
        disk.kind, disk.countdown = "sync", 1
        with pytest.raises(StorageFailed):
            await started(the_engine, thread.id)
        with pytest.raises(ThreadReadOnly, match="cannot be written"):
            await the_engine.execute(StartTurn(thread_id=thread.id, content=(TextInput(text="go"),)))
        assert isinstance(await the_engine.execute(ReadThread(thread_id=thread.id)), ThreadState)
        model.add([say("x")])
        assert (await whole_turn(the_engine, other.id))[-1].after.turns[-1].status == "completed"


async def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".harness").write_text("a file stands here")
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        with pytest.raises(Misconfigured, match="--data-dir"):
            await the_engine.execute(CreateThread())


async def test_a_thread_directory_that_vanishes_while_running_does_not_take_the_engine_down(tmp_path: Path) -> None:
    model = ScriptedModel([say("one")], [say("two")])
    async with engine(model, store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
        shutil.rmtree(tmp_path / ".harness" / "threads" / thread.id)
        watcher = await the_engine.watch(thread.id)
        try:
            await started(the_engine, thread.id)
            await turn_end(watcher)
        except StorageFailed:
            pass
        other = await the_engine.execute(CreateThread())
        assert isinstance(other, ThreadState)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("nth", range(1, 12))
async def test_a_turn_waits_for_a_full_or_read_only_disk_and_goes_on_by_itself(
    tmp_path: Path, nth: int, error: int
) -> None:
    disk = Faulty()
    model = ScriptedModel([say("one"), call("echo", x=1)], [say("two")], [say("three")], [say("four")])
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        disk.kind, disk.countdown, disk.for_ever, disk.error = "write", nth, True, error
        try:
            await started(the_engine, thread.id)
            waits = not isinstance((await until_full_or_over(watcher))[-1], TurnEnded)
        except StorageFailed:
            waits = False
        with pytest.raises((ThreadReadOnly, StorageFailed), match=os.strerror(error)):
            await started(the_engine, thread.id)
        disk.kind = ""
        if waits:
            assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"
        here = await the_engine.execute(ReadThread(thread_id=thread.id))
    async with engine(ScriptedModel(), store=store(tmp_path)) as again:
        there = await again.execute(ReadThread(thread_id=thread.id))
    assert there == here
    assert b"log_repaired" not in next(tmp_path.rglob("events.jsonl")).read_bytes()


@pytest.mark.parametrize("nth", range(2, 8))
async def test_a_turn_that_waits_for_room_can_be_interrupted(tmp_path: Path, nth: int) -> None:
    disk = Faulty()
    model = ScriptedModel([say("one"), call("echo", x=1)], [say("two")])
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        disk.kind, disk.countdown, disk.for_ever, disk.error = "write", nth, True, errno.ENOSPC
        await started(the_engine, thread.id)
        await until_full_or_over(watcher)
        await the_engine.execute(InterruptTurn(thread_id=thread.id))
        assert isinstance((await turn_end(watcher))[-1].record.event, TurnEnded)
        disk.kind = ""
        here = await the_engine.execute(ReadThread(thread_id=thread.id))
    async with engine(ScriptedModel(), store=store(tmp_path)) as again:
        assert await again.execute(ReadThread(thread_id=thread.id)) == here


async def test_a_command_is_taken_as_soon_as_there_is_room_although_a_turn_still_waits(tmp_path: Path) -> None:
    disk = Faulty()
    model = ScriptedModel([say("one"), call("echo", x=1)], [say("two")])
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        disk.kind, disk.countdown, disk.for_ever, disk.error = "write", 3, True, errno.ENOSPC
        await started(the_engine, thread.id)
        assert not isinstance((await until_full_or_over(watcher))[-1], TurnEnded)
        disk.kind = ""
        await the_engine.execute(RenameThread(thread_id=thread.id, title="a name"))
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        here = await the_engine.execute(ReadThread(thread_id=thread.id))
        assert isinstance(here, ThreadState) and here.title == "a name"
    async with engine(ScriptedModel(), store=store(tmp_path)) as again:
        assert await again.execute(ReadThread(thread_id=thread.id)) == here


async def test_an_answer_that_a_full_disk_refused_can_be_given_again(tmp_path: Path) -> None:
    disk = Faulty()
    model = ScriptedModel([call("ask", x=1)], [say("two")])

    async def run(_call: object, _tell: object) -> str:
        return "done"

    tool = PlainTool("ask", run, intent=UseTool(name="ask", arguments={}))
    async with engine(model, tool, store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        approval = (await question(watcher)).approval
        disk.kind, disk.countdown, disk.for_ever, disk.error = "write", 1, True, errno.ENOSPC
        answer = ResolveApproval(approval_id=approval.id, decision="once")
        with pytest.raises(StorageFailed, match="No space left"):
            await the_engine.execute(answer)
        disk.kind = ""
        await the_engine.execute(answer)
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"


class ShortWrites(Disk):
    """Takes half of every write, as a disk does that is nearly full; and nothing at all once it is full."""

    full = False

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data[: max(1, len(data) // 2)])


class FillsUp(ShortWrites):
    """Is full after so many bytes, in the middle of a line."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: bytes) -> int:
        self.full = self.full or self.room <= 0
        taken = super().write(fd, data[: self.room] if self.room > 0 else data)
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", [1 << 30, *range(1500, 9000, 500)])
async def test_every_told_character_is_on_a_disk_that_takes_half_of_every_write(tmp_path: Path, room: int) -> None:
    model = ScriptedModel([say("word " * 200, pieces=40)])
    disk = FillsUp(room)
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        try:
            thread = await created(the_engine)
            watcher = await the_engine.watch(thread.id)
            await started(the_engine, thread.id)
        except StorageFailed:
            return
        heard = await until_full_or_over(watcher)
        if not isinstance(heard[-1], TurnEnded):
            await the_engine.execute(InterruptTurn(thread_id=thread.id))
            heard += events(await turn_end(watcher))
    told = "".join(event.text for event in heard if isinstance(event, ItemDelta))
    async with engine(ScriptedModel(), store=store(tmp_path)) as again:
        state = await again.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        kept = [item.text for turn in state.turns for item in turn.items if isinstance(item, AgentMessage)]
        assert "".join(kept) == told


class SlowOnce(Disk):
    """Once it is told to, it holds up one summary of a thread until a later one is there, half a second at most."""

    def __init__(self) -> None:
        self.slow = False
        self.holds, self.later = threading.Event(), threading.Event()

    def rename(self, old: str, new: str, *, at: int, to: int | None = None) -> None:
        held, self.slow = self.slow and new == META, self.slow and new != META
        if held:
            self.holds.set()
            self.later.wait(0.5)
        super().rename(old, new, at=at, to=to)
        if new == META and not held:
            self.later.set()


async def test_an_older_summary_never_replaces_a_newer_one_in_the_list(tmp_path: Path) -> None:
    disk = SlowOnce()
    async with engine(ScriptedModel(), store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        disk.later.clear()
        disk.slow = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(the_engine.execute, RenameThread(thread_id=thread.id, title="first"))
            assert await anyio.to_thread.run_sync(disk.holds.wait, 60)
            tasks.start_soon(the_engine.execute, RenameThread(thread_id=thread.id, title="second"))
        page = await the_engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert [one.title for one in page.threads] == ["second"]
