"""A log read while another process writes it, at every moment of its life."""

import os
import random
import shutil
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hames.domain.events import ItemDelta, Noticed, Record, ThreadCreated
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.options import Settings
from hames.ports import LogNews
from hames.store.directory_changes import DirectoryChanges
from hames.store.follow_log import LogReader
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.store.thread_log import JsonlLog

HERE = ThreadId("ses_here")


def note(seq: int, text: str = "") -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=HERE, event=Noticed(source="test", name="n", message=text))


def piece(seq: int, text: str, item: str = "item_1") -> Record:
    event = ItemDelta(turn_id=TurnId("turn_1"), item_id=ItemId(item), stream="text", text=text)
    return Record(seq=seq, at_ms=seq, thread_id=HERE, event=event)


def first() -> Record:
    return Record(seq=1, at_ms=1, thread_id=HERE, event=ThreadCreated(settings=Settings(model="a/b", cwd="/")))


class Place:
    """A log that this test writes, and a reader of it that has its own store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = JsonlStore(directory / ".harness", places=Places(directory / "state"))
        self.reading = JsonlStore(directory / ".harness", places=Places(directory / "state"))
        self.thread = directory / ".harness/threads" / HERE

    async def begin(self, *, foreign: bool = False) -> tuple[JsonlLog, LogReader]:
        log = await self.store.create(HERE, foreign=foreign)
        await log.append([first()])
        with self.reading.thread(HERE) as at:
            reader = LogReader(HERE, self.reading._claim)
            assert reader.read_whole(at=at) == LogNews(records=[first()], foreign=foreign, whole=True)
        return log, reader

    def look(self, reader: LogReader) -> LogNews | None:
        with self.reading.thread(HERE) as at:
            return reader.read_more(at=at)

    def records(self, reader: LogReader) -> list[Record]:
        news = self.look(reader)
        assert news is None or not news.whole
        return news.records if news is not None else []


def joined(records: list[Record]) -> list[Record]:
    """Deltas of one bundle as one record."""
    found: list[Record] = []
    for record in records:
        last = found[-1] if found else None
        if last is not None and last.seq == record.seq:
            assert isinstance(last.event, ItemDelta)
            assert isinstance(record.event, ItemDelta)
            found[-1] = replace(last, event=replace(last.event, text=last.event.text + record.event.text))
        else:
            found.append(record)
    return found


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_whenever_one_looks_each_record_is_told_once_and_in_order(
    tmp_path: Path, seed: int, foreign: bool
) -> None:
    dice, place = random.Random(seed), Place(tmp_path)
    log, reader = await place.begin(foreign=foreign)
    told, seq, bundle = list[Record](), 2, ""
    for number in range(200):
        match dice.randrange(4):
            case 0 | 1:
                bundle += (text := f"{number} é\r ")
                log.jot(piece(seq, text, f"item_{seq}"))
            case 2:
                records = [piece(seq, bundle, f"item_{seq}")] if bundle else []
                records += [note(seq + len(records) + n) for n in range(dice.randrange(1, 3))]
                await log.append(records)
                seq, bundle = records[-1].seq + 1, ""
            case _:
                told += place.records(reader)
    told += place.records(reader)
    assert joined(told) == await place.store.read(HERE, after=1)
    await log.close()


async def test_live_text_that_is_still_there_after_its_bundle_was_appended_is_not_told_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, reader = await place.begin()
    log.jot(piece(2, "one "))
    assert place.records(reader) == [piece(2, "one ")]
    left = (place.thread / "live").read_bytes()
    await log.append([piece(2, "one ")])
    (place.thread / "live").write_bytes(left)  # as if it was looked at before the file was emptied
    assert place.records(reader) == []
    log.jot(piece(3, "two "))
    assert place.records(reader) == [piece(3, "two ")]
    log.jot(piece(3, "three"))
    assert place.records(reader) == [piece(3, "three")]
    await log.close()


async def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, reader = await place.begin()
    whole = place.thread / "events.jsonl"
    before = whole.read_bytes()
    await log.append([note(2, "x" * 100), note(3)])
    after = whole.read_bytes()
    heard: list[Record] = []
    for end in range(len(before), len(after) + 1, 7):
        whole.write_bytes(after[:end])
        heard += place.records(reader)
    whole.write_bytes(after)
    heard += place.records(reader)
    assert heard == [note(2, "x" * 100), note(3)]
    await log.close()


async def test_what_was_taken_back_makes_the_follower_begin_again(tmp_path: Path) -> None:
    """A disk that was full: a part of a batch was read, and is gone again."""
    place = Place(tmp_path)
    log, reader = await place.begin()
    length = (place.thread / "events.jsonl").stat().st_size
    await log.append([note(2), note(3)])
    assert place.records(reader) == [note(2), note(3)]
    os.truncate(place.thread / "events.jsonl", length)
    assert place.look(reader) == LogNews(records=[first()], foreign=False, whole=True)
    await log.close()


async def test_a_log_that_somebody_else_goes_on_with_is_foreign_from_then_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, reader = await place.begin()
    await log.append([note(2)])
    lines = (place.thread / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert place.records(reader) == [note(2)]
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    theirs, _ = await other.begin()
    await theirs.append([note(2), note(3, "not ours")])
    forged = (other.thread / "events.jsonl").read_bytes().splitlines(keepends=True)[2]
    (place.thread / "events.jsonl").write_bytes(b"".join([*lines, forged]))
    news = place.look(reader)
    assert news is not None
    assert (news.foreign, news.whole) == (True, True)
    assert news.records[-1] == note(3, "not ours")
    await log.close()
    await theirs.close()


async def test_a_forged_live_file_is_not_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, reader = await place.begin()
    log.jot(piece(2, "ours"))
    line = (place.thread / "live").read_bytes()
    (place.thread / "live").write_bytes(line.replace(b"ours", b"evil") + line)
    assert joined(place.records(reader)) == [piece(2, "ours")]
    await log.close()


async def test_a_replaced_log_and_a_damaged_line_are_read_anew(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log, reader = await place.begin()
    await log.append([note(2), note(3)])
    assert place.records(reader) == [note(2), note(3)]
    copy = tmp_path / "copy"
    shutil.copytree(place.thread, copy)
    await log.append([note(4)])
    await log.append([note(5)])
    path = place.thread / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"seq":4', b'"seq":9'))
    news = place.look(reader)
    assert news is not None
    assert news.whole
    assert [one.seq for one in news.records][-1] == 5
    await log.close()
    shutil.rmtree(place.thread)
    shutil.move(copy, place.thread)
    news = place.look(reader)
    assert news is not None
    assert (news.whole, [one.seq for one in news.records]) == (True, [1, 2, 3])


@pytest.mark.parametrize("inotify", [True, False])
async def test_followers_are_woken_and_end_with_the_thread(
    tmp_path: Path, inotify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inotify:
        monkeypatch.setattr(DirectoryChanges, "_open", lambda _: None)
    place = Place(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    log, _ = await place.begin()
    heard: dict[int, list[Record]] = {number: [] for number in range(20)}
    begun = anyio.Event()

    async def follow(number: int) -> None:
        async with aclosing(place.reading.follow(HERE, after=1)) as news:
            async for one in news:
                heard[number] += one.records
                if one.whole and number == len(heard) - 1:
                    begun.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in heard:
                tasks.start_soon(follow, number)
            await begun.wait()
            for seq in range(2, 30):
                await log.append([note(seq)])
            await log.close()
            while any(len(records) < 28 for records in heard.values()):
                await anyio.sleep(0.01)
            await place.store.delete(HERE)
    assert all(records == [note(seq) for seq in range(2, 30)] for records in heard.values())
    await place.reading.close()
    await place.store.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
