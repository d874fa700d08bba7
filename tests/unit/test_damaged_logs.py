"""Damage on the disk: one line costs at most what it said, a list costs nothing, and a thread never waits for ever."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hames.core.engine import Engine
from hames.domain.commands import (
    CreateThread,
    DeleteThread,
    ListThreads,
    RenameThread,
    ResolveApproval,
    ThreadPage,
)
from hames.domain.damaged_logs import END_MISSING
from hames.domain.errors import StorageFailed, ThreadNotFound
from hames.domain.ids import ThreadId
from hames.domain.state import ThreadState
from hames.store.deletion import DELETED
from hames.store.jsonl import JsonlStore
from hames.store.places import EVENTS, META, Places
from hames.testing.fakes.model import ScriptedModel, call, say
from support import created, engine, question, started, turn_end, whole_turn


def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))


def log_of(tmp_path: Path, thread_id: ThreadId) -> Path:
    return tmp_path / ".harness" / "threads" / thread_id / EVENTS


async def written(tmp_path: Path) -> ThreadId:
    """A thread with three turns: a tool, an approval that was given, and words alone."""
    model = ScriptedModel([say("one"), call("echo", x=1)], [say("two")], [call("asking", x=2)], [say("three")])
    model.add([say("four")])
    async with engine(model, store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id)
        watcher = await the_engine.watch(thread.id)
        await started(the_engine, thread.id, "ask me")
        asked = await question(watcher)
        await the_engine.execute(ResolveApproval(approval_id=asked.approval.id, decision="once"))
        await turn_end(watcher)
        watcher.close()
        await whole_turn(the_engine, thread.id, "and now words")
    return thread.id


async def seen(the_engine: Engine, thread_id: ThreadId) -> ThreadState:
    """The thread once it was opened for writing: looking at it mends nothing."""
    watcher = await the_engine.watch(thread_id)
    watcher.close()
    return watcher.state


def check_closed(state: ThreadState) -> None:
    assert state.running is None
    assert state.approvals == ()
    for turn in state.turns:
        assert turn.status != "running"
        assert turn.open == ()
        assert all(item.status != "running" for item in turn.items)


async def test_any_one_damaged_line_costs_at_most_what_it_said(tmp_path: Path) -> None:
    thread_id = await written(tmp_path)
    whole = log_of(tmp_path, thread_id).read_bytes().splitlines(keepends=True)
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        before = await seen(the_engine, thread_id)
    for number, line in enumerate(whole[:-1]):
        folder = tmp_path / f"copy{number}"
        shutil.copytree(tmp_path / ".harness", folder / ".harness")
        the_log = log_of(folder, thread_id)
        middle = len(line) // 2
        damaged = line[:middle] + bytes([line[middle] ^ 1]) + line[middle + 1 :]
        the_log.write_bytes(b"".join([*whole[:number], damaged, *whole[number + 1 :]]))
        for _ in range(3):
            async with engine(ScriptedModel(), store=store(folder)) as the_engine:
                state = await seen(the_engine, thread_id)
                check_closed(state)
                assert [turn.id for turn in state.turns] == [turn.id for turn in before.turns], line
                lost = sum(len(turn.items) for turn in before.turns) - sum(len(turn.items) for turn in state.turns)
                assert lost <= 1
        assert the_log.read_bytes().count(b'"log_repaired"') == 1
        async with engine(ScriptedModel([say("on")]), store=store(folder)) as the_engine:
            changes = await whole_turn(the_engine, thread_id)
            assert changes[-1].after.turns[-1].status == "completed"
            await the_engine.execute(DeleteThread(thread_id=thread_id))
            with pytest.raises(ThreadNotFound):
                await seen(the_engine, thread_id)


async def test_a_turn_whose_end_is_missing_says_so(tmp_path: Path) -> None:
    thread_id = await written(tmp_path)
    the_log = log_of(tmp_path, thread_id)
    lines = the_log.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"turn_ended"' in line)
    the_log.write_bytes(b"".join([*lines[:at], b"\0" * (len(lines[at]) - 1) + b"\n", *lines[at + 1 :]]))
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        error = (await seen(the_engine, thread_id)).turns[0].error
    assert error is not None
    assert error.message == END_MISSING


@pytest.mark.parametrize("damage", ["flip", "mark", "carriage return", "nothing left"])
async def test_a_damaged_first_line_hides_no_thread(tmp_path: Path, damage: str) -> None:
    thread_id = await written(tmp_path)
    the_log = log_of(tmp_path, thread_id)
    first, rest = the_log.read_bytes().split(b"\n", 1)
    match damage:
        case "flip":
            changed = first[:30] + bytes([first[30] ^ 4]) + first[31:] + b"\n" + rest
        case "mark":
            changed = b"\xef\xbb\xbf" + first + b"\n" + rest
        case "carriage return":
            changed = first + b"\r\n" + rest
        case _:
            changed = first[:40] + b"\n"
    the_log.write_bytes(changed)
    for _ in range(2):
        async with engine(ScriptedModel([say("on")]), store=store(tmp_path)) as the_engine:
            state = await seen(the_engine, thread_id)
            assert state.created_at_ms > 0
            assert state.settings.cwd == "/"
            assert len(state.turns) >= (0 if damage == "nothing left" else 3)
            changes = await whole_turn(the_engine, thread_id)
            assert changes[-1].after.turns[-1].status == "completed"


@pytest.mark.parametrize("place", [-3, -2])
async def test_a_flip_at_the_very_end_of_a_line_is_damage_and_not_a_newer_version(tmp_path: Path, place: int) -> None:
    thread_id = await written(tmp_path)
    the_log = log_of(tmp_path, thread_id)
    lines = the_log.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4][:place] + bytes([lines[4][place] ^ 1]) + lines[4][place + 1 :]
    the_log.write_bytes(b"".join(lines))
    async with engine(ScriptedModel([say("on")]), store=store(tmp_path)) as the_engine:
        assert (await whole_turn(the_engine, thread_id))[-1].after.turns[-1].status == "completed"


@pytest.mark.parametrize("change", ["doubled", "moved", "removed", "twice"])
async def test_lines_that_are_doubled_moved_or_removed_are_noticed(tmp_path: Path, change: str) -> None:
    thread_id = await written(tmp_path)
    the_log = log_of(tmp_path, thread_id)
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        before = await seen(the_engine, thread_id)
    lines = the_log.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"item_completed"' in line)
    changed = {
        "doubled": [*lines[: at + 1], *lines[at:]],
        "moved": [*lines[:at], *lines[at + 1 :], lines[at]],
        "removed": [*lines[:at], *lines[at + 1 :]],
        "twice": [*lines, *lines],
    }[change]
    the_log.write_bytes(b"".join(changed))
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        state = await seen(the_engine, thread_id)
        check_closed(state)
        assert [len(turn.items) for turn in state.turns] == [len(turn.items) for turn in before.turns]
    assert the_log.read_bytes().count(b'"log_repaired"') == 1


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def other_tables(path: Path) -> None:
    with sqlite3.connect(path) as database:
        version = database.execute("pragma user_version").fetchone()[0]
        database.execute("drop table threads")
        database.execute("create table threads (other text)")
        database.execute(f"pragma user_version={version}")


def bad_rows(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("update threads set summary = x'00ff'")


def holes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(100, len(data), 512):
        data[start : start + 200] = os.urandom(len(data[start : start + 200]))
    path.write_bytes(bytes(data))


DAMAGE: list[Callable[[Path], None]] = [garbage, zeros, half, a_directory, other_tables, bad_rows, holes]


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("name", ["index.db", "search.db"])
@pytest.mark.parametrize("running", [False, True])
async def test_a_damaged_list_is_made_anew(
    tmp_path: Path, name: str, harm: Callable[[Path], None], running: bool
) -> None:
    if name == "search.db" and harm in (other_tables, bad_rows):
        pytest.skip("it has other tables")
    model = ScriptedModel([say("one")], [say("two")], [say("three")])
    async with engine(model, store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        await whole_turn(the_engine, thread.id, "find the needle")
        await the_engine.execute(RenameThread(thread_id=thread.id, title="a title"))
        assert await titles(the_engine, "needle") == ["a title"]
        path = next((tmp_path / "state").rglob(name))
        if running:
            harm(path)
            await check_lists(the_engine, thread.id)
    if not running:
        for end in ("-wal", "-shm"):
            path.with_name(name + end).unlink(missing_ok=True)
        harm(path)
        async with engine(model, store=store(tmp_path)) as the_engine:
            await check_lists(the_engine, thread.id)


async def check_lists(the_engine: Engine, thread_id: ThreadId) -> None:
    assert (await whole_turn(the_engine, thread_id))[-1].after.turns[-1].status == "completed"
    assert await titles(the_engine) == ["a title"]
    assert await titles(the_engine, "needle") == ["a title"]
    other = await created(the_engine)
    await the_engine.execute(RenameThread(thread_id=other.id, title="another"))
    assert sorted(await titles(the_engine)) == ["a title", "another"]
    await the_engine.execute(DeleteThread(thread_id=other.id))
    assert await titles(the_engine) == ["a title"]


async def titles(the_engine: Engine, search: str = "") -> list[str]:
    page = await the_engine.execute(ListThreads(search=search))
    assert isinstance(page, ThreadPage)
    return [thread.title for thread in page.threads]


async def test_a_name_that_was_told_while_another_process_held_the_list_is_in_the_list(tmp_path: Path) -> None:
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        thread, other = await created(the_engine), await created(the_engine)
        await titles(the_engine)
        path = next((tmp_path / "state").rglob("index.db"))
        with sqlite3.connect(path, isolation_level=None) as held:
            held.execute("begin immediate")
            await the_engine.execute(RenameThread(thread_id=thread.id, title="told"))
            assert "told" in await titles(the_engine)
            held.execute("rollback")
            # Somebody else can write: no transaction of ours was left open.
            held.execute("begin immediate")
            held.execute("rollback")
        await the_engine.execute(RenameThread(thread_id=other.id, title="later"))
        assert sorted(await titles(the_engine)) == ["later", "told"]
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        assert sorted(await titles(the_engine)) == ["later", "told"]


async def test_a_name_whose_writer_was_killed_before_the_list_had_it_is_found(tmp_path: Path) -> None:
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        await the_engine.execute(RenameThread(thread_id=thread.id, title="old"))
        assert await titles(the_engine) == ["old"]
    path = next((tmp_path / "state").rglob("index.db"))
    kept = path.read_bytes()
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        await the_engine.execute(RenameThread(thread_id=thread.id, title="new"))
    path.write_bytes(kept)  # as if the process had ended between the two writes
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        assert await titles(the_engine) == ["new"]


async def test_whoever_is_killed_while_deleting_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        await titles(the_engine)
    a_store = store(tmp_path)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("shutil.rmtree", killed)
        await a_store.delete(thread.id)
    await a_store.close()
    assert (tmp_path / ".harness" / DELETED).is_dir()
    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        assert await titles(the_engine) == []
        with pytest.raises(ThreadNotFound):
            await seen(the_engine, thread.id)
    assert not (tmp_path / ".harness" / DELETED).exists()


async def test_threads_that_could_not_be_made_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, operation: int) -> None:
        raise OSError(37, os.strerror(37))

    async with engine(ScriptedModel(), store=store(tmp_path)) as the_engine:
        await created(the_engine)
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        with monkeypatch.context() as patched:
            patched.setattr("hames.store.locking.fcntl.flock", no_locks)
            for _ in range(20):
                with pytest.raises(StorageFailed, match="No locks available"):
                    await the_engine.execute(CreateThread())
        assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
        assert len(list((tmp_path / ".harness" / "threads").iterdir())) == 1
        await created(the_engine)


async def test_new_threads_can_be_made_after_somebody_deleted_the_data_directory(tmp_path: Path) -> None:
    async with engine(ScriptedModel([say("one")]), store=store(tmp_path)) as the_engine:
        await created(the_engine)
        shutil.rmtree(tmp_path / ".harness")
        thread = await created(the_engine)
        assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"
        assert log_of(tmp_path, thread.id).is_file()


async def test_a_turn_runs_whatever_happens_to_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("the list is broken")

    async with engine(ScriptedModel([say("one")]), store=store(tmp_path)) as the_engine:
        thread = await created(the_engine)
        monkeypatch.setattr("hames.store.thread_log.JsonlLog.summarize", fails)
        with anyio.fail_after(60):
            assert (await whole_turn(the_engine, thread.id))[-1].after.turns[-1].status == "completed"


async def test_a_copy_of_the_first_line_is_kept(tmp_path: Path) -> None:
    thread_id = await written(tmp_path)
    first = json.loads(log_of(tmp_path, thread_id).read_bytes().split(b"\n", 1)[0])["event"]
    copy = json.loads(log_of(tmp_path, thread_id).with_name(META).read_bytes())["created"]
    assert copy == first
