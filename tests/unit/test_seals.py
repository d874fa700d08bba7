"""Whose log it is: a log that we sealed, whole and where we sealed it, is ours; every other one is foreign."""

import shutil
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hames.domain.authority import withdrawn
from hames.domain.errors import StorageFailed, ThreadReadOnly
from hames.domain.events import SettingsChanged
from hames.domain.ids import ThreadId
from hames.store.lines import line, seal_of
from hames.store.places import LIVE
from hames.store.system_calls import Disk
from seal_support import (
    CAREFUL,
    HERE,
    RECKLESS,
    THERE,
    changed,
    created,
    delta,
    events,
    forged,
    note,
    opened,
    planted,
    store_in,
    whole_lines,
    written,
)

RECORDS = [created(HERE), *(note(HERE, n) for n in range(2, 7)), changed(HERE, 7, CAREFUL)]


async def test_a_log_of_ours_stays_ours_however_often_it_is_continued(tmp_path: Path) -> None:
    store = store_in(tmp_path, tmp_path / "state")
    await written(store, *RECORDS[:3])
    for record in RECORDS[3:]:
        log = await store.open(HERE)
        assert not log.foreign
        await log.append([record])
        await log.close()
    await store.close()
    assert await opened(tmp_path, tmp_path / "state") == (False, RECORDS)


async def test_a_foreign_log_stays_foreign_however_often_it_is_continued(tmp_path: Path) -> None:
    await planted(tmp_path, line(created(HERE, RECKLESS)))
    for number in range(2, 8, 2):
        store = store_in(tmp_path, tmp_path / "state")
        log = await store.open(HERE)
        assert log.foreign
        await log.append([note(HERE, number)])
        log.jot(delta(HERE, number + 1, "told"))
        await log.append([delta(HERE, number + 1, "told")])
        await log.close()
        await store.close()
    foreign, records = await opened(tmp_path, tmp_path / "state")
    assert foreign
    assert len(records) == 7


def with_seal(data: bytes, seal: bytes) -> bytes:
    """A line with that seal, and a checksum that fits."""
    body = data[:-19] + b',"seal":"' + seal + b'"'
    return body + b',"crc":"%08x"}\n' % crc32(body)


@pytest.mark.parametrize(
    "data",
    [
        line(created(HERE, RECKLESS)),
        forged(created(HERE, RECKLESS)),
        line(created(HERE, RECKLESS)) + forged(note(HERE, 2)),
        with_seal(line(created(HERE, RECKLESS)), b"0" * 32),
        with_seal(line(created(HERE, RECKLESS)), b"\xff" * 32),
    ],
    ids=["without a seal", "another key", "a seal at the end only", "a seal that is none", "a seal that is no text"],
)
async def test_what_arrives_in_a_directory_of_ours_is_foreign(tmp_path: Path, data: bytes) -> None:
    await planted(tmp_path, data)
    foreign, _ = await opened(tmp_path, tmp_path / "state")
    assert foreign


async def test_the_same_log_in_another_directory_is_foreign_there(tmp_path: Path) -> None:
    """Copied with everything beside it, as a clone of a repository that has committed it would be."""
    state = tmp_path / "state"
    for folder in ("one", "two"):
        store = store_in(tmp_path / folder, state) if (tmp_path / folder).mkdir() is None else None
        assert store is not None
        await written(store, *RECORDS)
        await store.close()
    shutil.copytree(tmp_path / "one" / ".harness", tmp_path / "copy" / ".harness")
    assert await opened(tmp_path / "copy", state) == (True, RECORDS)
    shutil.copy(events(tmp_path / "one"), events(tmp_path / "two"))
    assert await opened(tmp_path / "two", state) == (True, RECORDS), "another directory of ours"
    assert (await opened(tmp_path / "one", state))[0] is False


async def test_the_same_log_under_another_threads_name_is_foreign(tmp_path: Path) -> None:
    store = store_in(tmp_path, tmp_path / "state")
    await written(store, *RECORDS)
    await store.close()
    shutil.copytree(events(tmp_path).parent, events(tmp_path, THERE).parent)
    assert await opened(tmp_path, tmp_path / "state", THERE) == (True, RECORDS)


async def test_a_directory_that_was_moved_is_still_ours(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    store = store_in(tmp_path / "one", tmp_path / "state")
    await written(store, *RECORDS)
    await store.close()
    (tmp_path / "one").rename(tmp_path / "two")
    assert await opened(tmp_path / "two", tmp_path / "state") == (False, RECORDS)


async def test_another_user_of_the_same_directory_takes_nothing_away(tmp_path: Path) -> None:
    """A workspace that is shared with a container, or with root: each has a state directory of its own."""
    for state in ("mine", "theirs", "mine", "theirs"):
        store = store_in(tmp_path, tmp_path / state)
        name = ThreadId(f"ses_{state}")
        if not events(tmp_path, name).exists():
            await written(store, created(name), thread_id=name)
        await store.close()
    for state, other in (("mine", "theirs"), ("theirs", "mine")):
        assert (await opened(tmp_path, tmp_path / state, ThreadId(f"ses_{state}")))[0] is False
        assert (await opened(tmp_path, tmp_path / state, ThreadId(f"ses_{other}")))[0] is True


def edited(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    data = bytearray(b"".join(lines))
    data[draw(0, len(data) - 1)] ^= 1 << draw(0, 7)
    return bytes(data)


def reworded(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    """Another content with a checksum that fits: the seal is left as it was."""
    at = draw(0, len(lines) - 1)
    evil = line(changed(HERE, at + 1))
    return b"".join([*lines[:at], with_seal(evil, seal_of(lines[at][:-1])), *lines[at + 1 :]])


def inserted(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at = draw(0, len(lines))
    return b"".join([*lines[:at], line(changed(HERE, at + 1)), *lines[at:]])


def forged_insert(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at = draw(0, len(lines))
    return b"".join([*lines[:at], forged(changed(HERE, at + 1)), *lines[at:]])


def left_out(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at = draw(0, len(lines) - 1)
    return b"".join([*lines[:at], *lines[at + 1 :]])


def doubled(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    at, to = draw(0, len(lines) - 1), draw(0, len(lines))
    return b"".join([*lines[:to], lines[at], *lines[to:]])


def swapped(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    one, other = draw(0, len(lines) - 1), draw(0, len(lines) - 1)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def cut(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    data = b"".join(lines)
    return data[: draw(0, len(data))]


def beheaded(lines: list[bytes], draw: Callable[..., int]) -> bytes:
    return b"".join(lines[draw(1, len(lines)) :])


CHANGES = [edited, reworded, inserted, forged_insert, left_out, doubled, swapped, cut, beheaded]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_log_that_was_changed_in_any_way_is_foreign_or_says_less_than_it_did(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    async def check() -> None:
        folder = tmp_path_factory.mktemp("changed")
        store = store_in(folder, folder / "state")
        await written(store, *RECORDS)
        await store.close()
        before = events(folder).read_bytes()
        now = before
        for change in data.draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
            lines = whole_lines(now)
            if not lines:
                break
            now = change(lines, lambda least, most: data.draw(st.integers(least, most)))
        events(folder).write_bytes(now)
        try:
            foreign, records = await opened(folder, folder / "state")
        except ThreadReadOnly:  # a whole line with words that nobody knows
            foreign, records = True, []
        if not foreign:
            said = [record for record in records if record in RECORDS]
            assert said == sorted(said, key=lambda record: record.seq)
            for other in (record.event for record in records if record not in RECORDS):
                assert isinstance(other, SettingsChanged), "something is obeyed that we have not written"
                assert other.settings == CAREFUL or other == withdrawn(CAREFUL)
        shutil.rmtree(folder)

    anyio.run(check)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_torn_log_of_ours_is_a_shorter_log_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    async def check() -> None:
        folder = tmp_path_factory.mktemp("torn")
        store = store_in(folder, folder / "state")
        await written(store, *RECORDS)
        whole = events(folder).read_bytes()
        torn = whole[: data.draw(st.integers(0, len(whole)))]
        events(folder).write_bytes(torn)
        log = await store.open(HERE)
        assert not log.foreign
        assert await log.read() == RECORDS[: torn.count(b"\n")]
        await log.append([note(HERE, torn.count(b"\n") + 1)])
        await log.close()
        await store.close()
        assert (await opened(folder, folder / "state"))[0] is False
        shutil.rmtree(folder)

    anyio.run(check)


async def test_a_line_that_was_cut_off_and_put_aside_cannot_be_put_back(tmp_path: Path) -> None:
    """It was sealed by us, under the number that another record has now."""
    state = tmp_path / "state"
    store = store_in(tmp_path, state)
    await written(store, created(HERE), changed(HERE, 2, RECKLESS))
    first, reckless = whole_lines(events(tmp_path).read_bytes())
    events(tmp_path).write_bytes(first)  # a power cut has taken it
    log = await store.open(HERE)
    await log.append([changed(HERE, 2, CAREFUL), note(HERE, 3)])
    await log.close()
    await store.close()
    _, _, third = whole_lines(events(tmp_path).read_bytes())
    events(tmp_path).write_bytes(first + reckless + third)
    foreign, records = await opened(tmp_path, state)
    assert not foreign, "we wrote every line of it"
    assert records[2].event == withdrawn(RECKLESS), "but not in this order: nothing of it holds any more"
    assert isinstance(records[-1].event, SettingsChanged)
    assert records[-1].event.settings.approval_policy == "always"


class HalfDisk(Disk):
    """Has room for a part, and then no more, once it is told so."""

    fails = 0

    def write(self, fd: int, data: bytes) -> int:
        self.fails -= 1
        if self.fails == 1:
            return super().write(fd, data[: len(data) // 2])
        if self.fails == 0:
            raise OSError(28, "No space left on device")
        return super().write(fd, data)


async def test_a_write_that_failed_halfway_breaks_no_seal(tmp_path: Path) -> None:
    disk = HalfDisk()
    store = store_in(tmp_path, tmp_path / "state", disk)
    log = await store.create(HERE)
    await log.append(RECORDS[:2])
    disk.fails = 2
    with pytest.raises(StorageFailed):
        await log.append(RECORDS[2:4])
    await log.append(RECORDS[2:])
    await log.close()
    await store.close()
    assert await opened(tmp_path, tmp_path / "state") == (False, RECORDS)


# -- the live file


async def jotted(folder: Path, *texts: str) -> Path:
    store = store_in(folder, folder / "state")
    log = await store.create(HERE)
    await log.append([created(HERE)])
    for text in texts:
        log.jot(delta(HERE, 2, text))
    await log.close()
    await store.close()
    return events(folder).parent / LIVE


async def test_what_is_planted_in_the_live_file_is_not_taken_in(tmp_path: Path) -> None:
    live = await jotted(tmp_path)
    for planted_lines in (
        line(changed(HERE, 2)),
        line(changed(HERE, 2)) * 3,
        forged(changed(HERE, 2)),
        line(changed(HERE, 2))[:-18] + b',"seal":"' + b"0" * 32 + b'"}\n',
        b"garbage\n\0\xff",
    ):
        live.write_bytes(planted_lines)
        store = store_in(tmp_path, tmp_path / "state")
        assert await store.read(HERE) == [created(HERE)]
        await store.close()
        assert await opened(tmp_path, tmp_path / "state") == (False, [created(HERE)])
        assert not live.exists()


async def test_what_was_jotted_is_taken_in_up_to_where_the_file_was_changed(tmp_path: Path) -> None:
    live = await jotted(tmp_path, "one ", "two ", "three ", "four")
    first, second, third, fourth = whole_lines(live.read_bytes())
    for changed_lines, left in (
        (first + second + third + fourth, "one two three four"),
        (first + second + third + fourth[:-7], "one two three "),
        (first + third + second + fourth, "one two "),
        (first + second.replace(b"two", b"TWO") + third, "one "),
        (b"junk\n" + first + line(changed(HERE, 2)) + second, "one two "),
        (second, ""),
    ):
        live.write_bytes(changed_lines)
        store = store_in(tmp_path, tmp_path / "state")
        wanted = [created(HERE), *([delta(HERE, 2, left)] if left else [])]
        assert await store.read(HERE) == wanted
        await store.close()


async def test_a_live_file_of_an_earlier_time_does_not_count_again(tmp_path: Path) -> None:
    live = await jotted(tmp_path, "one ", "two ")
    earlier = live.read_bytes()
    store = store_in(tmp_path, tmp_path / "state")
    log = await store.open(HERE)
    await log.append([note(HERE, 3)])
    await log.close()
    live.write_bytes(earlier.replace(b'"seq":2', b'"seq":4'))
    assert len(await store.read(HERE)) == 3
    live.write_bytes(earlier)
    assert len(await store.read(HERE)) == 3
    await store.close()


async def test_a_live_file_beside_a_foreign_log_is_read_and_does_not_make_it_ours(tmp_path: Path) -> None:
    await planted(tmp_path, line(created(HERE, RECKLESS)))
    (events(tmp_path).parent / LIVE).write_bytes(line(delta(HERE, 2, "said")))
    foreign, records = await opened(tmp_path, tmp_path / "state")
    assert foreign
    assert records == [created(HERE, RECKLESS), delta(HERE, 2, "said")]
