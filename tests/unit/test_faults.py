"""The disk fails under a running engine: clients hear how it ended, and nothing that was acknowledged is lost."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from hames.domain.commands import CreateThread, ReadThread, StartTurn
from hames.domain.errors import Misconfigured, StorageFailed, ThreadReadOnly
from hames.domain.events import ItemCompleted, ItemDelta, ItemStarted, TurnEnded
from hames.domain.items import AgentMessage, TextInput
from hames.domain.state import ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.store.system_calls import Disk
from hames.testing.fakes.clock import CountingIds
from hames.testing.fakes.model import ScriptedModel, call, say
from support import created, engine, events, started, turn_end, whole_turn


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


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize(("kind", "nth"), [("write", n) for n in range(1, 9)] + [("sync", n) for n in range(1, 5)])
async def test_a_failing_disk_ends_the_turn_and_the_log_stays_whole(
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
            heard = events(await turn_end(watcher))
            assert [type(e) for e in heard].count(TurnEnded) == 1
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


@pytest.mark.parametrize("nth", range(1, 8))
async def test_a_thread_goes_on_without_a_restart_when_the_disk_has_room_again(tmp_path: Path, nth: int) -> None:
    disk = Faulty()
    model = ScriptedModel([say("one"), call("echo", x=1)], [say("two")], [say("three")], [say("four")])
    async with engine(model, store=store(tmp_path, disk)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        disk.kind, disk.countdown, disk.for_ever, disk.error = "write", nth, True, errno.ENOSPC
        try:
            await started(the_engine, thread.id)
            await turn_end(watcher)
        except StorageFailed:
            pass
        with pytest.raises((ThreadReadOnly, StorageFailed), match="No space left"):
            await started(the_engine, thread.id)
        disk.kind = ""
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"
        here = await the_engine.execute(ReadThread(thread_id=thread.id))
    async with engine(ScriptedModel(), store=store(tmp_path)) as again:
        there = await again.execute(ReadThread(thread_id=thread.id))
    assert there == here
    assert b"log_repaired" not in next(tmp_path.rglob("events.jsonl")).read_bytes()


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
        heard = events(await turn_end(watcher))
    told = "".join(event.text for event in heard if isinstance(event, ItemDelta))
    async with engine(ScriptedModel(), store=store(tmp_path)) as again:
        state = await again.execute(ReadThread(thread_id=thread.id))
        assert isinstance(state, ThreadState)
        kept = [item.text for turn in state.turns for item in turn.items if isinstance(item, AgentMessage)]
        assert "".join(kept) == told
