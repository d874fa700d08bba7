"""What is special about threads on disk: damage, full disks, links, and other people's directories."""

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.domain.errors import Misconfigured, StorageFailed, ThreadNotFound, ThreadReadOnly
from hames.domain.events import FORMAT, ItemDelta, Noticed, Record, ThreadCreated
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.options import Settings
from hames.store.jsonl import JsonlStore
from hames.store.lines import line, record
from hames.store.places import EVENTS, LIVE, META, Places
from hames.store.repair import TORN
from hames.store.system_calls import Disk

HERE = ThreadId("ses_here")
SETTINGS = Settings(model="a/b", cwd="/")


def note(seq: int, text: str = "") -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=HERE, event=Noticed(source="test", name="n", message=text))


def made(tmp_path: Path, disk: Disk | None = None) -> JsonlStore:
    return JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"), disk=disk)


async def written(store: JsonlStore, *records: Record) -> None:
    log = await store.create(HERE)
    await log.append(records, sync=True)
    await log.close()


def events(tmp_path: Path) -> Path:
    return tmp_path / ".harness" / "threads" / HERE / EVENTS


async def test_nothing_is_made_before_the_first_thread(tmp_path: Path) -> None:
    store = made(tmp_path)
    assert (await store.page(limit=None, cursor=None, archived=False, search="")).threads == ()
    assert not (tmp_path / ".harness").exists()
    await store.close()


@pytest.mark.spec("bootstrap/persist-events-path", "bootstrap/persist-meta-path")
async def test_the_layout_is_the_specifications_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    store = made(tmp_path)
    await written(store, note(1))
    log = await store.open(HERE)
    log.jot(Record(seq=2, at_ms=1, thread_id=HERE, event=_delta("x")))
    await store.page(limit=None, cursor=None, archived=False, search="")
    await log.close()
    await store.close()
    for path in [tmp_path / ".harness", *(tmp_path / ".harness").rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert (tmp_path / ".harness" / ".gitignore").read_text() == "*\n"
    assert events(tmp_path).read_bytes().count(b"\n") == 1


def _delta(text: str) -> ItemDelta:
    return ItemDelta(turn_id=TurnId("t"), item_id=ItemId("i"), stream="text", text=text)


@pytest.mark.parametrize("part", [".harness", "threads"])
async def test_a_link_in_place_of_the_data_directory_is_refused(tmp_path: Path, part: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if part == ".harness":
        (tmp_path / ".harness").symlink_to(elsewhere)
    else:
        (tmp_path / ".harness").mkdir()
        (tmp_path / ".harness" / "threads").symlink_to(elsewhere)
    store = made(tmp_path)
    with pytest.raises(Misconfigured, match="--data-dir"):
        await store.create(HERE)
    assert list(elsewhere.iterdir()) == []
    await store.close()


async def test_a_thread_that_is_a_link_is_not_there(tmp_path: Path) -> None:
    store = made(tmp_path)
    await written(store, note(1))
    (tmp_path / ".harness" / "threads" / "ses_link").symlink_to(events(tmp_path).parent)
    with pytest.raises(Exception, match="no thread"):
        await store.read(ThreadId("ses_link"))
    await store.close()


LINES = b"".join(line(note(n, "text é\n")) for n in (1, 2, 3))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, len(LINES)))
def test_a_torn_log_is_a_shorter_log(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    import anyio

    async def check() -> None:
        tmp_path = tmp_path_factory.mktemp("torn")
        store = made(tmp_path)
        await written(store)
        events(tmp_path).write_bytes(LINES[:cut])
        whole = LINES[:cut].count(b"\n")
        log = await store.open(HERE)
        assert await log.read() == [note(n, "text é\n") for n in range(1, whole + 1)]
        await log.append([note(whole + 1, "next")], sync=True)
        await log.close()
        assert [r.seq for r in await store.read(HERE)] == list(range(1, whole + 2))
        good = sum(len(one) + 1 for one in LINES[:cut].split(b"\n")[:-1])
        side = events(tmp_path).parent / TORN
        assert (side.read_bytes() if side.exists() else b"") == LINES[good:cut]
        assert (side.exists(), bool(log.repaired)) == (good < cut, good < cut), (
            "a repair is announced when there is one"
        )
        await store.close()

    anyio.run(check)


@pytest.mark.parametrize(
    "tail", [b"\0", b"\0" * 4096, b"\r", b"garbage\n", b"\xff\xfe\n\0\0", b'{"type":"item.del', b"[" * 100_000 + b"\n"]
)
async def test_a_damaged_tail_is_cut_and_put_aside(tmp_path: Path, tail: bytes) -> None:
    store = made(tmp_path)
    await written(store, note(1))
    before = events(tmp_path).read_bytes()
    with events(tmp_path).open("ab") as file:
        file.write(tail)
    log = await store.open(HERE)
    assert await log.read() == [note(1)]
    assert "torn" in log.repaired
    assert not log.foreign
    await log.append([note(2)])
    await log.close()
    after = events(tmp_path).read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 2
    assert (events(tmp_path).parent / TORN).read_bytes() == tail
    again = await store.open(HERE)
    assert not again.foreign
    await again.close()
    await store.close()


async def test_a_bad_line_in_the_middle_is_skipped_and_kept(tmp_path: Path) -> None:
    store = made(tmp_path)
    await written(store, note(1), note(2), note(3))
    flipped = bytearray(events(tmp_path).read_bytes())
    flipped[flipped.index(b"\n") + 20] ^= 1
    events(tmp_path).write_bytes(flipped)
    log = await store.open(HERE)
    assert [r.seq for r in await log.read()] == [1, 3]
    assert "1 damaged" in log.repaired
    assert not log.foreign, "the lines that are left prove themselves"
    await log.close()
    assert events(tmp_path).read_bytes() == bytes(flipped)
    await store.close()


def test_nearly_every_flipped_bit_is_noticed() -> None:
    whole = line(note(7, "some text"))[:-1]
    missed = 0
    for index in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[index // 8] ^= 1 << index % 8
        missed += record(bytes(damaged)) is not None
    assert missed == 0


async def test_an_empty_log_opens_as_an_empty_thread(tmp_path: Path) -> None:
    store = made(tmp_path)
    await written(store)
    log = await store.open(HERE)
    assert await log.read() == []
    await log.close()
    await store.close()


@pytest.mark.parametrize("meta", [None, b"", b"{", b"[]", b'{"id":"other"}', b"\xff"])
async def test_a_lost_or_damaged_meta_file_is_rebuilt_from_the_log(tmp_path: Path, meta: bytes | None) -> None:
    store = made(tmp_path)
    await written(store, Record(seq=1, at_ms=5, thread_id=HERE, event=ThreadCreated(settings=SETTINGS, title="t")))
    if meta is not None:
        (events(tmp_path).parent / META).write_bytes(meta)
    page = await store.page(limit=None, cursor=None, archived=False, search="")
    assert [(t.id, t.title, t.created_at_ms) for t in page.threads] == [(HERE, "t", 5)]
    await store.close()


@pytest.mark.parametrize(
    "newer",
    [
        Record(seq=1, at_ms=1, thread_id=HERE, event=ThreadCreated(settings=SETTINGS, format=FORMAT + 1)),
        None,
    ],
)
async def test_a_log_from_a_newer_version_can_be_read_and_not_written(tmp_path: Path, newer: Record | None) -> None:
    store = made(tmp_path)
    await written(store, note(1))
    if newer is None:
        from zlib import crc32

        body = b'{"seq":2,"at_ms":1,"thread_id":"ses_here","event":{"type":"of_tomorrow"}'
        data = line(note(1)) + body + b',"crc":"%08x"}\n' % crc32(body)
    else:
        data = line(newer)
    events(tmp_path).write_bytes(data)
    with pytest.raises(ThreadReadOnly, match="newer version"):
        await store.open(HERE)
    assert await store.read(HERE)
    assert events(tmp_path).read_bytes() == data
    await store.close()


class FullDisk(Disk):
    """Takes `room` bytes, then says no."""

    def __init__(self, room: int, error: int = errno.ENOSPC) -> None:
        self.room = room
        self.error = error

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(self.error, os.strerror(self.error))
        taken = super().write(fd, data[: self.room])
        self.room -= taken
        return taken


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("room", [0, 1, 50])
async def test_a_full_disk_loses_nothing_that_was_kept(tmp_path: Path, room: int, error: int) -> None:
    disk = FullDisk(1 << 20)
    store = made(tmp_path, disk)
    log = await store.create(HERE)
    await log.append([note(1)])
    disk.room, disk.error = room, error
    with pytest.raises(StorageFailed):
        await log.append([note(2), note(3)])
    disk.room = 1 << 20
    await log.append([note(2)])
    await log.close()
    assert [r.seq for r in await store.read(HERE)] == [1, 2]
    await store.close()


class BadDisk(Disk):
    """Its `sync` fails once it is told to."""

    bad = False
    syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        if self.bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)


async def test_after_a_failed_sync_the_log_is_read_only_and_sync_is_not_tried_again(tmp_path: Path) -> None:
    disk = BadDisk()
    store = made(tmp_path, disk)
    log = await store.create(HERE)
    await log.append([note(1)], sync=True)
    disk.bad = True
    with pytest.raises(StorageFailed):
        await log.append([note(2)], sync=True)
    disk.bad, before = False, disk.syncs
    with pytest.raises(StorageFailed):
        await log.append([note(3)], sync=True)
    with pytest.raises(StorageFailed):
        log.jot(note(3))
    assert disk.syncs == before
    await log.close()
    await store.close()


async def test_a_planted_directory_is_foreign_and_one_we_made_is_not(tmp_path: Path) -> None:
    store = made(tmp_path)
    await written(store, note(1))
    log = await store.open(HERE)
    assert not log.foreign
    await log.close()
    await store.close()
    import shutil

    shutil.copytree(tmp_path / ".harness", tmp_path / "clone" / ".harness")
    cloned = JsonlStore(tmp_path / "clone" / ".harness", places=Places(tmp_path / "state"))
    log = await cloned.open(HERE)
    assert log.foreign
    assert await log.read() == [note(1)]
    await log.close()
    await cloned.close()


async def test_listing_many_threads_opens_no_log(tmp_path: Path) -> None:
    store = made(tmp_path)
    await written(store, Record(seq=1, at_ms=5, thread_id=HERE, event=ThreadCreated(settings=SETTINGS)))
    await store.page(limit=None, cursor=None, archived=False, search="")
    await store.close()
    events(tmp_path).chmod(0)
    events(tmp_path).write_bytes(b"") if os.geteuid() == 0 else None
    again = made(tmp_path)
    assert len((await again.page(limit=None, cursor=None, archived=False, search="")).threads) == 1
    await again.close()


async def test_a_thread_directory_that_came_by_itself_is_listed_and_one_that_went_is_not(tmp_path: Path) -> None:
    import shutil

    store = made(tmp_path)
    await written(store, Record(seq=1, at_ms=5, thread_id=HERE, event=ThreadCreated(settings=SETTINGS)))
    await store.page(limit=None, cursor=None, archived=False, search="")
    threads = tmp_path / ".harness" / "threads"
    other = ThreadId("ses_other")
    (threads / other).mkdir(mode=0o700)
    created = Record(seq=1, at_ms=6, thread_id=other, event=ThreadCreated(settings=SETTINGS))
    (threads / other / EVENTS).write_bytes(line(created))
    assert {t.id for t in (await store.page(limit=None, cursor=None, archived=False, search="")).threads} == {
        HERE,
        other,
    }
    shutil.rmtree(threads / HERE)
    assert {t.id for t in (await store.page(limit=None, cursor=None, archived=False, search="")).threads} == {other}
    await store.close()


async def test_a_leftover_live_file_from_before_is_taken_in_once(tmp_path: Path) -> None:
    store = made(tmp_path)
    log = await store.create(HERE)
    await log.append([note(1)], sync=True)
    late = Record(seq=2, at_ms=2, thread_id=HERE, event=_delta("late"))
    log.jot(late)
    log.jot(late)
    await log.close()
    live = events(tmp_path).parent / LIVE
    live.write_bytes(live.read_bytes()[:-5])
    for _ in range(2):
        log = await store.open(HERE)
        assert await log.read() == [note(1), late]
        await log.close()
    await store.close()


async def test_a_fifo_in_place_of_a_log_holds_nobody_up(tmp_path: Path) -> None:
    import anyio

    store = made(tmp_path)
    await written(store, Record(seq=1, at_ms=5, thread_id=HERE, event=ThreadCreated(settings=SETTINGS)))
    for name in (EVENTS, META, LIVE):
        directory = tmp_path / ".harness" / "threads" / f"ses_{name.partition('.')[0]}"
        directory.mkdir()
        os.mkfifo(directory / name)
    with anyio.fail_after(60):
        page = await store.page(limit=None, cursor=None, archived=False, search="")
        assert [thread.id for thread in page.threads] == [HERE]
        for name in ("ses_events", "ses_meta", "ses_live"):
            with pytest.raises(ThreadNotFound):
                await store.read(ThreadId(name))
            with pytest.raises(ThreadNotFound):
                await store.open(ThreadId(name))
    await store.close()
