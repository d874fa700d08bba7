"""Deleting the data directory, by `git clean -fdx` for example, takes no thread along."""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.commands import CreateThread, DeleteThread, ForkThread, ListThreads, ReadThread, ThreadPage
from hames.domain.errors import HarnessError, StorageFailed, ThreadInUse, ThreadNotFound
from hames.domain.events import ItemDelta
from hames.domain.ids import ThreadId
from hames.domain.items import AgentMessage
from hames.domain.state import ThreadState
from hames.store.jsonl import JsonlStore
from hames.store.places import EVENTS, Places
from hames.store.restoring import restore_thread
from hames.store.second_names import DAY_SECONDS, delete_old_names
from hames.store.system_calls import Disk
from hames.testing.fakes.model import ScriptedModel, call, say, wait_for
from support import created, engine, started, turn_end, whole_turn


class OtherDisk(Disk):
    """The state directory is on another file system."""

    def link(self, name: str, path: os.PathLike[str], *, at: int) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


DISKS: list[type[Disk]] = [Disk, OtherDisk]


def store(folder: Path, disk: Disk | None = None, *, days: int = 90) -> JsonlStore:
    return JsonlStore(folder / "work" / ".harness", places=Places(folder / "state"), disk=disk, copy_days=days)


@pytest.fixture(autouse=True)
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def path_of(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


async def first_text(watcher: Watcher) -> None:
    with anyio.fail_after(60):
        while not any(isinstance(change.record.event, ItemDelta) for change in await watcher.next()):
            pass


def log_of(folder: Path, thread_id: ThreadId) -> Path:
    return folder / "work" / ".harness" / "threads" / thread_id / EVENTS


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "state").rglob("*.jsonl"))


async def seen(the_engine: Engine, thread_id: ThreadId) -> ThreadState:
    state = await the_engine.execute(ReadThread(thread_id=thread_id))
    assert isinstance(state, ThreadState)
    return state


async def listed(the_engine: Engine) -> list[ThreadId]:
    page = await the_engine.execute(ListThreads())
    assert isinstance(page, ThreadPage)
    return [thread.id for thread in page.threads]


def texts(state: ThreadState) -> list[str]:
    return [item.text for turn in state.turns for item in turn.items if isinstance(item, AgentMessage)]


async def written(folder: Path, disk: Disk | None = None) -> ThreadState:
    async with engine(ScriptedModel([say("one")], [say("two")]), store=store(folder, disk)) as the_engine:
        thread = await created(the_engine, approval_policy="never")
        await whole_turn(the_engine, thread.id)
        await whole_turn(the_engine, thread.id)
        return await seen(the_engine, thread.id)


def whole_directory(folder: Path) -> None:
    shutil.rmtree(folder / "work" / ".harness")


def workspace(folder: Path) -> None:
    shutil.rmtree(folder / "work")
    (folder / "work").mkdir()


def only_threads(folder: Path) -> None:
    shutil.rmtree(folder / "work" / ".harness" / "threads")


def one_thread(folder: Path) -> None:
    shutil.rmtree(next((folder / "work" / ".harness" / "threads").iterdir()))


def the_log(folder: Path) -> None:
    next((folder / "work").rglob(EVENTS)).unlink()


DELETIONS: list[Callable[[Path], None]] = [whole_directory, workspace, only_threads, one_thread, the_log]


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("delete", DELETIONS, ids=lambda one: one.__name__)
async def test_a_thread_whose_directory_was_deleted_can_be_restored(
    tmp_path: Path, delete: Callable[[Path], None], disk: type[Disk]
) -> None:
    before = await written(tmp_path, disk())
    delete(tmp_path)
    a_store = store(tmp_path, disk())
    [missing] = await a_store.missing()
    assert missing.thread_id == before.id
    shown = await restore_thread(a_store, missing)
    assert shown.preview == before.preview
    assert await a_store.missing() == []
    await a_store.close()
    async with engine(ScriptedModel([say("three")]), store=store(tmp_path, disk())) as the_engine:
        assert await listed(the_engine) == [before.id]
        state = await seen(the_engine, before.id)
        assert texts(state) == ["one", "two"]
        assert (state.foreign, state.settings) == (False, before.settings)
        assert (await whole_turn(the_engine, before.id))[-1].after.turns[-1].status == "completed"
    [path] = kept(tmp_path)
    assert path.read_bytes() == log_of(tmp_path, before.id).read_bytes()


@pytest.mark.parametrize("disk", DISKS)
async def test_nobody_else_can_read_a_second_name_and_it_has_what_the_log_has(tmp_path: Path, disk: type[Disk]) -> None:
    thread = await written(tmp_path, disk())
    [path] = kept(tmp_path)
    assert path.read_bytes() == log_of(tmp_path, thread.id).read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    while (path := path.parent) != tmp_path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_a_copy_has_a_turn_before_its_end_is_told(tmp_path: Path) -> None:
    async with engine(ScriptedModel([say("one")], [say("two")]), store=store(tmp_path, OtherDisk())) as the_engine:
        thread = await created(the_engine)
        for _ in range(2):
            await whole_turn(the_engine, thread.id)
            [path] = kept(tmp_path)
            assert path.stat().st_nlink == 1
            assert path.read_bytes() == log_of(tmp_path, thread.id).read_bytes()


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("delete", DELETIONS[:4], ids=lambda one: one.__name__)
async def test_a_turn_goes_on_while_its_directory_is_deleted_and_so_does_the_next(
    tmp_path: Path, delete: Callable[[Path], None], disk: type[Disk]
) -> None:
    gate = anyio.Event()
    model = ScriptedModel([say("be"), wait_for(gate), say("fore"), call("echo", x=1)], [say("after")], [say("next")])
    async with engine(model, store=store(tmp_path, disk())) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await first_text(watcher)
        delete(tmp_path)
        gate.set()
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert texts(await seen(the_engine, thread.id)) == ["before", "after"]
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"
        assert await listed(the_engine) == [thread.id]
        assert isinstance(await the_engine.execute(ForkThread(thread_id=thread.id)), ThreadState)
    async with engine(ScriptedModel(), store=store(tmp_path, disk())) as the_engine:
        state = await seen(the_engine, thread.id)
        assert texts(state) == ["before", "after", "next"]
        assert not state.foreign
    assert log_of(tmp_path, thread.id).read_bytes() in [path.read_bytes() for path in kept(tmp_path)]


@pytest.mark.parametrize("disk", DISKS)
async def test_a_thread_goes_on_in_a_directory_that_another_process_made_meanwhile(
    tmp_path: Path, disk: type[Disk]
) -> None:
    model = ScriptedModel([say("one")], [say("two")], [say("three")])
    async with engine(model, store=store(tmp_path, disk())) as the_engine:
        thread = await created(the_engine, approval_policy="never")
        await whole_turn(the_engine, thread.id)
        whole_directory(tmp_path)
        other = store(tmp_path)
        await (await other.create(ThreadId("ses_other"))).close()
        await other.close()
        for _ in range(2):
            await whole_turn(the_engine, thread.id)
        assert not (await seen(the_engine, thread.id)).foreign
    async with engine(ScriptedModel(), store=store(tmp_path, disk())) as the_engine:
        state = await seen(the_engine, thread.id)
        assert (texts(state), state.foreign) == (["one", "two", "three"], False)
        assert state.settings.approval_policy == "never"
    assert log_of(tmp_path, thread.id).read_bytes() in [path.read_bytes() for path in kept(tmp_path)]


async def test_a_turn_goes_on_when_the_workspace_is_gone_for_good(tmp_path: Path) -> None:
    gate = anyio.Event()
    model = ScriptedModel([say("be"), wait_for(gate), say("fore")], [say("next")])
    async with engine(model, store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id)
        await first_text(watcher)
        shutil.rmtree(tmp_path / "work")
        gate.set()
        assert (await turn_end(watcher))[-1].after.turns[-1].status == "completed"
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"
    (tmp_path / "work").mkdir()
    a_store = store(tmp_path)
    [missing] = await a_store.missing()
    await restore_thread(a_store, missing)
    await a_store.close()
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        assert texts(await seen(the_engine, thread.id)) == ["before", "next"]


@pytest.mark.parametrize("disk", DISKS)
async def test_a_thread_that_is_deleted_on_purpose_is_gone(tmp_path: Path, disk: type[Disk]) -> None:
    async with engine(ScriptedModel([say("one")]), store=store(tmp_path, disk())) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
        assert len(kept(tmp_path)) == 1
        await the_engine.execute(DeleteThread(thread_id=thread.id))
        assert list((tmp_path / "state").rglob(f"{thread.id}*")) == []
        with pytest.raises(ThreadNotFound):
            await seen(the_engine, thread.id)
    a_store = store(tmp_path)
    assert await a_store.missing() == []
    await a_store.close()


async def test_an_ephemeral_thread_has_no_second_name(tmp_path: Path) -> None:
    async with engine(ScriptedModel([say("one")]), store=store(tmp_path)) as the_engine:
        thread = await the_engine.execute(CreateThread(ephemeral=True))
        assert isinstance(thread, ThreadState)
        await whole_turn(the_engine, thread.id)
        assert kept(tmp_path) == []


async def test_with_zero_days_there_is_no_second_name(tmp_path: Path) -> None:
    async with engine(ScriptedModel([say("one")]), store=store(tmp_path, days=0)) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
    assert kept(tmp_path) == []


async def test_a_log_that_another_file_took_the_place_of_is_not_lost(tmp_path: Path) -> None:
    thread = await written(tmp_path)
    ours = log_of(tmp_path, thread.id).read_bytes()
    log_of(tmp_path, thread.id).unlink()
    log_of(tmp_path, thread.id).write_bytes(ours[: len(ours) // 2])
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        await seen(the_engine, thread.id)
    assert ours in [path.read_bytes() for path in (tmp_path / "state").rglob(f"{thread.id}*")]


async def test_old_copies_are_deleted_and_links_cost_nothing(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with engine(model, store=store(tmp_path)) as the_engine:
        here, *gone = [await created(the_engine) for _ in range(4)]
        for thread in (here, *gone):
            model.add([say("one")])
            await whole_turn(the_engine, thread.id)
    for number, thread in enumerate(gone):
        shutil.rmtree(log_of(tmp_path, thread.id).parent)
        [path] = (tmp_path / "state").rglob(f"{thread.id}.jsonl")
        os.utime(path, (1_000_000 * number, 1_000_000 * number))
    [link] = (tmp_path / "state").rglob(f"{here.id}.jsonl")
    os.utime(link, (1, 1))
    assert delete_old_names(tmp_path / "state", 10, now=1_000_000 + 10 * DAY_SECONDS) == 1
    assert delete_old_names(tmp_path / "state", 10, now=1_000_000, most_bytes=link.stat().st_size) == 1
    assert {path.stem for path in kept(tmp_path)} == {gone[2].id, here.id}


async def test_a_directory_of_an_earlier_version_is_remembered_when_it_is_used(tmp_path: Path) -> None:
    before = await written(tmp_path)
    for path in (tmp_path / "state" / "places").glob("at-*"):
        path.unlink()
    async with engine(ScriptedModel([say("three")]), store=store(tmp_path)) as the_engine:
        await whole_turn(the_engine, before.id)
    whole_directory(tmp_path)
    a_store = store(tmp_path)
    assert [missing.thread_id for missing in await a_store.missing()] == [before.id]
    await a_store.close()


async def test_logs_of_earlier_versions_get_a_second_name(tmp_path: Path) -> None:
    thread = await written(tmp_path)
    for path in kept(tmp_path):
        path.unlink()
    a_store = store(tmp_path)
    await a_store.tidy_second_names()
    await a_store.close()
    [path] = kept(tmp_path)
    assert path.samefile(log_of(tmp_path, thread.id))


async def test_a_file_system_without_locks_is_locked_in_the_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    flock = fcntl.flock

    def no_locks(fd: int, operation: int) -> None:
        if "/work/" in path_of(fd):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        flock(fd, operation)

    monkeypatch.setattr("fcntl.flock", no_locks)
    async with engine(ScriptedModel([say("one")]), store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
        second = store(tmp_path)
        with pytest.raises(ThreadInUse):
            await second.open(thread.id)
        await second.close()
    async with engine(ScriptedModel([say("two")]), store=store(tmp_path)) as the_engine:
        await whole_turn(the_engine, thread.id)
        assert texts(await seen(the_engine, thread.id)) == ["one", "two"]


@pytest.mark.parametrize("failing", ["link", "truncate", "write"])
async def test_a_state_directory_that_fails_stops_no_thread(tmp_path: Path, failing: str) -> None:
    class Failing(OtherDisk):
        def link(self, name: str, path: os.PathLike[str], *, at: int) -> None:
            raise OSError(errno.ENOSPC if failing == "link" else errno.EXDEV, "no")

        def write(self, fd: int, data: bytes) -> int:
            if failing == "write" and "/state/" in path_of(fd):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(fd, data)

    async with engine(ScriptedModel([say("one")], [say("two")]), store=store(tmp_path, Failing())) as the_engine:
        thread = await created(the_engine)
        for _ in range(2):
            assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"


async def test_restoring_that_fails_takes_nothing_away(tmp_path: Path) -> None:
    before = await written(tmp_path)
    whole_directory(tmp_path)

    class Full(Disk):
        def write(self, fd: int, data: bytes) -> int:
            if path_of(fd).endswith(EVENTS):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(fd, data)

    full = store(tmp_path, Full())
    [missing] = await full.missing()
    with pytest.raises((StorageFailed, HarnessError)):
        await restore_thread(full, missing)
    await full.close()
    a_store = store(tmp_path)
    [missing] = await a_store.missing()
    await restore_thread(a_store, missing)
    await a_store.close()
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        assert texts(await seen(the_engine, before.id)) == ["one", "two"]
